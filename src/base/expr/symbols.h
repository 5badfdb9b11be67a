// Facts about a function's symbols that modules and plans share: sources of values, buckets,
// constraints.
#pragma once

#include "base/expr/expr.h"

namespace cugrt::ir {

/// Limits on facts about symbols, so that a hostile file gives an error and nothing else.
inline constexpr size_t kMaxBuckets = 256;        // of a symbol
inline constexpr size_t kMaxConstraints = 16;     // of a function
inline constexpr size_t kMaxConstraintTerms = 8;  // of a constraint
inline constexpr size_t kMaxConstraintDegree = 8; // symbols in a product of a constraint

enum class SymbolSource : uint8_t {
  parameter, // a dimension or element of a parameter's type, or an integer host scalar parameter
  match,     // a match_shape binding
  device,    // a read binding: lives in device memory, never sizes anything, never enters a key
  bucket,    // the bucket that holds another symbol's value; see round_up_to_bucket
};

/// The least of `buckets`, which ascend, that is not below `value`; beyond the last the value
/// itself.
int64_t round_up_to_bucket(std::span<const int64_t> buckets, int64_t value);

/// The constraints as limits, but for those that are none.
std::vector<JointLimit> limits_of(const ExprPool &exprs, std::span<const Constraint> constraints);

/// Whether a constraint names none but these symbols.
bool is_over(const ExprPool &exprs, const Constraint &constraint,
             std::span<const SymbolId> symbols);

} // namespace cugrt::ir
