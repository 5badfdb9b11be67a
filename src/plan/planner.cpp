// make_plan: storage of the whole module, then every function, callees first.
#include "plan/planner.h"

#include "plan/function_planner.h"
#include "plan/storage.h"

#include <algorithm>

namespace cugrt::plan {

const Function *Plan::find_function(std::string_view name) const {
  auto it = std::find_if(functions.begin(), functions.end(),
                         [&](const Function &function) { return function.name == name; });
  return it == functions.end() ? nullptr : &*it;
}

Result<Plan> make_plan(const ir::Module &module, const PlannerOptions &options,
                       PlanReport *report) {
  if (options.max_region_nodes == 0 || options.max_region_nodes > kMaxRegionNodes)
    return Status::error(cugrt::Code::invalid_argument, "max_region_nodes must be between 1 and " +
                                                            std::to_string(kMaxRegionNodes));
  if (options.max_lanes > 32)
    return Status::error(cugrt::Code::invalid_argument, "max_lanes must be between 0 and 32");
  CUGRT_ASSIGN(ModuleStorage storage, plan_storage(module));
  Plan plan;
  plan.target = options.target;
  plan.arenas = storage.arenas;
  plan.functions.resize(module.functions.size());
  ModuleContext context(module, options, storage, plan, report);
  for (uint32_t function : storage.order)
    CUGRT_TRY(FunctionPlanner(context, function).run());
  if (report)
    for (const FunctionStorage &function : storage.functions)
      report->storage_before_bytes += function.storage_bytes;
  return plan;
}

} // namespace cugrt::plan
