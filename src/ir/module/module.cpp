// Look-ups in modules and functions.
#include "ir/module.h"

#include <algorithm>

namespace cugrt::ir {

int64_t round_up_to_bucket(std::span<const int64_t> buckets, int64_t value) {
  auto bucket = std::lower_bound(buckets.begin(), buckets.end(), value);
  return bucket == buckets.end() ? value : *bucket;
}

Interval bucket_bounds(const Symbol &symbol) {
  return {round_up_to_bucket(symbol.buckets, symbol.bounds.lower),
          round_up_to_bucket(symbol.buckets, symbol.bounds.upper)};
}

std::vector<std::string> Function::symbol_names() const {
  std::vector<std::string> names;
  names.reserve(symbols.size());
  for (const Symbol &symbol : symbols)
    names.push_back(symbol.name);
  return names;
}

std::vector<Interval> Function::symbol_bounds() const {
  std::vector<Interval> bounds;
  bounds.reserve(symbols.size());
  for (const Symbol &symbol : symbols)
    bounds.push_back(symbol.bounds);
  return bounds;
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

SymbolDomain Function::symbol_domain(const ExprPool &exprs) const {
  return SymbolDomain(symbol_bounds(), limits_of(exprs, constraints));
}

const Function *Module::find_function(std::string_view name) const {
  for (const Function &function : functions)
    if (function.name == name)
      return &function;
  return nullptr;
}

const Kernel *Module::find_kernel(std::string_view name) const {
  for (const Kernel &kernel : kernels)
    if (kernel.name == name)
      return &kernel;
  return nullptr;
}

} // namespace cugrt::ir
