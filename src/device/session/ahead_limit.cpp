// Graphs on their way, at most so many; see ahead_limit.h.
#include "device/session/ahead_limit.h"

namespace cugrt::runtime {

Result<std::unique_ptr<AheadLimit>> AheadLimit::make(const driver::Context &context,
                                                     uint32_t graphs) {
  auto limit = std::make_unique<AheadLimit>();
  limit->free_.reserve(graphs);
  limit->queued_.reserve(graphs);
  for (uint32_t place = 0; place < graphs; ++place) {
    CUGRT_ASSIGN(driver::Event end, driver::Event::create(context));
    limit->ends_.push_back(std::move(end));
    limit->free_.push_back(place);
  }
  return limit;
}

Result<uint32_t> AheadLimit::enter() {
  std::unique_lock lock(mutex_);
  while (free_.empty()) {
    if (queued_.empty()) { // all are being launched by other threads
      changed_.wait(lock);
      continue;
    }
    for (size_t i = 0; i < queued_.size();) {
      CUGRT_ASSIGN(const bool ended, ends_[queued_[i]].query());
      if (!ended) {
        ++i;
        continue;
      }
      free_.push_back(queued_[i]);
      queued_.erase(queued_.begin() + static_cast<ptrdiff_t>(i));
    }
    if (!free_.empty())
      break;
    const driver::Event &oldest =
        ends_[queued_.front()]; // another thread may use it anew meanwhile
    lock.unlock();
    CUGRT_TRY(oldest.synchronize());
    lock.lock();
  }
  const uint32_t place = free_.back();
  free_.pop_back();
  return place;
}

Status AheadLimit::leave(uint32_t place, driver::StreamRef stream) {
  Status recorded = ends_[place].record(stream);
  std::lock_guard lock(mutex_);
  (recorded.ok() ? queued_ : free_).push_back(place);
  changed_.notify_one();
  return recorded;
}

} // namespace cugrt::runtime
