// Kernels around single instructions, and the values that they are given.
#include "opcode_case.h"

#include "opcodes_wmma.h"

#include <algorithm>
#include <iterator>

namespace cugrt::conformance {

namespace {

constexpr char kOperands[] = "abce";

// What breaks integers, shifts, and floats of each width; 16-bit values also as pairs.
constexpr Bits kEdges[] = {0,
                           1,
                           2,
                           3,
                           7,
                           15,
                           16,
                           17,
                           31,
                           32,
                           33,
                           63,
                           64,
                           65,
                           0x7f,
                           0x80,
                           0xff,
                           0x3c00,
                           0x0001,
                           0x03ff,
                           0x0400,
                           0x7bff,
                           0x7c00,
                           0x7e00,
                           0x7fff,
                           0x8000,
                           0x8001,
                           0xfc00,
                           0xffff,
                           0x3f80,
                           0x7f80,
                           0x007f,
                           0x3c003c00,
                           0x80007fff,
                           0x7f7f7f80,
                           0x7fffffff,
                           0x80000000,
                           0x80000001,
                           0xffffffff,
                           0x3f800000,
                           0xbf800000,
                           0x3f000000,
                           0x3fc00000,
                           0x40200000,
                           0x4b000001,
                           0x4effffff,
                           0x4f000000,
                           0x4f800000,
                           0x5f000000,
                           0x7f7fffff,
                           0xff7fffff,
                           0x7f800000,
                           0xff800000,
                           0x7fc00000,
                           0xffc00001,
                           0x00000001,
                           0x007fffff,
                           0x00800000,
                           0x807fffff,
                           0x33800000,
                           0x477fe000,
                           0x477ff000,
                           0x7fffffffffffffff,
                           0x8000000000000000,
                           0x8000000000000001,
                           ~Bits(0),
                           0x3ff0000000000000,
                           0xbff0000000000000,
                           0x3fe0000000000000,
                           0x4340000000000001,
                           0x41dfffffffc00000,
                           0x43e0000000000000,
                           0x7fefffffffffffff,
                           0x7ff0000000000000,
                           0xfff0000000000000,
                           0x7ff8000000000000,
                           0x0000000000000001,
                           0x000fffffffffffff,
                           0x0010000000000000,
                           0x36a0000000000000,
                           0x0000000100000000};

Bits random_value(Random &random) {
  switch (random() % 6) {
  case 0:
  case 1:
    return kEdges[random() % std::size(kEdges)];
  case 2:
    return random() >> (random() % 64);
  case 3: // floats near one: sums that cancel, products that do not overflow
    return (random() & 0x81ffffff81ff81ff) + 0x3f0000003f003c00 * (random() & 1);
  case 4: { // f64 of middling exponent in the upper half
    return (random() & 0x803fffffffffffff) + 0x3fd0000000000000;
  }
  default:
    return random();
  }
}

std::string registers() {
  return ".reg .pred %p, %q;\n.reg .b64 %la, %lb, %lc, %le, %ld, %t, %x, %o;\n"
         ".reg .b32 %ra, %rb, %rc, %re, %rd, %i, %n, %y;\n.reg .b16 %ha, %hb, %hc, %he, %hd;\n";
}

} // namespace

std::string spelled(const std::string &opcode, const std::string &kinds) {
  std::string text = opcode + " %" + kinds[0] + "d";
  for (size_t i = 1; i < kinds.size(); ++i)
    text += std::string(", %") + kinds[i] + kOperands[i - 1];
  return text + ";";
}

std::string spelled_predicate(const std::string &opcode, const std::string &kinds) {
  std::string text = opcode + " %p";
  for (size_t i = 1; i < kinds.size(); ++i)
    text += std::string(", %") + kinds[i] + kOperands[i - 1];
  return text + "; selp.u32 %rd, 1, 0, %p;";
}

Bits truncated(char kind, Bits value) {
  return kind == 'r' ? uint32_t(value) : kind == 'h' ? uint16_t(value) : value;
}

std::string kernel_text(const Instruction &instruction, const std::string &name) {
  const std::string &kinds = instruction.kinds;
  std::string text = ".visible .entry " + name + "(";
  for (size_t i = 1; i < kinds.size(); ++i)
    text += std::string(".param .u64 p") + kOperands[i - 1] + ", ";
  text += ".param .u64 pd) {\n" + registers() +
          "mov.u32 %i, %tid.x;\nmov.u32 %n, %ntid.x;\nmov.u32 %y, %ctaid.x;\n"
          "mad.lo.u32 %i, %y, %n, %i;\nmul.wide.u32 %o, %i, 8;\n";
  for (size_t i = 1; i < kinds.size(); ++i) {
    const std::string n(1, kOperands[i - 1]);
    text +=
        "ld.param.u64 %t, [p" + n + "];\nadd.s64 %x, %t, %o;\nld.global.b64 %l" + n + ", [%x];\n";
    if (kinds[i] == 'r')
      text += "cvt.u32.u64 %r" + n + ", %l" + n + ";\n";
    if (kinds[i] == 'h')
      text += "cvt.u16.u64 %h" + n + ", %l" + n + ";\n";
  }
  text += instruction.text + "\n";
  if (kinds[0] == 'r')
    text += "cvt.u64.u32 %ld, %rd;\n";
  if (kinds[0] == 'h')
    text += "cvt.u64.u16 %ld, %hd;\n";
  return text + "ld.param.u64 %t, [pd];\nadd.s64 %x, %t, %o;\nst.global.b64 [%x], %ld;\nret;\n}\n";
}

std::string kernel_text(const Program &program, const std::string &name) {
  return program.outside + ".visible .entry " + name +
         "(.param .u64 pin, .param .u64 pout) {\n.reg .b64 %in, %out;\n.reg .b32 %i;\n"
         "ld.param.u64 %in, [pin];\nld.param.u64 %out, [pout];\nmov.u32 %i, %tid.x;\n" +
         program.body + "\nret;\n}\n";
}

std::vector<std::vector<Bits>> operands_of(const Instruction &instruction, size_t count) {
  const size_t operands = instruction.kinds.size() - 1;
  std::vector<std::vector<Bits>> values(operands);
  if (operands == 1 && instruction.kinds[1] == 'h') {
    for (Bits v = 0; v < 65536; ++v)
      values[0].push_back(v);
    return values;
  }
  Random random(17);
  for (size_t k = 0; k < operands; ++k)
    for (size_t i = 0; i < count; ++i)
      values[k].push_back(operands == 1 && i < std::size(kEdges) ? kEdges[i]
                                                                 : random_value(random));
  return values;
}

Bits distance(const Precision &precision, Bits got, Bits want) {
  if (!precision.format)
    return got == want ? 0 : ~Bits(0);
  const Format &format = *precision.format;
  if (!precision.packed)
    return ulps_apart(format, got, want);
  return std::max(ulps_apart(format, got & 0xffff, want & 0xffff),
                  ulps_apart(format, got >> 16, want >> 16));
}

Bits without_nan_bits(const Precision &precision, Bits value) {
  if (!precision.format)
    return value;
  const Format &format = *precision.format;
  auto one = [&](Bits v) { return format.is_nan(v) ? format.sign() - 1 : v; };
  return precision.packed ? one(value & 0xffff) | one(value >> 16 & 0xffff) << 16 : one(value);
}

OpcodeCases all_opcode_cases() {
  OpcodeCases cases;
  add_integer_cases(cases);
  add_bit_cases(cases);
  add_float_cases(cases);
  add_approximate_cases(cases);
  add_half_cases(cases);
  add_compare_cases(cases);
  add_convert_cases(cases);
  add_memory_cases(cases);
  add_warp_cases(cases);
  add_control_cases(cases);
  add_cluster_cases(cases);
  add_barrier_cases(cases);
  add_bulk_copy_cases(cases);
  add_wide_cases(cases);
  add_matrix_cases(cases);
  add_wmma_cases(cases);
  return cases;
}

} // namespace cugrt::conformance
