// Look-ups in modules and functions.
#include "ir/module.h"

namespace cugrt::ir {

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
