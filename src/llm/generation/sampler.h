// Drawing the next token from logits.
//
// In this order: the logits over the temperature; the top_k largest; of their probabilities the
// largest that first reach top_p together; one of these by a number in [0, 1). Of equal logits the
// lower token comes first. Sums are in double.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace cugrt::llm {

struct Sampling {
  double temperature = 0; // 0: the most likely token
  int64_t top_k = 0;      // 0: all
  double top_p = 0;       // 0: all
  uint64_t seed = 0;
};

/// Philox 4x32 of ten rounds (Salmon et al., 2011).
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// The number in [0, 1) for a position: 24 bits of philox by the seed as key.
double uniform_at(uint64_t seed, uint64_t position);

/// The token for the sequence's position `position`; `logits` are not empty.
int32_t sample(std::span<const float> logits, const Sampling &sampling, uint64_t position);

} // namespace cugrt::llm
