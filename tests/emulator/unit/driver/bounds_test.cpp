// Beyond an allocation: what the granule of 512 bytes that it lies in still has, and what is a
// fault.
#include "emulator/unit/driver/session.h"

namespace {

constexpr char kBoundsPtx[] = PTX_HEAD R"(
.visible .entry load(.param .u64 p)
{
  .reg .b32 %r;
  .reg .b64 %d;
  ld.param.u64 %d, [p];
  ld.global.u32 %r, [%d];
  ret;
}
.visible .entry load4(.param .u64 p)
{
  .reg .b32 %r<4>;
  .reg .b64 %d;
  ld.param.u64 %d, [p];
  ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%d];
  ret;
}
.visible .entry store4(.param .u64 p)
{
  .reg .b32 %r;
  .reg .b64 %d;
  ld.param.u64 %d, [p];
  mov.u32 %r, 1;
  st.global.v4.u32 [%d], {%r, %r, %r, %r};
  ret;
}
)";

} // namespace

TEST_CASE(
    "An access faults beyond the granule, and within it is a finding unless a load is widened") {
  struct Case {
    const char *kernel;
    uint64_t offset; // into an allocation of 44 bytes
    const char *finding;
    bool faults;
  };
  const Case cases[] = {
      {"load", 40, "", false},
      {"load", 44, "an access of 4 bytes at", false},
      {"load", 508, "behind the end of an allocation of 44 bytes", false},
      {"load", 512, "", true},
      {"load4", 16, "", false},
      {"load4", 32, "", false}, // holds 12 bytes of it
      {"load4", 48, "behind the end", false},
      {"load4", 496, "behind the end", false},
      {"load4", 512, "", true},
      {"store4", 32, "16 bytes at", false},
      {"store4", 512, "", true},
  };
  for (const Case &c : cases) {
    INFO(c.kernel << " at " << c.offset);
    Session session{"CUGRT_EMU_CHECK=bounds"};
    CUmodule module = MADE(cuModuleLoadData, kBoundsPtx);
    CUdeviceptr address = upload(std::vector<uint32_t>(11)) + c.offset;
    launch_kernel(kernel(module, c.kernel), 1, 1, nullptr, address);
    CHECK(CU(cuCtxSynchronize)() == (c.faults ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS));
    std::string found = findings();
    if (c.faults)
      CHECK(found.find("bounds: ") == std::string::npos);
    else
      CHECK(found.empty() == !*c.finding);
    CHECK(found.find(c.finding) != std::string::npos);
  }
}
