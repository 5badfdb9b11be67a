// See grid_race_check.h.
#include "emulator/exec/checks/grid_race_check.h"

#include "base/whole_number.h"

#include <algorithm>

namespace cugrt::emulator {

constexpr uint64_t kWordBytes = 8;

static bool is_strong(AccessKind kind) {
  return kind == AccessKind::strong_read || kind == AccessKind::strong_write;
}

void GridRaceCheck::began(const Cluster &cluster) {
  Own &own = all_[active_[&cluster] = begun_++];
  own.name = block_text(*cluster.blocks.front());
  own.known.resize(all_.size());
}

void GridRaceCheck::turned(const Cluster &cluster, BlockState state) {
  AccessSet touched;
  touched.add(turn_.before_wait);
  touched.add(turn_.after_wait);
  turn_ = {.before_wait = {}, .after_wait = {}, .counts = turn_.counts, .loaded = {}};
  const size_t number = active_.at(&cluster);
  Own &own = all_[number];
  take_over(own, touched);
  compare(own, touched);
  hand_on(own, number, touched);
  forget(own, number);
  if (state == BlockState::finished) {
    own.has_ended = true;
    active_.erase(&cluster);
  }
}

void GridRaceCheck::take_over(Own &own, const AccessSet &touched) {
  const Clock *last = nullptr; // neighbouring words mostly have the same
  touched.for_each([&](AccessKind kind, const AccessSet::Range &range) {
    for (uint64_t word = range.begin / kWordBytes; is_strong(kind) && word * kWordBytes < range.end;
         ++word) {
      const auto found = ordered_at_.find(word);
      if (found == ordered_at_.end() || found->second.get() == last)
        continue;
      last = found->second.get();
      for (size_t i = 0; i < last->size(); ++i)
        own.known[i] = std::max(own.known[i], (*last)[i]);
    }
  });
}

void GridRaceCheck::compare(const Own &own, AccessSet &touched) {
  for (size_t i = 0; i < begun_ && !told_; ++i)
    for (auto part = all_[i].parts.rbegin(); part != all_[i].parts.rend(); ++part) {
      if (&all_[i] == &own || part->time <= own.known[i])
        break;
      const auto found = touched.conflict(part->touched);
      if (!found)
        continue;
      const auto name = [](AccessKind kind) { return is_write(kind) ? "write" : "read"; };
      report_(std::string(name(found->first)) + " at " + hex_text(found->bytes.begin) + " by " +
              own.name + " is not ordered with the " + name(found->second) + " by " + all_[i].name +
              " of the same cooperative grid");
      told_ = true;
      break;
    }
}

void GridRaceCheck::hand_on(Own &own, size_t number, const AccessSet &touched) {
  if (own.parts.empty() || own.parts.back().time != own.time)
    own.parts.push_back({own.time, {}});
  std::shared_ptr<Clock> handed;
  touched.for_each([&](AccessKind kind, const AccessSet::Range &range) {
    if (kind != AccessKind::strong_read)
      own.parts.back().touched.add(kind, range.begin, range.end - range.begin);
    if (kind != AccessKind::strong_write)
      return;
    if (!handed) {
      handed = std::make_shared<Clock>(own.known);
      (*handed)[number] = own.time;
    }
    // What was known there has been taken over.
    for (uint64_t word = range.begin / kWordBytes; word * kWordBytes < range.end; ++word)
      ordered_at_[word] = handed;
  });
  own.time += handed ? 1 : 0;
}

void GridRaceCheck::forget(Own &own, size_t number) {
  constexpr size_t kMany = 16;
  if (own.parts.size() < kMany)
    return;
  uint32_t least = UINT32_MAX;
  for (size_t i = 0; i < all_.size(); ++i)
    if (i != number && !all_[i].has_ended)
      least = std::min(least, i < begun_ ? all_[i].known[number] : 0);
  while (own.parts.size() > 1 && own.parts.front().time <= least)
    own.parts.pop_front();
}

} // namespace cugrt::emulator
