// Upload of weights; see LoadedWeights in loaded_code.h.
#include "base/checked_math.h"
#include "device/code/loaded_code.h"
#include "device/code/weight_argument.h"
#include "device/program/symbol_binding.h"

#include <algorithm>

namespace cugrt::runtime {

namespace {

/// Whether it is a weight that the caller's set has, and no function computes.
bool is_given(const plan::Plan &plan, const plan::Param &param) {
  return param.kind == plan::ParamKind::weight && !computed_weight(plan, param);
}

/// Where each tensor that some function needs will lie.
struct Layout {
  std::map<std::string, uint64_t> offsets; // by name
  uint64_t total_bytes = 0;

  /// Where the next one will begin.
  uint64_t next() const {
    return (total_bytes + kUploadAlignment - 1) / kUploadAlignment * kUploadAlignment;
  }
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

/// What the device has there, in memory of the host.
Result<std::vector<char>> read_back(const Device &device, uint64_t address, uint64_t size) {
  std::vector<char> bytes;
  if (size != 0) {
    try {
      bytes.resize(size);
    } catch (const std::bad_alloc &) {
      return Status::error(Code::out_of_host_memory, "the host has no " + std::to_string(size) +
                                                         " bytes for weights of the device");
    }
    CUGRT_TRY(driver::copy_to_host(device.context(), bytes.data(), address, bytes.size()));
  }
  return bytes;
}

Result<std::vector<char>> read_back(const Device &device, const WeightMemory &memory) {
  return read_back(device, memory.address(), memory.size_bytes());
}

/// Of a weight that no run reads: aligned, and not null.
constexpr uint64_t kNowhere = kUploadAlignment;

bool is_away(const cugrt_value &weight) {
  return weight.kind == CUGRT_VALUE_TENSOR && weight.as.tensor.address == kNowhere;
}

} // namespace

Result<std::shared_ptr<LoadedWeights>>
LoadedWeights::load(const Executable &executable, const Device &device, const WeightSet &set,
                    const std::shared_ptr<GroupWeights> &group) {
  CUGRT_TRY(check_not_computed(executable.plan(), set));
  const std::shared_ptr<MemoryBudget> budget = group ? group->budget() : nullptr;
  std::shared_ptr<LoadedWeights> weights(new LoadedWeights);
  weights->budget_ = budget;
  weights->set_ = set;
  const std::vector<bool> computing = functions_of_weights(executable.plan());
  std::map<std::string, uint64_t> kept, sources; // bytes by name
  for (size_t f = 0; f < executable.plan().functions.size(); ++f) {
    const plan::Function &function = executable.plan().functions[f];
    weights->params_.emplace_back(function.params.size());
    if (function.is_private) // its callers bind its weights
      continue;
    const std::vector<bool> read = weights_read(function);
    for (uint32_t i = 0; i < function.params.size(); ++i) {
      if (!is_given(executable.plan(), function.params[i]))
        continue;
      CUGRT_ASSIGN(const WeightArgument weight,
                   weight_argument(executable.plan(), function, i, set));
      weights->params_.back()[i] = weight.value;
      (computing[f] || !read[i] ? sources : kept)
          .emplace(function.params[i].name, weight.tensor->size_bytes);
    }
  }
  std::map<std::string, uint64_t> addresses;
  CUGRT_TRY(weights->list_computed(executable, group != nullptr));
  for (const auto &[name, bytes] : kept)
    sources.erase(name);
  CUGRT_ASSIGN(weights->in_place_, WeightsInPlace::take(device, set, kept, sources, addresses));
  if (group)
    CUGRT_TRY(weights->share(device, kept, group->of_others(executable), addresses));
  Layout layout;
  for (const auto &[name, bytes] : kept)
    if (!addresses.contains(name))
      CUGRT_TRY(layout.add(name, bytes));
  CUGRT_ASSIGN(weights->memory_,
               WeightMemory::allocate(device.context(), layout.total_bytes, budget));
  for (const auto &[name, offset] : layout.offsets)
    addresses[name] = weights->memory_.address() + offset;
  CUGRT_TRY(copy_tensors(layout.offsets, set, device, weights->memory_.address()));
  weights->offsets_ = std::move(layout.offsets);
  weights->memory_at_ = weights->memory_.address();
  for (size_t f = 0; f < weights->params_.size(); ++f) {
    const plan::Function &function = executable.plan().functions[f];
    for (size_t i = 0; i < function.params.size(); ++i) {
      cugrt_value &value = weights->params_[f][i];
      if (value.kind != CUGRT_VALUE_TENSOR)
        continue;
      const auto found = addresses.find(function.params[i].name);
      value.as.tensor.address = found == addresses.end() ? kNowhere : found->second;
    }
  }
  return weights;
}

/// `recipes`: with what they are made of, so that they may be found.
Status LoadedWeights::list_computed(const Executable &executable, bool recipes) {
  const plan::Plan &plan = executable.plan();
  WeightRecipes of(executable);
  for (const plan::Function &function : plan.functions)
    for (const plan::Param &param : function.params)
      if (const auto from = computed_weight(plan, param);
          from && !function.is_private && !made_.contains(param.name)) {
        CUGRT_ASSIGN(const cugrt_tensor tensor, describe_computed(plan, *from));
        CUGRT_ASSIGN(const uint64_t bytes, tensor_bytes(tensor));
        made_[param.name] = {.bytes = bytes, .recipe = recipes ? of.of(*from) : std::nullopt};
      }
  return {};
}

/// Bytes of what a function of weights reads that is not on the device, by name.
std::map<std::string, uint64_t> LoadedWeights::sources_of(const plan::Plan &plan,
                                                          uint32_t function) const {
  std::map<std::string, uint64_t> sources;
  for (size_t i = 0; i < params_[function].size(); ++i)
    if (const std::string &name = plan.functions[function].params[i].name;
        is_away(params_[function][i]))
      sources.emplace(name, set_.find(name)->size_bytes);
  return sources;
}

Status LoadedWeights::compute(const Executable &executable, const Device &device,
                              const Compute &compute) {
  const plan::Plan &plan = executable.plan();
  struct Bound {
    size_t function, param;
    uint32_t result;
    uint64_t bytes;
  };
  struct Computing {
    uint32_t function;
    bool reads_computed = false;
    std::vector<Bound> bound{};
    Layout sources{};
    uint64_t behind = 0; // where results of later ones begin
  };
  std::map<uint32_t, Computing> by_function;
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
      const Computed &made = made_.at(plan.functions[f].params[i].name);
      value.as.tensor.address = made.in_base;
      if (made.in_base == 0)
        by_function.try_emplace(from->function, Computing{from->function})
            .first->second.bound.push_back({f, i, from->result, made.bytes});
    }
  std::vector<Computing *> order;
  for (auto &[function, own] : by_function) {
    for (const plan::Param &param : plan.functions[function].params)
      own.reads_computed = own.reads_computed || computed_weight(plan, param);
    for (const auto &[name, bytes] : sources_of(plan, function))
      CUGRT_TRY(own.sources.add(name, bytes));
    order.push_back(&own);
  }
  // The largest sources first: they lie where later results will be. What no results are behind has
  // memory of its own, all one after the other.
  std::stable_sort(order.begin(), order.end(), [](const Computing *a, const Computing *b) {
    return std::pair(a->reads_computed, b->sources.total_bytes) <
           std::pair(b->reads_computed, a->sources.total_bytes);
  });
  Layout layout;
  for (Computing *own : order) {
    for (const Bound &b : own->bound)
      CUGRT_TRY(layout.add(plan.functions[b.function].params[b.param].name, b.bytes));
    own->behind = layout.next();
  }
  const auto has_room = [&](const Computing &own) {
    return own.behind <= layout.total_bytes &&
           own.sources.total_bytes <= layout.total_bytes - own.behind;
  };
  uint64_t beside = 0;
  for (const Computing *own : order)
    if (!has_room(*own))
      beside = std::max(beside, own->sources.total_bytes);
  // Not a weight's memory until all of it is written.
  CUGRT_ASSIGN(WeightMemory memory,
               WeightMemory::allocate(device.context(), layout.total_bytes, budget_));
  CUGRT_ASSIGN(sources_, WeightMemory::allocate(device.context(), beside, budget_));
  for (const auto &[name, offset] : layout.offsets)
    made_.at(name).offset = offset;
  for (const Computing *own : order)
    for (const Bound &b : own->bound)
      params_[b.function][b.param].as.tensor.address =
          memory.address() + made_.at(plan.functions[b.function].params[b.param].name).offset;
  for (const Computing *own : order) {
    const plan::Function &function = plan.functions[own->function];
    const uint64_t at = has_room(*own) ? memory.address() + own->behind : sources_.address();
    CUGRT_TRY(copy_tensors(own->sources.offsets, set_, device, at));
    std::vector<cugrt_value> &params = params_[own->function];
    for (size_t i = 0; i < params.size(); ++i)
      if (is_away(params[i]))
        params[i].as.tensor.address = at + own->sources.offsets.at(function.params[i].name);
    std::vector<cugrt_tensor> results(function.results.size());
    for (const Bound &b : own->bound)
      results[b.result] = params_[b.function][b.param].as.tensor;
    if (Status status = compute(own->function, results); !status.ok())
      return std::move(status).in("computing weights by function @" + function.name);
  }
  for (size_t f = 0; const bool computing : functions_of_weights(plan))
    if (auto &params = params_[f++]; computing)
      params.assign(params.size(), {});
  computed_ = std::move(memory);
  computed_at_ = computed_.address();
  sources_ = {};
  in_place_.give_back_sources();
  if (!budget_)
    set_ = {};
  return {};
}

/// Each has the dtype and dimensions of the one before.
Status LoadedWeights::check_fits(const Executable &executable, const WeightSet &set) const {
  CUGRT_TRY(check_not_computed(executable.plan(), set));
  for (size_t f = 0; f < params_.size(); ++f) {
    const plan::Function &function = executable.plan().functions[f];
    if (function.is_private)
      continue;
    for (uint32_t i = 0; i < function.params.size(); ++i) {
      if (!is_given(executable.plan(), function.params[i]))
        continue;
      CUGRT_ASSIGN(const WeightArgument weight,
                   weight_argument(executable.plan(), function, i, set));
      const cugrt_tensor &now = weight.value.as.tensor;
      if (params_[f].empty() || params_[f][i].kind != CUGRT_VALUE_TENSOR)
        continue; // of a function that has computed weights
      const cugrt_tensor &before = params_[f][i].as.tensor;
      if (!std::equal(now.dims, now.dims + now.rank, before.dims, before.dims + before.rank))
        return Status::error(Code::invalid_argument,
                             "parameter %" + function.params[i].name + " of function @" +
                                 function.name + " has other dimensions than the weight before");
    }
  }
  return {};
}

Status LoadedWeights::replace(const Executable &executable, const Device &device,
                              const WeightSet &set, const LoadedWeights *computed) {
  CUGRT_TRY(check_fits(executable, set));
  if (!bases_.empty() || !in_place_.pages().empty())
    return Status::error(Code::unsupported,
                         "some of the weights lie in another model's or in pages of the host: new "
                         "ones come beside them, by session_update_weights");
  CUGRT_TRY(bring_own(device));
  std::lock_guard lock(mutex_);
  CUGRT_ASSIGN(const std::vector<char> before, read_back(device, memory_));
  CUGRT_ASSIGN(const std::vector<char> computed_before, read_back(device, computed_));
  const auto write = [&]() -> Status {
    CUGRT_TRY(copy_tensors(offsets_, set, device, memory_.address()));
    for (const auto &[name, own] : made_) {
      if (own.bytes == 0)
        continue;
      CUGRT_ASSIGN(const std::vector<char> bytes,
                   read_back(device, computed->address_of(computed->made_.at(name)), own.bytes));
      CUGRT_TRY(
          driver::copy_to_device(device.context(), address_of(own), bytes.data(), bytes.size()));
    }
    return {};
  };
  if (Status status = write(); !status.ok()) {
    (void)driver::copy_to_device(device.context(), memory_.address(), before.data(), before.size());
    (void)driver::copy_to_device(device.context(), computed_.address(), computed_before.data(),
                                 computed_before.size());
    return status;
  }
  if (budget_)
    set_ = set;
  return {};
}

Status LoadedWeights::leave(const Device &device) {
  if (!budget_)
    return Status::error(Code::unsupported, "weights leave the device in sessions of groups only");
  // Whoever brings them may wait for the caller, to be given memory.
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || holders_ != 0)
    return Status::error(Code::busy, "a session that reads the weights is being opened");
  if (!resident_)
    return {};
  CUGRT_ASSIGN(computed_bytes_, read_back(device, computed_));
  resident_ = false;
  Status status = memory_.leave(), other = computed_.leave();
  return status.ok() ? std::move(other) : std::move(status);
}

Status LoadedWeights::come_back(const Device &device) {
  for (const std::shared_ptr<LoadedWeights> &base : bases_)
    CUGRT_TRY(base->bring_own(device));
  return bring_own(device);
}

Status LoadedWeights::bring_own(const Device &device) {
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
