// Control flow, calls, predication, special registers, and instructions that only hint.
#include "opcode_case.h"

namespace cugrt::conformance {

namespace {

constexpr char kControlSection[] = "Control Flow Instructions: ";

/// A program of 64 threads that each store %x.
void add(OpcodeCases &cases, const std::string &name, const std::string &body,
         const std::string &section, const char *rule,
         const std::function<uint32_t(uint32_t thread)> &result, Target target = {},
         const std::string &outside = {}) {
  Program &p = cases.program(name, section, rule);
  p.threads = 64;
  p.outside = outside;
  p.body = ".reg .b32 %x, %r<8>;\n.reg .b64 %d, %l<4>;\n.reg .pred %p, %q;\n"
           "mad.wide.u32 %d, %i, 4, %out;\nmov.u32 %x, 0;\n" +
           body + "\nst.global.u32 [%d], %x;";
  p.target = target;
  for (uint32_t i = 0; i < p.threads; ++i)
    p.expected.push_back(result(i));
}

void add_jumps(OpcodeCases &cases) {
  add(cases, "bra, a loop left in its middle",
      "mov.u32 %r0, 0;\nagain:\nsetp.ge.u32 %p, %r0, %i;\n@%p bra done;\nadd.u32 %x, %x, %r0;\n"
      "add.u32 %r0, %r0, 1;\nbra.uni again;\ndone:",
      std::string(kControlSection) + "bra",
      "continues at the target; .uni: all active threads together",
      [](uint32_t i) { return i ? i * (i - 1) / 2 : 0; });
  add(cases, "bra on a comparison, backwards",
      "mov.u32 %r0, %i;\nagain:\nadd.u32 %x, %x, 3;\nadd.u32 %r0, %r0, 7;\n"
      "setp.lt.u32 %p, %r0, 100;\n@%p bra again;",
      std::string(kControlSection) + "bra", "the guard decides for each thread",
      [](uint32_t i) { return 3 * ((99 - i) / 7 + 1); });
  add(cases, "bra, threads that part twice and meet",
      "and.b32 %r0, %i, 1;\nsetp.eq.u32 %p, %r0, 0;\n@%p bra even;\nand.b32 %r1, %i, 2;\n"
      "setp.eq.u32 %q, %r1, 0;\n@%q bra one;\nmov.u32 %x, 3;\nbra join;\none:\nmov.u32 %x, 1;\n"
      "bra join;\neven:\nmov.u32 %x, 20;\njoin:\nadd.u32 %x, %x, 100;",
      std::string(kControlSection) + "bra", "divergent threads all continue",
      [](uint32_t i) { return 100 + (i % 2 == 0 ? 20 : i % 4); });
  add(cases, "bra on logic over predicates",
      "setp.gt.u32 %p, %i, 9;\nsetp.lt.u32 %q, %i, 30;\nand.pred %p, %p, %q;\n@!%p bra done;\n"
      "mov.u32 %x, 6;\ndone:",
      std::string(kControlSection) + "bra", "the guard decides for each thread",
      [](uint32_t i) { return i > 9 && i < 30 ? 6 : 0; });
  add(cases, "brx.idx",
      "and.b32 %r0, %i, 3;\nts: .branchtargets a, b, c, d;\nbrx.idx %r0, ts;\na:\nmov.u32 %x, 10;\n"
      "bra e;\nb:\nmov.u32 %x, 11;\nbra e;\nc:\nmov.u32 %x, 12;\nbra e;\nd:\nexit;\ne:",
      std::string(kControlSection) + "brx.idx, exit",
      "the label at the index; exit ends the thread",
      [](uint32_t i) { return i % 4 == 3 ? 0 : 10 + i % 4; });
  add(cases, "ret and exit under a guard",
      "setp.lt.u32 %p, %i, 20;\nsetp.gt.u32 %q, %i, 50;\nmov.u32 %x, 5;\n@%p ret;\n@%q exit;",
      std::string(kControlSection) + "ret", "ret of a kernel ends the thread",
      [](uint32_t i) { return i < 20 || i > 50 ? 0 : 5; });
  add(cases, "guards on every kind of instruction",
      "and.b32 %r0, %i, 1;\nsetp.eq.u32 %p, %r0, 0;\nmov.u32 %x, 7;\n@%p mov.u32 %x, 8;\n"
      "@!%p mad.lo.u32 %x, %x, 3, %i;\n@%p add.u32 %x, %x, %x;",
      "Instruction Statements: predicated execution", "@p and @!p",
      [](uint32_t i) { return i % 2 ? 21 + i : 16; });
}

void add_calls(OpcodeCases &cases) {
  const std::string twice =
      ".func (.reg .b32 %d) twice_K(.reg .b32 %v) {\nadd.u32 %d, %v, %v;\nret;\n}\n"
      ".func (.param .b32 d) plus_K(.param .b32 a, .param .b32 b) {\n.reg .b32 %u, %v;\n"
      "ld.param.u32 %u, [a];\nld.param.u32 %v, [b];\nadd.u32 %u, %u, %v;\nst.param.b32 [d], %u;\n"
      "ret;\n}\n";
  add(
      cases, "call with register and parameter arguments",
      "call (%r0), twice_K, (%i);\n{ .param .b32 a; .param .b32 b; .param .b32 d;\n"
      "st.param.b32 [a], %r0;\nst.param.b32 [b], 5;\ncall.uni (d), plus_K, (a, b);\n"
      "ld.param.b32 %x, [d];\n}",
      std::string(kControlSection) + "call", "arguments by value; the result after the return",
      [](uint32_t i) { return 2 * i + 5; }, {}, twice);
  const std::string own =
      ".func (.reg .b32 %d) own_L(.reg .b32 %v) {\n.local .align 4 .b8 m[8];\n.reg .b64 %a;\n"
      ".reg .b32 %u;\nmov.u64 %a, m;\nst.local.u32 [%a+4], %v;\nld.local.u32 %u, [m+4];\n"
      "add.u32 %d, %u, 1;\nret;\n}\n";
  add(
      cases, "call of a function with local memory", "call (%x), own_L, (%i);",
      std::string(kControlSection) + "call", ".local variables are private to each thread",
      [](uint32_t i) { return i + 1; }, {}, own);
  const std::string choice =
      ".func (.reg .b32 %d) one_C(.reg .b32 %v) {\nadd.u32 %d, %v, 1;\nret;\n}\n"
      ".func (.reg .b32 %d) ten_C(.reg .b32 %v) {\nmul.lo.u32 %d, %v, 10;\n"
      "ret;\n}\n";
  add(
      cases, "call through a register",
      "and.b32 %r0, %i, 1;\nsetp.eq.u32 %p, %r0, 0;\nmov.u64 %l0, one_C;\nmov.u64 %l1, ten_C;\n"
      "selp.b64 %l0, %l0, %l1, %p;\nproto: .callprototype (.reg .b32 _) _ (.reg .b32 _);\n"
      "call (%x), %l0, (%i), proto;",
      std::string(kControlSection) + "call", "indirect calls, each thread its own function",
      [](uint32_t i) { return i % 2 ? 10 * i : i + 1; }, {}, choice);
}

void add_registers(OpcodeCases &cases) {
  add(cases, "special registers of threads and blocks",
      "mov.u32 %r0, %laneid;\nmov.u32 %r1, %ntid.x;\nmov.u32 %r2, %nctaid.x;\n"
      "mov.u32 %r3, %ctaid.x;\nmov.u32 %r4, %tid.y;\nmov.u32 %r5, %lanemask_lt;\n"
      "popc.b32 %r5, %r5;\nsub.u32 %r5, %r5, %r0;\nmad.lo.u32 %x, %r1, 1000, %r0;\n"
      "mad.lo.u32 %x, %r2, 100000, %x;\nadd.u32 %x, %x, %r3;\nadd.u32 %x, %x, %r4;\n"
      "add.u32 %x, %x, %r5;",
      "Special Registers", "%laneid, %ntid, %nctaid, %ctaid, %tid, %lanemask_lt",
      [](uint32_t i) { return 100000 + 64000 + i % 32; });
  add(cases, "clocks do not go back",
      "mov.u64 %l0, %clock64;\nmov.u64 %l1, %clock64;\nsetp.ge.u64 %p, %l1, %l0;\n"
      "mov.u32 %r0, %clock;\nselp.u32 %x, 1, 0, %p;",
      "Special Registers: %clock64", "a cycle counter", [](uint32_t) { return 1; });
  add(cases, "fences and hints change no value",
      "membar.gl;\nmembar.cta;\nmembar.sys;\nfence.acq_rel.gpu;\nfence.sc.cta;\n"
      "prefetch.global.L1 [%out];\nnanosleep.u32 10;\nmov.u32 %x, 6;\npmevent 1;",
      "Parallel Synchronization and Communication Instructions: membar, fence",
      "order of memory operations alone", [](uint32_t) { return 6; });
  add(cases, "discard changes no other value",
      "discard.global.L2 [%in], 128;\nst.global.u32 [%in+4], %i;\nmov.u32 %x, 6;",
      "Data Movement and Conversion Instructions: discard", "of the 128 bytes alone",
      [](uint32_t) { return 6; }, {80, "7.4"});
  cases.programs.back().input.resize(32);
  add(cases, "griddepcontrol without a dependency",
      "griddepcontrol.launch_dependents;\ngriddepcontrol.wait;\nmov.u32 %x, 4;",
      "Parallel Synchronization and Communication Instructions: griddepcontrol",
      "without prerequisite grids .wait has no effect", [](uint32_t) { return 4; }, {90, "8.1"});
}

} // namespace

void add_control_cases(OpcodeCases &cases) {
  add_jumps(cases);
  add_calls(cases);
  add_registers(cases);
}

} // namespace cugrt::conformance
