// Streams and events.
#include "device/driver/stream.h"

#include "device/driver/driver_error.h"

namespace cugrt::driver {

/// Treats success and "not ready" both as answers.
static Result<bool> finished(const DriverApi &api, CUresult result, std::string_view call) {
  if (result == CUDA_SUCCESS)
    return true;
  if (classify(result) == ErrorClass::not_ready)
    return false;
  return driver_error(api, result, call, "");
}

Status StreamRef::synchronize() const {
  CUGRT_DRIVER(*api_, StreamSynchronize, (stream_), "");
  return {};
}

Result<bool> StreamRef::query() const {
  RelaxedCapture relaxed(*api_);
  return finished(*api_, api_->StreamQuery(stream_), "cuStreamQuery");
}

Result<bool> StreamRef::is_capturing() const {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  // The legacy stream returns this error while any other stream of the context is captured.
  CUresult result = api_->StreamIsCapturing(stream_, &status);
  if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
    return true;
  if (result != CUDA_SUCCESS)
    return driver_error(*api_, result, "cuStreamIsCapturing", "");
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

Result<CUcontext> StreamRef::context() const {
  if (!api_->StreamGetCtx)
    return Status::error(Code::unsupported, "this driver does not tell a stream's context");
  CUcontext context = nullptr;
  CUGRT_DRIVER(*api_, StreamGetCtx, (stream_, &context), "");
  return context;
}

Result<int> StreamRef::priority() const {
  int priority = 0;
  if (api_->StreamGetPriority)
    CUGRT_DRIVER(*api_, StreamGetPriority, (stream_, &priority), "");
  return priority;
}

Status StreamRef::wait(CUevent event) const {
  CUGRT_DRIVER(*api_, StreamWaitEvent, (stream_, event, CU_EVENT_WAIT_DEFAULT), "");
  return {};
}

Result<Stream> Stream::create(const Context &context, int priority) {
  const DriverApi &api = context.api();
  CUGRT_ASSIGN(ContextGuard guard, context.enter());
  CUstream stream = nullptr;
  if (priority == 0) {
    CUGRT_DRIVER(api, StreamCreate, (&stream, CU_STREAM_NON_BLOCKING), "");
  } else {
    if (!api.StreamCreateWithPriority)
      return Status::error(Code::unsupported, "this driver has no stream priorities");
    CUGRT_DRIVER(api, StreamCreateWithPriority, (&stream, CU_STREAM_NON_BLOCKING, priority),
                 "priority " + std::to_string(priority));
  }
  return Stream({&api, context.get(), stream});
}

Result<Event> Event::create(const Context &context, Timing timing, Waiting waiting) {
  const DriverApi &api = context.api();
  CUGRT_ASSIGN(ContextGuard guard, context.enter());
  CUevent event = nullptr;
  const unsigned flags = (timing == Timing::on ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING) |
                         (waiting == Waiting::blocking ? CU_EVENT_BLOCKING_SYNC : 0);
  CUGRT_DRIVER(api, EventCreate, (&event, flags), "");
  return Event({&api, context.get(), event});
}

Status Event::record(StreamRef stream) const {
  CUGRT_DRIVER(handle_.api(), EventRecord, (handle_.get(), stream.get()), "");
  return {};
}

Status Event::synchronize() const {
  RelaxedCapture relaxed(handle_.api());
  CUGRT_DRIVER(handle_.api(), EventSynchronize, (handle_.get()), "");
  return {};
}

Result<bool> Event::query() const {
  RelaxedCapture relaxed(handle_.api());
  return finished(handle_.api(), handle_.api().EventQuery(handle_.get()), "cuEventQuery");
}

Result<float> Event::milliseconds_since(const Event &start) const {
  float milliseconds = 0;
  CUGRT_DRIVER(handle_.api(), EventElapsedTime, (&milliseconds, start.get(), handle_.get()), "");
  return milliseconds;
}

} // namespace cugrt::driver
