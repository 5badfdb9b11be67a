// Reads a model's tokens; see vocabulary.h.
#include "fronts/llm/tokenizer/vocabulary.h"

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

} // namespace cugrt::llm
