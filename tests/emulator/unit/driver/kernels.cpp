// Hand-written PTX for the driver's tests. Each kernel does as little as shows what is tested.
#include "emulator/unit/driver/session.h"

namespace {

constexpr char kTestPtx[] = PTX_HEAD R"(
.global .align 4 .u32 answer = 42;

// out[i] = a[i] + b[i] for i < n
.visible .entry add(.param .u64 out, .param .u64 a, .param .u64 b, .param .u32 n)
{
  .reg .pred %p<2>;
  .reg .f32 %f<4>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [out];
  ld.param.u64 %rd2, [a];
  ld.param.u64 %rd3, [b];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.s32 %p1, %r5, %r1;
  @%p1 bra DONE;
  mul.wide.s32 %rd4, %r5, 4;
  add.s64 %rd5, %rd2, %rd4;
  ld.global.f32 %f1, [%rd5];
  add.s64 %rd6, %rd3, %rd4;
  ld.global.f32 %f2, [%rd6];
  add.f32 %f3, %f1, %f2;
  add.s64 %rd7, %rd1, %rd4;
  st.global.f32 [%rd7], %f3;
DONE:
  ret;
}

// *out = *out * factor + term, by one thread
.visible .entry affine(.param .u64 out, .param .u32 factor, .param .u32 term)
{
  .reg .b32 %r<5>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [factor];
  ld.param.u32 %r2, [term];
  ld.global.u32 %r3, [%rd1];
  mad.lo.s32 %r4, %r3, %r1, %r2;
  st.global.u32 [%rd1], %r4;
  ret;
}
)"
#include "emulator/condition_kernels.inc"
                                     R"(
.visible .entry trap_now()
{
  trap;
  ret;
}
)";

// Kernels that wait for the grids before them, where the driver lets them begin early.
constexpr char kWaitingPtx[] = R"(
.version 7.8
.target sm_90
.address_size 64

// *out = *cell, read before the wait
.visible .entry early(.param .u64 cell, .param .u64 out)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [cell];
  ld.param.u64 %rd2, [out];
  ld.global.u32 %r1, [%rd1];
  griddepcontrol.wait;
  st.global.u32 [%rd2], %r1;
  ret;
}

// *out = *cell, copied before the wait
.visible .entry early_copy(.param .u64 cell, .param .u64 out)
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  .shared .align 16 .b8 slot[16];
  ld.param.u64 %rd1, [cell];
  ld.param.u64 %rd2, [out];
  mov.u32 %r2, slot;
  cp.async.ca.shared.global [%r2], [%rd1], 4;
  cp.async.commit_group;
  griddepcontrol.wait;
  cp.async.wait_group 0;
  ld.shared.u32 %r1, [slot];
  st.global.u32 [%rd2], %r1;
  ret;
}

// *out = *cell, read after the wait
.visible .entry late(.param .u64 cell, .param .u64 out)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [cell];
  ld.param.u64 %rd2, [out];
  griddepcontrol.wait;
  ld.global.u32 %r1, [%rd1];
  st.global.u32 [%rd2], %r1;
  ret;
}

// *cell += 1
.visible .entry count(.param .u64 cell)
{
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [cell];
  red.global.add.u32 [%rd1], 1;
  ret;
}
)";

CUmodule load(const char *ptx) { return MADE(cuModuleLoadData, ptx); }

} // namespace

CUmodule load_kernels() { return load(kTestPtx); }
CUmodule load_waiting_kernels() { return load(kWaitingPtx); }

CUfunction kernel(CUmodule module, const char *name) {
  return MADE(cuModuleGetFunction, module, name);
}
