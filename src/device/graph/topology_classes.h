// The known topology classes of one region, found by the choices of its steps.
//
// A class lives as long as an instance has it. Of those that none has a few are kept: keys come
// again, and a class costs as much to make as the region has nodes. Used by the session's thread.
#pragma once

#include "device/graph/topology_class.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace cugrt::runtime {

class TopologyClasses {
public:
  /// Number of classes to keep without an instance.
  static constexpr size_t kSpare = 8;

  struct Known {
    uint64_t number = 0; // no other class of the cache has it
    std::shared_ptr<const TopologyClass> topology;
  };

  /// `choices` are the launches chosen for the steps that have a choice.
  std::optional<Known> find(std::span<const uint32_t> choices) {
    scratch_.assign(choices.begin(), choices.end());
    auto it = by_choices_.find(scratch_);
    if (it == by_choices_.end())
      return std::nullopt;
    it->second.last_use = ++clock_;
    return it->second.known;
  }

  /// Adds a class that find() does not know. The least recently found classes that only this table
  /// has make room.
  Known add(std::span<const uint32_t> choices, Known known) {
    give_up_spares();
    by_choices_[std::vector<uint32_t>(choices.begin(), choices.end())] = {known, ++clock_};
    return known;
  }

  size_t size() const { return by_choices_.size(); }

private:
  struct Hash {
    size_t operator()(const std::vector<uint32_t> &choices) const {
      uint64_t hash = choices.size();
      for (uint32_t choice : choices)
        hash = (hash ^ choice) * 0x9e3779b97f4a7c15u ^ (hash >> 29);
      return hash;
    }
  };
  struct Entry {
    Known known;
    uint64_t last_use = 0;
  };

  /// Makes room for one more. Destroyed instances may have left several spare classes.
  void give_up_spares() {
    std::vector<decltype(by_choices_)::iterator> spares;
    for (auto it = by_choices_.begin(); it != by_choices_.end(); ++it)
      if (it->second.known.topology.use_count() == 1)
        spares.push_back(it);
    if (spares.size() < kSpare)
      return;
    std::sort(spares.begin(), spares.end(),
              [](auto a, auto b) { return a->second.last_use < b->second.last_use; });
    for (size_t i = 0; i <= spares.size() - kSpare; ++i)
      by_choices_.erase(spares[i]);
  }
  std::unordered_map<std::vector<uint32_t>, Entry, Hash> by_choices_;
  std::vector<uint32_t> scratch_;
  uint64_t clock_ = 0;
};

} // namespace cugrt::runtime
