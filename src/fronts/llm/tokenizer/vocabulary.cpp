// Reads a model's tokens; see vocabulary.h.
#include "fronts/llm/tokenizer/vocabulary.h"

#include "fronts/llm/tokenizer/unicode.h"

#include <algorithm>

namespace cugrt::llm {

Result<Vocabulary> Vocabulary::read(const gguf::File &file) {
  Vocabulary vocabulary;
  CUGRT_ASSIGN(vocabulary.tokens_, file.strings("tokenizer.ggml.tokens"));
  const size_t count = vocabulary.tokens_.size();
  if (count == 0 || static_cast<int64_t>(count) > kMaxTokens)
    return Status::error(Code::parse_error,
                         "'" + file.name() + "' has " + std::to_string(count) + " tokens");
  vocabulary.kinds_.assign(count, TokenKind::normal);
  if (file.find("tokenizer.ggml.token_type")) {
    CUGRT_ASSIGN(const std::vector<int64_t> kinds, file.integers("tokenizer.ggml.token_type"));
    if (kinds.size() != count)
      return Status::error(Code::parse_error, "'" + file.name() + "' has " + std::to_string(count) +
                                                  " tokens and " + std::to_string(kinds.size()) +
                                                  " kinds of them");
    for (size_t i = 0; i < count; ++i) {
      if (kinds[i] < 1 || kinds[i] > 6)
        return Status::error(Code::parse_error, "'" + file.name() + "': token " +
                                                    std::to_string(i) + " is of unknown kind " +
                                                    std::to_string(kinds[i]));
      vocabulary.kinds_[i] = static_cast<TokenKind>(kinds[i]);
    }
  }
  vocabulary.index_.reserve(count);
  for (size_t i = 0; i < count; ++i) // of equal ones the first
    vocabulary.index_.try_emplace(vocabulary.tokens_[i], static_cast<int32_t>(i));
  return vocabulary;
}

int32_t Vocabulary::find(std::string_view text) const {
  const auto at = index_.find(text);
  return at == index_.end() ? -1 : at->second;
}

NamedTokens::NamedTokens(const Vocabulary &vocabulary, std::vector<int32_t> ids) {
  for (const int32_t id : ids)
    if (const std::string_view text = vocabulary.text(id);
        !text.empty() && text.size() <= kMaxBytes && !find_invalid_utf8(text))
      sorted_.push_back({text, id});
  std::ranges::stable_sort(sorted_, {}, &Named::text);
  // Algorithms that give a subrange do not compile with clang 14.
  sorted_.erase(std::unique(sorted_.begin(), sorted_.end(),
                            [](const Named &a, const Named &b) { return a.text == b.text; }),
                sorted_.end());
  for (const Named &one : sorted_)
    ++first_[static_cast<unsigned char>(one.text[0]) + 1u];
  for (size_t byte = 1; byte < first_.size(); ++byte)
    first_[byte] += first_[byte - 1];
}

int32_t NamedTokens::longest(std::string_view text) const {
  if (text.empty())
    return -1;
  // All of [begin, end) begin with the first `same` bytes of the text.
  const auto first = static_cast<unsigned char>(text[0]);
  auto begin = sorted_.begin() + first_[first], end = sorted_.begin() + first_[first + 1u];
  int32_t found = -1;
  for (size_t same = 1; begin != end; ++same) {
    if (begin->text.size() == same)
      found = begin++->id;
    if (same == text.size())
      break;
    const auto byte_of = [same](const Named &one) {
      return static_cast<unsigned char>(one.text[same]);
    };
    const auto wanted = static_cast<unsigned char>(text[same]);
    begin = std::ranges::lower_bound(begin, end, wanted, {}, byte_of);
    end = std::ranges::upper_bound(begin, end, wanted, {}, byte_of);
  }
  return found;
}

} // namespace cugrt::llm
