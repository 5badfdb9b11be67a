// Replaced operator new and delete.
#include "support/alloc_fault.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <new>

namespace {

struct State {
  bool counting = false, and_after = false, triggered = false;
  const char *spared_library = nullptr;
  uintptr_t spared_begin = 0, spared_end = 0; // where its code is loaded
  uint64_t nth = 0, count = 0;
  int64_t live = 0;
};
thread_local State state;

// Where the library's code lies. dl_iterate_phdr calls this for each loaded object.
int note_spared(dl_phdr_info *info, size_t, void *) {
  if (!info->dlpi_name || !std::strstr(info->dlpi_name, state.spared_library))
    return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i)
    if (const auto &header = info->dlpi_phdr[i];
        header.p_type == PT_LOAD && header.p_flags & PF_X) {
      state.spared_begin = info->dlpi_addr + header.p_vaddr;
      state.spared_end = state.spared_begin + header.p_memsz;
    }
  return 1;
}

void spare(const char *library) {
  state.spared_library = library;
  state.spared_begin = state.spared_end = 0;
  if (!library)
    return;
  dl_iterate_phdr(note_spared, nullptr);
  void *address;
  backtrace(&address, 1); // loads what it needs
}

// What the library allocates itself is not even counted; what it has others allocate for it is
// found when it is about to fail.
bool spared() {
  if (!state.spared_library)
    return false;
  void *addresses[64];
  int count = backtrace(addresses, 64);
  for (int i = 0; i < count; ++i) {
    Dl_info info;
    if (dladdr(addresses[i], &info) && info.dli_fname &&
        std::strstr(info.dli_fname, state.spared_library))
      return true;
  }
  return false;
}

bool fails(const void *caller) {
  const auto at = reinterpret_cast<uintptr_t>(caller);
  if (at >= state.spared_begin && at < state.spared_end)
    return false;
  uint64_t number = state.count++;
  return (number == state.nth || (state.and_after && number > state.nth)) && !spared();
}

void *allocate(std::size_t size, std::size_t alignment, const void *caller) {
  if (state.counting && fails(caller)) {
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

void *allocate_or_throw(std::size_t size, std::size_t alignment, const void *caller) {
  if (void *p = allocate(size, alignment, caller))
    return p;
  throw std::bad_alloc();
}

void release(void *p) {
  if (p)
    --state.live;
  std::free(p);
}

} // namespace

void *operator new(std::size_t size) {
  return allocate_or_throw(size, 1, __builtin_return_address(0));
}
void *operator new[](std::size_t size) {
  return allocate_or_throw(size, 1, __builtin_return_address(0));
}
void *operator new(std::size_t size, std::align_val_t a) {
  return allocate_or_throw(size, static_cast<std::size_t>(a), __builtin_return_address(0));
}
void *operator new[](std::size_t size, std::align_val_t a) {
  return allocate_or_throw(size, static_cast<std::size_t>(a), __builtin_return_address(0));
}
void *operator new(std::size_t size, const std::nothrow_t &) noexcept {
  return allocate(size, 1, __builtin_return_address(0));
}
void *operator new[](std::size_t size, const std::nothrow_t &) noexcept {
  return allocate(size, 1, __builtin_return_address(0));
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
  state.nth = nth;
  state.count = 0;
  state.and_after = and_after;
  spare(spared_library);
  state.triggered = false;
  state.counting = true;
}

FailAt::~FailAt() { state.counting = false; }

bool FailAt::triggered() const { return state.triggered; }

CountAllocations::CountAllocations(const char *spared_library) {
  spare(spared_library);
  state.nth = UINT64_MAX;
  state.count = 0;
  state.and_after = state.triggered = false;
  state.counting = true;
}

CountAllocations::~CountAllocations() { state.counting = false; }

uint64_t CountAllocations::count() const { return state.count; }

int64_t live_allocations() { return state.live; }

} // namespace cugrt::test
