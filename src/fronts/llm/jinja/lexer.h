// Cuts a template into tokens, with the rules for spaces around tags that chat templates are
// written for: trim_blocks and lstrip_blocks, as Hugging Face's transformers sets them.
#pragma once

#include "base/status.h"
#include "fronts/llm/jinja_values/text.h"

#include <vector>

namespace cugrt::llm::jinja {

struct Token {
  enum class Kind : uint8_t {
    data,        // text between tags
    print_begin, // {{
    print_end,
    tag_begin, // {%
    tag_end,
    name,
    text, // without its quotes, escapes resolved
    integer,
    real,
    sign, // an operator or a bracket
    end,  // of the template
  };
  Kind kind;
  uint32_t line;
  Text text;
};

inline constexpr size_t kMaxTemplateBytes = size_t(256) << 10;

/// "chat template line N", which errors have as their location.
std::string line_name(uint32_t line);

/// The last token is Kind::end. Code::parse_error with the line as its location.
Result<std::vector<Token>> tokens_of(std::string_view source);

} // namespace cugrt::llm::jinja
