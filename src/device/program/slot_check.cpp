// One sweep in address order; see slot_check.h.
#include "device/program/slot_check.h"

#include <algorithm>

namespace cugrt::runtime {

bool find_overlap(std::span<BoundRange> ranges, Overlap &overlap) {
  std::sort(ranges.begin(), ranges.end(), [](const BoundRange &a, const BoundRange &b) {
    return a.begin != b.begin ? a.begin < b.begin : a.name < b.name;
  });
  // The ranges so far that reach furthest: of all, and of the written ones. A range overlaps an
  // earlier one exactly when it begins before that one's end.
  constexpr uint32_t kNoRange = UINT32_MAX;
  uint32_t furthest = kNoRange, furthest_written = kNoRange;
  auto end = [&](uint32_t i) { return i == kNoRange ? 0 : ranges[i].begin + ranges[i].bytes; };
  for (uint32_t i = 0; i < ranges.size(); ++i) {
    const BoundRange &range = ranges[i];
    if (range.bytes == 0)
      continue;
    uint32_t against = range.written ? furthest : furthest_written;
    if (against != kNoRange && range.begin < end(against)) {
      overlap = {against, i};
      return true;
    }
    if (range.begin + range.bytes > end(furthest))
      furthest = i;
    if (range.written && range.begin + range.bytes > end(furthest_written))
      furthest_written = i;
  }
  return false;
}

} // namespace cugrt::runtime
