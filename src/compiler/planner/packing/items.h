// Items in the form that all packing works on: checked, in canonical order, without what takes no
// place, with their lives as lists of steps.
#pragma once

#include "compiler/planner/packing/packing.h"

namespace cugrt::plan {

/// Calls visit(item, begin, end) for every run of steps in which an item is alive, ascending by
/// item, then begin. The input must have passed check_input().
template <class Visit> void for_each_life(const PackingInput &input, Visit visit) {
  size_t g = 0;
  for (uint32_t i = 0; i < input.items.size(); ++i) {
    const PackingItem &item = input.items[i];
    uint32_t begin = item.begin;
    for (; g < input.gaps.size() && input.gaps[g].item == i; ++g) {
      const PackingGap &gap = input.gaps[g];
      if (begin < gap.begin)
        visit(i, begin, gap.begin);
      begin = gap.end;
    }
    if (begin < item.end)
      visit(i, begin, item.end);
  }
}

/// Items with bytes that are alive at some step, ascending by (begin, end, bytes, alignment, gaps,
/// place): numbering the caller's items otherwise changes nothing here.
struct CanonicalItems {
  struct Steps {
    uint32_t begin = 0, end = 0;
    friend auto operator<=>(const Steps &, const Steps &) = default;
  };
  std::vector<PackingItem> items;    // begin and end: first and last step alive
  std::vector<uint32_t> life_starts; // item i lives in lives[life_starts[i] .. life_starts[i + 1]);
  std::vector<Steps> lives;          // empty where no item has a gap
  std::vector<int64_t> fixed;        // offsets, or -1; empty where no item has a fixed place
  std::vector<uint32_t> given;       // the caller's numbers

  /// The input must have passed check_input().
  static CanonicalItems make(const PackingInput &input);

  bool gapless() const { return lives.empty(); }
  int64_t fixed_at(uint32_t i) const { return fixed.empty() ? -1 : fixed[i]; }
  template <class Visit> void for_each_life_of(uint32_t i, Visit visit) const {
    if (lives.empty())
      return visit(items[i].begin, items[i].end);
    for (uint32_t l = life_starts[i]; l < life_starts[i + 1]; ++l)
      visit(lives[l].begin, lives[l].end);
  }
  /// Times at which lives begin and end, ascending, each once.
  std::vector<uint32_t> change_times() const;
  /// Steps in which the item is alive.
  uint32_t life_steps(uint32_t i) const;
  /// Whether both are alive at some step.
  bool together(uint32_t i, uint32_t j) const;
};

/// Malformed items, gaps and places; sizes that overflow; fixed items that overlap. Where it
/// passes, plain arithmetic on offsets and sizes is safe.
Status check_input(const PackingInput &input);

} // namespace cugrt::plan
