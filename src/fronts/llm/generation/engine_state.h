// An engine's device memory: the tensors of its state, and what lies beside them.
#pragma once

#include "base/type/dtype.h"
#include "fronts/llm/generation/engine.h"
#include "fronts/llm/generation/session_module.h"

#include <initializer_list>

namespace cugrt::llm {

inline constexpr uint64_t kTokenBytes = sizeof(int32_t);
// Positions of tokens come between tokens and lengths.
inline constexpr uint64_t kTokens = 0, kLengths = 2, kStateTensors = 3, kLimits = 3, kSteps = 4,
                          kSamplers = 5;
inline constexpr int64_t kSamplerWords = 8;
inline constexpr size_t kRequest = 4; // numbers

inline constexpr uint64_t kAlignment = 256;
constexpr uint64_t aligned(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}
inline constexpr uint64_t kIdBytes =
    aligned(uint64_t(kChunk) * kTokenBytes); // of a part of a prompt

inline cugrt_value tensor_value(uint64_t address, ir::DType dtype,
                                std::initializer_list<int64_t> dims) {
  cugrt_value value{};
  value.kind = CUGRT_VALUE_TENSOR;
  value.as.tensor =
      make_tensor(address, static_cast<cugrt_dtype>(dtype), std::span(dims.begin(), dims.size()));
  return value;
}

} // namespace cugrt::llm
