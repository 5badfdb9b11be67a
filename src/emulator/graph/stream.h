// Streams: finding them, ordering work in them, and running work of any kind in them.
#pragma once

#include "emulator/driver/driver.h"
#include "emulator/graph/graph.h"

namespace cugrt::emulator::api {

/// The per-thread default stream in the place of the null stream, for the _ptsz forms.
inline CUstream per_thread(CUstream stream) { return stream ? stream : CU_STREAM_PER_THREAD; }

/// The stream of a handle: a created one, or the current context's legacy (null) or per-thread
/// stream. INVALID_HANDLE when there is none; the sticky error after a fault. Needs the lock.
CUresult find_stream(Driver &driver, CUstream handle, Ref<Stream> *out);
/// The same without the sticky error.
CUresult find_stream_any(Driver &driver, CUstream handle, Ref<Stream> *out);

/// The green context whose multiprocessors work in the stream has; nullptr: it has all.
Ref<GreenContext> green_of(Driver &driver, const Stream &stream);
/// cuStreamCreate in the context and, unless it is nullptr, with the green context's
/// multiprocessors (stream_api.cpp). Needs the lock.
CUresult make_stream(Driver &driver, const Ref<Context> &context, const Ref<GreenContext> &green,
                     unsigned flags, int priority, CUstream *out);
/// The answer of a call that names a stream whose green context was destroyed.
CUresult detached(const Driver &driver);

/// The tasks of one call on their way to the scheduler. Others see nothing of them before submit(),
/// which does all that there is to do or, when it throws, nothing. Needs the lock throughout.
class TaskBatch {
public:
  explicit TaskBatch(Driver &driver);

  void add(TaskPtr task);
  /// Makes and adds a task that does the work.
  TaskPtr add(const Work &work);
  void depend(const TaskPtr &task, const TaskPtr &before);
  /// `task` is next in the stream: it waits for the stream's last task and, by the rules of the
  /// legacy stream, for the last tasks of others.
  void order_in_stream(const Stream &stream, const TaskPtr &task);
  /// The same for a kernel that may begin with the stream's last kernel, before that has ended;
  /// unless it `begins` so, it is run behind it nevertheless.
  void order_early_in_stream(const Stream &stream, const TaskPtr &task, bool begins);
  /// Work in streams that order_in_stream() waits for, besides those that the legacy one joins.
  std::vector<TaskPtr> tails_before(const Stream &stream) const;
  /// The run of the work that was added last, if the device executes it.
  const std::shared_ptr<NodeRun> &run() const { return run_; }
  /// Events that the work records stand for their tasks from then on. Once only.
  void submit(bool caller_waits = false);
  /// Gets the bytes that its tasks touch; nullptr if nobody asks.
  const std::shared_ptr<StreamWork> &stream_work() const { return work_; }

private:
  struct TaskMaker;
  void take_from(const Stream &stream);
  Driver &driver_;
  Submission submission_;
  std::shared_ptr<StreamPoint> point_; // of all its tasks; nullptr where streams are not watched
  std::shared_ptr<StreamWork> work_;
  std::shared_ptr<NodeRun> run_;
  std::vector<std::pair<Ref<Event>, TaskPtr>> records_;
};

/// order_in_stream, submit, and `task` is the stream's new tail.
void enqueue(Driver &driver, const Ref<Stream> &stream, const TaskPtr &task);
/// Predecessors of new work: the stream's last work, and that of all that the legacy stream joins.
TaskPtr join(Driver &driver, const Ref<Stream> &stream);
/// Waits for that. Taken and left with the lock.
CUresult synchronize(Driver &driver, const Ref<Stream> &stream, Lock &lock);
/// Enqueues the work or, while the stream is captured, adds a node. `task` gets the task, or
/// nullptr.
CUresult run_in_stream(Driver &driver, const Ref<Stream> &stream, Work work,
                       TaskPtr *task = nullptr, bool caller_waits = false);

/// CUDA_SUCCESS unless the stream is captured, or is the legacy stream while a blocking stream of
/// its context is (STREAM_CAPTURE_IMPLICIT). For what cannot be captured: also ends the capture.
CUresult refuse_capture(Driver &driver, const Ref<Stream> &stream);
/// The capture can be ended no more: nothing will be added to it, and a graph of its own is
/// destroyed.
void abandon_capture(Driver &driver, Capture &capture);
/// "Potentially unsafe" calls, such as cuMemAlloc, while a capture in any context forbids them to
/// this thread; ends these captures. Needs the lock.
CUresult refuse_unsafe(Driver &driver);
/// STREAM_CAPTURE_INVALIDATED, once something has gone wrong.
CUresult capture_state(const Stream &stream);

} // namespace cugrt::emulator::api
