// The scanners of pre_tokenizer.h: each function stands for one alternative or pattern, tried in
// the order of the regular expression.
#include "fronts/llm/tokenizer/pre_tokenizer.h"

#include "ir/module/names.h"

#include <algorithm>

namespace cugrt::llm {

namespace {

struct Named {
  std::string_view name;
  PreTokenizer kind;
};
constexpr Named kNames[] = {{"gpt-2", PreTokenizer::gpt2},
                            {"smollm", PreTokenizer::smollm},
                            {"llama-bpe", PreTokenizer::llama3},
                            {"qwen2", PreTokenizer::qwen2},
                            {"deepseek-r1-qwen", PreTokenizer::qwen2}};

} // namespace

std::optional<PreTokenizer> pre_tokenizer_from_name(std::string_view name) {
  for (const Named &row : kNames)
    if (row.name == name)
      return row.kind;
  return std::nullopt;
}

std::string pre_tokenizer_names() { return ir::joined(kNames, &Named::name); }

PieceScanner::PieceScanner(PreTokenizer kind, std::string_view text) : kind_(kind), text_(text) {
  codes_.reserve(text.size());
  classes_.reserve(text.size());
  offsets_.reserve(text.size() + 1);
  for (size_t at = 0; at < text.size();) {
    const Decoded next = decode_utf8(text, at);
    codes_.push_back(next.code);
    classes_.push_back(class_of(next.code));
    offsets_.push_back(at);
    at += next.bytes;
  }
  offsets_.push_back(text.size());
}

std::string_view PieceScanner::next() {
  if (at_ == codes_.size())
    return {};
  const size_t begin = at_;
  at_ = end_of_piece(begin);
  return text_.substr(offsets_[begin], offsets_[at_] - offsets_[begin]);
}

// SmolLM's rule for single digits is another library's, of Unicode 17.
bool PieceScanner::is_digit(size_t i) const {
  const char32_t code = codes_[i];
  return classes_[i] == CharClass::number || (code >= 0x11de0 && code <= 0x11de9) ||
         (code >= 0x16ff4 && code <= 0x16ff6);
}

size_t PieceScanner::end_of_piece(size_t i) {
  switch (kind_) {
  case PreTokenizer::gpt2:
    return gpt2(i, codes_.size());
  case PreTokenizer::smollm: {
    if (is_digit(i))
      return i + 1;
    while (next_digit_ < codes_.size() && (next_digit_ < i || !is_digit(next_digit_)))
      ++next_digit_;
    return gpt2(i, next_digit_);
  }
  case PreTokenizer::llama3:
  case PreTokenizer::qwen2:
    return llama3(i, codes_.size());
  }
  return codes_.size();
}

size_t PieceScanner::skip(size_t i, size_t end, CharClass which) const {
  while (i < end && classes_[i] == which)
    ++i;
  return i;
}

// 's|'t|'re|'ve|'m|'ll|'d: where it ends, or i.
size_t PieceScanner::contraction(size_t i, size_t end, bool any_case) const {
  if (codes_[i] != '\'')
    return i;
  const auto letter = [&](size_t at) -> char32_t {
    if (at >= end)
      return 0;
    if (any_case && codes_[at] == 0x17f) // the long s folds to s
      return 's';
    return any_case && codes_[at] >= 'A' && codes_[at] <= 'Z' ? codes_[at] + 32 : codes_[at];
  };
  const char32_t first = letter(i + 1), second = letter(i + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd')
    return i + 2;
  return ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l')
             ? i + 3
             : i;
}

size_t PieceScanner::gpt2(size_t i, size_t end) const {
  if (const size_t after = contraction(i, end, false); after != i)
    return after;
  const size_t word = codes_[i] == ' ' && i + 1 < end ? i + 1 : i;
  if (classes_[word] != CharClass::space)
    return skip(word, end, classes_[word]);
  const size_t after = skip(i, end, CharClass::space);
  return after == end || after == i + 1 ? after : after - 1;
}

size_t PieceScanner::llama3(size_t i, size_t end) const {
  if (const size_t after = contraction(i, end, true); after != i)
    return after;
  if (classes_[i] == CharClass::letter)
    return skip(i, end, CharClass::letter);
  if (classes_[i] == CharClass::number)
    return std::min(skip(i, end, CharClass::number), i + (kind_ == PreTokenizer::llama3 ? 3 : 1));
  if (!is_line_end(i) && i + 1 < end && classes_[i + 1] == CharClass::letter)
    return skip(i + 1, end, CharClass::letter);
  const size_t word = codes_[i] == ' ' && i + 1 < end ? i + 1 : i;
  if (classes_[word] == CharClass::other) {
    size_t after = skip(word, end, CharClass::other);
    while (after < end && is_line_end(after))
      ++after;
    return after;
  }
  const size_t after = skip(i, end, CharClass::space);
  for (size_t last = after; last > i; --last)
    if (is_line_end(last - 1))
      return last;
  return after == end || after == i + 1 ? after : after - 1;
}

} // namespace cugrt::llm
