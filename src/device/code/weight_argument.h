// A weight as the argument of the parameter that it is for.
//
// Safetensors and NumPy have no dtype for block formats: their tensors of bytes, u8 with the bytes
// of a row as last dimension, are taken for parameters of q4_0 and its like.
#pragma once

#include "device/code/weights.h"
#include "plan/format/plan.h"

namespace cugrt::runtime {

struct WeightArgument {
  const HostTensor *tensor = nullptr; // of the set
  cugrt_value value{};                // as the parameter is declared, without an address
};

/// The tensor of the weight's name, checked against its parameter: all but dimensions that symbols
/// are in. not_found when the set has none.
Result<WeightArgument> weight_argument(const plan::Plan &plan, const plan::Function &function,
                                       uint32_t param, const WeightSet &set);

} // namespace cugrt::runtime
