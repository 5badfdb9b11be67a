// Barriers of a whole grid, as cooperative groups make them of the launch's workspace.
#include "emulator/unit/driver/session.h"

namespace {

// What grid.sync() becomes, with a thread a block: the workspace's second word counts arrivals, the
// first block adds what turns its highest bit. Between two of them each block writes cells[block]
// and reads the next one's.
constexpr char kCooperativePtx[] = PTX_HEAD R"(
.visible .entry rotate(.param .u64 cells, .param .u64 out)
{
  .reg .pred %p<3>;
  .reg .b32 %r<12>;
  .reg .b64 %d<10>;
  ld.param.u64 %d1, [cells];
  ld.param.u64 %d2, [out];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %nctaid.x;
  mul.wide.u32 %d3, %r1, 4;
  add.u64 %d4, %d1, %d3;
  st.global.u32 [%d4], %r1;
  mov.u32 %r3, %envreg1;
  mov.u32 %r4, %envreg2;
  mov.b64 %d5, {%r4, %r3};
  setp.eq.u32 %p1, %r1, 0;
  sub.u32 %r5, %r2, 1;
  sub.u32 %r6, 0x80000000, %r5;
  selp.b32 %r7, %r6, 1, %p1;
  atom.add.release.gpu.u32 %r8, [%d5+4], %r7;
WAIT:
  ld.acquire.gpu.u32 %r9, [%d5+4];
  xor.b32 %r9, %r9, %r8;
  setp.ge.s32 %p2, %r9, 0;
  @%p2 bra WAIT;
  add.u32 %r10, %r1, 1;
  rem.u32 %r10, %r10, %r2;
  mul.wide.u32 %d6, %r10, 4;
  add.u64 %d7, %d1, %d6;
  ld.global.u32 %r11, [%d7];
  add.u64 %d8, %d2, %d3;
  st.global.u32 [%d8], %r11;
  ret;
}
)";

} // namespace

TEST_CASE("All blocks of a cooperative launch meet at a barrier of the grid, launch after launch") {
  constexpr uint32_t kBlocks = 100;
  for (const char *order : {"", "1", "2"}) {
    Session session{std::string("CUGRT_EMU_ORDER=") + order};
    CUmodule module = MADE(cuModuleLoadData, kCooperativePtx);
    CUfunction function = kernel(module, "rotate");
    CUdeviceptr cells = upload(std::vector<uint32_t>(kBlocks, 999)),
                out = upload(std::vector<uint32_t>(kBlocks));
    void *params[] = {&cells, &out};
    for (int launch = 0; launch < 2; ++launch) {
      OK(CU(cuLaunchCooperativeKernel)(function, kBlocks, 1, 1, 1, 1, 1, 0, nullptr, params));
      OK(CU(cuCtxSynchronize)());
      auto seen = download<uint32_t>(out, kBlocks);
      for (uint32_t i = 0; i < kBlocks; ++i)
        REQUIRE(seen[i] == (i + 1) % kBlocks);
    }
  }
}

namespace {

// The same by the device runtime's functions, in blocks of several threads: each thread has a cell,
// and reads that of the thread a block further on. Behind these out has the error that the barrier
// answered each thread.
constexpr char kCallerPtx[] = PTX_HEAD R"(
.extern .func (.param .b64 handle) cudaCGGetIntrinsicHandle(.param .b32 scope);
.extern .func (.param .b32 error) cudaCGSynchronize(.param .b64 handle, .param .b32 flags);

.visible .entry rotate(.param .u64 cells, .param .u64 out, .param .u32 scope)
{
  .reg .b32 %r<20>;
  .reg .b64 %d<12>;
  .param .b32 which;
  .param .b64 grid;
  .param .b32 none;
  .param .b32 error;
  ld.param.u64 %d1, [cells];
  ld.param.u64 %d2, [out];
  ld.param.u32 %r0, [scope];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %nctaid.x;
  mov.u32 %r3, %ctaid.y;
  mad.lo.u32 %r4, %r3, %r2, %r1;
  mov.u32 %r5, %nctaid.y;
  mul.lo.u32 %r6, %r2, %r5;
  mov.u32 %r7, %ntid.x;
  mov.u32 %r8, %tid.x;
  mad.lo.u32 %r9, %r4, %r7, %r8;
  mul.lo.u32 %r10, %r6, %r7;
  mul.wide.u32 %d3, %r9, 4;
  add.u64 %d4, %d1, %d3;
  st.global.u32 [%d4], %r9;
  st.param.b32 [which], %r0;
  call (grid), cudaCGGetIntrinsicHandle, (which);
  ld.param.b64 %d5, [grid];
  st.param.b64 [grid], %d5;
  st.param.b32 [none], 0;
  call (error), cudaCGSynchronize, (grid, none);
  ld.param.b32 %r11, [error];
  add.u32 %r12, %r9, %r7;
  rem.u32 %r12, %r12, %r10;
  mul.wide.u32 %d6, %r12, 4;
  add.u64 %d7, %d1, %d6;
  ld.global.u32 %r13, [%d7];
  add.u64 %d8, %d2, %d3;
  st.global.u32 [%d8], %r13;
  mul.wide.u32 %d9, %r10, 4;
  add.u64 %d10, %d8, %d9;
  st.global.u32 [%d10], %r11;
  ret;
}
)";

/// Linked with an archive that has the member of libcudadevrt.a.
CUmodule with_device_runtime() {
  char archive[] = "!<arch>\ncuda_device_runtime.o/ 0 0 0 644 4 `\n\x7f"
                   "ELF",
       other[] = "!<arch>\nother.o/ 0 0 0 644 4 `\n\x7f"
                 "ELF";
  CUlinkState state = ASKED(cuLinkCreate_v2, 0, nullptr, nullptr);
  OK(CU(cuLinkAddData_v2)(state, CU_JIT_INPUT_PTX, const_cast<char *>(kCallerPtx),
                          sizeof kCallerPtx, "caller.ptx", 0, nullptr, nullptr));
  CHECK(CU(cuLinkAddData_v2)(state, CU_JIT_INPUT_LIBRARY, other, sizeof other, "libother.a", 0,
                             nullptr, nullptr) == CUDA_ERROR_NO_BINARY_FOR_GPU);
  OK(CU(cuLinkAddData_v2)(state, CU_JIT_INPUT_LIBRARY, archive, sizeof archive, "libcudadevrt.a", 0,
                          nullptr, nullptr));
  void *image = nullptr;
  OK(CU(cuLinkComplete)(state, &image, nullptr));
  CUmodule module = MADE(cuModuleLoadData, image);
  OK(CU(cuLinkDestroy)(state));
  return module;
}

} // namespace

TEST_CASE("What the device runtime's archive has for barriers of the grid can be linked with") {
  constexpr uint32_t kThreads = 48, kColumns = 7, kRows = 3, kCells = kThreads * kColumns * kRows;
  for (const char *order : {"", "1", "2"}) {
    Session session{std::string("CUGRT_EMU_ORDER=") + order};
    CUfunction function = kernel(with_device_runtime(), "rotate");
    CUdeviceptr cells = upload(std::vector<uint32_t>(kCells, 999)),
                out = upload(std::vector<uint32_t>(2 * kCells, 999));
    uint32_t scope = 1; // the grid
    void *params[] = {&cells, &out, &scope};
    for (int launch = 0; launch < 2; ++launch) {
      OK(CU(cuLaunchCooperativeKernel)(function, kColumns, kRows, 1, kThreads, 1, 1, 0, nullptr,
                                       params));
      auto seen = download<uint32_t>(out, 2 * kCells);
      for (uint32_t i = 0; i < kCells; ++i)
        REQUIRE((seen[i] == (i + kThreads) % kCells && seen[kCells + i] == 0));
    }
    // There is no such barrier in an ordinary launch, nor of several grids: an error, for the
    // kernel.
    OK(CU(cuLaunchKernel)(function, 1, 1, 1, kThreads, 1, 1, 0, nullptr, params, nullptr));
    CHECK(download<uint32_t>(out, kThreads + 1)[kThreads] == 1);
    scope = 2;
    OK(CU(cuLaunchCooperativeKernel)(function, 1, 1, 1, kThreads, 1, 1, 0, nullptr, params));
    CHECK(download<uint32_t>(out, kThreads + 1)[kThreads] == 1);
  }
}
