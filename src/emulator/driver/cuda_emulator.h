// Functions of the emulated CUDA driver beyond CUDA's own: statistics, fault injection and the
// text of the last fault. C, found with dlsym or cuGetProcAddress; a real driver has none of
// these names, which is how a program tells the two apart. Thread-safe; none of these calls is
// counted.
#pragma once

#include <cuda.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Set struct_size to sizeof(CUemuStatistics); fields are only ever appended.
typedef struct CUemuStatistics_st {
  size_t struct_size;
  unsigned long long calls; // driver calls since the process began or cuEmuReinitialize
  // Live objects. Those left when every context is gone have leaked.
  unsigned long long contexts, allocations, allocated_bytes, host_allocations, modules, libraries;
  unsigned long long streams, events, graphs, graph_nodes, graph_execs, user_objects;
  // Work done.
  unsigned long long kernels_launched, copies, memsets, graph_launches;
  unsigned long long warp_instructions, lane_operations;
  unsigned long long findings;        // of the checks, repeated ones included
  unsigned long long pinned_bytes;    // of the host, live: allocated pinned, or registered
  unsigned long long used_bytes;      // of the device's memory
  unsigned long long most_used_bytes; // the most at once since cuEmuResetMostUsed or the start
} CUemuStatistics;

/// Counts as of now. Streams of the context itself (legacy, per-thread) are not counted.
CUresult CUDAAPI cuEmuGetStatistics(CUemuStatistics *statistics);

/// Restarts the maximum of used memory from the present use.
CUresult CUDAAPI cuEmuResetMostUsed(void);

/// The nth driver call from now (1: the next one, by any thread) returns `code` and does nothing
/// else; nth_call 0 cancels. Also set by CUGRT_EMU_FAIL_CALL=N:CODE when the driver is loaded.
CUresult CUDAAPI cuEmuSetFaultInjection(unsigned long long nth_call, CUresult code);

/// Not 0: counts from now on, from nothing, the bytes that kernels load from global memory, which
/// slows them. Bytes that neighbouring lanes of a warp share in one load count once. 0: no longer.
CUresult CUDAAPI cuEmuCountLoads(int counts);

/// Bytes loaded since; the part of them from granules of 512 bytes that no kernel wrote meanwhile
/// (weights, mostly), and the bytes of these granules.
CUresult CUDAAPI cuEmuGetLoads(unsigned long long *loaded, unsigned long long *constant_loaded,
                               unsigned long long *constant);

/// Copies the message of the last refused module or failed work (kernel, line, thread, address)
/// with its NUL, cut to `bytes`. Empty when nothing has failed.
CUresult CUDAAPI cuEmuGetLastMessage(char *buffer, size_t bytes);

/// Copies the findings of the checks (CUGRT_EMU_CHECK), one a line, with a NUL, cut to *bytes;
/// *bytes becomes the size of the whole text.
CUresult CUDAAPI cuEmuGetFindings(char *buffer, size_t *bytes);

/// Reads the environment variables again, as a new process would, and forgets statistics and sticky
/// errors. CUDA_ERROR_ILLEGAL_STATE while a context or a graph is alive.
CUresult CUDAAPI cuEmuReinitialize(void);

#ifdef __cplusplus
}
#endif
