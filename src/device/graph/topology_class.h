// A topology class of a region: the variants chosen for its steps, and the patch program of its
// instances.
//
// Arguments are numbered through all nodes in order (node 0's, node 1's, ...). What several
// arguments take is one value, and what several nodes are launched with is one set of dimensions;
// each is evaluated once and handed out. For everything that a run can change, the class lists what
// depends on it:
//
//   inputs            a symbol of the key, a base that moves, a host scalar
//     ├─ values       to evaluate again ── uses: the arguments that take it
//     └─ dims         to evaluate again ── uses: the nodes that have them
//
// so that patching an instance costs what depends on the changed inputs, not what the region has.
#pragma once

#include "device/program/run_binding.h"
#include "plan/edges/region_levels.h"

namespace cugrt::runtime {

class Executable;
class LoadedCode;

struct TopologyClass {
  struct Use {
    uint32_t argument, node; // `argument` of values only
  };
  /// A value or a node's launch dimensions, and all users. `from` is an index in
  /// FunctionProgram::sources (gives the value) or FunctionProgram::variants (has the dimensions).
  struct Shared {
    uint32_t from;
    Range uses;
  };
  struct Input : RunInput {
    Range values, dims; // into `dependents`, for numbers of `values` and `dims`
  };

  uint32_t region = 0;
  std::vector<uint32_t> variants;                        // of each node: FunctionProgram::variants
  std::vector<uint32_t> first_argument;                  // of each node, and the end
  std::vector<uint32_t> first_predecessor, predecessors; // nodes; first_predecessor has an end, too
  std::vector<bool> programmatic;                        // of each of `predecessors`
  std::vector<uint32_t> idle_lanes; // of each node: whose lane it goes on with (lanes.h), or kNone
  plan::RegionLevels levels;        // one for each graph: the region's own and its bodies
  /// Nodes of branches that are not taken, which the graph lacks; none of them is in
  /// `predecessors`. Nodes that wait for such a node wait for its predecessors instead.
  std::vector<bool> left_out;
  size_t left_out_count = 0;
  /// The key's symbols in order, then the other inputs of nodes: bases, host scalars, symbols that
  /// have a bucket.
  std::vector<Input> inputs;
  uint32_t key_size = 0;
  size_t key_nodes = 0;      // nodes with a field that depends on the key
  size_t key_dims_nodes = 0; // those of them whose launch dimensions do
  /// The use of a base as an argument.
  struct BaseUse {
    uint32_t input = kNone; // index into inputs; kNone: nothing depends on the base
    bool alone = false;     // one argument only, and no other base is one of its node
  };
  std::vector<BaseUse> base_uses; // of each base
  std::vector<Shared> values;     // those that some input changes
  std::vector<Shared> dims;       // of all nodes
  std::vector<Use> uses;
  std::vector<uint32_t> dependents;

  /// Whether a node in the body of a conditional has a field that a run can change.
  bool changes_bodies = false;
  bool has_bodies() const { return levels.levels.size() > 1; }

  size_t node_count() const { return variants.size(); } // those that are left out included
  size_t graph_node_count() const { return variants.size() - left_out_count; }
  size_t argument_count() const { return first_argument.back(); }
  size_t edge_count() const { return predecessors.size(); }

  std::span<const Use> uses_of(const Shared &shared) const {
    return std::span(uses).subspan(shared.uses.begin, shared.uses.count);
  }
  std::span<const uint32_t> numbers(Range range) const {
    return std::span(dependents).subspan(range.begin, range.count);
  }
  /// Calls `visit` with each use of the input's dependents; may visit a node several times.
  template <class Visit> void for_each_use(const Input &input, Visit visit) const {
    for (uint32_t value : numbers(input.values))
      for (const Use &use : uses_of(values[value]))
        visit(use);
    for (uint32_t number : numbers(input.dims))
      for (const Use &use : uses_of(dims[number]))
        visit(use);
  }
};

/// Chooses the class by the run's symbols: one variant for each step of the region. Errors have the
/// step's place in the module.
Result<std::vector<uint32_t>> choose_variants(const RunBinding &run, const Executable &executable,
                                              const LoadedCode *code, uint32_t region);

TopologyClass make_topology_class(const RunBinding &run, uint32_t region,
                                  std::vector<uint32_t> variants);

} // namespace cugrt::runtime
