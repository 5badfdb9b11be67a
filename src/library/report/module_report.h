// Reports for people and tools: of plans, packs, graphs, keys and the code cache.
#pragma once

#include "cugrt/cugrt.h"
#include "device/code/computed_weights.h"
#include "device/code/executable.h"
#include "device/graph/graph_cache.h"
#include "device/pack/pack.h"
#include "jit/code_cache.h"
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
/// Reports a plan without the planner's notes, such as a pack's: it shows no reasons and no
/// tensors, and has no SVG. `operations`: of each function, or empty.
Result<std::string> plan_report(const plan::Plan &plan, const std::string &name,
                                const PlanReportOptions &options,
                                const std::vector<FunctionOperations> &operations);

/// Lists the code cache: a line for each entry, in the order given, and a line of totals.
std::string cache_text(const jit::CacheReport &report,
                       std::span<const jit::CacheEntryInfo> entries);
std::string cache_json(const jit::CacheReport &report,
                       std::span<const jit::CacheEntryInfo> entries);

/// For each region, the nodes that differ between two keys, which a patch of an instance sets: text
/// or JSON. Every symbol of the function's keys must be given on both sides. Addresses are left
/// out, but for how far into their storage they are.
Result<std::string> key_difference(const Executable &executable, uint32_t function,
                                   std::span<const cugrt_symbol_value> from,
                                   std::span<const cugrt_symbol_value> to,
                                   cugrt_report_format format);

/// Nodes and edges of the instances alive: text, JSON or DOT. Names, keys and launch dimensions, no
/// addresses: the same on every run. JSON has the line of the module, too, and where there are
/// such, the driver's ids of nodes and the times of the last launch of instances that are timed.
Result<std::string> graph_report(const plan::Plan &plan,
                                 const std::vector<GraphCache::View> &instances,
                                 cugrt_report_format format);

/// Targets, weights, and each plan: as text or JSON; DOT of a pack with one plan.
Result<std::string> pack_report(const Pack &pack, const PlanReportOptions &options);

} // namespace cugrt::runtime
