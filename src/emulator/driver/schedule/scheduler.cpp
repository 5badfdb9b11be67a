// Implementation of the task scheduler; see scheduler.h.
#include "emulator/driver/schedule/scheduler.h"

#include "base/on_throw.h"
#include "emulator/driver/schedule/stream_order.h"

#include <algorithm>
#include <tuple>

namespace cugrt::emulator::api {

static thread_local bool t_in_host_callback = false;

// Order for std::push_heap and its like, whose front is the largest.
static bool later(const TaskPtr &a, const TaskPtr &b) {
  return std::tuple(a->priority, a->order_major, a->order_minor, a.get()) >
         std::tuple(b->priority, b->order_major, b->order_minor, b.get());
}

bool in_host_callback() { return t_in_host_callback; }

Scheduler::Scheduler(unsigned device_threads, StreamOrder &order,
                     std::optional<uint64_t> drawn_order)
    : order_(order), width_(device_threads ? device_threads : 1) {
  if (drawn_order)
    draws_.emplace(*drawn_order);
}

Scheduler::~Scheduler() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  host_work_.notify_all();
  polled_work_.notify_all();
  for (std::thread &thread : threads_)
    thread.join();
}

// If there is no thread to be had, the next submission tries again.
void Scheduler::start_threads(const Submission &submission) {
  threads_.reserve(width_ + 2);
  while (threads_.size() < width_ + 1) {
    bool host = threads_.empty();
    threads_.emplace_back([this, host] {
      host ? host_loop() : draws_ ? drawn_loop() : device_loop();
    });
  }
  const auto &tasks = submission.tasks_;
  if (!polls_ && std::any_of(tasks.begin(), tasks.end(),
                             [](const TaskPtr &task) { return task->kind == TaskKind::polled; })) {
    threads_.emplace_back([this] { poll_loop(); });
    polls_ = true;
  }
}

void Scheduler::make_room(size_t tasks) {
  size_t wanted = unfinished_ + tasks;
  for (std::vector<TaskPtr> *queue :
       {&device_ready_, &host_ready_, &host_late_, &polled_, &finishing_})
    if (queue->capacity() < wanted)
      queue->reserve(std::max(wanted, 2 * queue->capacity()));
}

// Enters the edges with their predecessors, all of them or none.
void Scheduler::link(const Submission &submission) {
  const auto &edges = submission.edges_;
  size_t linked = 0;
  const OnThrow undo([&] {
    while (linked--)
      if (!edges[linked].before->done) {
        edges[linked].before->dependents.pop_back();
        --edges[linked].task->pending;
      }
  });
  for (; linked < edges.size(); ++linked)
    if (!edges[linked].before->done) {
      edges[linked].before->dependents.push_back(edges[linked].task);
      ++edges[linked].task->pending;
    }
}

void Scheduler::submit(const Submission &submission, bool caller_waits) {
  std::unique_lock lock(mutex_);
  start_threads(submission);
  make_room(submission.tasks_.size());
  link(submission);
  // From here on nothing fails.
  uint64_t major = ++sequence_;
  unfinished_ += submission.tasks_.size();
  for (const TaskPtr &task : submission.tasks_) {
    task->failures_before = failures_;
    task->priority = task->own_priority.value_or(submission.priority_);
  }
  for (const TaskPtr &task : submission.tasks_)
    task->order_major = task->beside ? task->beside->order_major : major;
  for (const TaskPtr &task : submission.tasks_)
    task->beside = nullptr;
  for (const TaskPtr &task : submission.tasks_)
    if (task->pending == 0)
      make_ready(task, !caller_waits);
  finish_all(!caller_waits);
  if (draws_)
    run_for_a_while(lock);
}

// finish_all() must follow, since a marker finishes at once.
void Scheduler::make_ready(TaskPtr task, bool wake) {
  switch (task->kind) {
  case TaskKind::marker:
    finishing_.push_back(std::move(task));
    break;
  case TaskKind::device:
    device_ready_.push_back(std::move(task));
    if (draws_)
      break;
    std::push_heap(device_ready_.begin(), device_ready_.end(), later);
    if (wake)
      work_.notify_one();
    break;
  case TaskKind::host:
    if (draws_) {
      host_late_.push_back(std::move(task));
      break;
    }
    host_ready_.push_back(std::move(task));
    std::push_heap(host_ready_.begin(), host_ready_.end(), later);
    host_work_.notify_one();
    break;
  case TaskKind::polled:
    polled_.push_back(std::move(task));
    polled_work_.notify_one();
    break;
  }
}

// Asks every polled task once and collects the ended ones. True if there were any.
bool Scheduler::poll() {
  for (TaskPtr &task : polled_) {
    CUresult result = poison();
    if (result == CUDA_SUCCESS && !is_dropped(*task)) {
      try {
        result = task->action(CUDA_SUCCESS);
      } catch (const std::bad_alloc &) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
      } catch (...) { // a broken invariant in the emulator
        result = CUDA_ERROR_UNKNOWN;
      }
      if (result == CUDA_ERROR_NOT_READY)
        continue;
      if (result != CUDA_SUCCESS)
        set_poison(result);
    }
    task->action = nullptr;
    finishing_.push_back(std::move(task));
  }
  std::erase(polled_, nullptr);
  return !finishing_.empty();
}

// Markers make others ready, level by level; depth costs no stack.
void Scheduler::finish_all(bool wake) {
  while (!finishing_.empty() || poll()) {
    TaskPtr task = std::move(finishing_.back());
    finishing_.pop_back();
    task->done = true;
    task->finished_at = Task::Clock::now();
    --unfinished_;
    for (TaskPtr &next : task->dependents) {
      next->dropped |= task->dropped;
      if (--next->pending == 0)
        make_ready(std::move(next), wake);
    }
    task->dependents.clear();
  }
  finished_.notify_all();
}

void Scheduler::run(SchedulerLock &lock, ReadyHeap &ready) {
  std::pop_heap(ready.begin(), ready.end(), later);
  TaskPtr task = std::move(ready.back());
  ready.pop_back();
  run_task(lock, std::move(task));
}

void Scheduler::run_task(SchedulerLock &lock, TaskPtr task) {
  auto action = std::move(task->action);
  bool device = task->kind == TaskKind::device;
  ++(device ? running_ : running_on_host_);
  CUresult dropped = is_dropped(*task) ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
  lock.unlock();
  if (!device && task->point) // a callback may tell other threads that it was called
    order_.seen(*task->point, false);
  CUresult poisoned = poison() ? poison() : dropped;
  if (action && (poisoned == CUDA_SUCCESS || task->run_always)) {
    CUresult result;
    try {
      result = action(poisoned);
    } catch (const std::bad_alloc &) {
      result = CUDA_ERROR_OUT_OF_MEMORY;
    } catch (...) { // a broken invariant in the emulator
      result = CUDA_ERROR_UNKNOWN;
    }
    if (result != CUDA_SUCCESS)
      set_poison(result);
  }
  action = nullptr; // what it holds is released without the lock
  lock.lock();
  --(device ? running_ : running_on_host_);
  finishing_.push_back(std::move(task));
  finish_all(true);
}

void Scheduler::device_loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return stopping_ || (!device_ready_.empty() && running_ < width_); });
    if (stopping_)
      return;
    run(lock, device_ready_);
  }
}

void Scheduler::host_loop() {
  t_in_host_callback = true;
  std::unique_lock lock(mutex_);
  for (;;) {
    host_work_.wait(lock, [this] { return stopping_ || !host_ready_.empty(); });
    if (stopping_)
      return;
    run(lock, host_ready_);
  }
}

bool Scheduler::done(const TaskPtr &task) const {
  std::lock_guard lock(mutex_);
  if (task && task->done && task->point)
    order_.seen(*task->point, true);
  return !task || task->done;
}

// Writes of the host or a running kernel wake nobody, so this asks again and again.
void Scheduler::poll_loop() {
  constexpr auto kInterval = std::chrono::microseconds(200);
  std::unique_lock lock(mutex_);
  for (;;) {
    polled_work_.wait(lock, [this] { return stopping_ || !polled_.empty(); });
    if (stopping_)
      return;
    if (poll())
      finish_all(true);
    polled_work_.wait_for(lock, kInterval, [this] { return stopping_; });
  }
}

Task::Clock::time_point Scheduler::finished_at(const TaskPtr &task) const {
  std::lock_guard lock(mutex_);
  return task->finished_at;
}

// The waiting thread is a device thread meanwhile. When it leaves while work is ready, a device
// thread must take over: it may have slept through a submission made with caller_waits.
bool Scheduler::wait_unless(const TaskPtr &task, const Which &hopeless) {
  if (!task)
    return true;
  std::unique_lock lock(mutex_);
  ++called_;
  while (!task->done) {
    if (draws_ && may_draw())
      run_drawn(lock);
    else if (!draws_ && !device_ready_.empty() && running_ < width_)
      run(lock, device_ready_);
    else if (hopeless && is_stuck(hopeless))
      return false;
    else
      finished_.wait(lock);
  }
  if (task->point)
    order_.seen(*task->point, true);
  if (!draws_ && !device_ready_.empty())
    work_.notify_one();
  return true;
}

// Each polled task has been asked since it became ready: making one ready ends with finish_all().
bool Scheduler::is_stuck(const Which &hopeless) const {
  return device_ready_.empty() && host_ready_.empty() && host_late_.empty() && !running_ &&
         !running_on_host_ && std::any_of(polled_.begin(), polled_.end(), [&](const TaskPtr &task) {
           return hopeless(*task);
         });
}

void Scheduler::drop(const Which &which) {
  std::lock_guard lock(mutex_);
  for (const TaskPtr &task : polled_)
    task->dropped |= which(*task);
  finish_all(true);
}

void Scheduler::set_poison(CUresult code) {
  int none = CUDA_SUCCESS;
  if (poison_.compare_exchange_strong(none, int(code), std::memory_order_acq_rel))
    ++failures_;
}

} // namespace cugrt::emulator::api
