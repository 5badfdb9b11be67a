// A model's tokenizer: text to tokens and back.
//
// Immutable once loaded; threads may share it.
#pragma once

#include "fronts/llm/tokenizer/encoders.h"

#include <memory>

namespace cugrt::llm {

inline constexpr size_t kMaxTextBytes = size_t(1) << 30;

/// A part of a text; in one that is trusted, control tokens may be written as text.
struct TextPart {
  std::string text;
  bool is_trusted = false;
};

class Tokenizer {
public:
  /// The file must outlive the tokenizer.
  static Result<std::unique_ptr<Tokenizer>> load(const gguf::File &file);

  /// Tokens that stand for text are found in any part (user-defined ones), control tokens in
  /// trusted ones only. A file that asks for it has a token put before them all.
  Result<std::vector<int32_t>> encode(std::span<const TextPart> parts) const;
  Result<std::vector<int32_t>> encode(std::string_view text) const;

  /// The bytes of a token; sequences of UTF-8 may go over several of them.
  std::string bytes_of(int32_t id) const { return encoder_->bytes_of(id); }
  size_t size() const { return vocabulary_.size(); }
  /// The tokens that end a text, as the file names them.
  std::span<const int32_t> ends() const { return ends_; }
  int32_t find(std::string_view text) const { return vocabulary_.find(text); }

private:
  Tokenizer() = default;
  Status read_special(const gguf::File &file);
  Result<int32_t> special_at(const gguf::File &file, std::string_view key) const;

  Vocabulary vocabulary_;
  std::unique_ptr<Encoder> encoder_;
  std::vector<int32_t> ends_;
  int32_t begin_ = -1;               // put before everything; -1: nothing is
  NamedTokens named_, user_defined_; // found in text that is trusted, and in any
};

} // namespace cugrt::llm
