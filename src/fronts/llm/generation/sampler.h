// How a sequence's next tokens are chosen, as kernels/language/draw.cuh takes it.
#pragma once

#include <array>
#include <cstdint>

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

} // namespace cugrt::llm
