// A topology class of a region: the launches chosen for its steps, and the patch program of its
// instances.
//
// Values are numbered through all nodes in order (node 0's arguments, node 1's, ...). For
// everything that a run can change, the class lists what depends on it:
//
//   inputs            a symbol of the key, a base that moves, a host scalar
//     ├─ values       arguments to evaluate again
//     └─ dims         nodes whose launch dimensions to evaluate again
//
// so that patching an instance costs what depends on the changed inputs, not what the region has.
#pragma once

#include "plan/conditionals.h"
#include "runtime/frame.h"

namespace cugrt::runtime {

struct RegionClass {
  struct Dependent {
    uint32_t value, node; // `value` of arguments only
  };
  struct Input {
    enum class Kind : uint8_t { symbol, base, host } kind;
    uint32_t index;     // SymbolId, base or host value of the frame
    Range values, dims; // into `dependents`
  };

  uint32_t region = 0;
  std::vector<uint32_t> launches;    // of each node: FunctionProgram::launches
  std::vector<uint32_t> first_value; // of each node, and the end
  std::vector<uint32_t> node_of_value;
  std::vector<uint32_t> first_predecessor, predecessors; // nodes; first_predecessor has an end, too
  std::vector<bool> programmatic;                        // of each of `predecessors`
  plan::RegionLevels levels; // one for each graph: the region's own and its bodies
  /// Key symbols in the key's order, then whatever else nodes depend on: bases, host scalars,
  /// symbols that have a bucket.
  std::vector<Input> inputs;
  uint32_t key_size = 0;
  size_t key_nodes = 0; // nodes with a field that depends on the key
  /// What a base is an argument of.
  struct BaseUse {
    uint32_t input = kNone; // index into inputs; kNone: nothing depends on the base
    bool alone = false;     // one argument only, and no other base is one of its node
  };
  std::vector<BaseUse> base_uses; // of each base
  std::vector<Dependent> dependents;

  /// Nodes in bodies of conditionals with a field that a run can change.
  bool changes_bodies = false;
  bool has_bodies() const { return levels.levels.size() > 1; }

  size_t node_count() const { return launches.size(); }
  size_t edge_count() const { return predecessors.size(); }
};

/// The class that the frame's symbols select: one launch for each step of the region.
Result<std::vector<uint32_t>> choose_launches(const Frame &frame, uint32_t region);

RegionClass make_region_class(const Frame &frame, uint32_t region, std::vector<uint32_t> launches);

} // namespace cugrt::runtime
