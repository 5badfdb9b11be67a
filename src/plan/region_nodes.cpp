// The order of nodes; see region_nodes.h.
#include "plan/region_nodes.h"

#include "plan/conditionals.h"
#include "plan/node_order.h"
#include "plan/timeline.h"
#include "support/check.h"

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
  TensorsApart(const Function &function, std::span<const ByteRange> ranges)
      : function_(function), ranges_(ranges) {}

  bool hold(const Region &region, const RegionGraph &graph, std::span<const uint32_t> order) {
    collect();
    if (are_whole(region)) // then edges keep their tensors' bytes apart from first to last touch
      return true;
    count_touches(region);
    std::map<uint32_t, Timeline> arenas;
    bool apart = true;
    for (uint32_t number : order) // to the end, so that no touches are left
      if (graph.nodes[number] != kNone)
        apart &= step(region.steps.begin + graph.nodes[number], arenas);
    return apart;
  }

private:
  struct Tensor {
    uint32_t arena = 0, touches = 0; // those of the region
    int64_t begin = INT64_MAX, end = 0;
    bool begun = false;
  };

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
      tensor.begin = std::min(tensor.begin, ranges_[b].begin);
      tensor.end = std::max(tensor.end, ranges_[b].end);
    }
  }

  /// Whether each step of the region touches all of a tensor or nothing.
  bool are_whole(const Region &region) const {
    for (uint32_t s = region.steps.begin; s < region.steps.end(); ++s) {
      const Range range = function_.steps[s].accesses;
      for (uint32_t a = range.begin; a < range.end(); ++a) {
        const uint32_t b = function_.accesses[a].buffer;
        if (function_.buffers[b].base != BufferBase::arena)
          continue;
        const Tensor &tensor = tensors_[function_.buffers[b].tensor];
        if (ranges_[b].begin != tensor.begin || ranges_[b].end != tensor.end)
          return false;
      }
    }
    return true;
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
      timeline.each(tensor.begin, tensor.end, [&](const Segment &segment) {
        apart = apart && (segment.writer == kNone || tensors_[segment.writer].touches == 0);
      });
      timeline.replace(tensor.begin, tensor.end, number);
    });
    return apart;
  }

  const Function &function_;
  const std::span<const ByteRange> ranges_;
  std::vector<Tensor> tensors_; // by Buffer::tensor
  std::vector<uint32_t> seen_;
};

RegionNodes::RegionNodes(Function &function, std::span<const ByteRange> ranges,
                         const NodeOptions &options)
    : function_(function), ranges_(ranges), options_(options),
      tensors_(std::make_unique<TensorsApart>(function, ranges)) {}

RegionNodes::~RegionNodes() = default;

RegionGraph RegionNodes::make(const Region &region) {
  if (has_conditionals(function_, region))
    return make_levels(region);
  RegionGraph graph =
      make_region_graph(function_, region.steps, ranges_, {.max_lanes = options_.max_lanes});
  if (options_.reorder)
    reordered_ |= reorder(region, graph);
  return graph;
}

/// Gives the nodes their order. False where it is the program's.
bool RegionNodes::reorder(const Region &region, RegionGraph &graph) {
  const auto count = uint32_t(graph.nodes.size());
  auto order =
      longest_path_first(count, graph.edges, options_.max_lanes ? options_.max_lanes : kIssueLanes);
  if (!order || !tensors_->hold(region, graph, *order))
    return false;
  std::vector<uint32_t> nodes(count), numbers(count);
  for (uint32_t i = 0; i < count; ++i) {
    nodes[i] = graph.nodes[(*order)[i]];
    numbers[(*order)[i]] = i;
  }
  for (Edge &edge : graph.edges)
    edge = {numbers[edge.from], numbers[edge.to]};
  sort_edges(graph.edges, count);
  graph.nodes = std::move(nodes);
  return true;
}

/// A region with bodies: each level a graph. Nodes keep the order of the steps, and none is added.
RegionGraph RegionNodes::make_levels(const Region &region) const {
  RegionGraph graph;
  graph.nodes.resize(region.steps.count);
  std::iota(graph.nodes.begin(), graph.nodes.end(), 0);
  auto levels = find_region_levels(function_, region.steps);
  CUGRT_CHECK(levels);
  for (const RegionLevel &level : levels->levels) {
    std::vector<uint32_t> steps = level.steps;
    for (uint32_t &step : steps)
      step += region.steps.begin;
    RegionGraph own = make_region_graph(function_, std::span<const uint32_t>(steps), ranges_,
                                        {.max_lanes = options_.max_lanes, .join_from = 0});
    for (const Edge &edge : own.edges)
      graph.edges.push_back({level.steps[edge.from], level.steps[edge.to]});
  }
  sort_edges(graph.edges, region.steps.count);
  return graph;
}

} // namespace cugrt::plan
