// Look-ups in modules and functions.
#include "ir/module/module.h"

namespace cugrt::ir {

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
