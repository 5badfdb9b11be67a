// See poll_check.h.
#include "emulator/exec/checks/poll_check.h"

#include "base/whole_number.h"

#include <algorithm>

namespace cugrt::emulator {

constexpr uint32_t kPatience = 16; // turns

bool PollCheck::may_begin() const {
  return std::all_of(active_.begin(), active_.end(),
                     [](const auto &a) { return a.second.waits || a.second.ran >= kPatience; });
}

void PollCheck::began(const Cluster &cluster) {
  waiting_.clear();
  for (const auto &[other, state] : active_)
    if (state.waits)
      waiting_.push_back({state.polled, block_text(*other->blocks.front())});
  if (waiting_.size() != active_.size())
    waiting_.clear();
  active_[&cluster] = {begun_++, 0, false, {}};
}

void PollCheck::turned(const Cluster &cluster, BlockState state) {
  AccessSet polled, written;
  for (const AccessSet *set : {&turn_.before_wait, &turn_.after_wait})
    set->for_each([&](AccessKind kind, const AccessSet::Range &range) {
      if (is_write(kind))
        written.add(AccessKind::write, range.begin, range.end - range.begin);
      else if (kind == AccessKind::strong_read && !memory_.is_shared(range.begin))
        polled.add(AccessKind::read, range.begin, range.end - range.begin);
    });
  turn_ = {.before_wait = {}, .after_wait = {}, .counts = turn_.counts, .loaded = {}};
  Active &own = active_[&cluster];
  const bool runs = state == BlockState::running;
  if (runs && own.ran && written.empty() && !polled.empty()) {
    own.waits = true;
    own.polled = std::move(polled);
    return;
  }
  const bool was_cut = state == BlockState::cut && written.empty(); // it may wait still
  if (own.number + 1 == begun_ && own.ran == 0)
    compare(cluster, written);
  else if (!was_cut)
    waiting_.clear();
  for (auto &[other, active] : active_)
    active.waits = false;
  if (!was_cut)
    own.ran = runs ? own.ran + 1 : 0;
  if (state == BlockState::finished)
    active_.erase(&cluster);
}

void PollCheck::compare(const Cluster &cluster, AccessSet &written) {
  for (Waiting &waiting : waiting_)
    if (const auto found = told_ ? std::nullopt : waiting.polled.conflict(written)) {
      report_(waiting.block + " waits for what is written at " + hex_text(found->bytes.begin) +
              " by " + block_text(*cluster.blocks.front()) +
              ", which has not begun: a launch that is not cooperative may run blocks one after "
              "the other");
      told_ = true;
    }
}

} // namespace cugrt::emulator
