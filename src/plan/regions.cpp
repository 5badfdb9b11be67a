// What follows from a region's steps once all of them are known.
#include "plan/regions.h"

#include "plan/conditionals.h"
#include "plan/node_order.h"
#include "plan/region_graph.h"
#include "plan/timeline.h"
#include "support/check.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>

namespace cugrt::plan {

std::unique_ptr<RegionRules> make_region_rules(Policy policy, const ModuleContext &context,
                                               uint32_t function, const ValueTable &values) {
  return policy == Policy::seed ? make_seed_rules(context, function)
                                : make_patch_rules(context, function, values);
}

namespace {

/// Collects symbols, slots and host values that a region's nodes depend on.
class Dependencies {
public:
  Dependencies(const ir::ExprPool &exprs, const Function &function)
      : exprs_(exprs), function_(function), seen_in_(exprs.size(), 0),
        has_bucket_(function.symbols.size()) {
    for (const Bucket &bucket : function.buckets)
      has_bucket_[bucket.of.index] = true;
  }

  void add(const Step &step) {
    for (uint32_t i = step.arguments.begin; i < step.arguments.end(); ++i) {
      const Argument &argument = function_.arguments[i];
      if (argument.kind == ArgumentKind::expr)
        add_by_value({argument.index});
      else if (argument.kind == ArgumentKind::host_value)
        host_values_.push_back(argument.index);
    }
    for (uint32_t i = step.launches.begin; i < step.launches.end(); ++i) {
      const LaunchRule &rule = function_.launches[i];
      add(rule.predicate);
      add(rule.shared_bytes);
      for (size_t d = 0; d < 3; ++d) {
        add(rule.grid[d]);
        add(rule.block[d]);
      }
    }
    for (uint32_t i = step.accesses.begin; i < step.accesses.end(); ++i) {
      const Buffer &buffer = function_.buffers[function_.accesses[i].buffer];
      add(buffer.offset_bytes);
      if (step.kind == StepKind::copy || step.kind == StepKind::fill)
        add(buffer.bytes);
      if (buffer.base == BufferBase::slot)
        slots_.push_back(buffer.index);
    }
  }

  void finish(Region &region) {
    auto unique = [](auto &list) {
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
    };
    unique(symbols_);
    unique(slots_);
    unique(host_values_);
    region.key = std::move(symbols_);
    region.slots = std::move(slots_);
    region.host_values = std::move(host_values_);
    symbols_ = {};
    slots_ = {};
    host_values_ = {};
    ++region_;
  }

private:
  /// A symbol that has a bucket is left out: it is patched, as host values are.
  void add_by_value(ExprId expr) {
    if (function_.buckets.empty())
      return add(expr);
    by_value_.clear();
    exprs_.collect_symbols(expr, by_value_);
    for (SymbolId symbol : by_value_)
      if (!has_bucket_[symbol.index])
        symbols_.push_back(symbol);
  }

  void add(ExprId expr) {
    if (!expr.valid() || seen_in_[expr.index] == region_)
      return;
    seen_in_[expr.index] = region_;
    exprs_.collect_symbols(expr, symbols_);
  }

  const ir::ExprPool &exprs_;
  const Function &function_;
  std::vector<uint32_t> seen_in_; // by expression: the last region, counted from 1, that has it
  uint32_t region_ = 1;
  std::vector<bool> has_bucket_; // by symbol
  std::vector<SymbolId> symbols_, by_value_;
  std::vector<uint32_t> slots_, host_values_;
};

/// Edges of region `r`, whose nodes are steps by now. An edge at an empty step stands for those
/// between the steps at its ends.
void add_edge_notes(ModuleContext &context, uint32_t function, uint32_t r, const Function &out,
                    const ByteRanges &ranges) {
  const Region &region = out.regions[r];
  auto step = [&](uint32_t node) -> const Step & { return out.steps[region.steps.begin + node]; };
  auto is_empty = [&](uint32_t node) { return step(node).kind == StepKind::empty; };
  std::vector<uint32_t> before(region.steps.count, kNone), after(region.steps.count, kNone);
  for (const Edge &edge : region.edges) { // one of each empty step's neighbours
    before[edge.to] = edge.from;
    if (after[edge.from] == kNone)
      after[edge.from] = edge.to;
  }
  for (const Edge &edge : region.edges) {
    uint32_t from = is_empty(edge.from) ? before[edge.from] : edge.from;
    uint32_t to = is_empty(edge.to) ? after[edge.to] : edge.to;
    std::string reason = hazard_between(context.plan, out, ranges, step(from), step(to));
    if (reason.empty())
      reason = "the limit of " + std::to_string(context.options.max_lanes) + " lanes";
    if (is_empty(edge.to))
      reason += ", for all that wait here";
    if (is_empty(edge.from))
      reason += ", and the like of all before";
    context.report->edges.push_back({function, r, edge, std::move(reason)});
  }
}

/// Whether the region's tensors have the arena to themselves in another order of its nodes as in
/// program order: edges keep bytes apart that are touched, and a tensor that is written in parts
/// has bytes that are not touched yet, where another may still lie.
class TensorsApart {
public:
  TensorsApart(const Function &function, const ByteRanges &ranges)
      : function_(function), ranges_(ranges) {}

  bool hold(const Region &region, const RegionGraph &graph, std::span<const uint32_t> order) {
    if (ranges_.box_count() > 1)
      return are_equal(region);
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
      tensor.begin = std::min(tensor.begin, ranges_[b][0].begin);
      tensor.end = std::max(tensor.end, ranges_[b][0].end);
    }
  }

  /// Whether all buffers of each tensor that the region touches are the same bytes, in every box.
  bool are_equal(const Region &region) const {
    std::map<uint32_t, uint32_t> first; // buffers by tensor
    for (uint32_t s = region.steps.begin; s < region.steps.end(); ++s) {
      const Range range = function_.steps[s].accesses;
      for (uint32_t a = range.begin; a < range.end(); ++a) {
        const uint32_t b = function_.accesses[a].buffer;
        const Buffer &buffer = function_.buffers[b];
        const Buffer &other = function_.buffers[first.emplace(buffer.tensor, b).first->second];
        if (buffer.base == BufferBase::arena &&
            (buffer.offset_bytes != other.offset_bytes || buffer.bytes != other.bytes))
          return false;
      }
    }
    return true;
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
        if (ranges_[b][0].begin != tensor.begin || ranges_[b][0].end != tensor.end)
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
  const ByteRanges &ranges_;
  std::vector<Tensor> tensors_; // by Buffer::tensor
  std::vector<uint32_t> seen_;
};

/// Gives the nodes their order (plan/node_order.h). False where it is the program's.
bool reorder(const Region &region, RegionGraph &graph, uint32_t lanes, TensorsApart &tensors) {
  const auto count = uint32_t(graph.nodes.size());
  auto order = longest_path_first(count, graph.edges, lanes ? lanes : kIssueLanes);
  if (!order || !tensors.hold(region, graph, *order))
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
RegionGraph make_levelled_graph(const Function &function, const Region &region,
                                const ByteRanges &ranges, uint32_t max_lanes) {
  RegionGraph graph;
  graph.nodes.resize(region.steps.count);
  std::iota(graph.nodes.begin(), graph.nodes.end(), 0);
  auto levels = find_region_levels(function, region.steps);
  CUGRT_CHECK(levels);
  for (const RegionLevel &level : levels->levels) {
    std::vector<uint32_t> steps = level.steps;
    for (uint32_t &step : steps)
      step += region.steps.begin;
    RegionGraph own = make_region_graph(function, std::span<const uint32_t>(steps), ranges,
                                        {.max_lanes = max_lanes, .join_from = 0});
    for (const Edge &edge : own.edges)
      graph.edges.push_back({level.steps[edge.from], level.steps[edge.to]});
  }
  sort_edges(graph.edges, region.steps.count);
  return graph;
}

/// Marks the edges that may be programmatic, as far as a plan can tell: between kernels that have a
/// variant written for it and that no symbol makes empty, outside of bodies. Whether the code waits
/// before it touches anything is seen when it is compiled.
class ProgrammaticEdges {
public:
  ProgrammaticEdges(const Plan &plan, const Function &function)
      : plan_(plan), function_(function), bounds_(symbol_bounds(function)) {}

  void mark(Region &region) const {
    region.programmatic.clear();
    std::vector<uint32_t> level_of;
    if (has_conditionals(function_, region))
      level_of = find_region_levels(function_, region.steps)->level_of;
    std::vector<bool> fit(region.steps.count);
    for (uint32_t s = 0; s < region.steps.count; ++s)
      fit[s] =
          (level_of.empty() || level_of[s] == 0) && is_fit(function_.steps[region.steps.begin + s]);
    for (uint32_t e = 0; e < region.edges.size(); ++e)
      if (fit[region.edges[e].from] && fit[region.edges[e].to])
        region.programmatic.push_back(e);
  }

private:
  bool is_fit(const Step &step) const {
    if (step.kind != StepKind::kernel)
      return false;
    const std::vector<bool> &written = plan_.kernels[step.kernel].programmatic;
    if (std::find(written.begin(), written.end(), true) == written.end())
      return false;
    for (uint32_t l = step.launches.begin; l < step.launches.end(); ++l)
      for (size_t d = 0; d < 3; ++d)
        for (ExprId dim : {function_.launches[l].grid[d], function_.launches[l].block[d]})
          if (dim.valid() && plan_.exprs.range(dim, bounds_).lower < 1)
            return false;
    return true;
  }

  const Plan &plan_;
  const Function &function_;
  const std::vector<ir::Interval> bounds_;
};

/// Puts steps in the order of the graphs' nodes, and empty ones where these are empty.
class Arrangement {
public:
  /// `reordered`: otherwise than by empty steps alone, so that what steps hold changes places too.
  Arrangement(Function &function, bool reordered)
      : f_(function), reordered_(reordered), numbers_(function.steps.size() + 1) {
    steps_.reserve(f_.steps.size());
    if (!reordered_)
      return;
    arguments_.reserve(f_.arguments.size());
    launches_.reserve(f_.launches.size());
    accesses_.reserve(f_.accesses.size());
  }

  /// Gives the new numbers of steps.
  std::vector<uint32_t> run(std::span<const RegionGraph> graphs) {
    uint32_t next = 0;                             // of the old steps
    for (uint32_t r = 0; r < graphs.size(); ++r) { // in the order of their steps
      Range &range = f_.regions[r].steps;
      const uint32_t first = range.begin;
      for (; next < first; ++next)
        take(next);
      next = range.end();
      range = {uint32_t(steps_.size()), uint32_t(graphs[r].nodes.size())};
      for (size_t i = 0; i < graphs[r].nodes.size(); ++i)
        if (graphs[r].nodes[i] != kNone)
          take(first + graphs[r].nodes[i]);
        else
          join(f_.steps[following(graphs[r], first, i)]);
    }
    for (; next < f_.steps.size(); ++next)
      take(next);
    numbers_.back() = uint32_t(steps_.size());
    f_.steps = std::move(steps_);
    if (reordered_) {
      f_.arguments = std::move(arguments_);
      f_.launches = std::move(launches_);
      f_.accesses = std::move(accesses_);
    }
    for (Block &block : f_.blocks)
      for (Item &item : block.items)
        if (item.kind == ItemKind::step)
          item.index = numbers_[item.index];
    return std::move(numbers_);
  }

private:
  /// The step after an empty node, which is never last.
  static uint32_t following(const RegionGraph &graph, uint32_t first, size_t node) {
    while (graph.nodes[node] == kNone)
      ++node;
    return first + graph.nodes[node];
  }

  /// What steps hold follows in their order.
  template <class T>
  static void append(std::vector<T> &to, const std::vector<T> &from, Range &range) {
    const auto begin = uint32_t(to.size());
    to.insert(to.end(), from.begin() + ptrdiff_t(range.begin),
              from.begin() + ptrdiff_t(range.end()));
    range.begin = begin;
  }

  void take(uint32_t number) {
    numbers_[number] = uint32_t(steps_.size());
    Step &step = f_.steps[number];
    if (reordered_) {
      append(arguments_, f_.arguments, step.arguments);
      append(launches_, f_.launches, step.launches);
      append(accesses_, f_.accesses, step.accesses);
    }
    steps_.push_back(std::move(step));
  }

  void join(const Step &next) {
    Step empty;
    empty.kind = StepKind::empty;
    empty.name = "join";
    empty.arguments.begin = reordered_ ? uint32_t(arguments_.size()) : next.arguments.begin;
    empty.launches.begin = reordered_ ? uint32_t(launches_.size()) : next.launches.begin;
    empty.accesses.begin = reordered_ ? uint32_t(accesses_.size()) : next.accesses.begin;
    empty.location = next.location;
    steps_.push_back(std::move(empty));
  }

  Function &f_;
  const bool reordered_;
  std::vector<uint32_t> numbers_; // by old number
  std::vector<Step> steps_;
  std::vector<Argument> arguments_;
  std::vector<LaunchRule> launches_;
  std::vector<BufferAccess> accesses_;
};

} // namespace

std::vector<uint32_t> finish_regions(ModuleContext &context, uint32_t function, Function &out) {
  const ByteRanges ranges(context.plan, out);
  std::vector<RegionGraph> graphs(out.regions.size());
  bool has_empty = false, reordered = false;
  TensorsApart tensors(out, ranges);
  Dependencies dependencies(context.plan.exprs, out);
  for (uint32_t r = 0; r < out.regions.size(); ++r) {
    Region &region = out.regions[r];
    for (uint32_t s = region.steps.begin; s < region.steps.end(); ++s)
      dependencies.add(out.steps[s]);
    dependencies.finish(region);
    const uint32_t lanes = context.options.max_lanes;
    const bool levelled = has_conditionals(out, region);
    graphs[r] = levelled ? make_levelled_graph(out, region, ranges, lanes)
                         : make_region_graph(out, region.steps, ranges, {.max_lanes = lanes});
    // seed keeps the published order, the program's
    if (context.options.policy == Policy::patch && !levelled)
      reordered |= reorder(region, graphs[r], lanes, tensors);
    has_empty |= graphs[r].nodes.size() != region.steps.count;
    region.edges = std::move(graphs[r].edges);
  }
  std::vector<uint32_t> numbers;
  if (has_empty || reordered)
    numbers = Arrangement(out, reordered).run(graphs);
  if (context.options.policy == Policy::patch && context.options.programmatic_edges) {
    ProgrammaticEdges programmatic(context.plan, out);
    for (Region &region : out.regions)
      programmatic.mark(region);
  }
  if (context.report)
    for (uint32_t r = 0; r < out.regions.size(); ++r)
      add_edge_notes(context, function, r, out, ranges);
  return numbers;
}

} // namespace cugrt::plan
