// Levels of regions, edges and conditionals; see validate_parts.h.

#include "plan/edges/region_levels.h"
#include "plan/validate/validate_parts.h"

#include <algorithm>

namespace cugrt::plan {

Status RegionLevelCheck::fail(const std::string &what) const { return plan_error(f_, what); }

Status RegionLevelCheck::region(const Region &region) {
  CUGRT_TRY(levels(region));
  return programmatic(region);
}

/// Whether the form of `when` shows that it holds only where `outer` does: they are one, or
/// `when` asks for `outer` first.
bool RegionLevelCheck::runs_only_where(ExprId when, ExprId outer) const {
  const auto always = [&](ExprId e) {
    return !e.valid() || plan_.exprs.as_constant(e).value_or(0) != 0;
  };
  if (always(outer))
    return true;
  for (; when.valid(); when = plan_.exprs[when].a) {
    if (when == outer || plan_.exprs.as_constant(when) == std::optional<int64_t>(0))
      return true;
    const ir::ExprNode &node = plan_.exprs[when];
    if (node.kind != ir::ExprKind::select ||
        plan_.exprs.as_constant(node.c) != std::optional<int64_t>(0))
      return false;
  }
  return false;
}

/// Bodies nest, edges join steps of one graph, every conditional stands in one place, and every
/// loop sets its condition in its body.
Status RegionLevelCheck::levels(const Region &region) {
  auto levels = find_region_levels(f_, region.steps);
  if (!levels)
    return fail("region " + region.name + " has bodies that do not lie within each other");
  for (const Edge &edge : region.edges)
    if (levels->level_of[edge.from] != levels->level_of[edge.to])
      return fail("region " + region.name + " has an edge between two graphs");
  for (const RegionLevel &level : levels->levels)
    for (uint32_t s : level.steps)
      if (const Step &step = f_.steps[region.steps.begin + s];
          level.step != kNone && step.kind != StepKind::empty &&
          !runs_only_where(step.when, f_.steps[region.steps.begin + level.step].when))
        return fail("step '" + step.name + "' runs where the conditional around it does not");
  for (uint32_t s = 0; s < region.steps.count; ++s) {
    const Step &step = f_.steps[region.steps.begin + s];
    if (step.kind == StepKind::conditional && conditional_uses_[step.conditional]++)
      return fail("a conditional stands in two places");
    if (step.kind != StepKind::set_condition)
      continue;
    const RegionLevel &level = levels->levels[levels->level_of[s]];
    if (level.step == kNone ||
        f_.steps[region.steps.begin + level.step].conditional != step.conditional ||
        condition_sets_[step.conditional]++)
      return fail("step '" + step.name + "' stands outside of its loop's body, or twice");
    if (step.when != f_.steps[region.steps.begin + level.step].when)
      return fail("step '" + step.name + "' does not run whenever its loop does");
  }
  return {};
}

Status RegionLevelCheck::conditionals() const {
  for (size_t c = 0; c < f_.conditionals.size(); ++c)
    if (conditional_uses_[c] != 1 ||
        condition_sets_[c] != (f_.conditionals[c].kind == ConditionalKind::while_ ? 1 : 0))
      return fail("a conditional stands nowhere, or a loop never sets its condition");
  return {};
}

Status RegionLevelCheck::programmatic(const Region &region) const {
  if (!std::is_sorted(region.programmatic.begin(), region.programmatic.end()) ||
      std::adjacent_find(region.programmatic.begin(), region.programmatic.end()) !=
          region.programmatic.end())
    return fail("region " + region.name + " has programmatic edges out of order");
  for (uint32_t edge : region.programmatic) {
    if (edge >= region.edges.size())
      return fail("a programmatic edge does not exist");
    for (uint32_t end : {region.edges[edge].from, region.edges[edge].to})
      if (f_.steps[region.steps.begin + end].kind != StepKind::kernel)
        return fail("region " + region.name + " has a programmatic edge at what is no kernel");
  }
  return {};
}

} // namespace cugrt::plan
