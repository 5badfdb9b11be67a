// llama: also what Mistral's and SmolLM's models are called. GGUF has their heads permuted so that
// the pairs that a position turns are neighbours.
#include "fronts/llm/architectures/decoder.h"

namespace cugrt::llm {

Result<Decoder> read_llama(const gguf::File &file) {
  constexpr std::string_view kMore[] = {"attention.sliding_window"}; // of Mistral's
  CUGRT_ASSIGN(Decoder decoder, read_hyperparameters(file, "llama", kMore));
  CUGRT_ASSIGN(decoder.window, file.integer("llama.attention.sliding_window", 0));
  if (decoder.window < 0)
    return Status::error(Code::unsupported,
                         "'" + file.name() + "': key 'llama.attention.sliding_window' is negative");
  decoder.rope_interleaved = true;
  return decoder;
}

} // namespace cugrt::llm
