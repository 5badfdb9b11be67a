// Host memory that runs out at the nth allocation, for fault suites.
//
// The implementation (alloc_fault.cpp) replaces operator new and delete in the executable that
// links it; shared libraries use the replacement too, since it is an ordinary dynamic symbol there.
// Only allocations of the thread that made a FailAt or CountAllocations count for it, and only one
// of these lives at a time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cugrt::test {

/// From construction to destruction the `nth` allocation (from 0) throws std::bad_alloc, and all
/// after it when `and_after` is set. One that a shared library makes whose path holds
/// `spared_library` does not count; one that it makes through others counts and does not fail.
class FailAt {
public:
  explicit FailAt(uint64_t nth, bool and_after = false, const char *spared_library = nullptr);
  ~FailAt();
  FailAt(const FailAt &) = delete;
  FailAt &operator=(const FailAt &) = delete;
  /// Whether the nth allocation was reached.
  bool triggered() const;
};

/// Counts allocations from its construction on.
class CountAllocations {
public:
  explicit CountAllocations(const char *spared_library = nullptr); // as FailAt has it
  ~CountAllocations();
  CountAllocations(const CountAllocations &) = delete;
  CountAllocations &operator=(const CountAllocations &) = delete;
  uint64_t count() const;
};

/// Allocations of this thread minus deallocations of what this thread allocated.
int64_t live_allocations();

/// Calls `work` with the first, second, ... allocation failing until it runs through, at most
/// `limit` times (further on, every `stride`-th only). `work` lets std::bad_alloc pass or handles
/// it; `after` is called after each failure with its number, outside of counting. Returns how many
/// failures were made; throws nothing of its own.
template <class Work, class After>
uint64_t for_each_allocation(const Work &work, const After &after, uint64_t limit = 1000000,
                             uint64_t stride = 1) {
  for (uint64_t made = 0, nth = 0; made < limit; ++made, nth += stride) {
    bool triggered = false;
    {
      FailAt fail(nth);
      try {
        work();
      } catch (...) {
        if (!fail.triggered())
          throw;
      }
      triggered = fail.triggered();
    }
    if (!triggered)
      return made;
    after(nth);
  }
  return limit;
}

} // namespace cugrt::test
