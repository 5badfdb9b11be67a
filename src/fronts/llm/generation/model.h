// A model's file, mapped, with its tokenizer and what its architecture reads from it. Immutable.
#pragma once

#include "base/digest.h"
#include "fronts/llm/architectures/decoder.h"
#include "fronts/llm/chat/chat_template.h"

namespace cugrt::llm {

struct Model {
  gguf::File file;
  std::string architecture;
  std::unique_ptr<Tokenizer> tokenizer; // refers to the file
  Digest identity{}; // of its architecture's keys, and of its tensors' types, sizes and first bytes

  static Result<std::shared_ptr<const Model>> open(const std::string &path);
};

} // namespace cugrt::llm
