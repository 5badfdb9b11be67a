// Layers of a sequence of steps: stretches that repeat, so that a reader may fold them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cugrt::runtime {

/// Steps [first, first + count). Of a repeated stretch the `number`-th of `of`, from 1; what
/// repeats nothing is 1 of 1.
struct StepLayer {
  uint32_t first = 0, count = 0, number = 1, of = 1;
  friend bool operator==(const StepLayer &, const StepLayer &) = default;
};

inline constexpr uint32_t kLeastLayer = 4, kMostLayer = 1024, kMostUnrepeated = 64; // steps

/// Divides steps of these kinds, in order, without gaps: the tandem repeat that covers most of
/// them, then likewise what is before and behind it. What repeats nothing is cut into pieces of
/// kMostUnrepeated steps.
std::vector<StepLayer> find_layers(std::span<const uint32_t> kinds);

} // namespace cugrt::runtime
