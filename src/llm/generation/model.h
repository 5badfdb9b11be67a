// A model's file, mapped, with its tokenizer and what its architecture reads from it. Immutable.
#pragma once

#include "llm/architectures/decoder.h"
#include "llm/tokenizer/chat_template.h"

namespace cugrt::llm {

struct Model {
  gguf::File file;
  std::string architecture;
  std::unique_ptr<Tokenizer> tokenizer; // refers to the file

  static Result<std::shared_ptr<const Model>> open(const std::string &path);
};

} // namespace cugrt::llm
