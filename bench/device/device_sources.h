// The kernels of bench device, as CUDA C++ for sm_80 and newer. Whoever waits for another block
// polls a bounded number of times, sets a flag and ends, so that no case hangs.
#pragma once

#include <string>

namespace cugrt::bench {

extern const char *const kCeilingSource; // read, caches, mma
extern const char *const kChainSource;  // nodes of chains, with and without rings; a grid's barrier
extern const char *const kStreamSource; // rings that stream memory, and nothing else
extern const char *const kExchangeSource; // between blocks, and with the host
extern const char *const kClusterSource;  // between the blocks of a cluster; sm_90
/// 64 x 256 of f32 a warp group: the instruction has 128 registers, which nobody writes by hand.
/// sm_90a.
std::string warp_group_source();

} // namespace cugrt::bench
