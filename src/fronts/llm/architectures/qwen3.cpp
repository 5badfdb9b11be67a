// qwen3: each head of queries and keys is normalised before its position turns it.
#include "fronts/llm/architectures/decoder.h"

namespace cugrt::llm {

Result<Decoder> read_qwen3(const gguf::File &file) {
  CUGRT_ASSIGN(Decoder decoder, read_hyperparameters(file, "qwen3", {}));
  decoder.has_head_norms = true;
  return decoder;
}

} // namespace cugrt::llm
