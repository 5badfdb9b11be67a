// Barriers of a whole grid, as cooperative groups make them of the launch's workspace.
#include "unit/emulator/driver/session.h"

namespace {

// What grid.sync() becomes, with a thread a block: the workspace's second word counts arrivals, the
// first block adds what turns its highest bit. Between two of them each block writes cells[block]
// and reads the next one's.
constexpr char kPtx[] = R"(
.version 7.0
.target sm_75
.address_size 64

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
    CUmodule module = nullptr;
    OK(CU(cuModuleLoadData)(&module, kPtx));
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
