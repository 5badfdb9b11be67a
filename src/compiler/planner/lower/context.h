// State that the parts of the planner share while one module is planned.
#pragma once

#include "compiler/planner/lower/planner.h"
#include "compiler/planner/rewrite/inline_calls.h"
#include "compiler/planner/storage/storage.h"
#include "ir/module/module.h"

#include <deque>
#include <map>
#include <unordered_map>

namespace cugrt::plan {

/// Copies expressions of the module into the plan; symbols keep their numbers.
class ExprCopier {
public:
  ExprCopier(const ir::Module &module, ir::ExprPool &to);

  ExprId operator()(ExprId expr);
  std::vector<ExprId> operator()(std::span<const ExprId> exprs);
  /// Replaces symbol i by replacement[i], an expression of the plan.
  ExprId substitute(ExprId expr, std::span<const ExprId> replacement) const {
    return from_.copy_to(to_, expr, replacement);
  }

private:
  const ir::ExprPool &from_;
  ir::ExprPool &to_;
  std::vector<uint32_t> copies_; // by module expression
  std::vector<ExprId> identity_;
};

struct PublishedAnalysis;
struct InlinedGraphs;

/// A tensor type's expressions in the plan.
struct TensorExprs {
  std::vector<ExprId> dims, strides;
  ExprId bytes; // invalid where the shape is not known
};

/// A kernel's launch rules with expressions in place of its symbols.
struct LaunchRules {
  uint32_t kernel; // of the module
  std::vector<ExprId> symbols;
  std::vector<LaunchRule> rules;         // of each variant, without workspaces
  std::vector<ExprId> workspace_bytes{}; // likewise; invalid: none
};

struct ModuleContext {
  const ir::Module &module;
  const PlannerOptions &options;
  const PlanningChoices &choices;
  const ModuleStorage &storage;
  Plan &plan;
  PlanReport *report;                           // may be null
  const PublishedAnalysis *published = nullptr; // where regions are the published ones
  const Moves *moves = nullptr;                 // steps that were moved; may be null
  const InlinedGraphs *graphs = nullptr;        // what `module` is, where it runs lifted functions
  ExprCopier copy;
  std::vector<uint32_t> kernels;   // by ir kernel: Plan::kernels, or kNone until used
  std::vector<uint32_t> constants; // by ir constant: Plan::constants, likewise

  ModuleContext(const ir::Module &module, const PlannerOptions &options,
                const PlanningChoices &choices, const ModuleStorage &storage, Plan &plan,
                PlanReport *report);

  /// Plan::kernels and Plan::constants hold the used ones, in order of first use.
  uint32_t kernel(uint32_t ir_kernel);
  uint32_t constant(uint32_t ir_constant);
  /// Made once for each type.
  const TensorExprs &tensor(ir::TypeId type);
  /// Made once for each kernel and its symbols' expressions. Invalid ids are for symbols that have
  /// no expression; a rule must not use them.
  const LaunchRules &launch_rules(uint32_t ir_kernel, std::span<const ExprId> symbols);

  // Emptied by each user; here so that they keep their memory.
  std::vector<ExprId> scratch_exprs;
  std::vector<BufferAccess> scratch_accesses;

private:
  uint32_t code(const ir::Kernel &kernel);
  std::vector<uint32_t> tensor_of_type_; // into tensors_, or kNone
  std::deque<TensorExprs> tensors_;
  std::deque<LaunchRules> launch_rules_;
  std::unordered_multimap<uint64_t, const LaunchRules *> rules_of_hash_;
  std::map<std::tuple<ir::CodeKind, std::string, std::vector<std::string>>, uint32_t> codes_;
};

} // namespace cugrt::plan
