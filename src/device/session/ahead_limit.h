// Limits the graphs of low priority on their way to the device, which an urgent run may find before
// it.
#pragma once

#include "device/driver/stream.h"

#include <condition_variable>
#include <mutex>
#include <vector>

namespace cugrt::runtime {

/// Any thread.
class AheadLimit {
public:
  static Result<std::unique_ptr<AheadLimit>> make(const driver::Context &context, uint32_t graphs);

  /// Calls `launch`, which puts one graph on `stream`, as soon as fewer than the limit are on their
  /// way; waits for that on the host. Context current.
  template <class Launch> Status admit(driver::StreamRef stream, Launch launch) {
    CUGRT_ASSIGN(const uint32_t place, enter());
    Status launched = launch();
    Status left = leave(place, stream); // of a part of a graph, too
    return launched.ok() ? std::move(left) : std::move(launched);
  }

private:
  Result<uint32_t> enter();
  Status leave(uint32_t place, driver::StreamRef stream);

  std::mutex mutex_; // guards what follows
  std::condition_variable changed_;
  std::vector<driver::Event> ends_;     // by place
  std::vector<uint32_t> free_, queued_; // places; the queued ones by age. The others are launching
};

} // namespace cugrt::runtime
