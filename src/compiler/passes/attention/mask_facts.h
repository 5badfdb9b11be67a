// What is known of the masks of attention before it is run.
#pragma once

#include "compiler/passes/attention/value_reader.h"

#include <unordered_map>

namespace cugrt::passes {

class MaskFacts {
public:
  explicit MaskFacts(const ValueReader &read) : read_(read) {}

  /// Whether it may hide positions by -infinity, so that of a row nothing may be left. Overflow of
  /// finite numbers is left out of account, but for casts of floats.
  bool may_hide(const MaskPart &part);
  /// Whether it hides, of `size` positions from `size` queries, all behind the query's own and
  /// nothing else, by at most `most`.
  bool is_causal(const MaskPart &part, ir::ExprId size, double most) const;
  /// The mask of which the condition says, row by row, whether its largest element is -infinity;
  /// invalid: it says something else.
  ir::ValueId largest_is_minus_infinity(ir::ValueId condition) const;

private:
  /// row * query + column * position + rest, of integers.
  struct Places {
    int64_t row = 0, column = 0, rest = 0;
  };
  bool is_finite(ir::ValueId value, int depth);
  bool find_finite(ir::ValueId value, int depth);
  bool is_lower_triangle(ir::ValueId condition, ir::ExprId size, int depth) const;
  bool is_causal_bias(ir::ValueId mask, ir::ExprId size, double most) const;
  std::optional<Places> places(ir::ValueId value, ir::ExprId size, int depth) const;
  std::optional<Places> counted(ir::ValueId value, ir::ExprId size) const;
  std::optional<int64_t> square(ir::ValueId value, ir::ExprId size) const;

  const ValueReader &read_;
  std::unordered_map<uint32_t, bool> finite_; // by value: sums may share their terms
};

} // namespace cugrt::passes
