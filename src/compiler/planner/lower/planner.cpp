// make_plan: lifted functions put back; under policy patch steps moved; storage of the whole
// module; then every function, callees first.
#include "compiler/planner/lower/planner.h"

#include "compiler/planner/lower/function_planner.h"
#include "compiler/planner/published/analysis.h"
#include "compiler/planner/rewrite/inline_calls.h"
#include "compiler/planner/rewrite/inline_graphs.h"
#include "compiler/planner/storage/storage.h"

namespace cugrt::plan {

namespace {

struct Prepared {
  const InlinedGraphs *graphs;
  const Moves *moves;
};

Result<Plan> plan_module(const ir::Module &module, const Prepared &prepared,
                         const PlannerOptions &options, const PlanningChoices &choices,
                         PlanReport *report) {
  CUGRT_ASSIGN(ModuleStorage storage, plan_storage(module, choices.reuse));
  Plan plan;
  plan.target = options.target;
  plan.arenas = storage.arenas;
  plan.functions.resize(module.functions.size());
  ModuleContext context(module, options, choices, storage, plan, report);
  context.graphs = prepared.graphs;
  context.moves = prepared.moves;
  PublishedAnalysis published;
  if (choices.published_regions) {
    published = analyze_published_regions(module);
    context.published = &published;
  }
  for (uint32_t function : storage.order)
    CUGRT_TRY(FunctionPlanner(context, function, storage).run());
  if (report)
    for (const FunctionStorage &function : storage.functions)
      report->storage_before_bytes += function.storage_bytes;
  return plan;
}

} // namespace

PlanningChoices choices_of(const PlannerOptions &options) {
  const bool patch = options.policy == Policy::patch; // else all is as published
  return {
      .published_regions = !patch,
      .inlines_calls = patch,
      .moves_steps = patch && options.regions,
      .reorders_nodes = patch,
      .programmatic_edges = patch && options.programmatic_edges,
      .offsets_by_bucket = patch,
      .reuse = patch && options.max_lanes != 1 ? Reuse::balanced : Reuse::smallest,
  };
}

Result<Plan> make_plan(const ir::Module &module, const PlannerOptions &options,
                       PlanReport *report) {
  if (options.max_region_nodes == 0 || options.max_region_nodes > kMaxRegionNodes)
    return Status::error(cugrt::Code::invalid_argument, "max_region_nodes must be between 1 and " +
                                                            std::to_string(kMaxRegionNodes));
  if (options.max_lanes > 32)
    return Status::error(cugrt::Code::invalid_argument, "max_lanes must be between 0 and 32");
  CUGRT_ASSIGN(std::optional<InlinedGraphs> graphs, inline_graphs(module));
  const ir::Module &whole = graphs ? graphs->module : module;
  CUGRT_TRY(check_weights(whole));
  const PlanningChoices choices = choices_of(options);
  std::optional<std::pair<ir::Module, Moves>> moved;
  if (choices.moves_steps) {
    CUGRT_ASSIGN(moved, move_steps(whole));
  }
  const Prepared prepared{graphs ? &*graphs : nullptr, moved ? &moved->second : nullptr};
  return plan_module(moved ? moved->first : whole, prepared, options, choices, report);
}

} // namespace cugrt::plan
