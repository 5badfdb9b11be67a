// Cuts text into the pieces that byte-pair merges stay within, as the regular expressions do that
// models were trained with. Patterns are by the names of GGUF's key tokenizer.ggml.pre:
//
//   gpt-2      's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   smollm     each \p{N} by itself; what is between them as gpt-2
//   llama-bpe  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
//              ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//   qwen2      as llama-bpe, with \p{N} for \p{N}{1,3}; deepseek-r1-qwen is the same
#pragma once

#include "fronts/llm/tokenizer/unicode.h"

#include <vector>

namespace cugrt::llm {

enum class PreTokenizer : uint8_t { gpt2, smollm, llama3, qwen2 };

std::optional<PreTokenizer> pre_tokenizer_from_name(std::string_view name);
/// The names, for messages.
std::string pre_tokenizer_names();

/// The pieces of one text, which is valid UTF-8 and outlives the scanner.
class PieceScanner {
public:
  PieceScanner(PreTokenizer kind, std::string_view text);
  /// The next piece; empty at the end.
  std::string_view next();

private:
  size_t end_of_piece(size_t i);
  size_t gpt2(size_t i, size_t end) const;
  size_t llama3(size_t i, size_t end) const;
  size_t contraction(size_t i, size_t end, bool any_case) const;
  size_t skip(size_t i, size_t end, CharClass which) const;
  bool is_digit(size_t i) const;
  bool is_line_end(size_t i) const { return codes_[i] == '\n' || codes_[i] == '\r'; }

  PreTokenizer kind_;
  std::string_view text_;
  std::vector<char32_t> codes_;
  std::vector<CharClass> classes_;
  std::vector<size_t> offsets_; // of each code point; one more, the text's size
  size_t at_ = 0;
  size_t next_digit_ = 0; // of smollm: where the text between digits ends
};

} // namespace cugrt::llm
