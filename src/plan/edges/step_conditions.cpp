// Conditions taken apart; see step_conditions.h.
#include "plan/edges/step_conditions.h"

#include <algorithm>

namespace cugrt::plan {

using ir::ExprKind;
using ir::ExprNode;

/// The parts of a condition, all of which must hold: select(a, b, 0) holds if both a and b do.
static std::vector<ExprId> parts_of(const ir::ExprPool &exprs, ExprId condition) {
  std::vector<ExprId> parts, open{condition};
  while (!open.empty()) {
    const ExprId part = open.back();
    const ExprNode &node = exprs[part];
    open.pop_back();
    if (node.kind == ExprKind::select && exprs.as_constant(node.c) == std::optional<int64_t>(0))
      open.insert(open.end(), {node.a, node.b});
    else
      parts.push_back(part);
  }
  std::sort(parts.begin(), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  return parts;
}

/// Comparisons of the same operands of which exactly one holds.
static bool are_opposite(const ExprNode &p, const ExprNode &q) {
  if (p.kind == ExprKind::eq || p.kind == ExprKind::ne)
    return q.kind == (p.kind == ExprKind::eq ? ExprKind::ne : ExprKind::eq) && p.a == q.a &&
           p.b == q.b;
  if (p.kind == ExprKind::lt || p.kind == ExprKind::le)
    return q.kind == (p.kind == ExprKind::lt ? ExprKind::le : ExprKind::lt) && p.a == q.b &&
           p.b == q.a;
  return false;
}

/// The values of an expression for which a comparison with a constant holds.
struct Values {
  ExprId of;
  ir::Interval range;
};

static std::optional<Values> values_of(const ir::ExprPool &exprs, const ExprNode &node) {
  if (node.kind != ExprKind::eq && node.kind != ExprKind::lt && node.kind != ExprKind::le)
    return std::nullopt;
  const auto low = exprs.as_constant(node.a), high = exprs.as_constant(node.b);
  if (low.has_value() == high.has_value())
    return std::nullopt;
  Values values{high ? node.a : node.b, {}};
  const int64_t past = node.kind == ExprKind::lt ? 1 : 0;
  if (high && __builtin_sub_overflow(*high, past, &values.range.upper))
    return std::nullopt;
  if (low && __builtin_add_overflow(*low, past, &values.range.lower))
    return std::nullopt;
  if (node.kind == ExprKind::eq)
    values.range = {high.value_or(low.value_or(0)), high.value_or(low.value_or(0))};
  return values;
}

static bool never_both(const ir::ExprPool &exprs, ExprId a, ExprId b) {
  const ExprNode &p = exprs[a], &q = exprs[b];
  if (are_opposite(p, q))
    return true;
  const auto x = values_of(exprs, p), y = values_of(exprs, q);
  return x && y && x->of == y->of &&
         (x->range.upper < y->range.lower || y->range.upper < x->range.lower);
}

/// The innermost comparison, one way round: the same for both branches of an `if` within the same
/// others, so that comes_before() sorts both alike.
static ExprNode branch_of(const ir::ExprPool &exprs, ExprId when) {
  ExprNode node = exprs[when];
  while (node.kind == ExprKind::select)
    node = exprs[node.b];
  if (node.kind == ExprKind::le)
    return {ExprKind::lt, node.b, node.a, {}, 0};
  if (node.kind == ExprKind::ne)
    node.kind = ExprKind::eq;
  return node;
}

/// An order of conditions that depends on them alone, opposites next to each other.
static bool comes_before(const ir::ExprPool &exprs, ExprId a, ExprId b) {
  const ExprNode x = branch_of(exprs, a), y = branch_of(exprs, b);
  if (x.kind != y.kind)
    return x.kind < y.kind;
  for (ExprId ExprNode::*operand : {&ExprNode::a, &ExprNode::b})
    if ((x.*operand).valid() && (y.*operand).valid())
      if (int order = exprs.compare(x.*operand, y.*operand))
        return order < 0;
  return exprs.compare(a, b) < 0;
}

StepConditions::StepConditions(const ir::ExprPool &exprs, const Function &function) {
  std::vector<ExprId> whens;
  for (const Step &step : function.steps)
    if (step.when.valid())
      whens.push_back(step.when);
  if (whens.empty())
    return;
  std::sort(whens.begin(), whens.end(),
            [&](ExprId a, ExprId b) { return comes_before(exprs, a, b); });
  whens.erase(std::unique(whens.begin(), whens.end()), whens.end());
  whens.resize(std::min<size_t>(whens.size(), kMost - 1));

  of_step_.reserve(function.steps.size());
  for (const Step &step : function.steps) {
    auto found = std::find(whens.begin(), whens.end(), step.when);
    of_step_.push_back(found == whens.end() ? kAlways : uint8_t(1 + (found - whens.begin())));
  }
  std::vector<std::vector<ExprId>> parts(1); // nothing is asked for by kAlways
  for (ExprId when : whens)
    parts.push_back(parts_of(exprs, when));
  exclusive_.resize(parts.size());
  implied_.resize(parts.size());
  for (size_t a = 0; a < parts.size(); ++a)
    for (size_t b = 0; b < parts.size(); ++b) {
      const bool apart = std::any_of(parts[a].begin(), parts[a].end(), [&](ExprId p) {
        return std::any_of(parts[b].begin(), parts[b].end(),
                           [&](ExprId q) { return never_both(exprs, p, q); });
      });
      exclusive_[a] |= uint64_t(apart) << b;
      implied_[a] |= uint64_t(std::includes(parts[a].begin(), parts[a].end(), parts[b].begin(),
                                            parts[b].end()))
                     << b;
    }
}

} // namespace cugrt::plan
