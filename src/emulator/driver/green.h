// Green contexts: some of the device's multiprocessors, with the primary context for all else.
//
// A green context's CUcontext is a handle of its own, which finds the primary context wherever a
// context is looked up; what depends on multiprocessors asks for the green context besides.
#pragma once

#include "emulator/driver/handle_table.h"
#include "emulator/driver/objects.h"

namespace cugrt::emulator::api {

/// Numbers of multiprocessors, ascending, and how they may be divided.
struct Multiprocessors {
  std::vector<uint32_t> numbers;
  uint32_t alignment = 0,
           smallest = 0; // a group has a multiple of the first, no less than the last
};

/// Result of cuDevResourceGenerateDesc; lives as long as the driver.
struct ResourceDescriptor {
  CUdevResourceDesc handle = nullptr;
  Multiprocessors multiprocessors;
};

struct GreenContext {
  CUgreenCtx handle = nullptr;
  CUcontext as_context = nullptr; // what cuCtxFromGreenCtx gives
  uint64_t id = 0;
  std::shared_ptr<Context> context; // the primary one, which it retains
  Multiprocessors multiprocessors;
  bool destroyed = false;
};

/// Object behind GreenContext::as_context.
struct GreenView {
  CUcontext handle = nullptr;
  std::shared_ptr<GreenContext> green;
};

class ContextTable : public HandleTable<Context, CUcontext, 1> {
public:
  /// A context; the primary one for the handle of a green context.
  Pointer find(CUcontext handle) const {
    std::shared_ptr<GreenView> view = views.find(handle);
    return view ? view->green->context : HandleTable::find(handle);
  }
  /// nullptr for any other context.
  std::shared_ptr<GreenContext> find_green(CUcontext handle) const {
    std::shared_ptr<GreenView> view = views.find(handle);
    return view ? view->green : nullptr;
  }
  HandleTable<GreenView, CUcontext, 17> views;
};

} // namespace cugrt::emulator::api
