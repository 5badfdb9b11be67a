// UTF-8 and categories; see unicode.h.
#include "fronts/llm/tokenizer/unicode.h"

#include "base/json.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

namespace cugrt::llm {

namespace {

struct Range {
  char32_t first, last;
};
#include "fronts/llm/tokenizer/categories.inc"

bool is_in(std::span<const Range> ranges, char32_t code) {
  const auto at = std::ranges::upper_bound(ranges, code, {}, &Range::first);
  return at != ranges.begin() && code <= std::prev(at)->last;
}

CharClass look_up(char32_t code) {
  constexpr Range kSpaces[] = {
      {0x9, 0xd},       {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
      {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}};
  return is_in(kLetters, code)   ? CharClass::letter
         : is_in(kNumbers, code) ? CharClass::number
         : is_in(kSpaces, code)  ? CharClass::space
                                 : CharClass::other;
}

constexpr std::string_view kReplacement = "\xef\xbf\xbd"; // U+FFFD

} // namespace

CharClass class_of(char32_t code) {
  static const std::array<CharClass, 128> ascii = [] {
    std::array<CharClass, 128> table;
    for (char32_t c = 0; c < table.size(); ++c)
      table[c] = look_up(c);
    return table;
  }();
  return code < ascii.size() ? ascii[code] : look_up(code);
}

Decoded decode_utf8(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return char32_t(static_cast<unsigned char>(text[at + i])); };
  const char32_t first = byte(0);
  if (first < 0x80)
    return {first, 1};
  if (first < 0xe0)
    return {(first & 0x1f) << 6 | (byte(1) & 0x3f), 2};
  if (first < 0xf0)
    return {(first & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f), 3};
  return {(first & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f),
          4};
}

std::optional<size_t> find_invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Sequence sequence = first_utf8(text.substr(at));
    if (!sequence.is_whole)
      return at;
    at += sequence.bytes;
  }
  return std::nullopt;
}

std::string Utf8Stream::push(std::string_view bytes) {
  held_ += bytes;
  std::string out;
  size_t at = 0;
  while (at < held_.size()) {
    const Utf8Sequence sequence = first_utf8(std::string_view(held_).substr(at));
    if (sequence.is_cut)
      break;
    out += sequence.is_whole ? std::string_view(held_).substr(at, sequence.bytes) : kReplacement;
    at += sequence.bytes;
  }
  held_.erase(0, at);
  return out;
}

std::string Utf8Stream::finish() {
  std::string out(held_.empty() ? "" : kReplacement);
  held_.clear();
  return out;
}

} // namespace cugrt::llm
