// Tandem repeats of steps' kinds; see plan_report.h.
#include "library/report/plan_report.h"

#include <algorithm>

namespace cugrt::runtime {

namespace {

constexpr int kMostDepth = 12; // of repeats beside repeats; beyond it nothing is looked for

struct Repeat {
  uint32_t first = 0, period = 0, times = 0;
  uint32_t steps() const { return period * times; }
};

/// The repeat that covers most; among equals the shortest period, then the first.
Repeat longest_repeat(std::span<const uint32_t> kinds) {
  const auto size = static_cast<uint32_t>(kinds.size());
  Repeat best;
  for (uint32_t period = kLeastLayer; period <= std::min(size / 2, kMostLayer); ++period) {
    uint32_t same = 0; // steps up to here that are as those a period later
    for (uint32_t i = 0; i + period <= size; ++i) {
      if (i + period < size && kinds[i] == kinds[i + period]) {
        ++same;
        continue;
      }
      const Repeat found{i - same, period, same / period + 1};
      if (found.times > 1 && found.steps() > best.steps())
        best = found;
      same = 0;
    }
  }
  return best;
}

void divide(std::span<const uint32_t> kinds, uint32_t first, int depth,
            std::vector<StepLayer> &layers) {
  const auto size = static_cast<uint32_t>(kinds.size());
  const Repeat repeat = depth < kMostDepth ? longest_repeat(kinds) : Repeat();
  if (repeat.times == 0) {
    for (uint32_t begin = 0; begin < size; begin += kMostUnrepeated)
      layers.push_back({first + begin, std::min(kMostUnrepeated, size - begin), 1, 1});
    return;
  }
  divide(kinds.subspan(0, repeat.first), first, depth + 1, layers);
  for (uint32_t i = 0; i < repeat.times; ++i)
    layers.push_back(
        {first + repeat.first + i * repeat.period, repeat.period, i + 1, repeat.times});
  const uint32_t end = repeat.first + repeat.steps();
  divide(kinds.subspan(end), first + end, depth + 1, layers);
}

} // namespace

std::vector<StepLayer> find_layers(std::span<const uint32_t> kinds) {
  std::vector<StepLayer> layers;
  divide(kinds, 0, 0, layers);
  return layers;
}

} // namespace cugrt::runtime
