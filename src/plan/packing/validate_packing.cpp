// The check of packings: every pair that is alive together, by the definition alone. It shares
// nothing with what packs.
#include "plan/pack.h"
#include "support/checked_math.h"

#include <algorithm>
#include <string>
#include <vector>

namespace cugrt::plan {
namespace {

/// Which bytes each item occupies at each step.
class Lives {
public:
  explicit Lives(const PackInput &input) : input_(input), gaps_(input.items.size()) {
    for (const PackGap &gap : input.gaps)
      gaps_[gap.item].push_back(gap);
  }
  bool ever_alive(size_t i) const {
    for (uint32_t step = input_.items[i].begin; step < input_.items[i].end;) {
      const Part part = at(i, step);
      if (part.low < part.high)
        return true;
      step = part.until;
    }
    return false;
  }
  /// Whether two items occupy a byte at the same step, when they lie at these offsets.
  bool clash(size_t i, int64_t offset_i, size_t j, int64_t offset_j) const {
    const PackItem &x = input_.items[i], &y = input_.items[j];
    const uint32_t end = std::min(x.end, y.end);
    for (uint32_t step = std::max(x.begin, y.begin); step < end;) {
      const Part a = at(i, step), b = at(j, step);
      if (std::max(offset_i + a.low, offset_j + b.low) <
          std::min(offset_i + a.high, offset_j + b.high))
        return true;
      step = std::min(a.until, b.until);
    }
    return false;
  }

private:
  struct Part {
    int64_t low, high; // of the item's bytes; equal: none is occupied
    uint32_t until;    // it is the same in the steps before this one
  };
  Part at(size_t i, uint32_t step) const {
    uint32_t until = input_.items[i].end;
    for (const PackGap &gap : gaps_[i]) {
      if (gap.begin <= step && step < gap.end)
        return {gap.low_bytes, gap.high_bytes, gap.end};
      if (step < gap.begin)
        until = std::min(until, gap.begin);
    }
    return {0, input_.items[i].bytes, until};
  }

  const PackInput &input_;
  std::vector<std::vector<PackGap>> gaps_;
};

} // namespace

Status validate_packing(const PackInput &input, const Packing &packing) {
  auto fail = [](size_t i, const std::string &what) {
    return Status::error(Code::internal, "packing item " + std::to_string(i) + " " + what);
  };
  const std::span<const PackItem> items = input.items;
  if (packing.offsets.size() != items.size())
    return Status::error(Code::internal, "packing has another number of offsets than items");
  for (const PackPlace &place : input.fixed)
    if (packing.offsets[place.item] != place.offset_bytes)
      return fail(place.item, "does not lie where it is fixed");
  const Lives lives(input);
  int64_t peak = 0;
  std::vector<uint32_t> by_begin; // those that occupy bytes
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
      if (in_space && lives.clash(i, begin, j, packing.offsets[j]))
        return fail(std::max(i, j),
                    "overlaps item " + std::to_string(std::min(i, j)) + " while both are alive");
    }
    alive.push_back(i);
  }
  if (peak != packing.peak_bytes)
    return Status::error(Code::internal, "packing states another peak than its offsets have");
  return {};
}

} // namespace cugrt::plan
