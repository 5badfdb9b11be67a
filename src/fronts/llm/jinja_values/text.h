// Text of templates: code points, each with a mark of where it comes from. A template's own text is
// trusted, the text of the caller's values is not, and the mark goes with the character through
// every slice, replacement and filter. Comparisons do not see it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cugrt::llm::jinja {

inline constexpr char32_t kUntrusted = char32_t(1) << 31;

constexpr char32_t code_of(char32_t c) { return c & ~kUntrusted; }
constexpr bool is_trusted(char32_t c) { return !(c & kUntrusted); }

struct TextTraits : std::char_traits<char32_t> {
  static constexpr bool eq(char32_t a, char32_t b) { return code_of(a) == code_of(b); }
  static constexpr bool lt(char32_t a, char32_t b) { return code_of(a) < code_of(b); }
  static constexpr int compare(const char32_t *a, const char32_t *b, size_t count) {
    for (size_t i = 0; i < count; ++i)
      if (!eq(a[i], b[i]))
        return lt(a[i], b[i]) ? -1 : 1;
    return 0;
  }
  static constexpr const char32_t *find(const char32_t *text, size_t count, const char32_t &c) {
    for (size_t i = 0; i < count; ++i)
      if (eq(text[i], c))
        return text + i;
    return nullptr;
  }
};

using Text = std::basic_string<char32_t, TextTraits>;
using TextView = std::basic_string_view<char32_t, TextTraits>;

/// The text's bytes are valid UTF-8.
Text text_of(std::string_view utf8, bool trusted = true);
std::string utf8_of(TextView text);

/// Answers as Python's str.isspace.
bool is_space(char32_t c);
/// Whether a name may have the character: digits, letters and '_' of ASCII, and all beyond ASCII.
bool is_name(char32_t c);

enum class Side : uint8_t { left, right, both };
/// Removes spaces, or the characters of `chars`, at its sides.
TextView strip(TextView text, Side side, const Text *chars = nullptr);

// Upper and lower case of letters, as Python's str has them.

enum class LetterCase : uint8_t { lower, upper, title };

struct Letters {
  size_t count;
  char32_t codes[3];
};
/// The letters that a letter becomes; another character stays as it is.
Letters letters_of(char32_t code, LetterCase to);
bool is_lower(char32_t code);
/// Whether there is another case of it.
bool is_cased(char32_t code);

} // namespace cugrt::llm::jinja
