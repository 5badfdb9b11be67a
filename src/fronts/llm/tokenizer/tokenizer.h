// A model's tokenizer: text to tokens and back.
//
// Immutable once loaded; threads may share it.
#pragma once

#include "fronts/llm/tokenizer/merge_queue.h"
#include "fronts/llm/tokenizer/pre_tokenizer.h"
#include "fronts/llm/tokenizer/vocabulary.h"

#include <memory>
#include <string>

namespace cugrt::llm {

// The two kinds of tokenizer: byte-level merges in a trained order, and SentencePiece's merges by
// score. Both take text without special tokens and refer to the vocabulary and the file's bytes.

class Encoder {
public:
  virtual ~Encoder() = default;
  /// Appends the tokens of valid UTF-8; `is_first`: nothing but special tokens stands before it.
  virtual void encode(std::string_view text, bool is_first, std::vector<int32_t> &ids) const = 0;
  /// The bytes that a token stands for.
  virtual std::string bytes_of(int32_t id) const = 0;
};

/// tokenizer.ggml.model "gpt2": bytes are written as 256 printable characters, and pieces of text
/// merged by tokenizer.ggml.merges. Bytes that the vocabulary lacks are left out.
Result<std::unique_ptr<Encoder>> make_byte_level(const gguf::File &file,
                                                 const Vocabulary &vocabulary);
/// tokenizer.ggml.model "llama": spaces are written as U+2581, characters merged by
/// tokenizer.ggml.scores, and other text is written in bytes, <0x00> to <0xFF>.
Result<std::unique_ptr<Encoder>> make_sentence_piece(const gguf::File &file,
                                                     const Vocabulary &vocabulary);

inline constexpr size_t kMaxTextBytes = size_t(1) << 30;

/// A part of a text; in those that are trusted, control tokens may be written as text.
struct TextPart {
  std::string text;
  bool is_trusted = false;
};

class Tokenizer {
public:
  /// The file must outlive the tokenizer.
  static Result<std::unique_ptr<Tokenizer>> load(const gguf::File &file);

  /// The parts are one text. Tokens that stand for text are found anywhere in it (user-defined
  /// ones), control tokens only where all of their text is trusted. A file that asks for it has a
  /// token put before them all, unless the trusted text begins with it.
  Result<std::vector<int32_t>> encode(std::span<const TextPart> parts) const;
  Result<std::vector<int32_t>> encode(std::string_view text) const;

  /// The bytes of a token; sequences of UTF-8 may go over several of them.
  std::string bytes_of(int32_t id) const { return encoder_->bytes_of(id); }
  /// A token's name, as the file has it.
  std::string_view name_of(int32_t id) const { return vocabulary_.text(id); }
  size_t size() const { return vocabulary_.size(); }
  /// The tokens that end a text, as the file names them.
  std::span<const int32_t> ends() const { return ends_; }
  /// The first control or user-defined token that is written in a trusted text, or -1.
  int32_t find_special(std::string_view text) const;

private:
  Tokenizer() = default;
  Status read_special(const gguf::File &file);
  Result<int32_t> special_at(const gguf::File &file, std::string_view key) const;
  int32_t longest_named(std::string_view text, size_t trusted_bytes) const;
  Status check(std::span<const TextPart> parts) const;

  Vocabulary vocabulary_;
  std::unique_ptr<Encoder> encoder_;
  std::vector<int32_t> ends_;
  int32_t begin_ = -1;               // put before everything; -1: nothing is
  NamedTokens named_, user_defined_; // found in text that is trusted, and in any
};

} // namespace cugrt::llm
