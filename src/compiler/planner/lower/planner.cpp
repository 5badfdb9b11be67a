// make_plan: tuples taken apart at calls; lifted functions put back; under policy patch calls
// planned through and steps moved; storage of the whole module; then every function, callees first.
#include "compiler/planner/lower/planner.h"

#include "compiler/planner/lower/function_planner.h"
#include "compiler/planner/published/analysis.h"
#include "compiler/planner/rewrite/inline_calls.h"
#include "compiler/planner/storage/storage.h"

namespace cugrt::plan {

namespace {

struct Prepared {
  const InlinedGraphs *graphs = nullptr;
  const InlinedCalls *calls = nullptr;
  const Moves *moves = nullptr;
};

Result<Plan> plan_module(const ir::Module &module, const Prepared &prepared,
                         const PlannerOptions &options, PlanReport *report) {
  CUGRT_ASSIGN(ModuleStorage storage,
               plan_storage(module, options.policy == Policy::published || options.max_lanes == 1
                                        ? Reuse::smallest
                                        : Reuse::balanced));
  Plan plan;
  plan.target = options.target;
  plan.arenas = storage.arenas;
  plan.functions.resize(module.functions.size());
  ModuleContext context(module, options, storage, plan, report);
  context.graphs = prepared.graphs;
  context.calls = prepared.calls;
  context.moves = prepared.moves;
  PublishedAnalysis published;
  if (options.policy == Policy::published) {
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

/// Calls planned through, then steps moved.
Result<Plan> plan_patch(const ir::Module &module, const PlannerOptions &options,
                        PlanReport *report) {
  CUGRT_ASSIGN(std::optional<InlinedCalls> calls,
               inline_calls(module, {.max_steps = options.max_inlined_steps,
                                     .strict = options.strict_inlining}));
  if (calls)
    remove_dead_functions(*calls);
  const ir::Module &inlined = calls ? calls->module : module;
  Prepared prepared{.calls = calls ? &*calls : nullptr};
  if (!options.regions)
    return plan_module(inlined, prepared, options, report);
  CUGRT_ASSIGN(auto moved, move_steps(inlined));
  if (!moved)
    return plan_module(inlined, prepared, options, report);
  prepared.moves = &moved->second;
  return plan_module(moved->first, prepared, options, report);
}

} // namespace

Result<Plan> make_plan(const ir::Module &module, const PlannerOptions &options,
                       PlanReport *report) {
  if (options.max_region_nodes == 0 || options.max_region_nodes > kMaxRegionNodes)
    return Status::error(cugrt::Code::invalid_argument, "max_region_nodes must be between 1 and " +
                                                            std::to_string(kMaxRegionNodes));
  if (options.max_lanes > 32)
    return Status::error(cugrt::Code::invalid_argument, "max_lanes must be between 0 and 32");
  const std::optional<ir::Module> flat = flatten_tuples(module);
  const ir::Module &given = flat ? *flat : module;
  CUGRT_ASSIGN(std::optional<InlinedGraphs> graphs, inline_graphs(given));
  const ir::Module &whole = graphs ? graphs->module : given;
  CUGRT_TRY(check_weights(whole));
  if (options.policy == Policy::patch)
    return plan_patch(whole, options, report);
  return plan_module(whole, {.graphs = graphs ? &*graphs : nullptr}, options, report);
}

} // namespace cugrt::plan
