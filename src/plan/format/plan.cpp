// Look-ups in plans.
#include "plan/format/plan.h"

#include <algorithm>

namespace cugrt::plan {

std::vector<std::string> Function::symbol_names() const {
  std::vector<std::string> names;
  names.reserve(symbols.size());
  for (const Symbol &symbol : symbols)
    names.push_back(symbol.name);
  return names;
}

const Function *Plan::find_function(std::string_view name) const {
  auto it = std::find_if(functions.begin(), functions.end(),
                         [&](const Function &function) { return function.name == name; });
  return it == functions.end() ? nullptr : &*it;
}

} // namespace cugrt::plan
