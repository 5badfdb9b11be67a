// Chooses a sequence's next tokens, as kernels/language/draw.cuh does, and gives probabilities of
// tokens to callers that ask.
#pragma once

#include <cugrt/llm.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace cugrt::llm {

struct Sampling {
  double temperature = 0; // 0: the most likely token
  int64_t top_k = 0;      // 0: all
  double top_p = 0;       // 0: all
  double min_p = 0;       // of the most likely token's probability
  double repetition = 1;  // above 0
  double frequency = 0;
  uint64_t seed = 0;
};

/// A place's row of the state's `samplers`.
std::array<int32_t, 8> sampler_words(const Sampling &sampling);

struct Likely {
  double log_probability = 0;              // of the token
  std::vector<cugrt_llm_likely> most = {}; // most likely first; of equal ones the lower number
};

/// Uses the softmax of the logits, in f64. `token` is one of them; `count` may exceed their
/// number.
Likely likely_of(std::span<const float> logits, int32_t token, size_t count);

} // namespace cugrt::llm
