// Weights against their parameters; see weight_argument.h.
#include "device/code/weight_argument.h"

#include "base/checked_math.h"
#include "device/program/symbol_binding.h"

namespace cugrt::runtime {

/// Reads rows of bytes as rows of blocks. A constant declared last dimension is used, since blocks
/// may have more elements than a row; else the row is a whole number of blocks.
static Status take_blocks(const plan::Plan &plan, const plan::Param &param, cugrt_tensor &tensor) {
  const ir::DTypeInfo &info = ir::info(param.dtype);
  const std::string format(info.name),
      blocks = " (" + std::to_string(info.bytes_per_block) + " bytes for " +
               std::to_string(info.elements_per_block) + " elements)";
  int64_t &last = tensor.dims[tensor.rank - 1];
  std::optional<int64_t> declared;
  if (param.known_shape && param.dims.size() == tensor.rank)
    declared = plan.exprs.as_constant(param.dims.back());
  if (declared && *declared >= 0) {
    const int64_t count = *checked_ceildiv(*declared, info.elements_per_block);
    const auto bytes = checked_mul(count, info.bytes_per_block);
    if (bytes != last)
      return Status::error(Code::invalid_argument,
                           "a row of " + std::to_string(*declared) + " elements of " + format +
                               blocks + " takes " + (bytes ? std::to_string(*bytes) : "too many") +
                               " bytes, the tensor's rows have " + std::to_string(last));
    last = *declared;
  } else if (last % info.bytes_per_block != 0) {
    return Status::error(Code::invalid_argument, "the tensor's rows of " + std::to_string(last) +
                                                     " bytes are no whole blocks of " + format +
                                                     blocks);
  } else {
    auto elements = checked_mul(last / info.bytes_per_block, info.elements_per_block);
    if (!elements)
      return Status::error(Code::out_of_range, "the tensor's size overflows 64 bits");
    last = *elements;
  }
  tensor.dtype = static_cast<int32_t>(param.dtype);
  return {};
}

/// Fails unless the constant dimensions agree; a run compares the others.
static Status check_constant_dims(const plan::Plan &plan, const plan::Function &function,
                                  uint32_t param, const cugrt_value &value) {
  const std::vector<ExprId> &dims = function.params[param].dims;
  for (size_t i = 0; function.params[param].known_shape && i < dims.size(); ++i)
    if (auto wanted = plan.exprs.as_constant(dims[i]); wanted && *wanted != value.as.tensor.dims[i])
      return Status::error(Code::invalid_argument,
                           param_text(function, param) + ": dimension " + std::to_string(i) +
                               " is " + std::to_string(*wanted) + ", got " + value_text(value));
  return {};
}

Result<WeightArgument> weight_argument(const plan::Plan &plan, const plan::Function &function,
                                       uint32_t param, const WeightSet &set) {
  const plan::Param &declared = function.params[param];
  WeightArgument weight;
  weight.tensor = set.find(declared.name);
  if (!weight.tensor)
    return Status::error(Code::not_found, param_text(function, param) +
                                              " is a weight, but the weights have no tensor '" +
                                              declared.name + "'");
  weight.value.kind = CUGRT_VALUE_TENSOR;
  weight.value.as.tensor = weight.tensor->describe_shape();
  cugrt_tensor &tensor = weight.value.as.tensor;
  if (ir::info(declared.dtype).kind == ir::DTypeKind::block &&
      weight.tensor->dtype == ir::DType::u8 && tensor.rank > 0)
    if (Status status = take_blocks(plan, declared, tensor); !status.ok())
      return std::move(status).in(param_text(function, param));
  CUGRT_TRY(check_argument(function, param, weight.value));
  CUGRT_TRY(check_constant_dims(plan, function, param, weight.value));
  return weight;
}

} // namespace cugrt::runtime
