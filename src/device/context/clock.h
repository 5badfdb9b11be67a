// Host time, steady.
#pragma once

#include <chrono>
#include <cstdint>

namespace cugrt::runtime {

inline int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Adds a scope's duration to `*to_ns`; null: does nothing.
class ScopeTimer {
public:
  explicit ScopeTimer(int64_t *to_ns) : to_ns_(to_ns), begin_ns_(to_ns ? steady_ns() : 0) {}
  ~ScopeTimer() {
    if (to_ns_)
      *to_ns_ += steady_ns() - begin_ns_;
  }
  ScopeTimer(const ScopeTimer &) = delete;

private:
  int64_t *to_ns_, begin_ns_;
};

} // namespace cugrt::runtime
