// Undoes a change if an exception ends a scope.
#pragma once

#include <exception>
#include <utility>

namespace cugrt {

/// Calls `undo`, which throws nothing, where an exception leaves the scope behind it.
template <class Undo> class OnThrow {
public:
  explicit OnThrow(Undo undo) : undo_(std::move(undo)) {}
  OnThrow(const OnThrow &) = delete;
  ~OnThrow() {
    if (std::uncaught_exceptions() > before_)
      undo_();
  }

private:
  Undo undo_;
  const int before_ = std::uncaught_exceptions();
};

} // namespace cugrt
