// Replaced operator new and delete.
#include "support/alloc_fault.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <new>

namespace {

struct State {
  bool counting = false, and_after = false, triggered = false;
  const char *spared_library = nullptr;
  uint64_t nth = 0, count = 0;
  int64_t live = 0;
};
thread_local State state;

// Asked only when an allocation is about to fail.
bool spared() {
  if (!state.spared_library)
    return false;
  void *frames[64];
  int count = backtrace(frames, 64);
  for (int i = 0; i < count; ++i) {
    Dl_info info;
    if (dladdr(frames[i], &info) && info.dli_fname &&
        std::strstr(info.dli_fname, state.spared_library))
      return true;
  }
  return false;
}

bool fails() {
  uint64_t number = state.count++;
  return (number == state.nth || (state.and_after && number > state.nth)) && !spared();
}

void *allocate(std::size_t size, std::size_t alignment) {
  if (state.counting && fails()) {
    state.triggered = true;
    return nullptr;
  }
  void *p = alignment <= alignof(std::max_align_t)
                ? std::malloc(size ? size : 1)
                : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (p)
    ++state.live;
  return p;
}

void *allocate_or_throw(std::size_t size, std::size_t alignment) {
  if (void *p = allocate(size, alignment))
    return p;
  throw std::bad_alloc();
}

void release(void *p) {
  if (p)
    --state.live;
  std::free(p);
}

} // namespace

void *operator new(std::size_t size) { return allocate_or_throw(size, 1); }
void *operator new[](std::size_t size) { return allocate_or_throw(size, 1); }
void *operator new(std::size_t size, std::align_val_t a) {
  return allocate_or_throw(size, static_cast<std::size_t>(a));
}
void *operator new[](std::size_t size, std::align_val_t a) {
  return allocate_or_throw(size, static_cast<std::size_t>(a));
}
void *operator new(std::size_t size, const std::nothrow_t &) noexcept { return allocate(size, 1); }
void *operator new[](std::size_t size, const std::nothrow_t &) noexcept {
  return allocate(size, 1);
}
void operator delete(void *p) noexcept { release(p); }
void operator delete[](void *p) noexcept { release(p); }
void operator delete(void *p, std::size_t) noexcept { release(p); }
void operator delete[](void *p, std::size_t) noexcept { release(p); }
void operator delete(void *p, std::align_val_t) noexcept { release(p); }
void operator delete[](void *p, std::align_val_t) noexcept { release(p); }
void operator delete(void *p, std::size_t, std::align_val_t) noexcept { release(p); }
void operator delete[](void *p, std::size_t, std::align_val_t) noexcept { release(p); }
void operator delete(void *p, const std::nothrow_t &) noexcept { release(p); }
void operator delete[](void *p, const std::nothrow_t &) noexcept { release(p); }

namespace cugrt::test {

FailAt::FailAt(uint64_t nth, bool and_after, const char *spared_library) {
  if (spared_library) {
    void *frame;
    backtrace(&frame, 1); // loads what it needs
  }
  state.nth = nth;
  state.count = 0;
  state.and_after = and_after;
  state.spared_library = spared_library;
  state.triggered = false;
  state.counting = true;
}

FailAt::~FailAt() { state.counting = false; }

bool FailAt::triggered() const { return state.triggered; }

CountAllocations::CountAllocations() {
  state.nth = UINT64_MAX;
  state.count = 0;
  state.and_after = state.triggered = false;
  state.counting = true;
}

CountAllocations::~CountAllocations() { state.counting = false; }

uint64_t CountAllocations::count() const { return state.count; }

int64_t live_allocations() { return state.live; }

} // namespace cugrt::test
