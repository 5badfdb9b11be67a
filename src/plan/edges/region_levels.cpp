// The levels of a region; see region_levels.h.
#include "plan/edges/region_levels.h"

namespace cugrt::plan {

/// Puts the steps [begin, end) into `level`. False where bodies do not fit.
static bool find_levels(const Function &f, ir::Range region, uint32_t begin, uint32_t end,
                        uint32_t level, uint32_t depth, RegionLevels &out) {
  if (depth > kMaxConditionalNesting)
    return false;
  for (uint32_t s = begin; s < end; ++s) {
    out.level_of[s] = level;
    out.levels[level].steps.push_back(s);
    const Step &step = f.steps[region.begin + s];
    if (step.kind != StepKind::conditional)
      continue;
    if (step.conditional >= f.conditionals.size())
      return false;
    const uint32_t own = s;
    const std::vector<uint32_t> &bodies = f.conditionals[step.conditional].bodies;
    for (uint32_t body = 0; body < bodies.size(); ++body) {
      if (bodies[body] > end - s - 1)
        return false;
      const auto inner = uint32_t(out.levels.size());
      out.levels.push_back({.parent = level, .step = own, .body = body});
      if (!find_levels(f, region, s + 1, s + 1 + bodies[body], inner, depth + 1, out))
        return false;
      s += bodies[body];
    }
  }
  return true;
}

std::optional<RegionLevels> find_region_levels(const Function &function, ir::Range steps) {
  RegionLevels levels;
  levels.level_of.resize(steps.count);
  levels.levels.emplace_back();
  if (!find_levels(function, steps, 0, steps.count, 0, 0, levels))
    return std::nullopt;
  return levels;
}

bool has_conditionals(const Function &function, const Region &region) {
  if (function.conditionals.empty())
    return false;
  for (uint32_t s = region.steps.begin; s < region.steps.end(); ++s)
    if (function.steps[s].kind == StepKind::conditional)
      return true;
  return false;
}

} // namespace cugrt::plan
