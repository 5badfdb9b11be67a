// One module for a table of cases: a kernel each, named by its place.
#include "support/opcode_cases.h"

namespace cugrt::test {

namespace {

std::string kernel_for(const OpcodeCase &c, size_t number) {
  std::string text = ".visible .entry k" + std::to_string(number) +
                     "(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pe, .param .u64 "
                     "pd) {\n.reg .b64 %la, %lb, %lc, %le, %ld, %t, %x, %o;\n"
                     ".reg .b32 %ra, %rb, %rc, %re, %rd, %i;\n.reg .b16 %ha, %hb, %hc, %he, %hd;\n"
                     "mov.u32 %i, %tid.x;\nmad.wide.u32 %o, %i, 8, 0;\n";
  const std::pair<char, char> loads[] = {{'a', c.a}, {'b', c.b}, {'c', c.c}, {'e', c.e}};
  for (auto [name, kind] : loads) {
    if (!kind)
      continue;
    std::string n(1, name);
    text +=
        "ld.param.u64 %t, [p" + n + "];\nadd.s64 %x, %t, %o;\nld.global.u64 %l" + n + ", [%x];\n";
    if (kind == 'r')
      text += "cvt.u32.u64 %r" + n + ", %l" + n + ";\n";
    if (kind == 'h')
      text += "cvt.u16.u64 %h" + n + ", %l" + n + ";\n";
  }
  text += c.instruction + "\n";
  if (c.d == 'r')
    text += "cvt.u64.u32 %ld, %rd;\n";
  if (c.d == 'h')
    text += "cvt.u64.u16 %ld, %hd;\n";
  return text + "ld.param.u64 %t, [pd];\nadd.s64 %x, %t, %o;\nst.global.u64 [%x], %ld;\nret;\n}\n";
}

U truncated(char kind, U value) {
  return kind == 'r' ? uint32_t(value) : kind == 'h' ? uint16_t(value) : value;
}

/// Distance in units of the last place of f32, f16 or f64 by width.
bool close(char kind, U got, U want, U ulps) {
  const int width = kind == 'l' ? 64 : kind == 'r' ? 32 : 16;
  const int mantissa = kind == 'l' ? 52 : kind == 'r' ? 23 : 10;
  const U sign = U(1) << (width - 1), infinity = sign - (U(1) << mantissa);
  if ((got & (sign - 1)) > infinity || (want & (sign - 1)) > infinity)
    return (got & (sign - 1)) > infinity && (want & (sign - 1)) > infinity;
  auto ordered = [&](U v) { return v & sign ? -int64_t(v & (sign - 1)) : int64_t(v); };
  int64_t difference = ordered(got) - ordered(want);
  return U(difference < 0 ? -difference : difference) <= (ulps == kAnyNaN ? 0 : ulps);
}

} // namespace

std::vector<U> opcode_inputs(uint64_t seed) {
  const U special[] = {0,
                       1,
                       2,
                       31,
                       32,
                       33,
                       63,
                       64,
                       0x7f,
                       0x80,
                       0xff,
                       0x7fff,
                       0x8000,
                       0xffff,
                       0x7fffffff,
                       0x80000000,
                       0xffffffff,
                       0x3f800000,
                       0xbf800000,
                       0x7f800000,
                       0xff800000,
                       0x7fc00000,
                       0x00000001,
                       0x80000001,
                       0x007fffff,
                       0x4f000000,
                       0x7fffffffffffffff,
                       0x8000000000000000,
                       ~U(0),
                       0x3ff0000000000000,
                       0x7ff0000000000000,
                       0x0000000100000000};
  Random random(seed);
  std::vector<U> values(kOpcodeInputs);
  for (size_t i = 0; i < kOpcodeInputs; ++i)
    values[i] = i % 3 == 0   ? special[random.bits() % std::size(special)]
                : i % 3 == 1 ? random.bits() >> (random.bits() % 64)
                             : (random.bits() & 0x8fffffff) + 0x38000000 * (random.bits() & 1);
  return values;
}

void check_opcodes(const std::vector<OpcodeCase> &cases, const std::string &target) {
  auto a = opcode_inputs(1), b = opcode_inputs(2), c = opcode_inputs(3), e = opcode_inputs(4);
  std::string text = ".version 9.0\n.target " + target + "\n.address_size 64\n";
  for (size_t i = 0; i < cases.size(); ++i)
    text += kernel_for(cases[i], i);
  Emulated device(target);
  device.load(text);
  uint64_t pa = device.upload(a), pb = device.upload(b), pc = device.upload(c),
           pe = device.upload(e), pd = device.allocate(kOpcodeInputs * 8);
  for (size_t n = 0; n < cases.size(); ++n) {
    const OpcodeCase &test = cases[n];
    device.launch("k" + std::to_string(n), {1, 1, 1}, {kOpcodeInputs, 1, 1}, 0, pa, pb, pc, pe, pd);
    auto got = device.download<U>(pd, kOpcodeInputs);
    for (size_t i = 0; i < kOpcodeInputs; ++i) {
      U want = truncated(test.d, test.reference(truncated(test.a, a[i]), truncated(test.b, b[i]),
                                                truncated(test.c, c[i]), truncated(test.e, e[i])));
      if (test.ulps ? close(test.d, got[i], want, test.ulps) : got[i] == want)
        continue;
      INFO(test.instruction << std::hex << " of " << a[i] << ", " << b[i] << ", " << c[i] << ", "
                            << e[i] << " is " << got[i] << " instead of " << want);
      CHECK(got[i] == want);
      break;
    }
  }
  CHECK(!cases.empty());
}

} // namespace cugrt::test
