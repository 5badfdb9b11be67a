// Reports of a module's plan, or of a plan alone, for people and tools.
#pragma once

#include "device/code/computed_weights.h"
#include "library/compile/module_plan.h"
#include "library/compile/step_operations.h"

#include <span>

namespace cugrt::runtime {

struct PlanReportOptions {
  PlanningOptions planning;
  cugrt_report_format format = CUGRT_REPORT_TEXT;
  std::span<const cugrt_symbol_value> symbols; // evaluates the memory table
  WeightRecipes::Code code{};                  // of kernels; empty: by their sources
};

/// Regions and why each binding is in one or not, storage, edges, memory needed: as text, JSON, DOT
/// (regions' graphs), SVG (offset against time) or HTML (all of it, for a browser).
Result<std::string> plan_report(const ir::Module &module, const std::string &name,
                                const PlanReportOptions &options);
/// Of a plan without the planner's notes, as of a pack: no reasons and no tensors are shown, and
/// there is no SVG. `operations`: of each function, or empty.
Result<std::string> plan_report(const plan::Plan &plan, const std::string &name,
                                const PlanReportOptions &options,
                                const std::vector<FunctionOperations> &operations);

} // namespace cugrt::runtime
