// The contexts that are current to a thread.
#pragma once

#include "emulator/driver/cuda_api.h"

#include <vector>

namespace cugrt::emulator::api {

// A thread's stack of current contexts. Programs call the driver from static destructors too, when
// the main thread's objects with destructors are gone: so this one has none, holds nothing while it
// is empty, and works again after ~Leftovers has run.
class ContextStack {
public:
  bool empty() const { return !handles_ || handles_->empty(); }
  CUcontext top() const { return handles_->back(); }
  void set_top(CUcontext handle) { handles_->back() = handle; }
  /// The next push allocates nothing.
  void reserve_one() {
    static thread_local struct Leftovers {
      ContextStack *stack;
      ~Leftovers() { stack->release(); }
    } leftovers{this};
    (void)leftovers;
    if (!handles_)
      handles_ = new std::vector<CUcontext>;
    handles_->reserve(handles_->size() + 1);
  }
  void push(CUcontext handle) {
    reserve_one();
    handles_->push_back(handle);
  }
  void pop() {
    handles_->pop_back();
    if (handles_->empty())
      release();
  }

private:
  void release() {
    delete handles_;
    handles_ = nullptr;
  }
  std::vector<CUcontext> *handles_ = nullptr;
};

} // namespace cugrt::emulator::api
