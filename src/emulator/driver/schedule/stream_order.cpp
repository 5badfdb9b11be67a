// Vector clocks over streams; see stream_order.h.
#include "emulator/driver/schedule/stream_order.h"

#include "emulator/exec/checks/accesses.h"

#include <algorithm>

namespace cugrt::emulator::api {

namespace {

bool holds(const StreamClock &clock, const StreamPoint &point) {
  auto it = clock.find(point.stream);
  return it != clock.end() && it->second >= point.number;
}

} // namespace

void join(StreamClock &clock, const StreamClock &other) {
  for (auto [stream, number] : other) {
    uint64_t &known = clock[stream];
    known = std::max(known, number);
  }
}

void add_ended(StreamClock &clock, const StreamPoint &point) {
  join(clock, point.at_wait);
  uint64_t &known = clock[point.stream];
  known = std::max(known, point.number);
}

void StreamWork::touched(const std::string &name, const LaunchAccesses &accesses) {
  order_.touched(point_, name, accesses);
}

// Streams of which nothing is kept or under way need not be known as ended.
void StreamOrder::shorten(StreamClock &clock) {
  constexpr size_t kLong = 64;
  if (clock.size() <= kLong)
    return;
  std::set<uint64_t> needed;
  for (const Part &part : parts_)
    needed.insert(part.point->stream);
  for (const auto &weak : under_way_)
    if (auto work = weak.lock())
      needed.insert(work->point().stream);
  std::erase_if(clock, [&](const auto &entry) { return !needed.count(entry.first); });
}

void StreamOrder::submit(StreamPoint &point, const std::shared_ptr<StreamWork> &work) {
  std::lock_guard lock(mutex_);
  point.number = next_++;
  join(point.at_wait, seen_);
  if (point.is_early)
    join(point.at_start, seen_);
  else
    point.at_start = point.at_wait;
  under_way_.push_back(work);
  if (under_way_.size() >= prune_at_) {
    prune();
    prune_at_ = 2 * under_way_.size() + 64;
    shorten(seen_);
  }
  shorten(point.at_start);
  shorten(point.at_wait);
}

void StreamOrder::seen(const StreamPoint &point, bool ended) noexcept {
  std::lock_guard lock(mutex_);
  try {
    if (ended)
      add_ended(seen_, point);
    else
      join(seen_, point.at_wait);
  } catch (const std::bad_alloc &) {
    forgotten_ = next_ - 1;
    parts_.clear();
  }
}

void StreamOrder::clear() {
  std::lock_guard lock(mutex_);
  seen_.clear();
  parts_.clear();
  under_way_.clear();
  reported_.clear();
}

void StreamOrder::forget(uint64_t begin, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  for (Part &part : parts_) {
    part.accesses.before_wait.remove(begin, begin + bytes);
    part.accesses.after_wait.remove(begin, begin + bytes);
  }
}

// What the program has seen the end of precedes all that it will submit; it is kept only for work
// that was submitted before and has not been done.
void StreamOrder::prune() {
  under_way_.erase(std::remove_if(under_way_.begin(), under_way_.end(),
                                  [](const auto &work) { return work.expired(); }),
                   under_way_.end());
  StreamClock ended = seen_;
  for (const auto &weak : under_way_)
    if (auto work = weak.lock())
      for (auto &[stream, number] : ended) {
        const StreamClock &start = work->point().at_start;
        auto it = start.find(stream);
        number = std::min(number, it == start.end() ? 0 : it->second);
      }
  parts_.erase(std::remove_if(parts_.begin(), parts_.end(),
                              [&](const Part &part) { return holds(ended, *part.point); }),
               parts_.end());
  if (parts_.size() > kMaxKept)
    parts_.erase(parts_.begin(), parts_.begin() + std::ptrdiff_t(parts_.size() - kMaxKept));
}

void StreamOrder::touched(const std::shared_ptr<const StreamPoint> &point, const std::string &name,
                          const LaunchAccesses &accesses) {
  std::lock_guard lock(mutex_);
  prune();
  parts_.push_back({point, name, accesses});
  Part &part = parts_.back();
  for (size_t i = 0; i + 1 < parts_.size(); ++i) {
    Part &other = parts_[i];
    if (other.point->number < point->number)
      compare(other, part);
    else if (other.point->number > point->number)
      compare(part, other);
  }
}

// `later` was submitted later, and so never precedes `before`.
void StreamOrder::compare(Part &before, Part &later) {
  if (before.point->number <= forgotten_)
    return;
  for (bool waited : {false, true}) {
    if (holds(waited ? later.point->at_wait : later.point->at_start, *before.point))
      continue;
    AccessSet &mine = waited ? later.accesses.after_wait : later.accesses.before_wait;
    for (AccessSet *other : {&before.accesses.before_wait, &before.accesses.after_wait})
      if (auto found = other->conflict(mine)) {
        report(before, later, *found);
        return;
      }
  }
}

void StreamOrder::report(const Part &first, const Part &second, const AccessSet::Conflict &found) {
  std::string a = first.name + " in " + first.point->stream_name,
              b = second.name + " in " + second.point->stream_name;
  if (!reported_.emplace(a, b).second)
    return;
  if (holds(second.point->at_wait, *first.point))
    findings_.report(Check::programmatic,
                     b + " " + verb(found.second) + " " + bytes_at(found.bytes) +
                         " before its griddepcontrol.wait, and " + first.name +
                         ", behind which it was launched with programmatic stream serialization, " +
                         verb(found.first) + " them");
  else
    findings_.report(Check::streams, a + " " + verb(found.first) + " and " + b + " " +
                                         verb(found.second) + " " + bytes_at(found.bytes) +
                                         ", and no stream, event or wait of the host orders them");
}

} // namespace cugrt::emulator::api
