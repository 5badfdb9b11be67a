// Tensor cores, as kernels for f16 and bf16 use them, and those for f32 with TF32, whose elements
// are rounded to tf32 in registers; and asynchronous copies, of whatever dtype. Both are there from
// sm_80 on.
#pragma once

#if defined(DTYPE_F16) || defined(DTYPE_BF16) || defined(TF32)
#include "shared/floating.cuh"
#endif

// Bits that stay in a register: constants ptxas makes anew for each use. Of whole warps, whose
// threads have no z.
__device__ __forceinline__ unsigned kept(unsigned bits) {
  return __shfl_sync(0xffffffffu, bits + threadIdx.z, threadIdx.x);
}

__device__ __forceinline__ unsigned shared_address(const void *p) {
  return unsigned(__cvta_generic_to_shared(p));
}

// threadIdx.x and .y, read anew: no register needs to keep them while sums take most.
__device__ __forceinline__ int thread_anew() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}
__device__ __forceinline__ int warp_anew() {
  int warp;
  asm volatile("mov.u32 %0, %%tid.y;" : "=r"(warp));
  return warp;
}

// The copies asked for so far are one group; `kPending` of the groups may still be on their way.
template <int kPending> __device__ __forceinline__ void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}
__device__ __forceinline__ void end_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

#if __CUDA_ARCH__ >= 800
// Asks for a copy to an address in shared memory.
template <int kBytes> __device__ __forceinline__ void copy_bytes(unsigned to, const void *from) {
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(kBytes)
                 : "memory");
}

// The same where `active` holds, without a branch.
template <int kBytes>
__device__ __forceinline__ void copy_bytes_if(bool active, unsigned to, const void *from) {
  static_assert(kBytes == 16, "bytes that pass by the L1 cache");
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %2, 0;\n"
               "@p cp.async.cg.shared.global [%0], [%1], 16;\n}" ::"r"(to),
               "l"(from), "r"(unsigned(active))
               : "memory");
}

// Copies kBytes, or zeros where they are not there; nothing is read then.
template <int kBytes>
__device__ __forceinline__ void copy_or_zeros(bool there, unsigned to, const void *from) {
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(there ? 16 : 0)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(kBytes),
                 "r"(there ? kBytes : 0)
                 : "memory");
}

// Where `active` holds, copies 16 bytes, or zeros where they are not inside, without a branch.
__device__ __forceinline__ void copy_bytes_or_zeros(bool active, bool inside, unsigned to,
                                                    const void *from) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %2, 0;\n"
               "@p cp.async.cg.shared.global [%0], [%1], 16, %3;\n}" ::"r"(to),
               "l"(from), "r"(unsigned(active)), "r"(inside ? 16 : 0)
               : "memory");
}

#if defined(DTYPE_F16) || defined(DTYPE_BF16) || defined(TF32)

// Four fragments of 8 rows of 16 bytes: as they lie in shared memory, or with kTurned those of 8 x
// 8 elements transposed.
template <bool kTurned>
__device__ __forceinline__ void load_fragments(unsigned address, unsigned (&f)[4]) {
  if constexpr (kTurned)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
                 : "r"(address)
                 : "memory");
}
template <bool kTurned>
__device__ __forceinline__ void load_fragments(const T *p, unsigned (&f)[4]) {
  load_fragments<kTurned>(shared_address(p), f);
}

// Elements of f32 become tf32, rounded to the nearest; others are what multiply takes.
__device__ __forceinline__ unsigned factor_of(unsigned bits) {
#ifdef TF32
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(__uint_as_float(bits)));
#endif
  return bits;
}
template <int kCount> __device__ __forceinline__ void make_factors(unsigned (&f)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    f[i] = factor_of(f[i]);
}

// 16 x 8 sums: 32 bytes of each of 16 rows by 32 bytes of each of 8 columns.
__device__ __forceinline__ void multiply(float (&sum)[4], const unsigned (&a)[4], unsigned c0,
                                         unsigned c1) {
#if defined(DTYPE_F16)
#define MMA_FORM "m16n8k16.row.col.f32.f16.f16"
#elif defined(DTYPE_BF16)
#define MMA_FORM "m16n8k16.row.col.f32.bf16.bf16"
#else
#define MMA_FORM "m16n8k8.row.col.f32.tf32.tf32"
#endif
  asm volatile("mma.sync.aligned." MMA_FORM
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(c0), "r"(c1));
}

// What multiply makes of a warp among what all make, as [row][column]: rows are columns of the mma.
template <int kWarps, int kWidth>
__device__ __forceinline__ void store_sums(const float (&sum)[4],
                                           float (&partial)[kWarps][8][kWidth]) {
  const int thread = thread_anew(), warp = warp_anew();
#pragma unroll
  for (int e = 0; e < 4; ++e)
    partial[warp][2 * (thread % 4) + e % 2][thread / 4 + e / 2 * 8] = sum[e];
}

#endif
#endif
