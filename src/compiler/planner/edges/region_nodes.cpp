// The order of nodes; see region_nodes.h.
#include "compiler/planner/edges/region_nodes.h"

#include "base/check.h"
#include "compiler/planner/edges/timeline.h"
#include "plan/edges/region_levels.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace cugrt::plan {

/// Whether the region's tensors have the arena to themselves in another order of its nodes as in
/// program order: edges keep bytes apart that are touched, and a tensor that is written in parts
/// has bytes that are not touched yet, where another may still lie.
class RegionNodes::TensorsApart {
public:
  TensorsApart(const Function &function, const ByteRanges &ranges)
      : function_(function), ranges_(ranges) {}

  bool hold(const Region &region, const RegionGraph &graph, std::span<const uint32_t> order) {
    if (are_whole(region))
      return true;
    if (ranges_.box_count() > 1)
      return false;
    count_touches(region);
    std::map<uint32_t, Timeline> arenas;
    bool apart = true;
    for (uint32_t number : order) // to the end, so that no touches are left
      if (graph.nodes[number] != kNone)
        apart &= step(region.steps.begin + graph.nodes[number], arenas);
    return apart;
  }

  /// Whether each step of the region touches all of a tensor or nothing: then edges keep tensors'
  /// bytes apart from first to last touch, whatever the order.
  bool are_whole(const Region &region) {
    if (ranges_.box_count() > 1)
      return are_equal(region);
    collect();
    return all_buffers(region, [&](uint32_t b) {
      const Buffer &buffer = function_.buffers[b];
      if (buffer.base != BufferBase::arena)
        return true; // collect() keeps tensors of arenas alone
      const Tensor &tensor = tensors_[buffer.tensor];
      return ranges_[b][0].begin == tensor.begin && ranges_[b][0].end == tensor.end;
    });
  }

private:
  struct Tensor {
    uint32_t arena = 0, touches = 0; // those of the region
    int64_t begin = INT64_MAX, end = 0;
    bool begun = false;
  };

  /// Whether all buffers of each tensor that the region touches are the same bytes, in every box.
  bool are_equal(const Region &region) const {
    std::map<uint32_t, uint32_t> first; // buffers by tensor
    return all_buffers(region, [&](uint32_t b) {
      const Buffer &buffer = function_.buffers[b];
      const Buffer &other = function_.buffers[first.emplace(buffer.tensor, b).first->second];
      return buffer.base != BufferBase::arena ||
             (buffer.offset_bytes == other.offset_bytes && buffer.bytes == other.bytes);
    });
  }

  /// Whether it holds of each buffer that a step of the region touches.
  template <class Holds> bool all_buffers(const Region &region, Holds holds) const {
    for (uint32_t s = region.steps.begin; s < region.steps.end(); ++s) {
      const Range range = function_.steps[s].accesses;
      for (uint32_t a = range.begin; a < range.end(); ++a)
        if (!holds(function_.accesses[a].buffer))
          return false;
    }
    return true;
  }

  /// A step's buffers in arenas, each tensor once.
  template <class Visit> void for_tensors(uint32_t step, Visit visit) {
    seen_.clear();
    Range range = function_.steps[step].accesses;
    for (uint32_t a = range.begin; a < range.end(); ++a) {
      const uint32_t buffer = function_.accesses[a].buffer;
      const uint32_t tensor = function_.buffers[buffer].tensor;
      if (function_.buffers[buffer].base == BufferBase::arena &&
          std::find(seen_.begin(), seen_.end(), tensor) == seen_.end()) {
        seen_.push_back(tensor);
        visit(tensor);
      }
    }
  }

  /// The tensors of the function, once.
  void collect() {
    if (!tensors_.empty())
      return;
    for (uint32_t b = 0; b < function_.buffers.size(); ++b) {
      const Buffer &buffer = function_.buffers[b];
      if (buffer.base != BufferBase::arena)
        continue;
      if (buffer.tensor >= tensors_.size())
        tensors_.resize(std::max<size_t>(size_t(buffer.tensor) + 1, function_.buffers.size()));
      Tensor &tensor = tensors_[buffer.tensor];
      tensor.arena = buffer.index;
      tensor.begin = std::min(tensor.begin, ranges_[b][0].begin);
      tensor.end = std::max(tensor.end, ranges_[b][0].end);
    }
  }

  void count_touches(const Region &region) {
    for (uint32_t s = region.steps.begin; s < region.steps.end(); ++s)
      for_tensors(s, [&](uint32_t tensor) {
        ++tensors_[tensor].touches;
        tensors_[tensor].begun = false;
      });
  }

  /// False where a tensor begins over one that is still to be touched.
  bool step(uint32_t step, std::map<uint32_t, Timeline> &arenas) {
    for_tensors(step, [&](uint32_t tensor) { --tensors_[tensor].touches; });
    bool apart = true;
    for_tensors(step, [&](uint32_t number) {
      Tensor &tensor = tensors_[number];
      if (std::exchange(tensor.begun, true) || tensor.begin >= tensor.end)
        return;
      Timeline &timeline = arenas[tensor.arena];
      timeline.overwrite(tensor.begin, tensor.end, number, [&](const Segment &segment) {
        apart = apart && (segment.writer == kNone || tensors_[segment.writer].touches == 0);
      });
    });
    return apart;
  }

  const Function &function_;
  const ByteRanges &ranges_;
  std::vector<Tensor> tensors_; // by Buffer::tensor
  std::vector<uint32_t> seen_;
};

/// Puts the graphs of a region's levels into one: bodies behind their conditional, which is given
/// their new sizes.
struct RegionNodes::Levels {
  Function &function;
  const Region &region;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> level_of_body; // by conditional's step
  std::vector<RegionGraph> graphs;

  void append(uint32_t level, RegionGraph &to) const {
    std::vector<uint32_t> numbers;
    numbers.reserve(graphs[level].nodes.size());
    for (uint32_t node : graphs[level].nodes) {
      numbers.push_back(uint32_t(to.nodes.size()));
      to.nodes.push_back(node);
      if (node != kNone && function.steps[region.steps.begin + node].kind == StepKind::conditional)
        append_bodies(node, to);
    }
    for (const Edge &edge : graphs[level].edges)
      to.edges.push_back({numbers[edge.from], numbers[edge.to]});
  }

  void append_bodies(uint32_t node, RegionGraph &to) const {
    const uint32_t number = function.steps[region.steps.begin + node].conditional;
    for (uint32_t body = 0; body < function.conditionals[number].bodies.size(); ++body) {
      const auto first = uint32_t(to.nodes.size());
      append(level_of_body.at({node, body}), to);
      function.conditionals[number].bodies[body] = uint32_t(to.nodes.size()) - first;
    }
  }
};

RegionNodes::RegionNodes(const ir::ExprPool &exprs, Function &function, const ByteRanges &ranges,
                         const NodeOptions &options)
    : function_(function), ranges_(ranges), conditions_(exprs, function), options_(options),
      tensors_(std::make_unique<TensorsApart>(function, ranges)) {}

RegionNodes::~RegionNodes() = default;

RegionGraph RegionNodes::make_graph(std::span<const uint32_t> steps,
                                    const StepConditions &conditions) const {
  return make_region_graph(function_, steps, ranges_, conditions,
                           {.max_lanes = options_.max_lanes});
}

RegionGraph RegionNodes::make(const Region &region) {
  if (has_conditionals(function_, region))
    return make_levels(region);
  std::vector<uint32_t> steps(region.steps.count);
  std::iota(steps.begin(), steps.end(), region.steps.begin);
  RegionGraph graph = make_graph(steps, conditions_);
  reorder(steps, graph, [&](const RegionGraph &ordered, std::span<const uint32_t> order) {
    return tensors_->hold(region, ordered, order);
  });
  return graph;
}

/// The nodes of `graph` in the order that its steps have in `ordered`, a graph of the same steps,
/// whose nodes are in `order`; empty ones stand before the first step that waits for them.
static std::vector<uint32_t> order_like(const RegionGraph &graph, const RegionGraph &ordered,
                                        std::span<const uint32_t> order) {
  std::vector<uint32_t> node_of(graph.nodes.size()), result;
  for (uint32_t node = 0; node < graph.nodes.size(); ++node)
    if (graph.nodes[node] != kNone)
      node_of[graph.nodes[node]] = node;
  std::vector<Edge> from_empty; // edges are sorted by their begins; these by their ends
  for (const Edge &edge : graph.edges)
    if (graph.nodes[edge.from] == kNone)
      from_empty.push_back(edge);
  std::stable_sort(from_empty.begin(), from_empty.end(),
                   [](const Edge &a, const Edge &b) { return a.to < b.to; });
  std::vector<bool> placed(graph.nodes.size());
  for (uint32_t number : order) {
    if (ordered.nodes[number] == kNone)
      continue;
    const uint32_t node = node_of[ordered.nodes[number]];
    auto edge = std::lower_bound(from_empty.begin(), from_empty.end(), node,
                                 [](const Edge &e, uint32_t to) { return e.to < to; });
    for (; edge != from_empty.end() && edge->to == node; ++edge)
      if (!placed[edge->from]) {
        placed[edge->from] = true;
        result.push_back(edge->from);
      }
    result.push_back(node);
  }
  return result;
}

/// Puts a graph of `steps` in the longest path's order where that is better than the program's, and
/// `allowed`.
template <class Allowed>
void RegionNodes::reorder(std::span<const uint32_t> steps, RegionGraph &graph, Allowed allowed) {
  if (!options_.reorder)
    return;
  const bool has_branches = std::any_of(steps.begin(), steps.end(), [&](uint32_t step) {
    return conditions_[step] != StepConditions::kAlways;
  });
  if (has_branches && options_.max_lanes)
    return; // the two graphs' limits of lanes may have led to edges against each other
  const RegionGraph as_if_all_ran =
      has_branches ? make_graph(steps, StepConditions()) : RegionGraph();
  const RegionGraph &ordered = has_branches ? as_if_all_ran : graph;
  const auto order = longest_path_first(uint32_t(ordered.nodes.size()), ordered.edges,
                                        options_.max_lanes ? options_.max_lanes : kIssueLanes);
  if (order && allowed(ordered, *order))
    put_in_order(graph, has_branches ? order_like(graph, ordered, *order) : *order);
}

void RegionNodes::put_in_order(RegionGraph &graph, std::span<const uint32_t> order) {
  const auto count = uint32_t(graph.nodes.size());
  std::vector<uint32_t> nodes(count), numbers(count);
  for (uint32_t i = 0; i < count; ++i) {
    nodes[i] = graph.nodes[order[i]];
    numbers[order[i]] = i;
  }
  for (Edge &edge : graph.edges)
    edge = {numbers[edge.from], numbers[edge.to]};
  sort_edges(graph.edges, count);
  graph.nodes = std::move(nodes);
  reordered_ = true;
}

/// A region with bodies: each level is a graph, with an order and empty nodes of its own. Tensors
/// that are touched in parts keep all levels in program order: their lives reach from one level to
/// another.
RegionGraph RegionNodes::make_levels(const Region &region) {
  const auto levels = find_region_levels(function_, region.steps);
  CUGRT_CHECK(levels);
  const bool are_whole = tensors_->are_whole(region);
  Levels all{function_, region, {}, {}};
  for (const RegionLevel &level : levels->levels) {
    all.level_of_body[{level.step, level.body}] = uint32_t(all.graphs.size());
    std::vector<uint32_t> steps = level.steps;
    for (uint32_t &step : steps)
      step += region.steps.begin;
    RegionGraph graph = make_graph(steps, conditions_);
    reorder(steps, graph,
            [&](const RegionGraph &, std::span<const uint32_t>) { return are_whole; });
    for (uint32_t &node : graph.nodes)
      if (node != kNone)
        node = level.steps[node];
    all.graphs.push_back(std::move(graph));
  }
  RegionGraph graph;
  all.append(0, graph);
  sort_edges(graph.edges, graph.nodes.size());
  return graph;
}

} // namespace cugrt::plan
