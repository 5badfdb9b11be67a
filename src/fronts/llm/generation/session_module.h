// The module that a session runs, and the facts in a pack of it: the options that it was made with,
// and its model.
#pragma once

#include "fronts/llm/generation/engine.h"

#include <initializer_list>

namespace cugrt::llm {

/// Tokens of a prompt taken in at once: a power of two, at most kChunk. A part reads weights from
/// memory once, by tiles (kernels/linear/matmul_repacked_tiles.cuh), so larger ones read less a
/// token; but the arena is 2 width + inner elements a row, which of f16 is 26 MiB for rows of 4,096
/// and 14,336 with what products share, and it grows in proportion. Rows of f32 take twice that.
inline constexpr int64_t kChunk = 512;
constexpr int64_t chunk_of(ir::DType dtype) {
  return dtype == ir::DType::f32 ? kChunk / 2 : kChunk;
}

/// The module for a context and places. Beside its two functions it has an empty one whose name
/// holds the options and a digest of the module's text, which knows the model's numbers.
Result<DecoderModule> module_of(const Model &model, const Decoder &decoder,
                                const EngineOptions &options);

/// Hands the module over to libcugrt, which `built` has no more then. `name`: of the model's file.
Status adopt_module(DecoderModule &built, const std::string &name, cugrt_module **module);

/// The options, of those given, that the pack's module was made with; the names of its functions
/// tell. Code::invalid_argument where it is no language model's.
Result<EngineOptions> options_of_pack(const cugrt_executable *executable, EngineOptions given);
/// Code::invalid_argument where the executable is of another module.
Status check_pack(const cugrt_executable *executable, const DecoderModule &module,
                  const std::string &pack);

// An engine's device memory: the tensors of its state, and memory beside them.

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
