// A model's tokens, for both kinds of tokenizer: their text, kind and numbers.
#pragma once

#include "fronts/gguf/gguf.h"

#include <array>

namespace cugrt::llm {

inline constexpr int64_t kMaxTokens = int64_t(1) << 24;

enum class TokenKind : uint8_t { normal = 1, unknown, control, user_defined, unused, byte };

class Vocabulary {
public:
  /// Reads keys tokenizer.ggml.tokens and token_type; refers to the file's bytes.
  static Result<Vocabulary> read(const gguf::File &file);

  size_t size() const { return tokens_.size(); }
  std::string_view text(int32_t id) const { return tokens_[static_cast<size_t>(id)]; }
  TokenKind kind(int32_t id) const { return kinds_[static_cast<size_t>(id)]; }
  bool contains(int64_t id) const { return id >= 0 && id < static_cast<int64_t>(size()); }
  /// -1 when there is none.
  int32_t find(std::string_view text) const;

private:
  std::vector<std::string_view> tokens_;
  std::vector<TokenKind> kinds_;
  std::unordered_map<std::string_view, int32_t> index_;
};

/// Tokens that are found in a text as they are. A search costs the bytes of the longest of them
/// that may stand there, whatever their number.
class NamedTokens {
public:
  /// Longer ones are not found.
  static constexpr size_t kMaxBytes = 256;
  /// Tokens that are valid UTF-8; the first of equal ones counts.
  NamedTokens() = default;
  NamedTokens(const Vocabulary &vocabulary, std::vector<int32_t> ids);
  /// The longest one that `text` begins with; -1: none.
  int32_t longest(std::string_view text) const;

private:
  struct Named {
    std::string_view text;
    int32_t id;
  };
  std::vector<Named> sorted_;            // by text
  std::array<uint32_t, 257> first_ = {}; // by first byte, where they begin in sorted_
};

} // namespace cugrt::llm
