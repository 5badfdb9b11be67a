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

std::string Function::slot_text(uint32_t slot) const {
  return slots[slot].kind == SlotKind::param ? "%" + params[slots[slot].index].name
                                             : "result " + std::to_string(slots[slot].index);
}

const Function *Plan::find_function(std::string_view name) const {
  auto it = std::find_if(functions.begin(), functions.end(),
                         [&](const Function &function) { return function.name == name; });
  return it == functions.end() ? nullptr : &*it;
}

std::string Plan::place_text(const Function &function, BufferBase base, uint32_t index) const {
  switch (base) {
  case BufferBase::arena:
    return "arena " + arenas[index].scope;
  case BufferBase::slot:
    return (function.slots[index].kind == SlotKind::param ? "slot " : "") +
           function.slot_text(index);
  case BufferBase::weight:
    return "weight %" + function.params[index].name;
  case BufferBase::constant:
    return "constant @" + constants[index].name;
  case BufferBase::dynamic:
    return "allocation " + std::to_string(index);
  }
  return "";
}

} // namespace cugrt::plan
