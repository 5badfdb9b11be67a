// Buckets and constraints of symbols; see symbols.h.
#include "base/expr/symbols.h"

#include <algorithm>

namespace cugrt::ir {

int64_t round_up_to_bucket(std::span<const int64_t> buckets, int64_t value) {
  auto bucket = std::lower_bound(buckets.begin(), buckets.end(), value);
  return bucket == buckets.end() ? value : *bucket;
}

std::vector<JointLimit> limits_of(const ExprPool &exprs, std::span<const Constraint> constraints) {
  std::vector<JointLimit> limits;
  for (const Constraint &constraint : constraints)
    if (Result<JointLimit> limit = exprs.joint_limit(constraint); limit.ok())
      limits.push_back(std::move(*limit));
  return limits;
}

bool is_over(const ExprPool &exprs, const Constraint &constraint,
             std::span<const SymbolId> symbols) {
  std::vector<SymbolId> used;
  exprs.collect_symbols(constraint.expr, used);
  return std::all_of(used.begin(), used.end(), [&](SymbolId symbol) {
    return std::find(symbols.begin(), symbols.end(), symbol) != symbols.end();
  });
}

} // namespace cugrt::ir
