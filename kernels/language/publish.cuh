// Writes of a kernel that others see in order: whoever reads what was published sees what was
// written before it, here and by whom this thread has joined. By one thread; no other waits.
#pragma once

// Of `told`, what the host says.
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

// Adds to a counter of blocks and gives what it was: the last one to come sees what all have
// written.
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
