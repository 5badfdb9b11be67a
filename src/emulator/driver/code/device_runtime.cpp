// cudaCGGetIntrinsicHandle and cudaCGSynchronize, in PTX; see module.h.
#include "emulator/driver/code/module.h"

namespace cugrt::emulator::api {

namespace {

// The handle of a grid is the workspace of its cooperative launch (%envreg1, %envreg2), and 0
// without one and for groups of several grids. Its second word counts arrivals of blocks: the first
// block adds what makes up for the others, so that all of them turn the highest bit; who sees it
// turned goes on.
constexpr char kPtx[] = R"(
.version 7.0
.target sm_75
.address_size 64

.visible .func (.param .b64 handle) cudaCGGetIntrinsicHandle(.param .b32 scope)
{
  .reg .pred %p;
  .reg .b32 %r<3>;
  .reg .b64 %d<2>;
  ld.param.b32 %r0, [scope];
  mov.u32 %r1, %envreg1;
  mov.u32 %r2, %envreg2;
  mov.b64 %d0, {%r2, %r1};
  setp.eq.u32 %p, %r0, 1;
  selp.b64 %d1, %d0, 0, %p;
  st.param.b64 [handle], %d1;
  ret;
}

.visible .func (.param .b32 error) cudaCGSynchronize(.param .b64 handle, .param .b32 flags)
{
  .reg .pred %p<4>;
  .reg .b32 %r<20>;
  .reg .b64 %d;
  ld.param.b64 %d, [handle];
  mov.b32 %r0, 1;
  setp.eq.u64 %p0, %d, 0;
  @%p0 bra DONE;
  barrier.sync 0;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %tid.y;
  mov.u32 %r3, %tid.z;
  or.b32 %r4, %r1, %r2;
  or.b32 %r4, %r4, %r3;
  setp.ne.u32 %p1, %r4, 0;
  @%p1 bra MET;
  mov.u32 %r5, %nctaid.x;
  mov.u32 %r6, %nctaid.y;
  mov.u32 %r7, %nctaid.z;
  mul.lo.u32 %r8, %r5, %r6;
  mul.lo.u32 %r8, %r8, %r7;
  mov.u32 %r9, %ctaid.x;
  mov.u32 %r10, %ctaid.y;
  mov.u32 %r11, %ctaid.z;
  or.b32 %r12, %r9, %r10;
  or.b32 %r12, %r12, %r11;
  setp.eq.u32 %p2, %r12, 0;
  sub.u32 %r13, %r8, 1;
  sub.u32 %r14, 0x80000000, %r13;
  selp.b32 %r15, %r14, 1, %p2;
  fence.acq_rel.gpu;
  atom.add.release.gpu.u32 %r16, [%d+4], %r15;
WAIT:
  ld.acquire.gpu.u32 %r17, [%d+4];
  xor.b32 %r18, %r17, %r16;
  setp.ge.s32 %p3, %r18, 0;
  @%p3 bra WAIT;
MET:
  barrier.sync 0;
  mov.b32 %r0, 0;
DONE:
  st.param.b32 [error], %r0;
  ret;
}
)";

} // namespace

bool is_device_runtime(std::string_view archive) {
  return archive.starts_with("!<arch>\n") &&
         archive.find("cuda_device_runtime") != std::string_view::npos;
}

std::string_view device_runtime_ptx() { return kPtx; }

} // namespace cugrt::emulator::api
