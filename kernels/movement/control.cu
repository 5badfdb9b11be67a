// Kernels of conditional nodes in graphs: what a condition in device memory says, and nothing.
//
// cudaGraphSetConditional is a device function that the driver resolves when it loads the code; no
// header declares it for NVRTC, and no library defines it.
//
// Without a bench: sets the conditions of graph nodes: a thread each.

typedef unsigned char Byte;
typedef unsigned long long Handle;

extern "C" __device__ void cudaGraphSetConditional(Handle handle, unsigned int value);

// One thread. The condition may lie in memory that the host writes meanwhile. `otherwise`, where it
// is not 0, is set to the opposite: the second of two nodes where drivers know no else.
extern "C" __global__ void control_set(const volatile Byte *condition, unsigned int bytes,
                                       Handle handle, Handle otherwise) {
  unsigned int any = 0;
  for (unsigned int i = 0; i < bytes; ++i)
    any |= condition[i];
  cudaGraphSetConditional(handle, any != 0);
  if (otherwise)
    cudaGraphSetConditional(otherwise, any == 0);
}

// A body must not be empty, and not every driver takes empty nodes there.
extern "C" __global__ void control_nothing() {}
