// cugrt plan --group: what several models take of one device, before any is loaded.
#pragma once

#include "tool.h"

#include <map>
#include <optional>

namespace tool {

/// Memory of a model in a group at the upper bounds of its symbols. Bytes.
struct GroupMember {
  std::string name, word; // "": none
  uint64_t weights = 0, arena = 0, results = 0, caches = 0;
  uint64_t shared = 0; // of its weights, those that lie in memory of earlier models
  uint64_t bases = 0;  // bytes that these models have of weights, which come with its own
  std::map<std::string, uint64_t> given; // bytes by name of weights that are read as given
  struct Computed {
    uint64_t bytes = 0;
    std::string recipe; // how it is made of them
    std::vector<std::string> sources;
  };
  std::map<std::string, Computed> computed; // by name, weights that are made of others
  uint64_t instances = 0;                   // estimated: one for each region
  uint64_t opening = 0; // beside the rest while a session is opened: sources of computed weights
  std::string longest;  // its node that reads and writes the most bytes, where sizes are known
  uint64_t longest_bytes = 0;
  uint64_t own_weights() const { return weights - shared; }
  uint64_t total() const { return own_weights() + arena + results + caches; }
};

struct GroupPlan {
  std::vector<GroupMember> members;
  std::optional<uint64_t> budget;

  /// An arena that members of one word share counts once, as large as the largest.
  uint64_t arenas() const;
  /// Weights, those that models share once, arenas, results and caches; instances have budgets of
  /// their own.
  uint64_t total() const;
  /// Least memory of runs: the weights of all but one word or model may be away.
  uint64_t least() const;
};

/// Reads a module's or pack's report in JSON: the memory of the plan that needs most.
GroupMember group_member(const std::string &name, const std::string &report);
/// Tensors that a member has alike with an earlier one lie there once, by the rule of groups: where
/// at least half of what that one has of its own is read. `sets`: of each member; null: not known.
void share_weights(GroupPlan &plan, const std::vector<std::optional<cugrt::Weights>> &sets);
/// "NAME=a,b": what those members have in common.
void set_word(GroupPlan &plan, const std::string &setting);

std::string group_text(const GroupPlan &plan);
std::string group_json(const GroupPlan &plan);
/// One bar for each model over one axis of addresses; shared arenas stand at one place.
std::string group_svg(const GroupPlan &plan);

} // namespace tool
