// The replaced operator new; see allocation_fault.h.
#include "allocation_fault.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

struct Plan {
  uint64_t left = 0, count = 0;
  bool failed = false;
};
thread_local Plan g_plan;

void *allocate(std::size_t bytes, std::size_t alignment) {
  ++g_plan.count;
  if (g_plan.left != 0 && --g_plan.left == 0) {
    g_plan.failed = true;
    return nullptr;
  }
  if (bytes == 0)
    bytes = 1;
  if (alignment <= alignof(std::max_align_t))
    return std::malloc(bytes);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void *allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  if (void *memory = allocate(bytes, alignment))
    return memory;
  throw std::bad_alloc();
}

constexpr std::size_t kPlain = alignof(std::max_align_t);

} // namespace

namespace cugrt::test {

void fail_allocation(uint64_t nth) { g_plan = {nth, 0, false}; }
bool allocation_failed() { return g_plan.failed; }
uint64_t allocations() { return g_plan.count; }

} // namespace cugrt::test

void *operator new(std::size_t bytes) { return allocate_or_throw(bytes, kPlain); }
void *operator new[](std::size_t bytes) { return allocate_or_throw(bytes, kPlain); }
void *operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void *operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void *operator new(std::size_t bytes, const std::nothrow_t &) noexcept {
  return allocate(bytes, kPlain);
}
void *operator new[](std::size_t bytes, const std::nothrow_t &) noexcept {
  return allocate(bytes, kPlain);
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete[](void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void *memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void *memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void *memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void *memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void *memory, const std::nothrow_t &) noexcept { std::free(memory); }
void operator delete[](void *memory, const std::nothrow_t &) noexcept { std::free(memory); }
