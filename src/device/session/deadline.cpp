// Deadlines of runs; see deadline.h.
#include "device/session/deadline.h"

#include "device/context/clock.h"
#include "device/driver/driver_error.h"

namespace cugrt::runtime {

Result<std::unique_ptr<DeadlineWatch>> DeadlineWatch::make(const driver::Context &context,
                                                           const Options &options) {
  std::unique_ptr<DeadlineWatch> watch(new DeadlineWatch(options));
  CUGRT_ASSIGN(watch->stream_, driver::Stream::create(context));
  CUGRT_ASSIGN(watch->end_, driver::Event::create(context));
  return watch;
}

DeadlineWatch::~DeadlineWatch() {
  if (stream_.get())
    (void)settle(); // a lost device calls nobody
}

Status DeadlineWatch::watch(driver::StreamRef stream, int64_t begin_ns) {
  if (watched_ - looked_.load(std::memory_order_acquire) == kPlaces)
    CUGRT_TRY(settle());
  begins_[watched_ % kPlaces] = begin_ns;
  CUGRT_TRY(end_.record(stream));
  CUGRT_TRY(stream_.ref().wait(end_.get()));
  const driver::DriverApi &api = stream.api();
  CUGRT_DRIVER(
      api, LaunchHostFunc,
      (
          stream_.get(), [](void *self) { static_cast<DeadlineWatch *>(self)->look(); }, this),
      "the deadline of a run");
  ++watched_;
  return {};
}

/// Runs on a thread of the driver, at the end of a run.
void DeadlineWatch::look() {
  const uint64_t run = looked_.load(std::memory_order_relaxed);
  const int64_t begin_ns = begins_[run % kPlaces];
  const auto took_ns = static_cast<uint64_t>(steady_ns() - begin_ns);
  times_.add(took_ns);
  if (took_ns > options_.deadline_ns) {
    ++missed_;
    if (options_.missed) {
      const cugrt_missed_run missed{sizeof(cugrt_missed_run), run, begin_ns, took_ns,
                                    options_.deadline_ns};
      options_.missed(options_.user, &missed);
    }
  }
  looked_.store(run + 1, std::memory_order_release);
}

} // namespace cugrt::runtime
