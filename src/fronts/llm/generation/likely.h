// What a model makes of its next token, for callers that ask: log-probabilities of logits.
#pragma once

#include <cugrt/llm.h>

#include <cstdint>
#include <span>
#include <vector>

namespace cugrt::llm {

struct Likely {
  double log_probability = 0;              // of the token
  std::vector<cugrt_llm_likely> most = {}; // most likely first; of equal ones the lower number
};

/// The softmax of the logits, in f64. `token` is one of them; `count` may be more than there are.
Likely likely_of(std::span<const float> logits, int32_t token, size_t count);

} // namespace cugrt::llm
