// Upper and lower case of letters, as Python's str has them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cugrt::llm::jinja {

enum class LetterCase : uint8_t { lower, upper, title };

struct Letters {
  size_t count;
  char32_t codes[3];
};
/// What a letter becomes; another character stays as it is.
Letters letters_of(char32_t code, LetterCase to);
bool is_lower(char32_t code);
/// Whether there is another case of it.
bool is_cased(char32_t code);

} // namespace cugrt::llm::jinja
