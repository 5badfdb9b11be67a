// gemma3: embeddings are scaled, heads normalised, what attention and feed-forward give normalised
// before it is added; of six layers five see a window, with positions of their own base.
#include "fronts/llm/architectures/decoder.h"

#include <cmath>

namespace cugrt::llm {

Result<Decoder> read_gemma3(const gguf::File &file) {
  constexpr std::string_view kMore[] = {"attention.sliding_window", "rope.freq_base_swa",
                                        "rope.local.freq_base"};
  CUGRT_ASSIGN(Decoder decoder, read_hyperparameters(file, "gemma3", kMore));
  CUGRT_ASSIGN(decoder.window, file.integer("gemma3.attention.sliding_window", 0));
  if (decoder.window < 0)
    return Status::error(Code::unsupported,
                         "'" + file.name() +
                             "': key 'gemma3.attention.sliding_window' is negative");
  constexpr int64_t kPeriod = 6, kLayersOf27B = 62;
  constexpr double kLocalBase = 10000;
  decoder.whole_every = kPeriod;
  CUGRT_ASSIGN(const double named, file.number("gemma3.rope.local.freq_base", kLocalBase));
  CUGRT_ASSIGN(const double base, file.number("gemma3.rope.freq_base_swa", named));
  if (!(base > 0) || !std::isfinite(base))
    return Status::error(Code::unsupported,
                         "'" + file.name() + "': the base of local positions is not above 0");
  decoder.local_rope = Rope{.base = base};
  decoder.embedding_scale = std::sqrt(double(decoder.width));
  if (decoder.layers == kLayersOf27B) // the one size whose scores are not by the width of a head
    decoder.attention_scale = 1 / std::sqrt(double(decoder.width) / double(decoder.heads));
  decoder.has_head_norms = true;
  decoder.has_post_norms = true;
  decoder.activation = Activation::gelu;
  return decoder;
}

} // namespace cugrt::llm
