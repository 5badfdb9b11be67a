// Planning of a module; see module_plan.h.
#include "library/compile/module_plan.h"

#include "base/diagnostics.h"
#include "compiler/passes/pass.h"

namespace cugrt::runtime {

/// The options of passes, with those that the planner's options imply.
static Result<passes::PassContext> context_of(const PlanningOptions &options) {
  passes::PassContext context = options.passes;
  const plan::PlanningChoices choices = plan::choices_of(options.planner);
  const auto flag = [](bool value) { return value ? "true" : "false"; };
  CUGRT_TRY(context.set_default("memory.reuse",
                                choices.reuse == plan::Reuse::smallest ? "smallest" : "balanced"));
  CUGRT_TRY(
      context.set_default("memory.offsets", choices.offsets_by_bucket ? "buckets" : "uniform"));
  CUGRT_TRY(context.set_default("inline.functions", flag(choices.inlines_calls)));
  CUGRT_TRY(context.set_default("codegen.programmatic", flag(choices.programmatic_edges)));
  return context;
}

static Result<ir::Module> run_pipeline(const ir::Module &module, const std::string &name,
                                       const PlanningOptions &options,
                                       std::span<const passes::Pass *const> pipeline,
                                       const passes::PassContext &context) {
  auto lowered = passes::run_passes(module, pipeline, context);
  if (!lowered.ok())
    return in_source(lowered.take_status(), name, options.source);
  return lowered;
}

Result<ir::Module> lower(const ir::Module &module, const std::string &name,
                         const PlanningOptions &options, bool only_count,
                         std::vector<std::string> *notes) {
  CUGRT_ASSIGN(passes::PassContext context, context_of(options));
  context.collect_notes(notes);
  if (only_count)
    for (const char *pass : {"fuse.patterns", "fuse.ops", "fuse.kernels", "memory.plan"})
      CUGRT_TRY(context.set(pass, "false"));
  return run_pipeline(module, name, options, passes::default_pipeline(), context);
}

Result<ir::Module> ops_before_fusion(const ir::Module &module, const std::string &name,
                                     const PlanningOptions &options) {
  CUGRT_ASSIGN(const passes::PassContext context, context_of(options));
  std::vector<const passes::Pass *> pipeline;
  for (const passes::Pass *pass : passes::default_pipeline()) {
    if (pass->name == std::string_view("FuseOpsByPattern"))
      break;
    pipeline.push_back(pass);
  }
  pipeline.push_back(passes::find_pass("InlineFunctions"));
  return run_pipeline(module, name, options, pipeline, context);
}

Result<passes::PassContext> pass_context(const char *const *settings, size_t count) {
  if (count && !settings)
    return Status::error(Code::invalid_argument, "argument 'pass_options' is null");
  passes::PassContext context;
  for (size_t i = 0; i < count; ++i) {
    if (!settings[i])
      return Status::error(Code::invalid_argument, "argument 'pass_options[]' is null");
    CUGRT_TRY(context.set_from_text(settings[i]));
  }
  return context;
}

plan::PlannerOptions planner_options(const PlanningOptions &options) {
  plan::PlannerOptions planner = options.planner;
  planner.cooperative_bodies = options.passes.flag("target.cooperative_bodies");
  return planner;
}

Result<plan::Plan> plan_module(const ir::Module &module, const std::string &name,
                               const PlanningOptions &options, plan::PlanReport *report) {
  CUGRT_ASSIGN(const ir::Module lowered, lower(module, name, options, false));
  auto plan = plan::make_plan(lowered, planner_options(options), report);
  if (!plan.ok())
    return in_source(plan.take_status(), name, options.source);
  return plan;
}

} // namespace cugrt::runtime
