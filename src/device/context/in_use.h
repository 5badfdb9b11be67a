// Allows one use at a time of an object that is not for several threads: refuses a second one.
#pragma once

#include "base/status.h"

#include <atomic>

namespace cugrt::runtime {

/// Taking and giving back are the only synchronisation of a run.
class InUse {
public:
  explicit InUse(std::atomic<bool> &flag) : flag_(flag) {
    taken_ = !flag_.exchange(true, std::memory_order_acquire);
  }
  ~InUse() {
    if (taken_)
      flag_.store(false, std::memory_order_release);
  }
  InUse(const InUse &) = delete;
  bool taken() const { return taken_; }
  /// Tries to take it once more.
  bool try_again() {
    taken_ = taken_ || !flag_.exchange(true, std::memory_order_acquire);
    return taken_;
  }
  static Status refusal() {
    return Status::error(Code::busy, "the session is in use by another thread; open a session for "
                                     "each thread, or take turns");
  }

private:
  std::atomic<bool> &flag_;
  bool taken_;
};

} // namespace cugrt::runtime
