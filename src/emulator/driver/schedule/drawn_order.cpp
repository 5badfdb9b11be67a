// The scheduler where CUGRT_EMU_ORDER draws the order of what is unordered; see scheduler.h.
//
// As little runs as a waiting program needs, so that what is late is as late as CUDA allows. Three
// things keep that fair: who waits runs tasks until its own has ended, whichever are drawn; who
// asks has one run in about every second question; and where nobody calls, the device thread goes
// on after a while. Too many tasks are not kept back either. Only the last two follow a clock.
#include "emulator/driver/schedule/scheduler.h"

namespace cugrt::emulator::api {

constexpr auto kIdle = std::chrono::milliseconds(250);    // nobody called for so long
constexpr auto kPatience = std::chrono::milliseconds(50); // with a task that may wait for the host
constexpr size_t kMaxKept = 4096;                         // tasks that have not ended
constexpr uint32_t kMaxDepth = 3;                         // of tasks in others' midst

static thread_local uint32_t t_depth = 0;

static TaskPtr take(std::vector<TaskPtr> &tasks, size_t i) {
  TaskPtr task = std::move(tasks[i]);
  tasks.erase(tasks.begin() + ptrdiff_t(i));
  return task;
}

uint64_t Scheduler::draw() {
  std::lock_guard lock(mutex_);
  return draws_->next();
}

// Waits for a callback, unless it takes long: it may wait for the program's next call.
void Scheduler::run_drawn(SchedulerLock &lock) {
  size_t drawn = draws_->below(device_ready_.size() + host_late_.size());
  if (drawn < device_ready_.size())
    return run_task(lock, take(device_ready_, drawn));
  host_ready_.push_back(take(host_late_, drawn - device_ready_.size()));
  host_work_.notify_one();
  finished_.wait_for(lock, kPatience, [this] { return host_ready_.empty() && !running_on_host_; });
}

// The device thread does it, for a kernel may wait for the thread that asks.
bool Scheduler::query(const TaskPtr &task) {
  if (draws_ && task) {
    std::unique_lock lock(mutex_);
    ++called_;
    if (!task->done && may_draw() && draws_->once_in(2)) {
      ++granted_;
      work_.notify_one();
      finished_.wait_for(lock, kPatience, [this] { return !granted_ && !running_; });
    }
  }
  return done(task);
}

void Scheduler::run_for_a_while(SchedulerLock &lock) {
  ++called_;
  work_.notify_one();
  while (unfinished_ > kMaxKept && may_draw()) {
    ++granted_;
    work_.notify_one();
    if (!finished_.wait_for(lock, kPatience, [this] { return !granted_ && !running_; }))
      return;
  }
}

void Scheduler::drawn_loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!may_draw()) {
      granted_ = 0;
      unfinished_ ? (void)work_.wait_for(lock, kIdle) : work_.wait(lock);
      continue;
    }
    const uint64_t called = called_;
    bool asked = granted_ || work_.wait_for(lock, kIdle, [&] {
      return stopping_ || granted_ || called_ != called;
    });
    if (!asked)
      while (!stopping_ && called_ == called && may_draw())
        run_drawn(lock);
    else if (granted_ && may_draw() && !stopping_) {
      run_drawn(lock);
      granted_ = 0;
      finished_.notify_all();
    }
  }
}

void Scheduler::run_another() {
  std::unique_lock lock(mutex_);
  if (!draws_ || t_depth == kMaxDepth)
    return;
  std::vector<size_t> which;
  for (size_t i = 0; i < device_ready_.size(); ++i)
    if (!device_ready_[i]->alone)
      which.push_back(i);
  if (which.empty())
    return;
  ++t_depth;
  run_task(lock, take(device_ready_, which[draws_->below(which.size())]));
  --t_depth;
}

} // namespace cugrt::emulator::api
