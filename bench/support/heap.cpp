// Counting operator new and delete. One thread: the counters are plain.
#include "bench/support/heap.h"

#include <algorithm>
#include <cstdlib>
#include <malloc.h>
#include <new>

namespace {
size_t in_use = 0, peak = 0;
} // namespace

void *operator new(size_t bytes) {
  void *block = std::malloc(bytes ? bytes : 1);
  if (!block)
    throw std::bad_alloc();
  in_use += malloc_usable_size(block) + sizeof(size_t);
  peak = std::max(peak, in_use);
  return block;
}

void operator delete(void *block) noexcept {
  if (block)
    in_use -= malloc_usable_size(block) + sizeof(size_t);
  std::free(block);
}

void operator delete(void *block, size_t) noexcept { operator delete(block); }

namespace cugrt::bench {

size_t heap_bytes() { return in_use; }
size_t heap_peak_bytes() { return peak; }
void reset_heap_peak() { peak = in_use; }

} // namespace cugrt::bench
