// Implementation of the task scheduler; see scheduler.h.
#include "emulator/driver/scheduler.h"

#include <tuple>

namespace cugrt::emulator::api {

namespace {
thread_local bool t_in_host_callback = false;
}

bool in_host_callback() { return t_in_host_callback; }

bool Scheduler::Earlier::operator()(const TaskPtr &a, const TaskPtr &b) const {
  return std::tuple(a->order_major, a->order_minor, a.get()) <
         std::tuple(b->order_major, b->order_minor, b.get());
}

Scheduler::Scheduler(unsigned device_threads) : width_(device_threads ? device_threads : 1) {}

Scheduler::~Scheduler() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  host_work_.notify_all();
  for (std::thread &thread : threads_)
    thread.join();
}

void Scheduler::start_threads() {
  if (!threads_.empty())
    return;
  for (unsigned i = 0; i < width_; ++i)
    threads_.emplace_back([this] { device_loop(); });
  threads_.emplace_back([this] { host_loop(); });
}

void Scheduler::depend(const TaskPtr &task, const TaskPtr &before) {
  if (!before || before == task)
    return;
  std::lock_guard lock(mutex_);
  if (before->done)
    return;
  before->dependents.push_back(task);
  ++task->pending;
}

void Scheduler::submit(std::span<const TaskPtr> tasks, bool caller_waits) {
  std::lock_guard lock(mutex_);
  start_threads();
  uint64_t major = ++sequence_;
  for (const TaskPtr &task : tasks) {
    task->order_major = major;
    task->submitted = true;
  }
  for (const TaskPtr &task : tasks)
    if (task->pending == 0 && !task->done)
      make_ready(task, !caller_waits);
}

// A marker finishes here; finish() in turn makes its dependents ready, level by level, so that
// depth costs no stack: it keeps its own list.
void Scheduler::make_ready(const TaskPtr &task, bool wake) {
  switch (task->kind) {
  case TaskKind::marker:
    finish(task, wake);
    break;
  case TaskKind::device:
    device_ready_.insert(task);
    if (wake)
      work_.notify_one();
    break;
  case TaskKind::host:
    host_ready_.insert(task);
    host_work_.notify_one();
    break;
  }
}

void Scheduler::finish(const TaskPtr &task, bool wake) {
  std::vector<TaskPtr> finished{task};
  while (!finished.empty()) {
    TaskPtr current = std::move(finished.back());
    finished.pop_back();
    if (current->done)
      continue;
    current->done = true;
    current->finished_at = Task::Clock::now();
    current->action = nullptr;
    for (TaskPtr &next : current->dependents) {
      if (--next->pending || !next->submitted)
        continue;
      if (next->kind == TaskKind::marker)
        finished.push_back(std::move(next));
      else
        make_ready(next, wake);
    }
    current->dependents.clear();
  }
  finished_.notify_all();
}

void Scheduler::run(std::unique_lock<std::mutex> &lock, ReadySet &ready) {
  TaskPtr task = *ready.begin();
  ready.erase(ready.begin());
  auto action = std::move(task->action);
  bool device = task->kind == TaskKind::device;
  running_ += device;
  lock.unlock();
  CUresult poisoned = poison();
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
  running_ -= device;
  finish(task, true);
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
  return !task || task->done;
}

Task::Clock::time_point Scheduler::finished_at(const TaskPtr &task) const {
  std::lock_guard lock(mutex_);
  return task->finished_at;
}

// The waiting thread is a device thread meanwhile. When it leaves while work is ready, a device
// thread must take over: it may have slept through a submission made with caller_waits.
void Scheduler::wait(const TaskPtr &task) {
  if (!task)
    return;
  std::unique_lock lock(mutex_);
  while (!task->done) {
    if (!device_ready_.empty() && running_ < width_)
      run(lock, device_ready_);
    else
      finished_.wait(lock);
  }
  if (!device_ready_.empty())
    work_.notify_one();
}

void Scheduler::set_poison(CUresult code) {
  int none = CUDA_SUCCESS;
  poison_.compare_exchange_strong(none, int(code), std::memory_order_acq_rel);
}

} // namespace cugrt::emulator::api
