// Upload of weights; see LoadedWeights in loaded_code.h.
#include "base/checked_math.h"
#include "device/code/loaded_code.h"
#include "device/code/weight_argument.h"
#include "device/program/symbol_binding.h"

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

Status copy_tensors(const std::map<std::string, uint64_t> &offsets, const WeightSet &set,
                    const Device &device, uint64_t address) {
  for (const auto &[name, offset] : offsets)
    if (const HostTensor &tensor = *set.find(name); tensor.size_bytes != 0)
      CUGRT_TRY(driver::copy_to_device(device.context(), address + offset, tensor.data(),
                                       tensor.size_bytes));
  return {};
}

/// Puts the tensors, bytes by name, that have no address yet into one allocation and tells where.
Result<WeightMemory> upload(const std::map<std::string, uint64_t> &tensors, const WeightSet &set,
                            const Device &device, const std::shared_ptr<MemoryBudget> &budget,
                            std::map<std::string, uint64_t> &addresses, Layout &layout) {
  for (const auto &[name, bytes] : tensors)
    if (!addresses.contains(name))
      CUGRT_TRY(layout.add(name, bytes));
  CUGRT_ASSIGN(WeightMemory memory,
               WeightMemory::allocate(device.context(), layout.total_bytes, budget));
  for (const auto &[name, offset] : layout.offsets)
    addresses[name] = memory.address() + offset;
  CUGRT_TRY(copy_tensors(layout.offsets, set, device, memory.address()));
  return memory;
}

} // namespace

Result<std::shared_ptr<LoadedWeights>>
LoadedWeights::load(const Executable &executable, const Device &device, const WeightSet &set,
                    const std::shared_ptr<MemoryBudget> &budget) {
  CUGRT_TRY(check_not_computed(executable.plan(), set));
  std::shared_ptr<LoadedWeights> weights(new LoadedWeights);
  weights->budget_ = budget;
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
  Layout layout, of_sources;
  CUGRT_ASSIGN(weights->memory_, upload(kept, set, device, budget, addresses, layout));
  CUGRT_ASSIGN(weights->sources_, upload(sources, set, device, budget, addresses, of_sources));
  if (budget) {
    weights->set_ = set;
    weights->offsets_ = std::move(layout.offsets);
  }
  weights->memory_at_ = weights->memory_.address();
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
  CUGRT_ASSIGN(WeightMemory memory,
               WeightMemory::allocate(device.context(), layout.total_bytes, budget_));
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
  computed_at_ = computed_.address();
  sources_ = {};
  in_place_.give_back_sources();
  for (const auto &[function, tensors] : results)
    params_[function].assign(params_[function].size(), {});
  return {};
}

Status LoadedWeights::leave(const Device &device) {
  std::lock_guard lock(mutex_);
  if (!budget_)
    return Status::error(Code::unsupported, "weights leave the device in sessions of groups only");
  if (!resident_)
    return {};
  std::vector<char> bytes;
  if (const uint64_t size = computed_.size_bytes()) {
    try {
      bytes.resize(size);
    } catch (const std::bad_alloc &) {
      return Status::error(Code::out_of_host_memory, "the host has no " + std::to_string(size) +
                                                         " bytes for weights that were computed");
    }
    CUGRT_TRY(
        driver::copy_to_host(device.context(), bytes.data(), computed_.address(), bytes.size()));
  }
  computed_bytes_ = std::move(bytes);
  resident_ = false;
  Status status = memory_.leave(), other = computed_.leave();
  return status.ok() ? std::move(other) : std::move(status);
}

Status LoadedWeights::come_back(const Device &device) {
  std::lock_guard lock(mutex_);
  if (resident_)
    return {};
  if (Status status = fill(device); !status.ok()) {
    (void)memory_.leave();
    (void)computed_.leave();
    return std::move(status).in("weights that had left the device");
  }
  bind_params();
  computed_bytes_ = {};
  resident_ = true;
  return {};
}

/// To where their memory is now.
void LoadedWeights::bind_params() {
  const uint64_t memory = memory_.address(), computed = computed_.address();
  if (memory == memory_at_ && computed == computed_at_)
    return;
  for (std::vector<cugrt_value> &params : params_)
    for (cugrt_value &param : params) {
      if (param.kind != CUGRT_VALUE_TENSOR)
        continue;
      uint64_t &address = param.as.tensor.address;
      if (address - memory_at_ < memory_.size_bytes())
        address += memory - memory_at_;
      else if (address - computed_at_ < computed_.size_bytes())
        address += computed - computed_at_;
    }
  memory_at_ = memory;
  computed_at_ = computed;
  ++moves_;
}

Status LoadedWeights::fill(const Device &device) {
  CUGRT_TRY(memory_.come_back(device.context()));
  CUGRT_TRY(copy_tensors(offsets_, set_, device, memory_.address()));
  CUGRT_TRY(computed_.come_back(device.context()));
  return driver::copy_to_device(device.context(), computed_.address(), computed_bytes_.data(),
                                computed_bytes_.size());
}

} // namespace cugrt::runtime
