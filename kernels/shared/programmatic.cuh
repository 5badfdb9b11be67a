// Programmatic dependent launch: a kernel that begins before its predecessors in a graph have
// ended, and lets those behind it do so.
//
// BEGIN_EARLY() stands first in a kernel: it waits until its predecessors have ended and their
// bytes can be seen, and then its successors may begin. Were they let in before, a whole chain of
// kernels that do nothing but wait would hold places beside parallel branches. Nothing may touch
// memory before it, but for hints to the L2 cache, where writes of others meet, and asynchronous
// copies of weights into shared memory, without a branch; the runtime looks for that in the PTX.
// Compiled in by -DPROGRAMMATIC, for sm_90 and later.
#pragma once

#if defined(PROGRAMMATIC) && __CUDA_ARCH__ >= 900
#define BEGIN_EARLY()                                                                              \
  asm volatile("griddepcontrol.wait;" ::: "memory");                                               \
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#else
#define BEGIN_EARLY()
#endif
