// qwen2: queries, keys and values have a bias; pairs are halves of a head apart.
#include "fronts/llm/architectures/decoder.h"

namespace cugrt::llm {

Result<Decoder> read_qwen2(const gguf::File &file) {
  CUGRT_ASSIGN(Decoder decoder, read_hyperparameters(file, "qwen2", {}));
  decoder.has_bias = true;
  return decoder;
}

} // namespace cugrt::llm
