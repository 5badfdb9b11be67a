// Vector clocks over streams; see stream_order.h.
#include "emulator/driver/schedule/stream_order.h"

#include "emulator/exec/checks/accesses.h"

#include <algorithm>

namespace cugrt::emulator::api {

bool StreamClock::holds(const StreamPoint &point) const {
  auto it = std::ranges::lower_bound(latest_, point.stream, {}, &Entry::stream);
  return it != latest_.end() && it->stream == point.stream && it->number >= point.number;
}

void StreamClock::add(const StreamPoint &point) {
  auto it = std::ranges::lower_bound(latest_, point.stream, {}, &Entry::stream);
  if (it != latest_.end() && it->stream == point.stream)
    it->number = std::max(it->number, point.number);
  else
    latest_.insert(it, {point.stream, point.number});
}

void StreamClock::join(const StreamClock &other) {
  std::vector<Entry> both;
  both.reserve(latest_.size() + other.latest_.size());
  auto mine = latest_.begin();
  for (const Entry &entry : other.latest_) {
    while (mine != latest_.end() && mine->stream < entry.stream)
      both.push_back(*mine++);
    both.push_back(entry);
    if (mine != latest_.end() && mine->stream == entry.stream)
      both.back().number = std::max(entry.number, (mine++)->number);
  }
  both.insert(both.end(), mine, latest_.end());
  latest_ = std::move(both);
}

void StreamClock::keep(const std::set<uint64_t> &streams) {
  std::erase_if(latest_, [&](const Entry &entry) { return !streams.count(entry.stream); });
}

void add_ended(StreamClock &clock, const StreamPoint &point) {
  clock.join(point.at_wait);
  clock.add(point);
}

void StreamWork::touched(const std::string &name, const LaunchAccesses &accesses) {
  order_.touched(point_, name, accesses);
}

// Streams of which nothing is kept or under way need not be known as ended.
std::set<uint64_t> StreamOrder::needed() const {
  std::set<uint64_t> streams;
  for (const Part &part : parts_)
    streams.insert(part.point->stream);
  for (const auto &weak : under_way_)
    if (auto work = weak.lock())
      streams.insert(work->point().stream);
  return streams;
}

void StreamOrder::submit(StreamPoint &point, const std::shared_ptr<StreamWork> &work) {
  std::lock_guard lock(mutex_);
  point.number = next_++;
  if (seen_.size() > shorten_at_) {
    prune();
    seen_.keep(needed());
    shorten_at_ = 2 * seen_.size() + 64;
  }
  point.at_wait.join(seen_);
  if (point.is_early)
    point.at_start.join(seen_);
  else
    point.at_start = point.at_wait;
  under_way_.push_back(work);
  for (StreamClock *clock : {&point.at_start, &point.at_wait})
    if (clock->size() > shorten_at_)
      clock->keep(needed());
  if (under_way_.size() >= prune_at_) {
    prune();
    prune_at_ = 2 * under_way_.size() + 64;
  }
}

void StreamOrder::seen(const StreamPoint &point, bool ended) noexcept {
  std::lock_guard lock(mutex_);
  try {
    if (ended)
      add_ended(seen_, point);
    else
      seen_.join(point.at_wait);
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

// A point whose end the program has seen precedes all later ones; it is kept only for work that was
// submitted before and has not been done.
void StreamOrder::prune() {
  under_way_.erase(std::remove_if(under_way_.begin(), under_way_.end(),
                                  [](const auto &work) { return work.expired(); }),
                   under_way_.end());
  auto has_ended = [&](const Part &part) {
    return seen_.holds(*part.point) &&
           std::all_of(under_way_.begin(), under_way_.end(), [&](const auto &weak) {
             auto work = weak.lock();
             return !work || work->point().at_start.holds(*part.point);
           });
  };
  parts_.erase(std::remove_if(parts_.begin(), parts_.end(), has_ended), parts_.end());
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
    const StreamClock &clock = waited ? later.point->at_wait : later.point->at_start;
    if (clock.holds(*before.point))
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
  if (second.point->at_wait.holds(*first.point))
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
