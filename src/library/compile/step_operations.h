// How many operations each step of a plan is, by the ops that it was made of.
#pragma once

#include "base/status.h"
#include "ir/module/module.h"
#include "ops/table/operations.h"
#include "plan/format/plan.h"

#include <array>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

namespace cugrt::runtime {

/// Names of a plan's steps for people: ops, and names of an ONNX or GGUF file.
struct StepName {
  std::string op;    // "softmax"; empty where the kernel's name says it, as of a fused one
  std::string place; // the node of an ONNX file or the tensor of a GGUF file; empty: not known
  friend bool operator==(const StepName &, const StepName &) = default;
};
using PlanNames = std::vector<std::vector<StepName>>; // of each function's steps

/// `module` is the planned one; `names` has its file's names by line. A step has the line of the
/// value in its name, if the function's text has it, else its own.
PlanNames name_steps(const ir::Module &module, const std::map<uint32_t, std::string> &names,
                     const plan::Plan &plan);

inline constexpr size_t kMostNameBytes = 40; // of JSON, of a step

/// {"ops": [name, ...], "plans": [[[op, shared, rest, ...], ...], ...]}: of each step of each
/// function of each plan its op's number, how many bytes of the place before its own place begins
/// with, and the rest. Where the steps of all plans have more than kMostNameBytes each, long rests
/// keep their ends alone, behind "~". The table of ops comes on top.
nlohmann::ordered_json names_json(std::span<const PlanNames> plans);
/// Trusts nothing; false: it is not of these plans.
bool read_names(const nlohmann::ordered_json &json, std::span<const plan::Plan> plans,
                std::vector<PlanNames> &names);

struct StepOperations {
  bool known = false;
  std::array<double, ir::kOperationKinds> counts{}; // by ir::OperationKind
};

/// The ops of a function, over its symbols, as a pack keeps them.
struct FunctionOperations {
  struct Term {
    ir::OperationKind kind;
    double factor;
    std::vector<ir::ExprId> sizes; // of `exprs`; none is a constant
  };
  struct Step {
    /// Some op became this step, or it copies or fills; else a kernel of the module's own.
    bool known = false;
    std::vector<Term> terms{};
  };
  ir::ExprPool exprs;
  std::vector<std::string> symbols; // by number
  std::vector<Step> steps;

  /// `values` by symbols' names; a step that needs another one is not known.
  std::vector<StepOperations> at(const std::map<std::string, int64_t> &values) const;
};

/// Counts operations of each step of `function`. `ops` is the function as the planner sees it, with
/// calls inlined, before ops become launches; places in the text join both. An op of several steps
/// counts for the first whose name contains it, or else for the first; an op that joined another's
/// step counts there.
FunctionOperations count_step_operations(const ir::Module &module, const ir::Function &ops,
                                         const plan::Function &function);
/// Counts for each function of the plan; the steps of a function that the module lacks are unknown.
std::vector<FunctionOperations> count_operations(const ir::Module &ops, const plan::Plan &plan);

/// Facts that a pack keeps for reports.
struct PackNotes {
  std::vector<int64_t> multiprocessors; // for which each target's kernels were chosen
  std::vector<std::vector<FunctionOperations>> operations; // of each plan's functions
  std::vector<PlanNames> names{};                          // of each plan, or none
};
/// As JSON: {"multiprocessors": [..], "operations": [..]}, "operations" has a list of functions for
/// each plan, each with symbols and steps. A step is null or a list of terms, [kind, factor, size,
/// ...]; a size is a symbol's number or [operator, operands]. With names, "names": as names_json
/// has them.
std::string notes_text(const PackNotes &notes);
/// Trusts nothing. parse_error for a text that is not of these plans and so many targets.
Result<PackNotes> read_notes(std::string_view text, std::span<const plan::Plan> plans,
                             size_t targets);

} // namespace cugrt::runtime
