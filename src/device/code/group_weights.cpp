// Tensors that several models of a group share; see group_weights.h.
#include "device/code/group_weights.h"

#include "device/code/loaded_code.h"

#include <algorithm>
#include <cstring>

namespace cugrt::runtime {

std::vector<std::shared_ptr<LoadedWeights>> GroupWeights::of_others(const Executable &own) {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<LoadedWeights>> others;
  for (const Known &known : known_)
    if (known.executable != &own)
      if (std::shared_ptr<LoadedWeights> weights = known.weights.lock())
        others.push_back(std::move(weights));
  return others;
}

void GroupWeights::add(const Executable &executable,
                       const std::shared_ptr<LoadedWeights> &weights) {
  std::lock_guard lock(mutex_);
  std::erase_if(known_, [](const Known &known) { return known.weights.expired(); });
  known_.push_back({&executable, weights});
}

static bool are_alike(const HostTensor &a, const HostTensor &b) {
  return a.size_bytes == b.size_bytes &&
         (a.data() == b.data() || std::memcmp(a.data(), b.data(), a.size_bytes) == 0);
}

/// Address of an equal tensor that always stays at its address in these weights' own memory, or
/// that lies in pages of the host.
std::optional<uint64_t> LoadedWeights::find_equal(const HostTensor &tensor) const {
  if (tensor.size_bytes == 0)
    return std::nullopt;
  if (memory_.is_reserved())
    for (const auto &[name, offset] : offsets_)
      if (are_alike(*set_.find(name), tensor))
        return memory_.address() + offset;
  std::lock_guard lock(mutex_);
  for (const std::string &name : in_place_.names())
    if (const HostTensor &own = *set_.find(name); are_alike(own, tensor))
      return in_place_.address_of(own);
  return std::nullopt;
}

/// Likewise, for a weight that these compute in the same way as `wanted`, from tensors of `set`.
std::optional<uint64_t> LoadedWeights::find_equal(const WeightSet &set,
                                                  const Computed &wanted) const {
  if (!computed_.is_reserved() || wanted.bytes == 0 || !wanted.recipe)
    return std::nullopt;
  const std::vector<std::string> &sources = wanted.recipe->sources;
  const auto is_equal = [&](const std::string &name, const std::string &own_name) {
    return are_alike(*set_.find(own_name), *set.find(name));
  };
  for (const auto &[name, own] : made_)
    if (own.in_base == 0 && own.bytes == wanted.bytes && own.recipe &&
        own.recipe->computation == wanted.recipe->computation &&
        std::ranges::equal(sources, own.recipe->sources, is_equal))
      return computed_.address() + own.offset;
  return std::nullopt;
}

/// `wanted` lists names of set_ with their bytes, beside computed weights. A base must give at
/// least half of its bytes, since all of it stays on the account of these weights.
Status LoadedWeights::share(const Device &device, const std::map<std::string, uint64_t> &wanted,
                            std::span<const std::shared_ptr<LoadedWeights>> others,
                            std::map<std::string, uint64_t> &addresses) {
  holds_bases_ = true;
  for (const std::shared_ptr<LoadedWeights> &other : others) {
    std::map<std::string, uint64_t> alike, alike_computed;
    std::map<uint64_t, uint64_t> read; // bytes by address
    for (const auto &[name, bytes] : wanted)
      if (!addresses.contains(name))
        if (const std::optional<uint64_t> at = other->find_equal(*set_.find(name))) {
          alike.emplace(name, *at);
          read.emplace(*at, bytes);
        }
    for (const auto &[name, computed] : made_)
      if (computed.in_base == 0)
        if (const std::optional<uint64_t> at = other->find_equal(set_, computed)) {
          alike_computed.emplace(name, *at);
          read.emplace(*at, computed.bytes);
        }
    uint64_t bytes = 0;
    for (const auto &[at, size] : read)
      bytes += size;
    if (bytes == 0 || bytes < (other->memory_.size_bytes() + other->computed_.size_bytes() +
                               other->in_place_.size_bytes()) /
                                  2)
      continue;
    ++other->holders_;
    bases_.push_back(other);
    CUGRT_TRY(other->bring_own(device));
    base_ranges_.push_back(other->ranges());
    for (const auto &[name, at] : alike) // it may have come back elsewhere
      addresses.emplace(name, *other->find_equal(*set_.find(name)));
    for (const auto &[name, at] : alike_computed)
      made_.at(name).in_base = at;
  }
  return {};
}

void LoadedWeights::follow_bases() {
  for (size_t i = 0; i < bases_.size(); ++i) {
    std::lock_guard stays(bases_[i]->mutex_);
    (void)bind_params(base_ranges_[i], bases_[i]->ranges());
  }
}

void LoadedWeights::opened() {
  if (std::exchange(holds_bases_, false))
    for (const std::shared_ptr<LoadedWeights> &base : bases_)
      --base->holders_;
}

} // namespace cugrt::runtime
