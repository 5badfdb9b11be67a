// The two kinds of tokenizer: byte-level merges in a trained order, and SentencePiece's merges by
// score. Both take text without special tokens and refer to the vocabulary and the file's bytes.
#pragma once

#include "fronts/llm/tokenizer/merge_queue.h"
#include "fronts/llm/tokenizer/pre_tokenizer.h"
#include "fronts/llm/tokenizer/vocabulary.h"

#include <array>
#include <string>

namespace cugrt::llm {

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
/// tokenizer.ggml.scores, and what is no token then is written in bytes, <0x00> to <0xFF>.
Result<std::unique_ptr<Encoder>> make_sentence_piece(const gguf::File &file,
                                                     const Vocabulary &vocabulary);

} // namespace cugrt::llm
