// The order of work within and between streams; see stream.h.
#include "emulator/graph/stream.h"

#include "emulator/driver/device_limits.h"
#include "emulator/graph/memory_ops.h"
#include "emulator/graph/node_run.h"

namespace cugrt::emulator::api {

static Ref<Stream> per_thread_stream(Driver &driver, const Ref<Context> &context) {
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

template <class Visit> static void for_blocking_streams(Context &context, Visit &&visit) {
  for (const Ref<Stream> &stream : context.streams)
    if (stream->blocking())
      visit(*stream);
  for (auto &[thread, stream] : context.per_thread_streams)
    visit(*stream);
}

CUresult find_stream_any(Driver &driver, CUstream handle, Ref<Stream> *out) {
  if (handle && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
    *out = driver.streams.find(handle);
    if (!*out)
      return CUDA_ERROR_INVALID_HANDLE;
    return (*out)->green && (*out)->green->destroyed ? detached(driver) : CUDA_SUCCESS;
  }
  CUGRT_EMU_FIND(Context, context, current_context_any, driver);
  // "specifying CU_STREAM_PER_THREAD [...] will return CUDA_ERROR_INVALID_HANDLE if a green context
  // is current to the calling thread"
  if (handle == CU_STREAM_PER_THREAD && current_green(driver))
    return CUDA_ERROR_INVALID_HANDLE;
  *out =
      handle == CU_STREAM_PER_THREAD ? per_thread_stream(driver, context) : context->legacy_stream;
  return CUDA_SUCCESS;
}

Ref<GreenContext> green_of(Driver &driver, const Stream &stream) {
  return stream.legacy ? current_green(driver) : stream.green;
}

// "any subsequent API calls involving these streams will return CUDA_ERROR_STREAM_DETACHED"; before
// CUDA 13.1, "(including cuStreamDestroy) will return CUDA_ERROR_CONTEXT_IS_DESTROYED".
CUresult detached(const Driver &driver) {
  constexpr int kKeepsStreams = 13010;
  constexpr CUresult kStreamDetached = CUresult(917); // CUDA_ERROR_STREAM_DETACHED
  return driver.config.driver_version < kKeepsStreams ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                                      : kStreamDetached;
}

// Work is put into a stream with a context current, which need not be the stream's.
CUresult find_stream(Driver &driver, CUstream handle, Ref<Stream> *out) {
  CUGRT_EMU_TRY(find_stream_any(driver, handle, out));
  CUGRT_EMU_FIND(Context, current, current_context_any, driver);
  return driver.scheduler->poison();
}

static TaskPtr device_task(std::function<CUresult(CUresult)> action) {
  auto task = std::make_shared<Task>();
  task->kind = TaskKind::device;
  task->action = std::move(action);
  return task;
}

static TaskPtr host_task(const HostWork &work) {
  auto task = std::make_shared<Task>();
  task->kind = TaskKind::host;
  task->action = [work](CUresult) {
    work.function(work.user);
    return CUDA_SUCCESS;
  };
  return task;
}

TaskBatch::TaskBatch(Driver &driver) : driver_(driver) {
  if (!driver.stream_order.enabled())
    return;
  point_ = std::make_shared<StreamPoint>();
  work_ = std::make_shared<StreamWork>(driver.stream_order, point_);
}

void TaskBatch::add(TaskPtr task) {
  task->point = point_;
  submission_.add(std::move(task));
}

void TaskBatch::depend(const TaskPtr &task, const TaskPtr &before) {
  submission_.depend(task, before);
  if (point_ && before && before->point && before->point != point_)
    add_ended(point_->at_wait, *before->point);
}

struct TaskBatch::TaskMaker {
  TaskBatch &batch;
  Driver &driver = batch.driver_;

  template <class DeviceWork> TaskPtr on_device(const DeviceWork &work) const {
    batch.run_ = std::make_shared<NodeRun>(driver, work, batch.work_);
    return device_task([run = batch.run_](CUresult) { return run->run(); });
  }
  TaskPtr operator()(const KernelWork &work) const { return on_device(work); }
  TaskPtr operator()(const CopyWork &work) const { return on_device(work); }
  TaskPtr operator()(const FillWork &work) const { return on_device(work); }
  TaskPtr operator()(const BatchCopyWork &work) const { return on_device(work); }
  TaskPtr operator()(const HostWork &work) const { return host_task(work); }
  TaskPtr operator()(const EventRecordWork &work) const {
    auto task = std::make_shared<Task>();
    batch.records_.emplace_back(work.event, task);
    return task;
  }
  // Waits for the last record before this call. A record node of the same graph launch comes before
  // a wait node if the graph's edges say so, and only then: it may as well come behind.
  TaskPtr operator()(const EventWaitWork &work) const {
    auto task = std::make_shared<Task>();
    batch.depend(task, work.event->task);
    return task;
  }
  TaskPtr operator()(const MemoryOpsWork &work) const {
    auto task = std::make_shared<Task>();
    task->kind = TaskKind::polled;
    task->context = work.context.get();
    task->action = [run = std::make_shared<MemoryOpsRun>(driver, work),
                    out = task.get()](CUresult) {
      CUresult result = run->advance();
      out->awaited_address = run->awaited_address();
      return result;
    };
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

void TaskBatch::order_early_in_stream(const Stream &stream, const TaskPtr &task, bool begins) {
  const StreamKernel &before = *stream.last_kernel;
  task->alone = before.task->alone = true;
  take_from(stream);
  for (const TaskPtr &earlier : before.start_after)
    depend(task, earlier);
  if (stream.blocking())
    depend(task, stream.context->legacy_stream->tail);
  if (point_) {
    point_->is_early = true;
    if (before.task->point)
      point_->at_wait.join(before.task->point->at_start);
    point_->at_start = point_->at_wait;
  }
  if (begins)
    task->beside = before.task;
  else
    submission_.depend(task, stream.tail);
  run_->run_after(before.run);
}

void TaskBatch::take_from(const Stream &stream) {
  submission_.set_priority(stream.priority);
  if (!point_)
    return;
  point_->stream = stream.id;
  point_->stream_name = stream.legacy ? "the legacy stream"
                                      : (stream.per_thread ? "per-thread stream " : "stream ") +
                                            std::to_string(stream.id);
}

// The legacy stream waits for all blocking streams of its context, and they for it.
void TaskBatch::order_in_stream(const Stream &stream, const TaskPtr &task) {
  take_from(stream);
  depend(task, stream.tail);
  Context &context = *stream.context;
  if (stream.legacy)
    for_blocking_streams(context, [&](Stream &other) { depend(task, other.tail); });
  else if (stream.blocking())
    depend(task, context.legacy_stream->tail);
}

void TaskBatch::submit(bool caller_waits) {
  if (point_)
    driver_.stream_order.submit(*point_, work_);
  work_ = nullptr; // the tasks hold it from here on
  driver_.scheduler->submit(submission_, caller_waits);
  for (auto &[event, task] : records_) {
    event->task = std::move(task);
    event->capture = nullptr;
  }
}

std::vector<TaskPtr> TaskBatch::tails_before(const Stream &stream) const {
  std::vector<TaskPtr> tails;
  for (const TaskPtr &tail : {stream.tail, stream.context->legacy_stream->tail})
    if (tail && (stream.blocking() || tail == stream.tail))
      tails.push_back(tail);
  return tails;
}

void enqueue(Driver &driver, const Ref<Stream> &stream, const TaskPtr &task) {
  TaskBatch batch(driver);
  batch.add(task);
  batch.order_in_stream(*stream, task);
  batch.submit();
  stream->tail = task;
  stream->last_kernel = nullptr;
}

TaskPtr join(Driver &driver, const Ref<Stream> &stream) {
  if (!stream->legacy)
    return stream->tail;
  auto task = std::make_shared<Task>();
  TaskBatch batch(driver);
  batch.add(task);
  batch.order_in_stream(*stream, task);
  batch.submit(true);
  return task;
}

CUresult synchronize(Driver &driver, const Ref<Stream> &stream, Lock &lock) {
  TaskPtr task = join(driver, stream);
  lock.unlock();
  driver.scheduler->wait(task);
  lock.lock();
  return driver.scheduler->poison();
}

CUresult capture_state(const Stream &stream) {
  return stream.capture && stream.capture->invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                                                       : CUDA_SUCCESS;
}

// "any blocking stream being captured": use of the legacy stream would order itself after it.
static CUresult refuse_implicit(const Ref<Stream> &stream) {
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

CUresult refuse_capture(Driver &driver, const Ref<Stream> &stream) {
  CUGRT_EMU_TRY(refuse_implicit(stream));
  if (!stream->capture)
    return CUDA_SUCCESS;
  stream->capture->invalidated = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

static bool is_serialized_programmatically(const Driver &driver, const Work &work) {
  auto *kernel = std::get_if<KernelWork>(&work);
  if (!kernel || driver.config.profile->capability() < kProgrammaticCapability)
    return false;
  auto it = kernel->attributes.find(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  return it != kernel->attributes.end() && it->second.programmaticStreamSerializationAllowed;
}

// Captured behind a kernel, such a launch is a node behind a programmatic edge.
static bool captures_early(Driver &driver, const Stream &stream, const Work &work) {
  const auto &before = stream.capture_dependencies;
  if (before.size() != 1 || driver.config.driver_version < kEdgeData ||
      !is_serialized_programmatically(driver, work))
    return false;
  Ref<GraphNode> node = driver.nodes.find(before.front());
  return node && node->type() == CU_GRAPH_NODE_TYPE_KERNEL;
}

CUresult run_in_stream(Driver &driver, const Ref<Stream> &stream, Work work, TaskPtr *out,
                       bool caller_waits) {
  CUGRT_EMU_TRY(refuse_implicit(stream));
  if (stream->capture) {
    CUGRT_EMU_TRY(capture_state(*stream));
    CUgraphNode node;
    auto &before = stream->capture_dependencies;
    before.reserve(1);
    CUgraphEdgeData early{};
    early.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
    early.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    CUGRT_EMU_TRY(add_node(driver, *stream->capture->graph, before.data(),
                           captures_early(driver, *stream, work) ? &early : nullptr, before.size(),
                           std::move(work), &node));
    before.assign(1, node);
    return CUDA_SUCCESS;
  }
  TaskBatch batch(driver);
  TaskPtr task = batch.add(work), end = task;
  std::shared_ptr<StreamKernel> kernel;
  if (std::holds_alternative<KernelWork>(work)) {
    kernel = std::make_shared<StreamKernel>(StreamKernel{task, batch.run(), {}});
    task->order_minor = mix(driver.config.seed ^ mix(stream->id) ^ stream->kernels++);
  }
  // "the CUDA runtime should opportunistically allow the grid's execution to overlap with the
  // previous kernel in the stream"
  if (stream->last_kernel && is_serialized_programmatically(driver, work)) {
    // Each that begins early waits for the one before within its own run: not without end.
    constexpr uint32_t kMaxEarly = 16;
    bool begins = stream->last_kernel->early < kMaxEarly;
    kernel->early = begins ? stream->last_kernel->early + 1 : 0;
    kernel->start_after =
        begins ? stream->last_kernel->start_after : std::vector<TaskPtr>{stream->tail};
    batch.order_early_in_stream(*stream, task, begins);
    end = std::make_shared<Task>(); // both are over
    batch.add(end);
    batch.depend(end, task);
    batch.depend(end, stream->tail);
  } else {
    if (kernel)
      kernel->start_after = batch.tails_before(*stream);
    batch.order_in_stream(*stream, task);
  }
  batch.submit(caller_waits);
  stream->tail = end;
  stream->last_kernel = std::move(kernel);
  if (out)
    *out = end;
  return CUDA_SUCCESS;
}

} // namespace cugrt::emulator::api
