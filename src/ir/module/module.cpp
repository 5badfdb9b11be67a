// Look-ups in modules and functions.
#include "ir/module/module.h"

namespace cugrt::ir {

const BindingInfo &binding_info(BindingKind kind) {
  using enum CalleeKind;
  using enum BindingWork;
  constexpr uint32_t many = BindingInfo::kMany;
  constexpr uint8_t values = kTakesValues, captured = kMayBeCaptured;
  static constexpr BindingInfo kRows[] = {
#define CUGRT_BINDING(id, word, ...) {word, __VA_ARGS__},
#include "ir/module/bindings.def"
#undef CUGRT_BINDING
  };
  return kRows[static_cast<size_t>(kind)];
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
