// From a module to a plan: the default pipeline, then the planner; and reports of it.
#pragma once

#include "cugrt/cugrt.h"
#include "passes/pass.h"
#include "plan/planner.h"

#include <span>

namespace cugrt::runtime {

struct PlanningOptions {
  plan::PlannerOptions planner;
  passes::PassContext passes; // what is set here comes before what the planner's options imply
  std::string_view source{};  // the module's text, for messages; may be empty
};

/// Settings "name=value" of the C ABI.
Result<passes::PassContext> pass_context(const char *const *settings, size_t count);

/// What a cugrt_plan_options, cugrt_compile_options or cugrt_pack_options says about the plan.
template <class Options> Result<PlanningOptions> planning_options(const Options &options) {
  PlanningOptions planning;
  plan::PlannerOptions &planner = planning.planner;
  if (options.policy != CUGRT_POLICY_PATCH && options.policy != CUGRT_POLICY_SEED)
    return Status::error(Code::invalid_argument,
                         "unknown policy " + std::to_string(options.policy));
  planner.policy = options.policy == CUGRT_POLICY_SEED ? plan::Policy::seed : plan::Policy::patch;
  planner.max_lanes = options.max_lanes;
  planner.conditional_nodes = options.host_control == 0;
  planner.programmatic_edges = options.full_edges == 0;
  CUGRT_ASSIGN(planning.passes, pass_context(options.pass_options, options.pass_option_count));
  return planning;
}

/// Runs the default pipeline and plans. `name` is the module's file in messages; `report` may be
/// null.
Result<plan::Plan> plan_module(const ir::Module &module, const std::string &name,
                               const PlanningOptions &options, plan::PlanReport *report);

struct PlanReportOptions {
  PlanningOptions planning;
  cugrt_report_format format = CUGRT_REPORT_TEXT;
  std::span<const cugrt_symbol_value> symbols; // evaluates the memory table
};

/// Regions and why each binding is in one or not, storage, edges, memory needed: as text, JSON, DOT
/// (regions' graphs) or SVG (offset against time).
Result<std::string> plan_report(const ir::Module &module, const std::string &name,
                                const PlanReportOptions &options);
/// Of a plan without the planner's notes, as of a pack: no reasons and no tensors are shown, and
/// there is no SVG.
Result<std::string> plan_report(const plan::Plan &plan, const std::string &name,
                                const PlanReportOptions &options);

} // namespace cugrt::runtime
