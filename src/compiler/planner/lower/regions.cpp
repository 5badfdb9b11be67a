// Completes a region once all of its steps are known.
#include "compiler/planner/lower/regions.h"

#include "compiler/planner/edges/region_nodes.h"
#include "plan/symbols/bucket_boxes.h"

#include <algorithm>

namespace cugrt::plan {

std::unique_ptr<RegionRules> make_region_rules(const ModuleContext &context, uint32_t function,
                                               const ValueTable &values) {
  return context.choices.published_regions ? make_published_rules(context, function)
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
    add(step.when);
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

/// Marks the edges that may be programmatic, as far as a plan can tell: between kernels that have a
/// variant written for it and that no symbol makes empty or leaves out, outside of bodies. Whether
/// the code waits before it touches anything is seen when it is compiled.
class ProgrammaticEdges {
public:
  ProgrammaticEdges(const Plan &plan, const Function &function)
      : plan_(plan), function_(function), bounds_(symbol_domain(plan.exprs, function)) {}

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
    if (step.kind != StepKind::kernel || step.when.valid())
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
  const ir::SymbolDomain bounds_;
};

/// Puts steps in the order of the graphs' nodes, and empty ones where these are empty. One table
/// after the other, so that no more than one of them is there twice.
class Arrangement {
public:
  explicit Arrangement(Function &function) : f_(function), numbers_(function.steps.size() + 1) {}

  /// `reordered`: otherwise than by empty steps alone, so that what steps hold changes places too.
  /// Gives the new numbers of steps.
  std::vector<uint32_t> run(std::span<const RegionGraph> graphs, bool reordered) {
    find_order(graphs);
    put_steps();
    if (reordered) {
      put(f_.arguments, &Step::arguments);
      put(f_.launches, &Step::launches);
      put(f_.accesses, &Step::accesses);
    }
    place_empty_ranges();
    for (Block &block : f_.blocks)
      for (Item &item : block.items)
        if (item.kind == ItemKind::step)
          item.index = numbers_[item.index];
    return std::move(numbers_);
  }

private:
  /// Indexed by new number: the old one, or kNone for an empty step.
  void find_order(std::span<const RegionGraph> graphs) {
    uint32_t next = 0;                             // of the old steps
    for (uint32_t r = 0; r < graphs.size(); ++r) { // in the order of their steps
      Range &range = f_.regions[r].steps;
      const uint32_t first = range.begin;
      for (; next < first; ++next)
        order_.push_back(next);
      next = range.end();
      range = {uint32_t(order_.size()), uint32_t(graphs[r].nodes.size())};
      for (uint32_t node : graphs[r].nodes)
        order_.push_back(node == kNone ? kNone : first + node);
    }
    for (; next < f_.steps.size(); ++next)
      order_.push_back(next);
  }

  void put_steps() {
    std::vector<Step> steps;
    steps.reserve(order_.size());
    for (uint32_t number : order_) {
      if (number == kNone) {
        Step empty;
        empty.kind = StepKind::empty;
        empty.name = "join";
        steps.push_back(std::move(empty));
        continue;
      }
      numbers_[number] = uint32_t(steps.size());
      steps.push_back(std::move(f_.steps[number]));
    }
    numbers_.back() = uint32_t(steps.size());
    f_.steps = std::move(steps);
  }

  template <class T> void put(std::vector<T> &table, Range Step::*range) {
    std::vector<T> sorted;
    sorted.reserve(table.size());
    for (Step &step : f_.steps) {
      Range &own = step.*range;
      const auto begin = uint32_t(sorted.size());
      sorted.insert(sorted.end(), table.begin() + ptrdiff_t(own.begin),
                    table.begin() + ptrdiff_t(own.end()));
      own.begin = begin;
    }
    table = std::move(sorted);
  }

  /// An empty step, which is never last, stands where the next one does.
  void place_empty_ranges() {
    for (size_t s = f_.steps.size(); s-- > 0;) {
      Step &step = f_.steps[s];
      if (order_[s] != kNone)
        continue;
      const Step &next = f_.steps[s + 1];
      step.arguments.begin = next.arguments.begin;
      step.launches.begin = next.launches.begin;
      step.accesses.begin = next.accesses.begin;
      step.location = next.location;
    }
  }

  Function &f_;
  std::vector<uint32_t> order_;
  std::vector<uint32_t> numbers_; // by old number
};

} // namespace

std::vector<uint32_t> finish_regions(ModuleContext &context, uint32_t function, Function &out) {
  const ByteRanges ranges(context.plan, out);
  std::vector<RegionGraph> graphs(out.regions.size());
  bool has_empty = false;
  RegionNodes nodes(
      context.plan.exprs, out, ranges,
      {.max_lanes = context.options.max_lanes, .reorder = context.choices.reorders_nodes});
  Dependencies dependencies(context.plan.exprs, out);
  for (uint32_t r = 0; r < out.regions.size(); ++r) {
    Region &region = out.regions[r];
    for (uint32_t s = region.steps.begin; s < region.steps.end(); ++s)
      dependencies.add(out.steps[s]);
    dependencies.finish(region);
    graphs[r] = nodes.make(region);
    has_empty |= graphs[r].nodes.size() != region.steps.count;
    region.edges = std::move(graphs[r].edges);
  }
  std::vector<uint32_t> numbers;
  if (has_empty || nodes.reordered())
    numbers = Arrangement(out).run(graphs, nodes.reordered());
  if (context.choices.programmatic_edges) {
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
