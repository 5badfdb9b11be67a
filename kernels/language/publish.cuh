// Writes of a kernel that others see in order: a thread that reads the published word sees all
// earlier writes, here and of the threads that this one has joined. By one thread; no other waits.
#pragma once

// Words of `told`, which the host writes.
constexpr int kTaken = 0, kChange = 1, kCancel = 2;

// Publishes `value` to the host, in pinned memory.
__device__ __forceinline__ void publish(unsigned *to, unsigned value) {
#if __CUDA_ARCH__ >= 700
  asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
#else
  __threadfence_system();
  *static_cast<volatile unsigned *>(to) = value;
#endif
}

// Adds to a counter of blocks and returns its old value: the last block sees the writes of
// all.
__device__ __forceinline__ unsigned join(unsigned *counter, unsigned value) {
#if __CUDA_ARCH__ >= 700
  unsigned before;
  asm volatile("atom.acq_rel.gpu.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(counter), "r"(value)
               : "memory");
  return before;
#else
  __threadfence();
  const unsigned before = atomicAdd(counter, value);
  __threadfence();
  return before;
#endif
}
