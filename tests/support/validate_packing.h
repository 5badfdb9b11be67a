// The check of packings: every pair that is alive together, by the definition alone. It shares
// nothing with what packs.
#pragma once

#include "base/checked_math.h"
#include "compiler/planner/packing/packing.h"

#include <algorithm>
#include <string>
#include <vector>

namespace cugrt::test {

/// In which steps each item is alive.
class PackingLives {
public:
  explicit PackingLives(const plan::PackingInput &input)
      : input_(input), gaps_(input.items.size()) {
    for (const plan::PackingGap &gap : input.gaps)
      gaps_[gap.item].push_back(gap);
  }
  bool ever_alive(size_t i) const { return together(i, i); }
  /// Whether two items are alive at the same step.
  bool together(size_t i, size_t j) const {
    const plan::PackingItem &x = input_.items[i], &y = input_.items[j];
    const uint32_t end = std::min(x.end, y.end);
    for (uint32_t step = std::max(x.begin, y.begin); step < end;) {
      const Part a = at(i, step), b = at(j, step);
      if (a.alive && b.alive)
        return true;
      step = std::min(a.until, b.until);
    }
    return false;
  }

private:
  struct Part {
    bool alive;
    uint32_t until; // it is the same in the steps before this one
  };
  Part at(size_t i, uint32_t step) const {
    uint32_t until = input_.items[i].end;
    for (const plan::PackingGap &gap : gaps_[i]) {
      if (gap.begin <= step && step < gap.end)
        return {false, gap.end};
      if (step < gap.begin)
        until = std::min(until, gap.begin);
    }
    return {true, until};
  }

  const plan::PackingInput &input_;
  std::vector<std::vector<plan::PackingGap>> gaps_;
};

/// Quadratic: offsets aligned and not negative, fixed ones as asked for, items that are alive at
/// one step disjoint, peak as stated.
inline Status validate_packing(const plan::PackingInput &input, const plan::Packing &packing) {
  auto fail = [](size_t i, const std::string &what) {
    return Status::error(Code::internal, "packing item " + std::to_string(i) + " " + what);
  };
  const std::span<const plan::PackingItem> items = input.items;
  if (packing.offsets.size() != items.size())
    return Status::error(Code::internal, "packing has another number of offsets than items");
  for (const plan::PackingPlace &place : input.fixed)
    if (packing.offsets[place.item] != place.offset_bytes)
      return fail(place.item, "does not lie where it is fixed");
  const PackingLives lives(input);
  int64_t peak = 0;
  std::vector<uint32_t> by_begin; // of those that have bytes and are ever alive
  for (uint32_t i = 0; i < items.size(); ++i) {
    auto end = checked_add(packing.offsets[i], items[i].bytes);
    if (packing.offsets[i] < 0 || !end || packing.offsets[i] % items[i].alignment != 0)
      return fail(i, "has an offset that is negative, too large or not aligned");
    if (items[i].bytes == 0 || !lives.ever_alive(i))
      continue;
    peak = std::max(peak, *end);
    by_begin.push_back(i);
  }
  std::sort(by_begin.begin(), by_begin.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(items[a].begin, a) < std::pair(items[b].begin, b);
  });
  std::vector<uint32_t> alive; // that have begun, and not ended
  for (uint32_t i : by_begin) {
    const int64_t begin = packing.offsets[i], end = begin + items[i].bytes;
    std::erase_if(alive, [&](uint32_t j) { return items[j].end <= items[i].begin; });
    for (uint32_t j : alive) {
      bool in_space = begin < packing.offsets[j] + items[j].bytes && packing.offsets[j] < end;
      if (in_space && lives.together(i, j))
        return fail(std::max(i, j),
                    "overlaps item " + std::to_string(std::min(i, j)) + " while both are alive");
    }
    alive.push_back(i);
  }
  if (peak != packing.peak_bytes)
    return Status::error(Code::internal, "packing states another peak than its offsets have");
  return {};
}

} // namespace cugrt::test
