// What follows from a region's steps once all of them are known.
#include "plan/regions.h"

#include "plan/hazards.h"

#include <algorithm>
#include <unordered_map>

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
      : exprs_(exprs), function_(function) {}

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
  }

private:
  void add(ExprId expr) {
    if (expr.valid() && !exprs_.as_constant(expr) && seen_.insert({expr.index, 0}).second)
      exprs_.collect_symbols(expr, symbols_);
  }

  const ir::ExprPool &exprs_;
  const Function &function_;
  std::unordered_map<uint32_t, char> seen_;
  std::vector<SymbolId> symbols_;
  std::vector<uint32_t> slots_, host_values_;
};

void add_edge_notes(ModuleContext &context, uint32_t function, uint32_t region, const Function &out,
                    std::vector<Hazard> hazards) {
  auto before = [](const Hazard &a, const Hazard &b) {
    return std::pair(a.from, a.to) < std::pair(b.from, b.to);
  };
  std::stable_sort(hazards.begin(), hazards.end(), before);
  for (const Edge &edge : out.regions[region].edges) {
    Hazard key{edge.from, edge.to, HazardKind::raw, 0, {}};
    auto hazard = std::lower_bound(hazards.begin(), hazards.end(), key, before);
    context.report->edges.push_back(
        {function, region, edge, hazard_reason(context.plan, out, *hazard)});
  }
}

} // namespace

void finish_regions(ModuleContext &context, uint32_t function, Function &out) {
  std::vector<ByteRange> ranges = byte_ranges(context.plan, out);
  for (uint32_t r = 0; r < out.regions.size(); ++r) {
    Region &region = out.regions[r];
    Dependencies dependencies(context.plan.exprs, out);
    for (uint32_t s = region.steps.begin; s < region.steps.end(); ++s)
      dependencies.add(out.steps[s]);
    dependencies.finish(region);
    std::vector<Hazard> hazards = find_hazards(out, region.steps, ranges);
    std::vector<Edge> edges;
    edges.reserve(hazards.size());
    for (const Hazard &hazard : hazards)
      edges.push_back({hazard.from, hazard.to});
    region.edges = transitive_reduction(region.steps.count, std::move(edges));
    if (context.report)
      add_edge_notes(context, function, r, out, std::move(hazards));
  }
}

} // namespace cugrt::plan
