// Events. An event is the task that its last record put into a stream.
#include "emulator/graph/stream.h"

#include <algorithm>
#include <chrono>

namespace cugrt::emulator::api {

constexpr unsigned kEventFlags =
    CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

// Streams join a capture by waiting for an event that was recorded in it.
static CUresult wait_captured(const Ref<Stream> &stream, const Event &event) {
  if (event.capture->invalidated)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream->capture && stream->capture != event.capture) {
    stream->capture->invalidated = event.capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (stream->legacy) {
    event.capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  auto &to = stream->capture_dependencies;
  to.reserve(to.size() + event.captured_nodes.size()); // the joining below is all or nothing
  if (!stream->capture) {
    event.capture->streams.push_back(stream->handle);
    stream->capture = event.capture;
    to.clear();
  }
  for (CUgraphNode node : event.captured_nodes)
    if (std::find(to.begin(), to.end(), node) == to.end())
      to.push_back(node);
  return CUDA_SUCCESS;
}

// The event, which must not stand for captured work.
static CUresult find_event(Driver &driver, CUevent handle, Ref<Event> *out) {
  *out = driver.events.find(handle);
  if (!*out)
    return CUDA_ERROR_INVALID_HANDLE;
  if (Ref<Capture> capture = (*out)->capture) {
    capture->invalidated = true;
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  return CUDA_SUCCESS;
}

CALL(cuEventCreate, out, flags) {
  // "CU_EVENT_INTERPROCESS must be specified along with CU_EVENT_DISABLE_TIMING."
  bool interprocess = flags & CU_EVENT_INTERPROCESS, timing = !(flags & CU_EVENT_DISABLE_TIMING);
  if (!out || (flags & ~kEventFlags) || (interprocess && timing))
    return CUDA_ERROR_INVALID_VALUE;
  Lock lock(driver.mutex);
  CUGRT_EMU_FIND(Context, context, current_context, driver);
  auto event = std::make_shared<Event>();
  event->context = context;
  event->flags = flags;
  *out = driver.events.insert(event, [&] { context->events.push_back(event); });
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuEventDestroy_v2, handle) {
  // "An event may be destroyed before it is complete": whoever waits for it holds its task.
  CUGRT_EMU_NEED(Event, event, driver.events.erase(handle), CUDA_ERROR_INVALID_HANDLE);
  std::erase(event->context->events, event);
  return CUDA_SUCCESS;
}

LOCKED_CALL(cuEventRecordWithFlags, handle, stream_handle, flags) {
  if (flags & ~unsigned(CU_EVENT_RECORD_EXTERNAL))
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_NEED(Event, event, driver.events.find(handle), CUDA_ERROR_INVALID_HANDLE);
  // With handles of both, no context need be current.
  CUGRT_EMU_FIND(Stream, stream, find_stream_any, driver, stream_handle);
  CUGRT_EMU_TRY(driver.scheduler->poison());
  // "The event and stream must be from the same context"
  if (event->context != stream->context)
    return CUDA_ERROR_INVALID_HANDLE;
  CUGRT_EMU_TRY(capture_state(*stream));
  if (stream->capture && !(flags & CU_EVENT_RECORD_EXTERNAL)) {
    // Records which nodes the event stands for; other streams join the capture by waiting for it.
    event->captured_nodes = stream->capture_dependencies;
    event->capture = stream->capture;
    event->task = nullptr;
    return CUDA_SUCCESS;
  }
  return run_in_stream(driver, stream, EventRecordWork{event});
}

LOCKED_CALL(cuStreamWaitEvent, stream_handle, handle, flags) {
  if (flags & ~unsigned(CU_EVENT_WAIT_EXTERNAL))
    return CUDA_ERROR_INVALID_VALUE;
  CUGRT_EMU_NEED(Event, event, driver.events.find(handle), CUDA_ERROR_INVALID_HANDLE);
  CUGRT_EMU_FIND(Stream, stream, find_stream, driver, stream_handle);
  CUGRT_EMU_TRY(capture_state(*stream));
  if (event->capture)
    return wait_captured(stream, *event);
  if (stream->capture && !(flags & CU_EVENT_WAIT_EXTERNAL)) {
    // "dependency created on uncaptured work in another stream"
    stream->capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  return run_in_stream(driver, stream, EventWaitWork{event});
}

LOCKED_CALL(cuEventQuery, handle) {
  CUGRT_EMU_FIND(Event, event, find_event, driver, handle);
  CUGRT_EMU_TRY(refuse_unsafe(driver));
  // An event that was never recorded counts as complete.
  bool done = driver.scheduler->query(event->task);
  CUGRT_EMU_TRY(driver.scheduler->poison());
  return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

LOCKED_CALL(cuEventSynchronize, handle) {
  CUGRT_EMU_FIND(Event, event, find_event, driver, handle);
  TaskPtr task = event->task;
  lock.unlock();
  driver.scheduler->wait(task);
  return driver.scheduler->poison();
}

LOCKED_CALL(cuEventElapsedTime_v2, out, start, end) {
  if (!out)
    return CUDA_ERROR_INVALID_VALUE;
  Ref<Event> first, second;
  CUGRT_EMU_TRY(find_event(driver, start, &first));
  CUGRT_EMU_TRY(find_event(driver, end, &second));
  // "If either event has not been recorded CUDA_ERROR_INVALID_HANDLE is returned. [...] If either
  // event was created with the CU_EVENT_DISABLE_TIMING flag, then this function will return
  // CUDA_ERROR_INVALID_HANDLE."
  if (!first->task || !second->task || ((first->flags | second->flags) & CU_EVENT_DISABLE_TIMING))
    return CUDA_ERROR_INVALID_HANDLE;
  if (first->context != second->context)
    return CUDA_ERROR_INVALID_HANDLE;
  CUGRT_EMU_TRY(driver.scheduler->poison());
  if (!driver.scheduler->query(first->task) || !driver.scheduler->query(second->task))
    return CUDA_ERROR_NOT_READY;
  auto span =
      driver.scheduler->finished_at(second->task) - driver.scheduler->finished_at(first->task);
  *out = std::chrono::duration<float, std::milli>(span).count();
  return CUDA_SUCCESS;
}

} // namespace cugrt::emulator::api
