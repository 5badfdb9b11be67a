// Upload of weights; see LoadedWeights in loaded_code.h.
#include "base/checked_math.h"
#include "device/code/loaded_code.h"
#include "device/code/weight_argument.h"
#include "device/program/symbol_binding.h"

#include <algorithm>

namespace cugrt::runtime {

/// Whether the caller's set must have the weight, which no function computes.
static bool is_given(const plan::Plan &plan, const plan::Param &param) {
  return param.kind == plan::ParamKind::weight && !computed_weight(plan, param);
}

static Status copy_tensors(const std::map<std::string, uint64_t> &offsets, const WeightSet &set,
                           const Device &device, uint64_t address) {
  for (const auto &[name, offset] : offsets)
    if (const HostTensor &tensor = *set.find(name); tensor.size_bytes != 0)
      CUGRT_TRY(driver::copy_to_device(device.context(), address + offset, tensor.data(),
                                       tensor.size_bytes));
  return {};
}

/// Copies device memory to the host.
static Result<std::vector<char>> read_back(const Device &device, uint64_t address, uint64_t size) {
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

static Result<std::vector<char>> read_back(const Device &device, const WeightMemory &memory) {
  return read_back(device, memory.address(), memory.size_bytes());
}

/// Address of a weight that no run reads: aligned, and not null.
constexpr uint64_t kNowhere = kUploadAlignment;

static bool is_away(const cugrt_value &weight) {
  return weight.kind == CUGRT_VALUE_TENSOR && weight.as.tensor.address == kNowhere;
}

Status WeightLayout::add(const std::string &name, uint64_t size_bytes) {
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

LoadedWeights::~LoadedWeights() {
  opened();
  if (budget_)
    budget_->claim(this, {});
}

void LoadedWeights::claim(uint64_t uploaded, uint64_t moment) const {
  if (!budget_)
    return;
  WeightLayout computed;
  for (const auto &[name, own] : made_)
    if (own.in_base == 0)
      (void)computed.add(name, own.bytes);
  budget_->claim(this,
                 {{.bytes = MemoryBudget::mapped(uploaded) +
                            MemoryBudget::mapped(computed.total_bytes) + in_place_.size_bytes(),
                   .moment = MemoryBudget::mapped(moment)}});
}

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
  uint64_t moment = 0;                           // of sources of one function
  for (size_t f = 0; f < executable.plan().functions.size(); ++f) {
    const plan::Function &function = executable.plan().functions[f];
    weights->params_.emplace_back(function.params.size());
    if (function.is_private) // its callers bind its weights
      continue;
    const std::vector<bool> read = weights_read(function);
    WeightLayout all;
    for (uint32_t i = 0; i < function.params.size(); ++i) {
      if (!is_given(executable.plan(), function.params[i]))
        continue;
      CUGRT_ASSIGN(const WeightArgument weight,
                   weight_argument(executable.plan(), function, i, set));
      CUGRT_TRY(all.add(function.params[i].name, weight.tensor->size_bytes));
      weights->params_.back()[i] = weight.value;
      (computing[f] || !read[i] ? sources : kept)
          .emplace(function.params[i].name, weight.tensor->size_bytes);
    }
    moment = std::max(moment, computing[f] ? all.total_bytes : 0);
  }
  std::map<std::string, uint64_t> addresses;
  CUGRT_TRY(weights->list_computed(executable, group != nullptr));
  for (const auto &[name, bytes] : kept)
    sources.erase(name);
  WeightLayout layout;
  for (const auto &[name, bytes] : kept)
    CUGRT_TRY(layout.add(name, bytes));
  weights->claim(layout.total_bytes, moment);
  if (group)
    CUGRT_TRY(weights->share(device, kept, group->of_others(executable), addresses));
  std::erase_if(kept, [&](const auto &entry) { return addresses.contains(entry.first); });
  CUGRT_ASSIGN(weights->in_place_,
               WeightsInPlace::take(device, set, kept, sources, budget, addresses));
  layout = {};
  for (const auto &[name, bytes] : kept)
    if (!addresses.contains(name))
      CUGRT_TRY(layout.add(name, bytes));
  weights->claim(layout.total_bytes, moment);
  CUGRT_ASSIGN(weights->memory_,
               WeightMemory::allocate(device.context(), layout.total_bytes, budget));
  for (const auto &[name, offset] : layout.offsets)
    addresses[name] = weights->memory_.address() + offset;
  CUGRT_TRY(copy_tensors(layout.offsets, set, device, weights->memory_.address()));
  weights->offsets_ = std::move(layout.offsets);
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

/// Lists computed weights; `recipes`: with their recipes, so that others may find them.
Status LoadedWeights::list_computed(const Executable &executable, bool recipes) {
  const plan::Plan &plan = executable.plan();
  WeightRecipes of(plan, [&](uint32_t kernel) {
    return Digester().field(executable.images()[executable.image_of(kernel)].bytes).finish();
  });
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

/// Names and bytes of weights that a function of weights reads and the device does not have.
std::map<std::string, uint64_t> LoadedWeights::sources_of(const plan::Plan &plan,
                                                          uint32_t function) const {
  std::map<std::string, uint64_t> sources;
  for (size_t i = 0; i < params_[function].size(); ++i)
    if (const std::string &name = plan.functions[function].params[i].name;
        is_away(params_[function][i]))
      sources.emplace(name, set_.find(name)->size_bytes);
  return sources;
}

/// Binds computed weights to their later places; the address of computed_ is still open.
Status LoadedWeights::list_makings(const Executable &executable) {
  const plan::Plan &plan = executable.plan();
  std::map<uint32_t, Making> by_function;
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
        by_function.try_emplace(from->function, Making{from->function})
            .first->second.bound.push_back({f, i, from->result, tensor});
    }
  for (auto &[function, own] : by_function) {
    bool reads_computed = false;
    for (const plan::Param &param : plan.functions[function].params)
      reads_computed = reads_computed || computed_weight(plan, param);
    for (const auto &[name, bytes] : sources_of(plan, function))
      CUGRT_TRY(own.sources.add(name, bytes));
    makings_.emplace(std::pair(reads_computed, ~own.sources.total_bytes), std::move(own));
  }
  for (auto &[place, own] : makings_) {
    for (const Making::Bound &b : own.bound) {
      const std::string &name = plan.functions[b.function].params[b.param].name;
      CUGRT_TRY(computed_layout_.add(name, made_.at(name).bytes));
      made_.at(name).offset = computed_layout_.offsets.at(name);
    }
    own.behind = computed_layout_.next();
  }
  return {};
}

uint64_t LoadedWeights::most_while_made() const {
  uint64_t most = computed_layout_.total_bytes;
  for (const auto &[place, own] : makings_)
    if (own.sources.total_bytes >= MemoryBudget::kMapped) // fewer are no pages of their own
      most = std::max(most, own.behind + own.sources.total_bytes);
  return most;
}

/// Computes all of them, into `memory`.
Status LoadedWeights::make(const Executable &executable, const Device &device,
                           const Compute &compute, WeightMemory &memory) {
  const uint64_t computed = memory.address(), held = memory.size_bytes(), most = most_while_made();
  CUGRT_ASSIGN(const bool is_longer, memory.lengthen(most - held));
  const auto has_room = [&](const Making &own) {
    return own.behind + own.sources.total_bytes <= (is_longer ? most : held);
  };
  uint64_t beside = 0;
  for (const auto &[place, own] : makings_)
    if (!has_room(own))
      beside = std::max(beside, own.sources.total_bytes);
  CUGRT_ASSIGN(sources_, WeightMemory::allocate(device.context(), beside, budget_));
  for (const auto &[place, own] : makings_) {
    const plan::Function &function = executable.plan().functions[own.function];
    const uint64_t at = has_room(own) ? computed + own.behind : sources_.address();
    CUGRT_TRY(copy_tensors(own.sources.offsets, set_, device, at));
    std::vector<cugrt_value> &params = params_[own.function] = own.params;
    for (size_t i = 0; i < params.size(); ++i)
      if (is_away(params[i]))
        params[i].as.tensor.address = at + own.sources.offsets.at(function.params[i].name);
    std::vector<cugrt_tensor> results(function.results.size());
    for (const Making::Bound &b : own.bound) {
      results[b.result] = b.tensor;
      results[b.result].address =
          computed + made_.at(executable.plan().functions[b.function].params[b.param].name).offset;
    }
    if (Status status = compute(own.function, results); !status.ok())
      return std::move(status).in("computing weights by function @" + function.name);
    params.assign(params.size(), {});
  }
  sources_ = {};
  return memory.shorten();
}

Status LoadedWeights::compute(const Executable &executable, const Device &device,
                              const Compute &compute) {
  if (again_) {
    making_ = true;
    Status status = make(executable, device, compute, computed_);
    making_ = false;
    return status;
  }
  const plan::Plan &plan = executable.plan();
  CUGRT_TRY(list_makings(executable));
  // Becomes a weight's memory only after all of it is written.
  CUGRT_ASSIGN(WeightMemory memory,
               WeightMemory::allocate(device.context(), computed_layout_.total_bytes, budget_,
                                      most_while_made() - computed_layout_.total_bytes));
  for (const auto &[place, own] : makings_)
    for (const Making::Bound &b : own.bound)
      params_[b.function][b.param].as.tensor.address =
          memory.address() + made_.at(plan.functions[b.function].params[b.param].name).offset;
  for (auto &[place, own] : makings_)
    own.params = params_[own.function];
  CUGRT_TRY(make(executable, device, compute, memory));
  for (size_t f = 0; const bool computing : functions_of_weights(plan))
    if (auto &params = params_[f++]; computing)
      params.assign(params.size(), {});
  computed_ = std::move(memory);
  in_place_.give_back_sources(budget_ == nullptr);
  return {};
}

Status LoadedWeights::finish(const Device &memory, const Finish &finish) {
  CUGRT_TRY(finish(memory, *this));
  CUGRT_ASSIGN(const int integrated, memory.context().attribute(CU_DEVICE_ATTRIBUTE_INTEGRATED));
  if (budget_ && integrated != 0)
    again_ = finish;
  else
    makings_.clear();
  if (!budget_)
    set_ = {};
  return {};
}

/// Checks that each has the dtype and dimensions of the old one.
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
  pinned_ = {}; // they are others
  if (budget_)
    set_ = set;
  return {};
}

Status LoadedWeights::leave(const Device &device) {
  if (!budget_)
    return Status::error(Code::unsupported, "weights leave the device in sessions of groups only");
  // The thread that brings them may wait for the caller, to get memory.
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || holders_ != 0)
    return Status::error(Code::busy, "a session that reads the weights is being opened");
  if (!resident_)
    return {};
  CUGRT_TRY(keep_bytes(device));
  bound_ = ranges();
  resident_ = false;
  in_place_.leave();
  Status status = memory_.leave(), other = computed_.leave();
  return status.ok() ? std::move(other) : std::move(status);
}

/// Saves the bytes that the host keeps while the weights are away. Weights do not change, so a copy
/// that the host has stays valid.
Status LoadedWeights::keep_bytes(const Device &device) {
  if (again_ || pinned_)
    return {};
  const uint64_t given = memory_.size_bytes(), computed = computed_.size_bytes();
  auto pinned = driver::PinnedBuffer::allocate(device.context(), given + computed);
  if (!pinned.ok() && pinned.status().code() != Code::out_of_host_memory)
    return pinned.take_status();
  if (!pinned.ok()) {
    CUGRT_ASSIGN(computed_bytes_, read_back(device, computed_));
    return {};
  }
  char *const bytes = static_cast<char *>(pinned->data());
  CUGRT_TRY(driver::copy_to_host(device.context(), bytes, memory_.address(), given));
  CUGRT_TRY(driver::copy_to_host(device.context(), bytes + given, computed_.address(), computed));
  pinned_ = std::move(*pinned);
  return {};
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
  follow_bases();
  Status status = fill(device);
  if (status.ok())
    moves_ += bind_params(bound_, ranges());
  // Computing weights again reads the other weights at their present addresses.
  if (status.ok() && again_)
    status = again_(device, *this);
  if (!status.ok()) {
    in_place_.leave();
    (void)memory_.leave();
    (void)computed_.leave();
    sources_ = {};
    return std::move(status).in("weights that had left the device");
  }
  in_place_.give_back_sources(false);
  computed_bytes_ = {};
  resident_ = true;
  return {};
}

/// Present ranges of their memory, always in the same order.
std::vector<LoadedWeights::Range> LoadedWeights::ranges() const {
  std::vector<Range> all(2 + in_place_.pages().size());
  all[0] = {memory_.address(), memory_.size_bytes()};
  all[1] = {computed_.address(), computed_.size_bytes()};
  for (size_t i = 2; i < all.size(); ++i)
    all[i] = {in_place_.pages()[i - 2].address, in_place_.pages()[i - 2].bytes};
  return all;
}

bool LoadedWeights::bind_params(std::vector<Range> &before, const std::vector<Range> &now) {
  bool moved = false;
  const auto bind = [&](std::vector<cugrt_value> &params) {
    for (cugrt_value &param : params)
      for (size_t i = 0; param.kind == CUGRT_VALUE_TENSOR && i < now.size(); ++i)
        if (uint64_t &address = param.as.tensor.address;
            address - before[i].address < before[i].bytes) {
          moved = moved || now[i].address != before[i].address;
          address += now[i].address - before[i].address;
          break;
        }
  };
  for (std::vector<cugrt_value> &params : params_)
    bind(params);
  for (auto &[place, own] : makings_)
    bind(own.params);
  before = now;
  return moved;
}

Status LoadedWeights::fill(const Device &device) {
  CUGRT_TRY(in_place_.come_back(device, budget_));
  CUGRT_TRY(memory_.come_back(device.context()));
  CUGRT_TRY(computed_.come_back(device.context()));
  if (pinned_) {
    const char *const bytes = static_cast<const char *>(pinned_.data());
    CUGRT_TRY(
        driver::copy_to_device(device.context(), memory_.address(), bytes, memory_.size_bytes()));
    return driver::copy_to_device(device.context(), computed_.address(),
                                  bytes + memory_.size_bytes(), computed_.size_bytes());
  }
  CUGRT_TRY(copy_tensors(offsets_, set_, device, memory_.address()));
  return driver::copy_to_device(device.context(), computed_.address(), computed_bytes_.data(),
                                computed_bytes_.size());
}

} // namespace cugrt::runtime
