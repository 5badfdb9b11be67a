// Activities for profilers; see activity.h.
#include "emulator/driver/schedule/activity.h"

#include <chrono>

namespace cugrt::emulator::api {

namespace {

struct KindOf {
  ActivityKind operator()(const KernelWork &) const { return ActivityKind::kernel; }
  ActivityKind operator()(const CopyWork &) const { return ActivityKind::copy; }
  ActivityKind operator()(const BatchCopyWork &) const { return ActivityKind::copy; }
  ActivityKind operator()(const FillWork &) const { return ActivityKind::fill; }
  ActivityKind operator()(const EmptyWork &) const { return ActivityKind::none; }
  ActivityKind operator()(const HostWork &) const { return ActivityKind::none; }
  ActivityKind operator()(const ChildWork &) const { return ActivityKind::none; }
  ActivityKind operator()(const EventRecordWork &) const { return ActivityKind::none; }
  ActivityKind operator()(const EventWaitWork &) const { return ActivityKind::none; }
  ActivityKind operator()(const ConditionalWork &) const { return ActivityKind::none; }
  ActivityKind operator()(const MemoryOpsWork &) const { return ActivityKind::none; }
};

} // namespace

ActivityKind activity_of(const Work &work) { return std::visit(KindOf{}, work); }

uint64_t activity_ns() {
  return uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(
                      std::chrono::steady_clock::now().time_since_epoch())
                      .count());
}

void ActivityLog::want(ActivityKind kind, bool wanted) {
  if (wanted)
    kinds_ |= bit(kind);
  else
    kinds_ &= ~bit(kind);
}

void ActivityLog::add(Activity activity) {
  std::lock_guard lock(mutex_);
  if (activities_.size() < kMost)
    activities_.push_back(std::move(activity));
  else
    ++dropped_;
}

std::vector<Activity> ActivityLog::take() {
  std::lock_guard lock(mutex_);
  return std::exchange(activities_, {});
}

void ActivityLog::clear() {
  std::lock_guard lock(mutex_);
  kinds_ = 0;
  activities_.clear();
  dropped_ = 0;
}

size_t ActivityLog::take_dropped() {
  std::lock_guard lock(mutex_);
  return std::exchange(dropped_, 0);
}

const char *ActivityLog::name(const std::string &text) {
  std::lock_guard lock(mutex_);
  return names_.insert(text).first->c_str();
}

} // namespace cugrt::emulator::api
