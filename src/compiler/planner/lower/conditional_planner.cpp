// Branches and loops within a region: steps of a conditional node and of its bodies.
//
//   %r = if %c { ... yield %a } else { ... yield %b }
//     conditional: reads %c
//       then: ..., copy %r <- %a
//       else: ..., copy %r <- %b
//
//   while (%c = %a) { t } do { b; yield %d }
//     copy %c <- %a; t
//     conditional: reads what t yields
//       body: b, copy %c <- %d, t, set_condition from t
//
//   %r = if n > 8 { ... yield %a } else { ... yield %b }
//     ... and copy %r <- %a, when n > 8; ... and copy %r <- %b, when n <= 8
//
// The condition's steps come twice, so that a loop costs one node for each time around and no
// branch. What they define the second time are other tensors in the same places: nothing of the
// first time is alive then.
#include "compiler/ir_names.h"
#include "compiler/planner/lower/function_planner.h"

#include "base/check.h"

#include <unordered_map>

namespace cugrt::plan {

/// A step that holds nothing yet.
static Step blank_step(const Function &f, StepKind kind, std::string name,
                       SourceLocation location) {
  Step step;
  step.kind = kind;
  step.name = std::move(name);
  step.arguments.begin = uint32_t(f.arguments.size());
  step.launches.begin = uint32_t(f.launches.size());
  step.accesses.begin = uint32_t(f.accesses.size());
  step.location = location;
  return step;
}

/// An expression that is not 0 if `condition` is not 0 (`holds`), or if it is.
static ExprId condition_expr(ir::ExprPool &exprs, ExprId condition, bool holds) {
  using ir::ExprKind;
  const ir::ExprNode node = exprs[condition];
  switch (node.kind) {
  case ExprKind::eq:
    return holds ? condition : exprs.make(ExprKind::ne, node.a, node.b);
  case ExprKind::ne:
    return holds ? condition : exprs.make(ExprKind::eq, node.a, node.b);
  case ExprKind::lt:
    return holds ? condition : exprs.make(ExprKind::le, node.b, node.a);
  case ExprKind::le:
    return holds ? condition : exprs.make(ExprKind::lt, node.b, node.a);
  default:
    return exprs.make(holds ? ExprKind::ne : ExprKind::eq, condition, exprs.constant(0));
  }
}

/// Gives the conditional's step, `own`, the accesses of the steps after it. These may not run, so
/// the conditional may leave the bytes that they write as they were.
static void touch_as_bodies(Function &f, uint32_t own) {
  std::vector<BufferAccess> touched{f.accesses[f.steps[own].accesses.begin]};
  std::unordered_map<uint32_t, uint32_t> place{{touched[0].buffer, 0}};
  for (uint32_t a = f.steps[own].accesses.end(); a < f.accesses.size(); ++a) {
    const BufferAccess &access = f.accesses[a];
    auto [entry, added] = place.try_emplace(access.buffer, uint32_t(touched.size()));
    if (added)
      touched.push_back({access.buffer, Access::in});
    if (ir::writes(access.access))
      touched[entry->second].access = Access::inout;
  }
  const auto more = uint32_t(touched.size() - 1);
  const auto at = f.accesses.begin() + ptrdiff_t(f.steps[own].accesses.begin);
  *at = touched[0];
  f.accesses.insert(at + 1, touched.begin() + 1, touched.end());
  f.steps[own].accesses.count += more;
  for (size_t s = own + 1; s < f.steps.size(); ++s)
    f.steps[s].accesses.begin += more;
}

/// An if or while binding that joins the region; nothing in it needs the host.
Status FunctionPlanner::conditional(const Binding &b) {
  if (body_depth_ == 0) {
    uint64_t steps = check_conditional(context_, index_, values_, b).steps;
    if (region_is_full(steps))
      close_region();
  }
  if (ir::ExprId condition = symbolic_condition(context_, index_, b); condition.valid())
    CUGRT_TRY(symbol_branch(b, context_.copy(condition)));
  else
    CUGRT_TRY(b.kind == BindingKind::if_ ? graph_branch(b) : graph_loop(b));
  if (region_is_full(1))
    close_region();
  return {};
}

/// Plans the steps of a block, without those that copy its results.
Status FunctionPlanner::graph_block(uint32_t ir_block) {
  for (uint32_t i = 0; i < function_.blocks[ir_block].bindings.size(); ++i)
    CUGRT_TRY(binding(ir_block, i));
  mark_time(live_.blocks[ir_block].end - 1);
  return {};
}

Result<uint32_t> FunctionPlanner::condition_buffer(const Operand &operand,
                                                   SourceLocation location) {
  CUGRT_ASSIGN(OperandRef ref, values_.ref(operand, location));
  CUGRT_CHECK(ref.kind == OperandRef::Kind::buffer);
  return ref.index;
}

/// Appends a step that reads a condition; gives its number.
uint32_t FunctionPlanner::condition_step(StepKind kind, const char *word, uint32_t conditional,
                                         uint32_t condition, SourceLocation location) {
  Step step =
      blank_step(out_, kind, std::string(word) + " %" + out_.buffers[condition].name, location);
  step.conditional = conditional;
  step.accesses.count = 1;
  out_.accesses.push_back({condition, Access::in});
  out_.steps.push_back(std::move(step));
  const auto number = uint32_t(out_.steps.size() - 1);
  push_step(number, true);
  return number;
}

/// Runs `plan_steps` for the steps of a conditional's next body.
template <class PlanSteps>
Status FunctionPlanner::graph_body(uint32_t conditional, SourceLocation location,
                                   PlanSteps plan_steps) {
  const auto first = uint32_t(out_.steps.size());
  ++body_depth_;
  CUGRT_TRY(plan_steps());
  --body_depth_;
  if (out_.steps.size() == first && out_.conditionals[conditional].bodies.empty()) {
    out_.steps.push_back(blank_step(out_, StepKind::empty, "nothing", location));
    push_step(first, true);
  }
  if (const auto count = uint32_t(out_.steps.size()) - first)
    out_.conditionals[conditional].bodies.push_back(count);
  return {};
}

/// Each step is planned with the condition that it runs under.
Status FunctionPlanner::symbol_branch(const Binding &b, ExprId condition) {
  ir::ExprPool &exprs = context_.plan.exprs;
  for (uint32_t i = 0; i < b.blocks.count; ++i) {
    const ExprId own = condition_expr(exprs, condition, i == 0);
    // an inner condition has a value perhaps only where the outer one holds
    const ExprId outer = std::exchange(
        when_,
        when_.valid() ? exprs.make(ir::ExprKind::select, when_, own, exprs.constant(0)) : own);
    const uint32_t block = b.blocks.begin + i;
    CUGRT_TRY(graph_block(block));
    Block yielded; // for the host, which does not run it
    CUGRT_TRY(yield_branch(b, function_.blocks[block], yielded));
    when_ = outer;
  }
  return {};
}

Status FunctionPlanner::graph_branch(const Binding &b) {
  CUGRT_ASSIGN(uint32_t condition, condition_buffer(function_.operands_of(b)[0], b.location));
  const auto number = uint32_t(out_.conditionals.size());
  out_.conditionals.push_back({ConditionalKind::if_, {}});
  uint32_t own = condition_step(StepKind::conditional, "if", number, condition, b.location);
  for (uint32_t block = b.blocks.begin; block < b.blocks.end(); ++block)
    CUGRT_TRY(graph_body(number, b.location, [&]() -> Status {
      CUGRT_TRY(graph_block(block));
      Block yielded; // for the host, which does not run it
      return yield_branch(b, function_.blocks[block], yielded);
    }));
  touch_as_bodies(out_, own);
  return {};
}

Status FunctionPlanner::graph_loop(const Binding &b) {
  const uint32_t test = b.blocks.begin, body = b.blocks.begin + 1;
  for (uint32_t i = 0; i < b.carried_count; ++i) {
    CUGRT_ASSIGN(OperandRef initial, values_.ref(function_.operands_of(b)[i], b.location));
    CUGRT_ASSIGN(uint32_t carried, values_.buffer(b.result(i), b.location));
    CUGRT_TRY(copy(carried, initial.index, b.location));
  }
  const Operand &yielded = function_.results_of(function_.blocks[test])[0];
  const SourceLocation end = function_.blocks[test].end_location;
  CUGRT_TRY(graph_block(test));
  CUGRT_ASSIGN(uint32_t condition, condition_buffer(yielded, end));
  const auto number = uint32_t(out_.conditionals.size());
  out_.conditionals.push_back({ConditionalKind::while_, {}});
  uint32_t own = condition_step(StepKind::conditional, "while", number, condition, b.location);
  CUGRT_TRY(graph_body(number, b.location, [&]() -> Status {
    CUGRT_TRY(graph_block(body));
    Block next; // for the host, which does not run it
    CUGRT_TRY(yield_loop(b, function_.blocks[body], next));
    values_.begin_again({test, 1});
    ++again_;
    CUGRT_TRY(graph_block(test));
    CUGRT_ASSIGN(uint32_t again, condition_buffer(yielded, end));
    condition_step(StepKind::set_condition, "again while", number, again, end);
    --again_;
    values_.end_again();
    return {};
  }));
  touch_as_bodies(out_, own);
  return {};
}

} // namespace cugrt::plan
