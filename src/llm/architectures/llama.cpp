// llama: also what Mistral's and SmolLM's models are called. GGUF has their heads permuted so that
// the pairs that a position turns are neighbours.
#include "llm/architectures/hyperparameters.h"

namespace cugrt::llm {

Result<Decoder> read_llama(const gguf::File &file) {
  CUGRT_ASSIGN(Decoder decoder, read_hyperparameters(file, "llama", {}));
  decoder.rope_interleaved = true;
  return decoder;
}

} // namespace cugrt::llm
