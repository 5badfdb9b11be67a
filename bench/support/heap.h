// Heap in use by this program, from its own operator new and delete. A bench that includes this
// links bench/support/heap.cpp, which replaces them.
#pragma once

#include <cstddef>

namespace cugrt::bench {

/// Bytes of all blocks alive, as the allocator rounds them.
size_t heap_bytes();
/// The most since the last call of reset_heap_peak.
size_t heap_peak_bytes();
void reset_heap_peak();

} // namespace cugrt::bench
