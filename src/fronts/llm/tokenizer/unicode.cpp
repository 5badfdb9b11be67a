// UTF-8 and categories; see unicode.h.
#include "fronts/llm/tokenizer/unicode.h"

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

/// The sequence at the beginning: its length when it is whole, or how many bytes may still become
/// one (is_cut), or how many are none (the longest beginning of a sequence, at least one byte).
struct Sequence {
  size_t bytes;
  bool is_whole, is_cut;
};

Sequence first_sequence(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80)
    return {1, true, false};
  if (first < 0xc2 || first > 0xf4)
    return {1, false, false};
  const size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size())
      return {i, false, true};
    // The second byte's range excludes overlong forms, surrogates and codes beyond U+10FFFF.
    const unsigned low = i > 1 ? 0x80 : first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned high = i > 1 ? 0xbf : first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (byte(i) < low || byte(i) > high)
      return {i, false, false};
  }
  return {length, true, false};
}

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

void append_utf8(std::string &text, char32_t code) {
  if (code < 0x80) {
    text += char(code);
  } else if (code < 0x800) {
    text += char(0xc0 | code >> 6);
    text += char(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    text += char(0xe0 | code >> 12);
    text += char(0x80 | (code >> 6 & 0x3f));
    text += char(0x80 | (code & 0x3f));
  } else {
    text += char(0xf0 | code >> 18);
    text += char(0x80 | (code >> 12 & 0x3f));
    text += char(0x80 | (code >> 6 & 0x3f));
    text += char(0x80 | (code & 0x3f));
  }
}

std::optional<size_t> find_invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Sequence sequence = first_sequence(text.substr(at));
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
    const Sequence sequence = first_sequence(std::string_view(held_).substr(at));
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
