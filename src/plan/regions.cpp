// What follows from a region's steps once all of them are known.
#include "plan/regions.h"

#include "plan/region_graph.h"

#include <algorithm>

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
      : exprs_(exprs), function_(function), seen_in_(exprs.size(), 0) {}

  void add(const Step &step) {
    for (uint32_t i = step.arguments.begin; i < step.arguments.end(); ++i) {
      const Argument &argument = function_.arguments[i];
      if (argument.kind == ArgumentKind::expr)
        add({argument.index});
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
      if (step.kind != StepKind::kernel)
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
  void add(ExprId expr) {
    if (!expr.valid() || seen_in_[expr.index] == region_ || exprs_.as_constant(expr))
      return;
    seen_in_[expr.index] = region_;
    exprs_.collect_symbols(expr, symbols_);
  }

  const ir::ExprPool &exprs_;
  const Function &function_;
  std::vector<uint32_t> seen_in_; // by expression: the last region, counted from 1, that has it
  uint32_t region_ = 1;
  std::vector<SymbolId> symbols_;
  std::vector<uint32_t> slots_, host_values_;
};

/// Edges of region `r`, whose nodes are steps by now. An edge at an empty step stands for those
/// between the steps at its ends.
void add_edge_notes(ModuleContext &context, uint32_t function, uint32_t r, const Function &out,
                    std::span<const ByteRange> ranges) {
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

/// Puts empty steps where the graphs have empty nodes.
std::vector<uint32_t> insert_empty_steps(Function &out, std::span<const RegionGraph> graphs) {
  std::vector<uint32_t> numbers(out.steps.size() + 1);
  std::vector<Step> steps;
  uint32_t next = 0; // of the old steps
  auto copy_until = [&](uint32_t end) {
    for (; next < end; ++next) {
      numbers[next] = uint32_t(steps.size());
      steps.push_back(std::move(out.steps[next]));
    }
  };
  for (uint32_t r = 0; r < out.regions.size(); ++r) { // in the order of their steps
    Range &range = out.regions[r].steps;
    uint32_t first = range.begin;
    copy_until(first);
    range = {uint32_t(steps.size()), uint32_t(graphs[r].nodes.size())};
    for (uint32_t node : graphs[r].nodes) {
      if (node != kNone) {
        copy_until(first + node + 1);
        continue;
      }
      const Step &following = out.steps[next];
      Step empty;
      empty.kind = StepKind::empty;
      empty.name = "join";
      empty.arguments.begin = following.arguments.begin;
      empty.launches.begin = following.launches.begin;
      empty.accesses.begin = following.accesses.begin;
      empty.location = following.location;
      steps.push_back(std::move(empty));
    }
  }
  copy_until(uint32_t(out.steps.size()));
  numbers.back() = uint32_t(steps.size());
  out.steps = std::move(steps);
  for (Block &block : out.blocks)
    for (Item &item : block.items)
      if (item.kind == ItemKind::step)
        item.index = numbers[item.index];
  return numbers;
}

} // namespace

std::vector<uint32_t> finish_regions(ModuleContext &context, uint32_t function, Function &out) {
  std::vector<ByteRange> ranges = byte_ranges(context.plan, out);
  std::vector<RegionGraph> graphs(out.regions.size());
  bool has_empty = false;
  Dependencies dependencies(context.plan.exprs, out);
  for (uint32_t r = 0; r < out.regions.size(); ++r) {
    Region &region = out.regions[r];
    for (uint32_t s = region.steps.begin; s < region.steps.end(); ++s)
      dependencies.add(out.steps[s]);
    dependencies.finish(region);
    graphs[r] =
        make_region_graph(out, region.steps, ranges, {.max_lanes = context.options.max_lanes});
    region.edges = std::move(graphs[r].edges);
    if (graphs[r].nodes.size() != region.steps.count)
      has_empty = true;
  }
  std::vector<uint32_t> numbers;
  if (has_empty)
    numbers = insert_empty_steps(out, graphs);
  if (context.report)
    for (uint32_t r = 0; r < out.regions.size(); ++r)
      add_edge_notes(context, function, r, out, ranges);
  return numbers;
}

} // namespace cugrt::plan
