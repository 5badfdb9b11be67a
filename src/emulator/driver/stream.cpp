// The order of work within and between streams; see stream.h.
#include "emulator/driver/stream.h"

#include "emulator/driver/copy.h"
#include "emulator/driver/launch.h"

namespace cugrt::emulator::api {

namespace {

Ref<Stream> per_thread_stream(Driver &driver, const Ref<Context> &context) {
  Ref<Stream> &stream = context->per_thread_streams[std::this_thread::get_id()];
  if (!stream) {
    stream = std::make_shared<Stream>();
    stream->context = context;
    stream->per_thread = true;
    stream->id = driver.next_id++;
  }
  return stream;
}

template <class Visit> void for_blocking_streams(Context &context, Visit &&visit) {
  for (const Ref<Stream> &stream : context.streams)
    if (stream->blocking())
      visit(*stream);
  for (auto &[thread, stream] : context.per_thread_streams)
    visit(*stream);
}

} // namespace

CUresult find_stream_any(Driver &driver, CUstream handle, Ref<Stream> *out) {
  if (handle && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
    *out = driver.streams.find(handle);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  }
  Ref<Context> context;
  CUGRT_EMU_TRY(current_context_any(driver, &context));
  *out =
      handle == CU_STREAM_PER_THREAD ? per_thread_stream(driver, context) : context->legacy_stream;
  return CUDA_SUCCESS;
}

CUresult find_stream(Driver &driver, CUstream handle, Ref<Stream> *out) {
  CUGRT_EMU_TRY(find_stream_any(driver, handle, out));
  return driver.scheduler->poison();
}

// The legacy stream waits for all blocking streams of its context, and they for it.
void order_in_stream(Driver &driver, const Ref<Stream> &stream, const TaskPtr &task) {
  Scheduler &scheduler = *driver.scheduler;
  scheduler.depend(task, stream->tail);
  Context &context = *stream->context;
  if (stream->legacy)
    for_blocking_streams(context, [&](Stream &other) { scheduler.depend(task, other.tail); });
  else if (stream->blocking())
    scheduler.depend(task, context.legacy_stream->tail);
}

void enqueue(Driver &driver, const Ref<Stream> &stream, const TaskPtr &task, bool caller_waits) {
  order_in_stream(driver, stream, task);
  stream->tail = task;
  driver.scheduler->submit({&task, 1}, caller_waits);
}

namespace {

TaskPtr device_task(std::function<CUresult(CUresult)> action) {
  auto task = std::make_shared<Task>();
  task->kind = TaskKind::device;
  task->action = std::move(action);
  return task;
}

struct TaskMaker {
  Driver &driver;

  TaskPtr operator()(const KernelWork &work) const {
    return device_task([&driver = driver, work](CUresult) { return run_kernel(driver, work); });
  }
  TaskPtr operator()(const CopyWork &work) const {
    return device_task([&driver = driver, work](CUresult) { return run_copy(driver, work); });
  }
  TaskPtr operator()(const FillWork &work) const {
    return device_task([&driver = driver, work](CUresult) { return run_fill(driver, work.fill); });
  }
  TaskPtr operator()(const HostWork &work) const {
    auto task = std::make_shared<Task>();
    task->kind = TaskKind::host;
    task->action = [work](CUresult) {
      work.function(work.user);
      return CUDA_SUCCESS;
    };
    return task;
  }
  TaskPtr operator()(const EventRecordWork &work) const {
    auto task = std::make_shared<Task>();
    work.event->task = task;
    work.event->capture = nullptr;
    return task;
  }
  TaskPtr operator()(const EventWaitWork &work) const {
    auto task = std::make_shared<Task>();
    driver.scheduler->depend(task, work.event->task);
    return task;
  }
  TaskPtr operator()(const EmptyWork &) const { return std::make_shared<Task>(); }
  TaskPtr operator()(const ChildWork &) const { return std::make_shared<Task>(); }
};

} // namespace

TaskPtr make_task(Driver &driver, const Work &work) { return std::visit(TaskMaker{driver}, work); }

CUresult capture_state(const Stream &stream) {
  return stream.capture && stream.capture->invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                                                       : CUDA_SUCCESS;
}

namespace {

// "any blocking stream being captured": use of the legacy stream would order itself after it.
CUresult refuse_implicit(const Ref<Stream> &stream) {
  if (!stream->legacy)
    return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  for_blocking_streams(*stream->context, [&](Stream &other) {
    if (other.capture) {
      other.capture->invalidated = true;
      result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
  });
  return result;
}

} // namespace

CUresult refuse_capture(Driver &driver, const Ref<Stream> &stream) {
  CUGRT_EMU_TRY(refuse_implicit(stream));
  if (!stream->capture)
    return CUDA_SUCCESS;
  stream->capture->invalidated = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult run_in_stream(Driver &driver, const Ref<Stream> &stream, Work work, TaskPtr *out,
                       bool caller_waits) {
  CUGRT_EMU_TRY(refuse_implicit(stream));
  if (stream->capture) {
    CUGRT_EMU_TRY(capture_state(*stream));
    CUgraphNode node;
    const auto &before = stream->capture_dependencies;
    CUGRT_EMU_TRY(add_node(driver, *stream->capture->graph, before.data(), nullptr, before.size(),
                           std::move(work), &node));
    stream->capture_dependencies.assign(1, node);
    return CUDA_SUCCESS;
  }
  TaskPtr task = make_task(driver, work);
  enqueue(driver, stream, task, caller_waits);
  if (out)
    *out = task;
  return CUDA_SUCCESS;
}

} // namespace cugrt::emulator::api
