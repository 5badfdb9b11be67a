// Everything asynchronous is a task in one dependency graph.
//
// A stream is a chain of tasks, an event the task that was last recorded, a graph launch a group of
// tasks between two markers. A task runs when all it depends on have finished:
//
//     marker   nothing to do; finishes at once
//     device   a kernel, copy or fill; on the device thread, or on a thread that waits for it
//     host     a callback of the program; on the host thread, alone, with no lock held
//
// One device task runs at a time by default (a kernel's blocks are spread over threads by the
// execution layer). Among ready device tasks the one with the smallest order key runs: the sequence
// number of the submission, then, among nodes of one graph launch, a seeded hash. The order of a
// graph's nodes is therefore legal, adversarial and reproducible. Submitting tells nothing of the
// order in which streams run, just as on hardware.
//
// After a device task has failed, the poisoned device runs nothing more: later tasks finish with
// the first failure's code without running, so that every waiter returns.
#pragma once

#include "emulator/driver/cuda_api.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <thread>
#include <vector>

namespace cugrt::emulator::api {

enum class TaskKind : uint8_t { marker, device, host };

struct Task;
using TaskPtr = std::shared_ptr<Task>;

struct Task {
  using Clock = std::chrono::steady_clock;

  TaskKind kind = TaskKind::marker;
  /// Not called on a poisoned device unless run_always. Gets the poison's code or CUDA_SUCCESS.
  std::function<CUresult(CUresult)> action;
  bool run_always = false;
  uint64_t order_minor = 0; // among the tasks of one submission

  // The scheduler's, under its lock.
  uint64_t order_major = 0;
  uint32_t pending = 0;
  bool submitted = false, done = false;
  std::vector<TaskPtr> dependents;
  Clock::time_point finished_at{}; // valid when done
};

class Scheduler {
public:
  explicit Scheduler(unsigned device_threads);
  ~Scheduler(); // waits for what runs; what has not started is dropped

  /// One submission: `tasks` become runnable together. Edges among them, and from earlier tasks,
  /// are declared first with depend(). With `caller_waits` no thread is woken: the caller runs them
  /// in wait().
  void submit(std::span<const TaskPtr> tasks, bool caller_waits = false);
  /// `task` (not submitted yet) runs after `before`; no effect when that has finished or is null.
  void depend(const TaskPtr &task, const TaskPtr &before);

  bool done(const TaskPtr &task) const;
  /// Returns when the task has finished; meanwhile the calling thread runs device tasks.
  void wait(const TaskPtr &task);
  Task::Clock::time_point finished_at(const TaskPtr &task) const;

  /// The first asynchronous failure since the last clear_poison(), or CUDA_SUCCESS.
  CUresult poison() const { return CUresult(poison_.load(std::memory_order_acquire)); }
  void set_poison(CUresult code);
  void clear_poison() { poison_.store(CUDA_SUCCESS, std::memory_order_release); }

private:
  struct Earlier {
    bool operator()(const TaskPtr &a, const TaskPtr &b) const;
  };
  using ReadySet = std::set<TaskPtr, Earlier>;

  void device_loop();
  void host_loop();
  void run(std::unique_lock<std::mutex> &lock, ReadySet &ready);
  void make_ready(const TaskPtr &task, bool wake);
  void finish(const TaskPtr &task, bool wake);
  void start_threads();

  mutable std::mutex mutex_;
  std::condition_variable work_, host_work_, finished_;
  ReadySet device_ready_, host_ready_;
  std::vector<std::thread> threads_;
  unsigned width_, running_ = 0;
  uint64_t sequence_ = 0;
  bool stopping_ = false;
  std::atomic<int> poison_{CUDA_SUCCESS};
};

/// True on the thread that runs host callbacks, where CUDA calls are not permitted.
bool in_host_callback();

} // namespace cugrt::emulator::api
