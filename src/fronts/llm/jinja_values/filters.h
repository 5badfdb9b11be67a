// Filters and tests, which templates call by name: value | filter(..), value is test(..).
#pragma once

#include "fronts/llm/jinja_values/methods.h"

namespace cugrt::llm::jinja {

/// Code::unsupported with its name when it is not known.
Result<Value> apply_filter(Machine &machine, std::string_view name, const Value &of,
                           const Given &given);
Result<bool> apply_test(Machine &machine, std::string_view name, const Value &of,
                        const Given &given);

struct Filter {
  std::string_view name, parameters;
  size_t required;
  Result<Value> (*run)(Machine &, const Value &, const Arguments &);
};
/// Filters of one value, and of lists.
std::span<const Filter> value_filters();
std::span<const Filter> list_filters();
/// The value's attribute, or element; a path of several has dots between.
Result<Value> attribute_at(Machine &machine, const Value &of, const Value &path);

} // namespace cugrt::llm::jinja
