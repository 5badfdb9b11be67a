// A weight as the argument of its parameter.
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

/// Returns the tensor with the weight's name, after checking it against the parameter, except
/// dimensions with symbols. not_found if the set has none.
Result<WeightArgument> weight_argument(const plan::Plan &plan, const plan::Function &function,
                                       uint32_t param, const WeightSet &set);

} // namespace cugrt::runtime
