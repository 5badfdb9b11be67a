// Kernels for scripts, as small as shows what is tested.
#include "script.h"

namespace cugrt::conformance {

const char kScriptPtx[] = R"(
.version 7.0
.target sm_75
.address_size 64

.global .align 4 .u32 answer = 42;
.global .align 8 .b8 room[24];

// *out = *out * factor + term, by one thread
.visible .entry affine(.param .u64 out, .param .u32 factor, .param .u32 term)
{
  .reg .b32 %r<5>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [factor];
  ld.param.u32 %r2, [term];
  ld.global.u32 %r3, [%rd1];
  mad.lo.u32 %r4, %r3, %r1, %r2;
  st.global.u32 [%rd1], %r4;
  ret;
}

// out[i] += 1 by each thread of a grid of one dimension
.visible .entry increment(.param .u64 out)
{
  .reg .b32 %r<5>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r1, %r2, %r3;
  mad.wide.u32 %rd2, %r4, 4, %rd1;
  ld.global.u32 %r1, [%rd2];
  add.u32 %r1, %r1, 1;
  st.global.u32 [%rd2], %r1;
  ret;
}

// out[block] = the number of the multiprocessor that its first thread ran on
.visible .entry where(.param .u64 out)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %smid;
  mov.u32 %r3, %tid.x;
  setp.ne.u32 %p1, %r3, 0;
  mad.wide.u32 %rd2, %r1, 4, %rd1;
  @!%p1 st.global.u32 [%rd2], %r2;
  ret;
}

// the size of the block, the grid and dynamic shared memory
.visible .entry sizes(.param .u64 out)
{
  .reg .b32 %r<6>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %ntid.y;
  mov.u32 %r3, %nctaid.x;
  mov.u32 %r4, %nctaid.z;
  mov.u32 %r5, %dynamic_smem_size;
  st.global.u32 [%rd1], %r1;
  st.global.u32 [%rd1+4], %r2;
  st.global.u32 [%rd1+8], %r3;
  st.global.u32 [%rd1+12], %r4;
  st.global.u32 [%rd1+16], %r5;
  ret;
}

// parameters of mixed sizes
.visible .entry mixed(.param .u8 a, .param .u64 out, .param .align 8 .b8 b[24], .param .u16 c)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [out];
  ld.param.u8 %r1, [a];
  ld.param.u32 %r2, [b+20];
  ld.param.u16 %r3, [c];
  st.global.u32 [%rd1], %r1;
  st.global.u32 [%rd1+4], %r2;
  st.global.u32 [%rd1+8], %r3;
  ret;
}

// no more than 64 threads to a block
.visible .entry bounded(.param .u64 out) .maxntid 64, 1, 1
{
  ret;
}

.visible .entry fault(.param .u64 address)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [address];
  mov.u32 %r1, 1;
  st.global.u32 [%rd1], %r1;
  ret;
}

.visible .entry halt()
{
  brkpt;
  ret;
}

.visible .entry stop()
{
  trap;
  ret;
}

)";

} // namespace cugrt::conformance
