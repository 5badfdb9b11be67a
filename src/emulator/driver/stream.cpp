// The order of work within and between streams; see stream.h.
#include "emulator/driver/stream.h"

#include "emulator/driver/copy.h"
#include "emulator/driver/launch.h"

namespace cugrt::emulator::api {

namespace {

Ref<Stream> per_thread_stream(Driver &driver, const Ref<Context> &context) {
  auto known = context->per_thread_streams.find(std::this_thread::get_id());
  if (known != context->per_thread_streams.end())
    return known->second;
  auto stream = std::make_shared<Stream>();
  stream->context = context;
  stream->per_thread = true;
  stream->id = driver.next_id++;
  context->per_thread_streams.emplace(std::this_thread::get_id(), stream);
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

namespace {

TaskPtr device_task(std::function<CUresult(CUresult)> action) {
  auto task = std::make_shared<Task>();
  task->kind = TaskKind::device;
  task->action = std::move(action);
  return task;
}

TaskPtr host_task(const HostWork &work) {
  auto task = std::make_shared<Task>();
  task->kind = TaskKind::host;
  task->action = [work](CUresult) {
    work.function(work.user);
    return CUDA_SUCCESS;
  };
  return task;
}

} // namespace

struct TaskBatch::TaskMaker {
  TaskBatch &batch;
  Driver &driver = batch.driver_;

  TaskPtr operator()(const KernelWork &work) const {
    return device_task([&driver = driver, work](CUresult) { return run_kernel(driver, work); });
  }
  TaskPtr operator()(const CopyWork &work) const {
    return device_task([&driver = driver, work](CUresult) { return run_copy(driver, work); });
  }
  TaskPtr operator()(const FillWork &work) const {
    return device_task([&driver = driver, work](CUresult) { return run_fill(driver, work.fill); });
  }
  TaskPtr operator()(const HostWork &work) const { return host_task(work); }
  TaskPtr operator()(const EventRecordWork &work) const {
    auto task = std::make_shared<Task>();
    batch.records_.emplace_back(work.event, task);
    return task;
  }
  // Waits for the last record before it, which may be one of the same graph.
  TaskPtr operator()(const EventWaitWork &work) const {
    auto task = std::make_shared<Task>();
    TaskPtr recorded = work.event->task;
    for (const auto &[event, record] : batch.records_)
      if (event == work.event)
        recorded = record;
    batch.depend(task, recorded);
    return task;
  }
  TaskPtr operator()(const EmptyWork &) const { return std::make_shared<Task>(); }
  TaskPtr operator()(const ChildWork &) const { return std::make_shared<Task>(); }
  TaskPtr operator()(const ConditionalWork &) const { return std::make_shared<Task>(); }
};

TaskPtr TaskBatch::add(const Work &work) {
  TaskPtr task = std::visit(TaskMaker{*this}, work);
  add(task);
  return task;
}

// The legacy stream waits for all blocking streams of its context, and they for it.
void TaskBatch::order_in_stream(const Stream &stream, const TaskPtr &task) {
  depend(task, stream.tail);
  Context &context = *stream.context;
  if (stream.legacy)
    for_blocking_streams(context, [&](Stream &other) { depend(task, other.tail); });
  else if (stream.blocking())
    depend(task, context.legacy_stream->tail);
}

void TaskBatch::submit(bool caller_waits) {
  driver_.scheduler->submit(submission_, caller_waits);
  for (auto &[event, task] : records_) {
    event->task = std::move(task);
    event->capture = nullptr;
  }
}

void enqueue(Driver &driver, const Ref<Stream> &stream, const TaskPtr &task) {
  TaskBatch batch(driver);
  batch.add(task);
  batch.order_in_stream(*stream, task);
  batch.submit();
  stream->tail = task;
}

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
    auto &before = stream->capture_dependencies;
    before.reserve(1);
    CUGRT_EMU_TRY(add_node(driver, *stream->capture->graph, before.data(), nullptr, before.size(),
                           std::move(work), &node));
    before.assign(1, node);
    return CUDA_SUCCESS;
  }
  TaskBatch batch(driver);
  TaskPtr task = batch.add(work);
  batch.order_in_stream(*stream, task);
  batch.submit(caller_waits);
  stream->tail = task;
  if (out)
    *out = task;
  return CUDA_SUCCESS;
}

} // namespace cugrt::emulator::api
