// How positions turn the heads of queries and keys: the angles of each pair, as tables.
#pragma once

#include "fronts/llm/architectures/decoder.h"

namespace cugrt::llm {

/// Cosines and sines of each position's angles, [context, turned / 2]: computed in double, when
/// their bytes are asked for.
struct RotaryTables {
  Weight cosines, sines;
};

/// `divisors` are f32, one a pair, or absent, and outlive the tables; names of the weights begin
/// with `name`.
RotaryTables rotary_tables(const Rope &rope, int64_t turned, int64_t context,
                           const gguf::Tensor *divisors, const std::string &name);

} // namespace cugrt::llm
