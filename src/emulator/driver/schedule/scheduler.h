// Everything asynchronous is a task in one dependency graph.
//
// A stream is a chain of tasks, an event the task that was last recorded, a graph launch a group of
// tasks between two markers. A task runs when all it depends on have finished:
//
//     marker   nothing to do; finishes at once
//     device   a kernel, copy or fill; on the device thread, or on a thread that waits for it
//     host     a callback of the program; on the host thread, alone, with no lock held
//     polled   waits for a word in memory; asked whenever something has happened, and now and then
//
// One device task runs at a time by default (a kernel's blocks are spread over threads by the
// execution layer). Among ready device tasks the one with the smallest order key runs: the priority
// of its stream or its node, the sequence number of the submission, then, among nodes of one graph
// launch, a seeded hash. The order of a graph's nodes is therefore legal, adversarial and
// reproducible. Submitting tells nothing of the order in which streams run, just as on hardware.
//
// With a drawn order (CUGRT_EMU_ORDER) none of this holds: a task runs when somebody waits for one,
// or asks for one now and then, or nobody has called for a while; it is drawn from all that are
// ready, host tasks among them, which begin as late as that. A kernel may let others run between
// turns of its blocks. One thread that calls gets the same order from the same seed.
//
// Host memory may run out in submit() only, which then has done nothing: it makes room for all that
// will happen to its tasks, so that nothing allocates from there to their end.
//
// A wait may never be over. Who must get on nevertheless gives up once nothing else can run, and
// drops it: what depends on it then finishes without running too.
//
// After a device task has failed, the poisoned device runs nothing more: later tasks finish with
// the first failure's code without running, so that every waiter returns. What was submitted before
// a failure does not run when the poison is taken away either.
#pragma once

#include "emulator/driver/cuda_api.h"
#include "emulator/exec/draws.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace cugrt::emulator::api {

enum class TaskKind : uint8_t { marker, device, host, polled };

struct StreamPoint;
class StreamOrder;
struct Task;
using TaskPtr = std::shared_ptr<Task>;

struct Task {
  using Clock = std::chrono::steady_clock;

  TaskKind kind = TaskKind::marker;
  /// Not called on a poisoned device unless run_always. Gets the poison's code or CUDA_SUCCESS.
  /// Of a polled task, called again and again until it answers another code than NOT_READY, with
  /// the scheduler's lock held: it takes little time and neither waits nor calls the scheduler.
  std::function<CUresult(CUresult)> action;
  bool run_always = false;
  /// Others may wait for it within their own run, or it for others: runs in no other task's midst.
  std::atomic<bool> alone{false};
  uint64_t order_minor = 0;        // among the tasks of one submission
  std::optional<int> own_priority; // in place of its stream's
  /// Is as old as this one: which of the two runs first is for order_minor to say.
  TaskPtr beside;
  /// Its point in the order of streams; nullptr if that is not watched.
  std::shared_ptr<const StreamPoint> point;
  const void *context = nullptr; // of a polled task: whose it is
  uint64_t awaited_address = 0;  // and the word that it waits for, as its action last said

  // The scheduler's, under its lock.
  int priority = 0; // of its submission
  uint64_t order_major = 0;
  uint32_t pending = 0;
  uint32_t failures_before = 0; // of the device, when it was submitted
  bool done = false, dropped = false;
  std::vector<TaskPtr> dependents;
  Clock::time_point finished_at{}; // valid when done
};

/// Tasks that become runnable together, and their predecessors. Building one changes nothing but
/// itself.
class Submission {
public:
  void add(TaskPtr task) { tasks_.push_back(std::move(task)); }
  /// The stream's priority: among ready tasks, a lower number runs first.
  void set_priority(int priority) { priority_ = priority; }
  /// `task`, which is or will be added, runs after `before`; no effect when that is null or has
  /// finished by then.
  void depend(const TaskPtr &task, const TaskPtr &before) {
    if (before && before != task)
      edges_.push_back({task, before});
  }

private:
  friend class Scheduler;
  struct Edge {
    TaskPtr task, before;
  };
  std::vector<TaskPtr> tasks_;
  std::vector<Edge> edges_;
  int priority_ = 0;
};

class Scheduler {
public:
  /// `order` learns which points the program has seen, and outlives the scheduler.
  Scheduler(unsigned device_threads, StreamOrder &order, std::optional<uint64_t> drawn_order);
  ~Scheduler(); // waits for what runs; what has not started is dropped

  /// With `caller_waits` no thread is woken: the caller runs the tasks in wait(). Throws
  /// std::bad_alloc, or std::system_error when there is no thread to be had; then nothing has
  /// happened.
  void submit(const Submission &submission, bool caller_waits = false);

  bool done(const TaskPtr &task) const;
  /// As done(), for programs that ask until it is.
  bool query(const TaskPtr &task);
  /// Call on the thread of a running device task: another may run in its midst.
  void run_another();
  bool draws_order() const { return draws_.has_value(); }
  uint64_t draw(); // where the order is drawn
  /// Returns when the task has finished; meanwhile the calling thread runs device tasks.
  void wait(const TaskPtr &task) { wait_unless(task, nullptr); }
  using Which = std::function<bool(const Task &)>; // called with the scheduler's lock held
  /// As wait(), but gives up, and answers false, once nothing can run but polled tasks of which one
  /// is `hopeless`.
  bool wait_unless(const TaskPtr &task, const Which &hopeless);
  /// Ends the polled tasks for which it is true and, without running it, all that depends on them.
  void drop(const Which &which);
  Task::Clock::time_point finished_at(const TaskPtr &task) const;

  /// The first asynchronous failure since the last clear_poison(), or CUDA_SUCCESS.
  CUresult poison() const { return CUresult(poison_.load(std::memory_order_acquire)); }
  void set_poison(CUresult code);
  void clear_poison() { poison_.store(CUDA_SUCCESS, std::memory_order_release); }

private:
  using ReadyHeap = std::vector<TaskPtr>; // the smallest order key is its front

  void device_loop();
  void host_loop();
  using SchedulerLock = std::unique_lock<std::mutex>;
  void run(SchedulerLock &lock, ReadyHeap &ready);
  void run_task(SchedulerLock &lock, TaskPtr task);
  // For a drawn order (drawn_order.cpp).
  bool may_draw() const { return !running_ && !(device_ready_.empty() && host_late_.empty()); }
  void run_drawn(SchedulerLock &lock);
  void run_for_a_while(SchedulerLock &lock);
  void drawn_loop();
  void poll_loop();
  void start_threads(const Submission &submission);
  void make_room(size_t tasks);
  void link(const Submission &submission);
  void make_ready(TaskPtr task, bool wake);
  void finish_all(bool wake);
  bool poll();
  bool is_stuck(const Which &hopeless) const;

  StreamOrder &order_;
  mutable std::mutex mutex_;
  std::condition_variable work_, host_work_, finished_;
  ReadyHeap device_ready_, host_ready_;
  std::vector<TaskPtr> host_late_;   // of a drawn order: ready, but not for the host thread yet
  std::vector<TaskPtr> finishing_;   // markers that are ready, and what has just run
  size_t unfinished_ = 0;            // tasks submitted and not done: each queue has room for all
  std::vector<std::thread> threads_; // the host thread, the device threads, then the one that polls
  unsigned width_, running_ = 0, running_on_host_ = 0;
  uint64_t sequence_ = 0;
  bool stopping_ = false;
  std::atomic<int> poison_{CUDA_SUCCESS};
  std::atomic<uint32_t> failures_{0};
  bool is_dropped(const Task &task) const {
    return task.dropped || task.failures_before != failures_;
  }
  std::vector<TaskPtr> polled_; // those that are ready and not over
  std::condition_variable polled_work_;
  std::optional<Draws> draws_;
  uint64_t called_ = 0;  // how often: submissions, waits and questions
  unsigned granted_ = 0; // tasks that the device thread is asked to run
  bool polls_ = false;   // a thread does, since there first was a polled task
};

/// True on the thread that runs host callbacks, where CUDA calls are not permitted.
bool in_host_callback();

} // namespace cugrt::emulator::api
