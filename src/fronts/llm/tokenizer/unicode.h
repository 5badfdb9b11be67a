// Code points: UTF-8, and the categories that tokenizers cut text by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cugrt::llm {

enum class CharClass : uint8_t { other, letter, number, space };

/// Classes of Unicode 16: categories L and N, and the property White_Space.
CharClass class_of(char32_t code);

/// The code point at `at` in valid UTF-8, and its length in bytes.
struct Decoded {
  char32_t code;
  uint32_t bytes;
};
Decoded decode_utf8(std::string_view text, size_t at);

/// Position of the first sequence that is no UTF-8.
std::optional<size_t> find_invalid_utf8(std::string_view text);

/// Makes valid UTF-8 of bytes that come in pieces: a sequence is given out when it is whole, and
/// each one that cannot become whole as U+FFFD.
class Utf8Stream {
public:
  std::string push(std::string_view bytes);
  /// Returns the rest of a sequence that was never completed.
  std::string finish();

private:
  std::string held_; // the beginning of a sequence
};

} // namespace cugrt::llm
