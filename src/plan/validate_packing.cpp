// The check of packings: every pair, by the definition alone. It shares nothing with what packs.
#include "plan/pack.h"
#include "support/checked_math.h"

#include <algorithm>
#include <string>
#include <utility>

namespace cugrt::plan {
namespace {

/// Whether two items are alive at one step: of the steps in which both lives run, some is in no gap
/// of either.
class Lives {
public:
  explicit Lives(const PackInput &input) : input_(input), gaps_(input.items.size()) {
    for (const PackGap &gap : input.gaps)
      gaps_[gap.item].push_back(gap);
  }
  bool together(size_t i, size_t j) const {
    const PackItem &x = input_.items[i], &y = input_.items[j];
    uint32_t step = std::max(x.begin, y.begin); // the first that no gap looked at covers
    const uint32_t end = std::min(x.end, y.end);
    for (bool moved = true; std::exchange(moved, false) && step < end;)
      for (size_t item : {i, j})
        for (const PackGap &gap : gaps_[item])
          if (gap.begin <= step && step < gap.end) {
            step = gap.end;
            moved = true;
          }
    return step < end;
  }
  bool alive(size_t i) const { return together(i, i); }

private:
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
  for (size_t i = 0; i < items.size(); ++i) {
    int64_t offset = packing.offsets[i];
    auto end = checked_add(offset, items[i].bytes);
    if (offset < 0 || !end || offset % items[i].alignment != 0)
      return fail(i, "has an offset that is negative, too large or not aligned");
    if (items[i].bytes == 0 || !lives.alive(i))
      continue;
    peak = std::max(peak, *end);
    for (size_t j = 0; j < i; ++j) {
      bool in_space = offset < packing.offsets[j] + items[j].bytes && packing.offsets[j] < *end;
      if (in_space && items[j].bytes > 0 && lives.together(i, j))
        return fail(i, "overlaps item " + std::to_string(j) + " while both are alive");
    }
  }
  if (peak != packing.peak_bytes)
    return Status::error(Code::internal, "packing states another peak than its offsets have");
  return {};
}

} // namespace cugrt::plan
