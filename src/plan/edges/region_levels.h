// Steps of a region by graph: its own, and one for each body of its conditionals.
#pragma once

#include "plan/format/plan.h"

#include <optional>

namespace cugrt::plan {

/// The region's own graph is level 0; every body is a level.
struct RegionLevel {
  uint32_t parent = kNone;       // the level that holds the conditional
  uint32_t step = kNone;         // the conditional's, counted from the region's first
  uint32_t body = 0;             // of the conditional
  std::vector<uint32_t> steps{}; // counted likewise, those of bodies in them left out; ascending
};

struct RegionLevels {
  std::vector<RegionLevel> levels;
  std::vector<uint32_t> level_of; // by step, counted from the region's first
};

/// No bodies may be nested more deeply.
inline constexpr uint32_t kMaxConditionalNesting = 64;

/// None if bodies do not nest, or too deeply, or conditionals do not exist.
std::optional<RegionLevels> find_region_levels(const Function &function, ir::Range steps);
bool has_conditionals(const Function &function, const Region &region);

} // namespace cugrt::plan
