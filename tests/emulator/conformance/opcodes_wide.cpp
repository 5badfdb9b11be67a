// Registers of 128 bits, pairs of f32, and memory that a thread takes from its stack.
#include "opcode_case.h"

#include <algorithm>

namespace cugrt::conformance {

namespace {

constexpr uint32_t kThreads = 64;

uint32_t word(uint32_t i) { return 0x85ebca6bu * (i + 7) ^ i << 13; }

Program &program(OpcodeCases &cases, const std::string &name, const std::string &body,
                 const char *section, const char *rule, Target target, uint32_t words_in) {
  Program &p = cases.program(name, section, rule);
  p.threads = kThreads;
  p.target = target;
  p.body =
      ".reg .b32 %x, %r<8>;\n.reg .b64 %a, %d, %l<8>;\n.reg .b128 %w<6>;\n.reg .pred %p, %q;\n" +
      body;
  for (uint32_t i = 0; i < words_in; ++i)
    p.input.push_back(word(i));
  return p;
}

void add_moves(OpcodeCases &cases) {
  // Through a register of 128 bits, its halves exchanged, by way of shared memory.
  Program &p = program(
      cases, "ld.b128, mov.b128, st.b128",
      ".shared .align 16 .b8 m[1024];\nmad.wide.u32 %a, %i, 16, %in;\nmad.wide.u32 %d, %i, 16, "
      "%out;\n"
      "ld.global.b128 %w0, [%a];\nmov.b128 {%l0, %l1}, %w0;\nmov.b128 %w1, {%l1, %l0};\n"
      "mov.u32 %x, m;\nmad.lo.u32 %x, %i, 16, %x;\nst.shared.b128 [%x], %w1;\nmov.b128 %w2, %w0;\n"
      "ld.shared.b128 %w2, [%x];\nst.global.b128 [%d], %w2;",
      "Data Movement and Conversion Instructions: mov, ld, st", "16 bytes, the lower half first",
      {75, "8.3"}, 4 * kThreads);
  for (uint32_t i = 0; i < kThreads; ++i)
    for (uint32_t k : {2, 3, 0, 1})
      p.expected.push_back(word(4 * i + k));
}

void add_wide_atoms(OpcodeCases &cases) {
  const char *section = "Parallel Synchronization and Communication Instructions: atom";
  const Target target{90, "8.3"};
  // Even threads compare with what is there, odd ones with something else.
  Program &cas = program(
      cases, "atom.global.cas.b128",
      "mad.wide.u32 %a, %i, 16, %in;\nmad.wide.u32 %d, %i, 32, %out;\nld.global.b128 %w0, [%a];\n"
      "st.global.b128 [%d], %w0;\nand.b32 %r0, %i, 1;\ncvt.u64.u32 %l2, %r0;\n"
      "mov.b128 {%l0, %l1}, %w0;\nxor.b64 %l1, %l1, %l2;\nmov.b128 %w1, {%l0, %l1};\n"
      "mov.b64 %l3, 5;\nmov.b64 %l4, 6;\nmov.b128 %w2, {%l3, %l4};\n"
      "atom.global.cas.b128 %w3, [%d], %w1, %w2;\nst.global.b128 [%d+16], %w3;",
      section, "stored where all 128 bits are equal; the old value is returned", target,
      4 * kThreads);
  Program &exchange = program(
      cases, "atom.exch.b128 in shared memory",
      ".shared .align 16 .b8 m[1024];\nmad.wide.u32 %a, %i, 16, %in;\nmad.wide.u32 %d, %i, 32, "
      "%out;\n"
      "ld.global.b128 %w0, [%a];\nmov.u32 %x, m;\nmad.lo.u32 %x, %i, 16, %x;\n"
      "st.shared.b128 [%x], %w0;\nmov.b64 %l3, 5;\nmov.b64 %l4, 6;\nmov.b128 %w2, {%l3, %l4};\n"
      "atom.shared.exch.b128 %w3, [%x], %w2;\nld.shared.b128 %w4, [%x];\nst.global.b128 [%d], "
      "%w4;\n"
      "st.global.b128 [%d+16], %w3;",
      section, "the old value is returned", target, 4 * kThreads);
  for (uint32_t i = 0; i < kThreads; ++i) {
    const uint32_t fresh[] = {5, 0, 6, 0};
    for (uint32_t k = 0; k < 4; ++k) {
      cas.expected.push_back(i % 2 ? word(4 * i + k) : fresh[k]);
      exchange.expected.push_back(fresh[k]);
    }
    for (uint32_t k = 0; k < 4; ++k) {
      cas.expected.push_back(word(4 * i + k));
      exchange.expected.push_back(word(4 * i + k));
    }
  }
}

/// A function of the two halves apart.
void add_pairs(OpcodeCases &cases) {
  struct Row {
    const char *opcode, *kinds;
    std::function<Bits(Bits a, Bits b, Bits c)> half;
  };
  auto real = [](Bits v) { return decode(kF32, v); };
  for (const Row &row : std::initializer_list<Row>{
           {"add.f32x2", "lll",
            [=](Bits a, Bits b, Bits) { return encode(kF32, sum(real(a), real(b))); }},
           {"sub.f32x2", "lll",
            [=](Bits a, Bits b, Bits) { return encode(kF32, sum(real(a), -real(b))); }},
           {"mul.f32x2", "lll",
            [=](Bits a, Bits b, Bits) { return encode(kF32, real(a) * real(b)); }}}) {
    Instruction instruction;
    instruction.text = spelled(row.opcode, row.kinds);
    instruction.kinds = row.kinds;
    instruction.reference = [half = row.half](Bits a, Bits b, Bits c, Bits) {
      const Bits low = half(a & 0xffffffff, b & 0xffffffff, c & 0xffffffff) & 0xffffffff;
      return low | half(a >> 32, b >> 32, c >> 32) << 32;
    };
    // Either half may be a NaN, whose bits are open.
    instruction.accepts = [reference = instruction.reference](Bits a, Bits b, Bits got) {
      const Bits want = reference(a, b, 0, 0);
      auto same = [](Bits x, Bits y) { return x == y || (kF32.is_nan(x) && kF32.is_nan(y)); };
      return same(got & 0xffffffff, want & 0xffffffff) && same(got >> 32, want >> 32);
    };
    instruction.cite = {"Floating Point Instructions: add, sub, mul", "each half by itself"};
    instruction.target = {100, "8.6"};
    cases.instructions.push_back(std::move(instruction));
  }
  Program &fma = program(
      cases, "fma.rn.f32x2 of whole numbers",
      "mov.b32 %r0, 0f40400000;\nmov.b32 %r1, 0f40A00000;\nmov.b64 %l0, {%r0, %r1};\n"
      "cvt.rn.f32.u32 %r2, %i;\nadd.u32 %r3, %i, 1;\ncvt.rn.f32.u32 %r3, %r3;\n"
      "mov.b64 %l1, {%r2, %r3};\nmov.b64 %l2, {%r1, %r0};\nfma.rn.f32x2 %l3, %l0, %l1, %l2;\n"
      "mov.b64 {%r4, %r5}, %l3;\ncvt.rzi.u32.f32 %r4, %r4;\ncvt.rzi.u32.f32 %r5, %r5;\n"
      "mad.wide.u32 %d, %i, 8, %out;\nst.global.v2.b32 [%d], {%r4, %r5};",
      "Floating Point Instructions: fma", "each half by itself", {100, "8.6"}, 0);
  for (uint32_t i = 0; i < kThreads; ++i) {
    fma.expected.push_back(3 * i + 5);
    fma.expected.push_back(5 * (i + 1) + 3);
  }
}

void add_stack(OpcodeCases &cases) {
  const char *section = "Stack Manipulation Instructions: alloca, stacksave, stackrestore";
  // Each thread takes as many words as its number says, and sums what it has put there.
  Program &p = program(
      cases, "alloca of a size that differs by thread, stacksave and stackrestore",
      "mov.u32 %r7, 0;\nmov.u32 %x, 0;\nagain:\nstacksave.u64 %l7;\nand.b32 %r0, %i, 15;\n"
      "add.u32 %r0, %r0, 1;\nmul.wide.u32 %l0, %r0, 4;\nalloca.u64 %l1, %l0, 16;\n"
      "alloca.u64 %l2, 8;\nst.local.u32 [%l2], 77;\nmov.u32 %r1, 0;\nmov.b64 %l3, %l1;\nfill:\n"
      "add.u32 %r2, %r1, %r7;\nst.local.u32 [%l3], %r2;\nadd.u64 %l3, %l3, 4;\nadd.u32 %r1, %r1, "
      "1;\n"
      "setp.lt.u32 %p, %r1, %r0;\n@%p bra fill;\nmov.u32 %r1, 0;\nmov.b64 %l3, %l1;\nread:\n"
      "ld.local.u32 %r2, [%l3];\nadd.u32 %x, %x, %r2;\nadd.u64 %l3, %l3, 4;\nadd.u32 %r1, %r1, 1;\n"
      "setp.lt.u32 %p, %r1, %r0;\n@%p bra read;\nstackrestore.u64 %l7;\nadd.u32 %r7, %r7, 1;\n"
      "setp.lt.u32 %q, %r7, 40;\n@%q bra again;\nmad.wide.u32 %d, %i, 4, %out;\n"
      "st.global.u32 [%d], %x;",
      section, "memory of the thread's own, given back by stackrestore", {75, "7.3"}, 0);
  p.body = p.body.substr(p.body.find("mov.u32 %r7"));
  p.body = ".reg .b32 %x, %r<8>;\n.reg .b64 %a, %d, %l<8>;\n.reg .pred %p, %q;\n" + p.body;
  for (uint32_t i = 0; i < kThreads; ++i) {
    const uint32_t n = i % 16 + 1;
    uint32_t total = 0;
    for (uint32_t round = 0; round < 40; ++round)
      total += n * (n - 1) / 2 + n * round;
    p.expected.push_back(total);
  }

  Program &narrow =
      program(cases, "alloca, stacksave and stackrestore of 32 bits",
              "stacksave.u32 %r0;\nmov.u32 %r1, 8;\nalloca.u32 %r2, %r1;\nadd.u32 %r3, %i, 5;\n"
              "st.local.u32 [%r2+4], %r3;\nld.local.u32 %x, [%r2+4];\nstackrestore.u32 %r0;\n"
              "stacksave.u32 %r4;\nsub.u32 %r4, %r4, %r0;\nadd.u32 %x, %x, %r4;\n"
              "mad.wide.u32 %d, %i, 4, %out;\nst.global.u32 [%d], %x;",
              section, "memory of the thread's own, given back by stackrestore", {75, "7.3"}, 0);
  narrow.body = narrow.body.substr(narrow.body.find("stacksave"));
  narrow.body = ".reg .b32 %x, %r<8>;\n.reg .b64 %d;\n" + narrow.body;
  for (uint32_t i = 0; i < kThreads; ++i)
    narrow.expected.push_back(i + 5);
}

} // namespace

void add_wide_cases(OpcodeCases &cases) {
  add_moves(cases);
  add_wide_atoms(cases);
  add_pairs(cases);
  add_stack(cases);
}

} // namespace cugrt::conformance
