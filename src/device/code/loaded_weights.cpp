// Upload of weights; see LoadedWeights in loaded_code.h.
#include "device/code/loaded_code.h"
#include "device/code/weight_argument.h"
#include "device/program/symbol_binding.h"
#include "base/checked_math.h"

namespace cugrt::runtime {

namespace {

/// Where each tensor that some function needs will lie.
struct Layout {
  std::map<std::string, uint64_t> offsets; // by name
  uint64_t total_bytes = 0;

  Status add(const std::string &name, uint64_t size_bytes) {
    if (offsets.contains(name))
      return {};
    auto begin = checked_align(static_cast<int64_t>(total_bytes), kUploadAlignment);
    auto end = begin ? checked_add(*begin, static_cast<int64_t>(size_bytes)) : begin;
    if (!end)
      return Status::error(Code::out_of_range, "the weights' sizes overflow");
    offsets.emplace(name, *begin);
    total_bytes = static_cast<uint64_t>(*end);
    return {};
  }
};

/// Puts the tensors, bytes by name, that have no address yet into one allocation and tells where.
Result<driver::DeviceBuffer> upload(const std::map<std::string, uint64_t> &tensors,
                                    const WeightSet &set, const Device &device,
                                    std::map<std::string, uint64_t> &addresses) {
  Layout layout;
  for (const auto &[name, bytes] : tensors)
    if (!addresses.contains(name))
      CUGRT_TRY(layout.add(name, bytes));
  CUGRT_ASSIGN(driver::DeviceBuffer memory,
               driver::DeviceBuffer::allocate(device.context(), layout.total_bytes));
  for (const auto &[name, offset] : layout.offsets) {
    const HostTensor &tensor = *set.find(name);
    addresses[name] = memory.address() + offset;
    if (tensor.size_bytes != 0)
      CUGRT_TRY(driver::copy_to_device(device.context(), memory.address() + offset, tensor.data(),
                                       tensor.size_bytes));
  }
  return memory;
}

} // namespace

Result<std::shared_ptr<LoadedWeights>>
LoadedWeights::load(const Executable &executable, const Device &device, const WeightSet &set) {
  CUGRT_TRY(check_not_computed(executable.plan(), set));
  std::shared_ptr<LoadedWeights> weights(new LoadedWeights);
  const std::vector<bool> computing = functions_of_weights(executable.plan());
  std::map<std::string, uint64_t> kept, sources; // bytes by name
  for (size_t f = 0; f < executable.plan().functions.size(); ++f) {
    const plan::Function &function = executable.plan().functions[f];
    weights->params_.emplace_back(function.params.size());
    if (function.is_private) // its callers bind its weights
      continue;
    const std::vector<bool> read = weights_read(function);
    for (uint32_t i = 0; i < function.params.size(); ++i) {
      if (function.params[i].kind != plan::ParamKind::weight ||
          computed_weight(executable.plan(), function.params[i]))
        continue;
      CUGRT_ASSIGN(const WeightArgument weight,
                   weight_argument(executable.plan(), function, i, set));
      weights->params_.back()[i] = weight.value;
      (computing[f] || !read[i] ? sources : kept)
          .emplace(function.params[i].name, weight.tensor->size_bytes);
    }
  }
  std::map<std::string, uint64_t> addresses;
  for (const auto &[name, bytes] : kept)
    sources.erase(name);
  CUGRT_ASSIGN(weights->in_place_, WeightsInPlace::take(device, set, kept, sources, addresses));
  CUGRT_ASSIGN(weights->memory_, upload(kept, set, device, addresses));
  CUGRT_ASSIGN(weights->sources_, upload(sources, set, device, addresses));
  for (size_t f = 0; f < weights->params_.size(); ++f) {
    const plan::Function &function = executable.plan().functions[f];
    for (size_t i = 0; i < function.params.size(); ++i)
      if (weights->params_[f][i].kind == CUGRT_VALUE_TENSOR)
        weights->params_[f][i].as.tensor.address = addresses.at(function.params[i].name);
  }
  return weights;
}

Status LoadedWeights::compute(const Executable &executable, const Device &device,
                              const Compute &compute) {
  const plan::Plan &plan = executable.plan();
  Layout layout;
  std::map<uint32_t, std::vector<cugrt_tensor>> results; // by function
  struct Bound {
    size_t function, param;
    ComputedWeight from;
  };
  std::vector<Bound> bound;
  for (size_t f = 0; f < plan.functions.size(); ++f)
    for (size_t i = 0; i < plan.functions[f].params.size(); ++i) {
      const auto from = computed_weight(plan, plan.functions[f].params[i]);
      if (!from || plan.functions[f].is_private)
        continue;
      CUGRT_ASSIGN(const cugrt_tensor tensor, describe_computed(plan, *from));
      cugrt_value &value = params_[f][i];
      value.kind = CUGRT_VALUE_TENSOR;
      value.as.tensor = tensor;
      CUGRT_TRY(check_argument(plan.functions[f], static_cast<uint32_t>(i), value));
      CUGRT_ASSIGN(const uint64_t bytes, tensor_bytes(tensor));
      CUGRT_TRY(layout.add(plan.functions[f].params[i].name, bytes));
      results[from->function].resize(plan.functions[from->function].results.size());
      bound.push_back({f, i, *from});
    }
  if (bound.empty()) {
    sources_ = {};
    in_place_.give_back_sources();
    return {};
  }
  // Not a weight's memory until all of it is written.
  CUGRT_ASSIGN(driver::DeviceBuffer memory,
               driver::DeviceBuffer::allocate(device.context(), layout.total_bytes));
  for (const Bound &b : bound) {
    cugrt_tensor &tensor = params_[b.function][b.param].as.tensor;
    tensor.address =
        memory.address() + layout.offsets.at(plan.functions[b.function].params[b.param].name);
    results[b.from.function][b.from.result] = tensor;
  }
  for (const auto &[function, tensors] : results)
    if (Status status = compute(function, tensors); !status.ok())
      return std::move(status).in("computing weights by function @" +
                                  plan.functions[function].name);
  computed_ = std::move(memory);
  sources_ = {};
  in_place_.give_back_sources();
  for (const auto &[function, tensors] : results)
    params_[function].assign(params_[function].size(), {});
  return {};
}

} // namespace cugrt::runtime
