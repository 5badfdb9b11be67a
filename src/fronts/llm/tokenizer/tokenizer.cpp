// Tokenizers of GGUF files; see tokenizer.h.
#include "fronts/llm/tokenizer/tokenizer.h"

#include <algorithm>

namespace cugrt::llm {

Result<int32_t> Tokenizer::special_at(const gguf::File &file, std::string_view key) const {
  CUGRT_ASSIGN(const int64_t id, file.integer(key, -1));
  if (id != -1 && !vocabulary_.contains(id))
    return Status::error(Code::parse_error, "'" + file.name() + "': key '" + std::string(key) +
                                                "' names token " + std::to_string(id) +
                                                " of a vocabulary of " +
                                                std::to_string(vocabulary_.size()));
  return static_cast<int32_t>(id);
}

Status Tokenizer::read_special(const gguf::File &file) {
  for (std::string_view key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                               "tokenizer.ggml.eom_token_id"}) {
    CUGRT_ASSIGN(const int32_t id, special_at(file, key));
    if (id >= 0 && !std::ranges::count(ends_, id))
      ends_.push_back(id);
  }
  CUGRT_ASSIGN(const std::string_view model, file.choice("tokenizer.ggml.model"));
  CUGRT_ASSIGN(const bool has_begin,
               file.boolean("tokenizer.ggml.add_bos_token", model == "llama"));
  if (has_begin) {
    CUGRT_ASSIGN(begin_, special_at(file, "tokenizer.ggml.bos_token_id"));
  }
  std::vector<int32_t> named, user_defined;
  for (size_t i = 0; i < vocabulary_.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    const TokenKind kind = vocabulary_.kind(id);
    // SentencePiece looks for the user-defined ones itself, in text with its own spaces.
    const bool is_user_defined = kind == TokenKind::user_defined && model != "llama";
    if (kind == TokenKind::control || is_user_defined)
      named.push_back(id);
    if (is_user_defined)
      user_defined.push_back(id);
  }
  named_ = NamedTokens(vocabulary_, std::move(named));
  user_defined_ = NamedTokens(vocabulary_, std::move(user_defined));
  return {};
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::load(const gguf::File &file) {
  std::unique_ptr<Tokenizer> tokenizer(new Tokenizer);
  CUGRT_ASSIGN(const std::string_view model, file.choice("tokenizer.ggml.model"));
  CUGRT_ASSIGN(tokenizer->vocabulary_, Vocabulary::read(file));
  if (model == "gpt2") {
    CUGRT_ASSIGN(tokenizer->encoder_, make_byte_level(file, tokenizer->vocabulary_));
  } else if (model == "llama") {
    CUGRT_ASSIGN(tokenizer->encoder_, make_sentence_piece(file, tokenizer->vocabulary_));
  } else {
    return Status::error(Code::unsupported, "'" + file.name() + "': tokenizer '" +
                                                std::string(model) +
                                                "' is not known; known are gpt2, llama");
  }
  CUGRT_TRY(tokenizer->read_special(file));
  return tokenizer;
}

/// The longest that the text begins with; of a control token all bytes are trusted.
int32_t Tokenizer::longest_named(std::string_view text, size_t trusted_bytes) const {
  const int32_t trusted = named_.longest(text.substr(0, trusted_bytes));
  const int32_t any = user_defined_.longest(text);
  const auto size = [&](int32_t id) { return id < 0 ? 0 : vocabulary_.text(id).size(); };
  return size(any) > size(trusted) ? any : trusted;
}

int32_t Tokenizer::find_special(std::string_view text) const {
  for (size_t at = 0; at < text.size(); ++at)
    if (const int32_t id = named_.longest(text.substr(at)); id >= 0)
      return id;
  return -1;
}

Status Tokenizer::check(std::span<const TextPart> parts) const {
  size_t bytes = 0;
  for (const TextPart &part : parts) {
    if (part.text.size() > kMaxTextBytes - bytes)
      return Status::error(Code::out_of_range, "a text of " +
                                                   std::to_string(bytes + part.text.size()) +
                                                   " bytes is too long; at most " +
                                                   std::to_string(kMaxTextBytes) + " are taken");
    bytes += part.text.size();
    if (const auto at = find_invalid_utf8(part.text))
      return Status::error(Code::invalid_argument,
                           "the text is not UTF-8 from byte " + std::to_string(*at) + " on");
  }
  return {};
}

Result<std::vector<int32_t>> Tokenizer::encode(std::span<const TextPart> parts) const {
  CUGRT_TRY(check(parts));
  std::string text;
  std::vector<std::pair<size_t, bool>> runs; // the end of each part, and whether it is trusted
  for (const TextPart &part : parts) {
    text += part.text;
    if (!runs.empty() && runs.back().second == part.is_trusted)
      runs.back().first = text.size();
    else
      runs.emplace_back(text.size(), part.is_trusted);
  }
  std::vector<int32_t> ids;
  if (begin_ >= 0)
    ids.push_back(begin_);
  bool is_first = true; // after a special token a text begins anew
  const auto encode_up_to = [&](size_t begin, size_t end) {
    if (begin == end)
      return;
    encoder_->encode(std::string_view(text).substr(begin, end - begin), is_first, ids);
    is_first = false;
  };
  size_t begin = 0, run = 0;
  for (size_t at = 0; at < text.size();) {
    while (runs[run].first <= at)
      ++run;
    const int32_t id = longest_named(std::string_view(text).substr(at),
                                     runs[run].second ? runs[run].first - at : 0);
    if (id < 0) {
      ++at;
      continue;
    }
    encode_up_to(begin, at);
    if (at > 0 || id != begin_ || !runs[run].second)
      ids.push_back(id);
    is_first = true;
    begin = at += vocabulary_.text(id).size();
  }
  encode_up_to(begin, text.size());
  return ids;
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text) const {
  const TextPart part{std::string(text)};
  return encode(std::span(&part, 1));
}

} // namespace cugrt::llm
