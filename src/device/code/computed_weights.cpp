// Names of computed weights; see computed_weights.h.
#include "device/code/computed_weights.h"

#include "base/whole_number.h"

#include <algorithm>

namespace cugrt::runtime {

namespace {

bool takes_weights_only(const plan::Function &function) {
  return !function.is_private &&
         std::all_of(function.params.begin(), function.params.end(), [](const plan::Param &param) {
           return param.kind == plan::ParamKind::weight;
         });
}

} // namespace

std::optional<ComputedWeight> computed_weight(const plan::Plan &plan, const plan::Param &param) {
  const std::string_view name = param.name;
  const size_t dot = name.rfind('.');
  if (param.kind != plan::ParamKind::weight || dot == std::string_view::npos)
    return std::nullopt;
  const auto result = whole_number<uint32_t>(name.substr(dot + 1));
  if (!result)
    return std::nullopt;
  for (uint32_t f = 0; f < plan.functions.size(); ++f) {
    const plan::Function &function = plan.functions[f];
    if (function.name == name.substr(0, dot) && takes_weights_only(function) &&
        *result < function.results.size() && function.results[*result].buffer != plan::kNone)
      return ComputedWeight{f, *result};
  }
  return std::nullopt;
}

std::vector<bool> functions_of_weights(const plan::Plan &plan) {
  std::vector<bool> computing(plan.functions.size());
  for (const plan::Function &function : plan.functions)
    for (const plan::Param &param : function.params)
      if (const auto weight = computed_weight(plan, param))
        computing[weight->function] = true;
  return computing;
}

std::vector<bool> weights_read(const plan::Function &function) {
  std::vector<bool> read(function.params.size());
  for (const plan::Buffer &buffer : function.buffers)
    if (buffer.base == plan::BufferBase::weight)
      read[buffer.index] = true;
  return read;
}

Status check_not_computed(const plan::Plan &plan, const WeightSet &set) {
  for (const plan::Function &function : plan.functions)
    for (const plan::Param &param : function.params)
      if (computed_weight(plan, param) && set.find(param.name))
        return Status::error(Code::invalid_argument,
                             "the weights have a tensor '" + param.name + "', but @" +
                                 function.name +
                                 " has it computed from other weights; leave it out");
  return {};
}

Result<cugrt_tensor> describe_computed(const plan::Plan &plan, ComputedWeight weight) {
  const plan::Function &function = plan.functions[weight.function];
  const plan::Buffer &buffer = function.buffers[function.results[weight.result].buffer];
  cugrt_tensor tensor{};
  tensor.dtype = static_cast<int32_t>(buffer.dtype);
  tensor.rank = static_cast<uint32_t>(buffer.dims.size());
  for (size_t i = 0; i < buffer.dims.size(); ++i) {
    const std::optional<int64_t> dim = plan.exprs.as_constant(buffer.dims[i]);
    if (!dim || i >= CUGRT_MAX_RANK)
      return Status::error(Code::unsupported, "result " + std::to_string(weight.result) + " of @" +
                                                  function.name +
                                                  " is a weight of another function, so its "
                                                  "dimensions must be constant");
    tensor.dims[i] = *dim;
  }
  return tensor;
}

} // namespace cugrt::runtime
