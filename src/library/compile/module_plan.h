// Plans a module: runs the default pipeline, then the planner.
#pragma once

#include "compiler/passes/pass.h"
#include "compiler/planner/lower/planner.h"
#include "cugrt/cugrt.h"

#include <string_view>

namespace cugrt::runtime {

struct PlanningOptions {
  plan::PlannerOptions planner;
  passes::PassContext passes; // what is set here comes before what the planner's options imply
  std::string_view source{};  // the module's text, for messages; may be empty
};

/// Settings "name=value" of the C ABI.
Result<passes::PassContext> pass_context(const char *const *settings, size_t count);

/// The plan's part of a cugrt_plan_options, cugrt_compile_options or cugrt_pack_options.
template <class Options> Result<PlanningOptions> planning_options(const Options &options) {
  PlanningOptions planning;
  plan::PlannerOptions &planner = planning.planner;
  if (options.policy != CUGRT_POLICY_PATCH && options.policy != CUGRT_POLICY_SEED)
    return Status::error(Code::invalid_argument,
                         "unknown policy " + std::to_string(options.policy));
  planner.policy =
      options.policy == CUGRT_POLICY_SEED ? plan::Policy::published : plan::Policy::patch;
  planner.max_lanes = options.max_lanes;
  planner.conditional_nodes = options.host_control == 0;
  planner.programmatic_edges = options.full_edges == 0;
  CUGRT_ASSIGN(planning.passes, pass_context(options.pass_options, options.pass_option_count));
  return planning;
}

/// The planner's, with what those of passes say of the target.
plan::PlannerOptions planner_options(const PlanningOptions &options);

/// Runs the default pipeline and plans. `name` is the module's file in messages; `report` may be
/// null.
Result<plan::Plan> plan_module(const ir::Module &module, const std::string &name,
                               const PlanningOptions &options, plan::PlanReport *report);

/// The default pipeline's result. `only_count` leaves out fusion, and storage, which adds and
/// removes no launch. Appends the passes' notes to `notes`, which may be null.
Result<ir::Module> lower(const ir::Module &module, const std::string &name,
                         const PlanningOptions &options, bool only_count,
                         std::vector<std::string> *notes = nullptr);

/// The module where the pipeline begins to fuse, with calls inlined as at its end: its launches as
/// ops.
Result<ir::Module> ops_before_fusion(const ir::Module &module, const std::string &name,
                                     const PlanningOptions &options);

class Device;

/// Sets the options target.multiprocessors and target.compute_capability, unless they are set.
/// The capability is that of `architecture`, or of the device where that is empty. The device
/// gives the number of multiprocessors; without one (null, or opened without a driver) it is that
/// of the smallest common device of a machine code's architecture, by the table
/// target_devices.def. PTX is for future devices, about which nothing is known. Unknown values
/// keep the options' defaults.
Status set_target(passes::PassContext &context, const Device *device,
                  std::string_view architecture);

} // namespace cugrt::runtime
