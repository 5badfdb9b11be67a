// What a kernel's PTX tells about programmatic dependent launch. The PTX is in the form that NVRTC
// writes.
#include "device/code/programmatic_code.h"

#include "support/catch.h"

using namespace cugrt::runtime;

namespace {

std::string kernel(const std::string &body) {
  return ".version 8.5\n.target sm_90\n.address_size 64\n"
         ".visible .entry other(\n.param .u64 p\n)\n{\nret;\n}\n"
         ".visible .entry k(\n  .param .u64 k_param_0\n)\n{\n  .reg .pred %p<2>;\n  .reg .b64 "
         "%rd<5>;\n" +
         body + "  ret;\n}\n";
}

const std::string kWait = "  // begin inline asm\n  griddepcontrol.wait;\n  // end inline asm\n";
const std::string kTrigger = "  // begin inline asm\n  griddepcontrol.launch_dependents;\n";

bool waits_first(const std::string &body) {
  return analyze_programmatic(kernel(body), "k").waits_first;
}

} // namespace

TEST_CASE("A kernel waits first where nothing but arithmetic stands before its wait") {
  CHECK(waits_first(kWait));
  CHECK(
      waits_first("  ld.param.u64 %rd1, [k_param_0];\n  cvta.to.global.u64 %rd2, %rd1;\n" + kWait));
  CHECK(waits_first("  .loc 1 7 3\n  mov.u32 %r1, %tid.x;\n$L__tmp0:\n" + kWait));
  CHECK(waits_first(kTrigger + kWait + "  ld.global.u32 %r1, [%rd2];\n"));
  CHECK(waits_first("  prefetch.global.L2 [%rd2];\n" + kWait)); // a hint
}

TEST_CASE(
    "A kernel that touches memory, branches, calls or ends before its wait does not wait first") {
  CHECK_FALSE(waits_first(""));
  CHECK_FALSE(waits_first("  ld.global.u32 %r1, [%rd2];\n" + kWait));
  CHECK_FALSE(waits_first("  ld.global.nc.u32 %r1, [%rd2];\n" + kWait));
  CHECK_FALSE(waits_first("  st.global.u32 [%rd2], %r1;\n" + kWait));
  CHECK_FALSE(waits_first("  @%p1 prefetch.global.L2 [%rd2];\n" + kWait));
  CHECK_FALSE(waits_first("  red.global.add.u32 [%rd2], %r1;\n" + kWait));
  CHECK_FALSE(waits_first("  setp.ge.s32 %p1, %r1, %r2;\n  @%p1 bra $L__BB0_2;\n" + kWait));
  CHECK_FALSE(waits_first("  @%p1 exit;\n" + kWait));
  CHECK_FALSE(waits_first("  @%p1 griddepcontrol.wait;\n"));
  CHECK_FALSE(waits_first("  { // callseq 0, 0\n  call.uni f, ();\n  }\n" + kWait));
  CHECK_FALSE(waits_first("  .loc 1 7 3\n  ld.global.u32 %r1, [%rd2];\n" + kWait));
  CHECK_FALSE(waits_first("  /* griddepcontrol.wait; */\n"));
  CHECK_FALSE(waits_first("  something.new %r1;\n" + kWait));
}

TEST_CASE("Only the named function counts, and only its own trigger") {
  const std::string ptx = kernel(kTrigger + kWait);
  CHECK(analyze_programmatic(ptx, "k").triggers);
  CHECK_FALSE(analyze_programmatic(ptx, "other").triggers);
  CHECK_FALSE(analyze_programmatic(ptx, "other").waits_first);
  CHECK_FALSE(analyze_programmatic(ptx, "absent").waits_first);
  CHECK_FALSE(analyze_programmatic(kernel(kWait), "k").triggers);
  CHECK_FALSE(analyze_programmatic(".entry k(", "k").waits_first);
  CHECK_FALSE(analyze_programmatic(".entry k() {", "k").waits_first);
}

namespace {

/// Of a kernel whose first three parameters are a number, a weight and memory, in %rd1 to %rd3; a
/// fourth is unknown.
bool copies_first(const std::string &body) {
  const std::string ptx =
      ".visible .entry k(\n  .param .u64 k_param_0,\n  .param .u64 .ptr .align 1 "
      "k_param_1,\n  .param .align 8 .b8 k_param_2[16],\n  .param .u64 "
      "k_param_3\n)\n.maxntid 256\n{\n  ld.param.u64 %rd1, [k_param_0];\n  "
      "ld.param.u64 %rd2, [k_param_1];\n  ld.param.u64 %rd3, [k_param_2+8];\n"
      "  ld.param.u64 %rd4, [k_param_3];\n" +
      body + kWait + "  ret;\n}\n";
  constexpr ParameterKind kKinds[] = {ParameterKind::number, ParameterKind::constant,
                                      ParameterKind::memory};
  return analyze_programmatic(ptx, "k", kKinds).waits_first;
}

/// As inline assembly has them.
std::string copy_from(const std::string &address) {
  return "  // begin inline asm\n  cp.async.cg.shared.global [%r1], [" + address +
         "], 16;\n  // end inline asm\n";
}

} // namespace

TEST_CASE("A kernel may copy from a constant parameter before its wait") {
  CHECK(copies_first(""));
  CHECK(copies_first(copy_from("%rd2")));
  CHECK(copies_first(copy_from("%rd2+2048") + "  cp.async.commit_group;\n"));
  CHECK(copies_first("  cp.async.ca.shared.global [%r1], [%rd2], 8;\n"));
  CHECK(copies_first("  mul.lo.s64 %rd5, %rd1, 288;\n  cvta.to.global.u64 %rd6, %rd2;\n"
                     "  add.s64 %rd7, %rd6, %rd5;\n" +
                     copy_from("%rd7")));
  CHECK(copies_first("  mad.lo.s64 %rd5, %rd1, 16, %rd2;\n  selp.b64 %rd6, %rd5, %rd2, %p1;\n" +
                     copy_from("%rd6")));
  CHECK(copies_first("  {\n.reg .pred p;\n setp.ne.b32 p, %r2, 0;\n @p cp.async.cg.shared.global "
                     "[%r1], [%rd2], 16;\n}\n"));
}

TEST_CASE("A kernel that copies what others may write before its wait does not wait first") {
  CHECK_FALSE(copies_first(copy_from("%rd3")));
  CHECK_FALSE(copies_first(copy_from("%rd4")));
  CHECK_FALSE(copies_first(copy_from("%rd1"))); // a number as an address
  CHECK_FALSE(copies_first(copy_from("%rd9"))); // from nowhere
  CHECK_FALSE(copies_first("  add.s64 %rd5, %rd2, %rd3;\n" + copy_from("%rd5")));
  CHECK_FALSE(copies_first("  selp.b64 %rd5, %rd2, %rd3, %p1;\n" + copy_from("%rd5")));
  CHECK_FALSE(copies_first("  and.b64 %rd5, %rd2, -16;\n" + copy_from("%rd5"))); // not followed
  CHECK_FALSE(copies_first("  mov.b64 {%r5, %r6}, %rd2;\n  mov.b64 %rd5, {%r5, %r6};\n" +
                           copy_from("%rd5")));
  CHECK_FALSE(copies_first("  mov.u64 %rd5, %rd2;\n  mov.u64 %rd5, %rd3;\n" + copy_from("%rd5")));
  CHECK_FALSE(copies_first("  @%p1 mov.u64 %rd2, %rd3;\n"));
  CHECK_FALSE(copies_first("  ld.global.u32 %r1, [%rd2];\n"));
  CHECK_FALSE(copies_first("  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                           "[%r1], [%rd2], 16, [%r2];\n"));
  CHECK_FALSE(copies_first("  cp.async.wait_group 0;\n" + copy_from("%rd2")));
  CHECK_FALSE(copies_first("  @%p1 bra $L__BB0_2;\n" + copy_from("%rd2")));
  CHECK_FALSE(analyze_programmatic(kernel(copy_from("%rd2") + kWait), "k").waits_first);
}
