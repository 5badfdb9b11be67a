// The caller's values, read from JSON.
#pragma once

#include "fronts/llm/jinja_values/value.h"

namespace cugrt::llm::jinja {

/// Whose text is marked as untrusted. `what` begins errors: "messages: at byte 3: ..".
Result<Value> value_of_json(std::string_view what, std::string_view json);

} // namespace cugrt::llm::jinja
