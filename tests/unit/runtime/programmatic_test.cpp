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
