// Tells which steps of a function may run in one launch. A step of a branch on symbols has the
// condition that it runs under (Step::when), and the two branches of one `if` never run together:
//
//   if n > 8 { a; if c { b } } else { d }        a: n > 8      b: n > 8 and c      d: n <= 8
//
// Such a condition has one part or more, the outer branch's first. Two conditions are exclusive if
// one has the opposite of a part of the other, or if both have a part over one expression, whose
// values are disjoint: n < 8 and n == 9. So branches of one `if` always are, and those of several
// over the same condition.
#pragma once

#include "plan/format/plan.h"

namespace cugrt::plan {

class StepConditions {
public:
  /// The condition of steps that always run. It is nobody's opposite, and all others imply it.
  static constexpr uint32_t kAlways = 0;
  /// Numbers are below this; steps of conditions beyond count as such that always run.
  static constexpr uint32_t kMost = 64;

  /// All steps always run.
  StepConditions() = default;
  /// The conditions depend on the function's steps, not on their order.
  StepConditions(const ir::ExprPool &exprs, const Function &function);

  /// The number of the condition that a step of the function runs under.
  uint32_t operator[](uint32_t step) const { return of_step_.empty() ? kAlways : of_step_[step]; }
  /// Whether conditions `a` and `b` never hold together.
  bool exclusive(uint32_t a, uint32_t b) const {
    return !exclusive_.empty() && (exclusive_[a] >> b & 1) != 0;
  }
  /// Whether `b` holds wherever `a` does: all that it asks for, `a` asks for.
  bool implies(uint32_t a, uint32_t b) const {
    return exclusive_.empty() || (implied_[a] >> b & 1) != 0;
  }

private:
  std::vector<uint8_t> of_step_;              // empty: all always run
  std::vector<uint64_t> exclusive_, implied_; // by condition: a bit for each
};

} // namespace cugrt::plan
