// Forms of a plan's report. Internal to the runtime; module_report.h is the entry.
#pragma once

#include "compiler/planner/lower/planner.h"
#include "device/code/computed_weights.h"
#include "device/driver/node_params.h"
#include "device/program/symbol_binding.h"
#include "library/compile/step_operations.h"
#include "plan/edges/region_levels.h"
#include "plan/format/plan.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cugrt::runtime {

/// Device memory that one function needs at given symbol values; nothing where a symbol without an
/// upper bound was not given.
struct MemoryRow {
  std::string function;
  bool of_weights = false; // which it computes when a session is opened, and once only
  std::vector<std::pair<std::string, std::optional<int64_t>>> symbols;
  /// Constraints of the function; with some, the symbols do not reach their values together.
  std::vector<std::string> constraints;
  std::optional<uint64_t> arena = 0, arguments = 0, weights = 0, results = 0, dynamic = 0,
                          total = 0;
  /// Names and bytes of the weights that runs read as they are given, if known.
  std::vector<std::pair<std::string, uint64_t>> given_weights;
  /// A computed weight with a known recipe; listed only if asked for.
  struct Computed {
    std::string name;
    uint64_t bytes;
    WeightRecipe recipe;
  };
  std::vector<Computed> computed_weights;
  /// The kernel that reads and writes the most bytes, and how many: as much at least may have to
  /// end before an urgent run beside gets the device. "": none, or a size is not known.
  std::string longest;
  uint64_t longest_bytes = 0;
};

/// Launches and kernels of a lowered module, over all functions.
struct KernelCounts {
  uint32_t launches = 0, kernels = 0;
};

struct PlanView {
  const std::string &module_name;
  const plan::Plan &plan;
  const plan::PlanReport &report;
  bool has_notes;                    // or `report` is empty, since only the plan is known
  std::vector<MemoryRow> memory;     // of the public functions
  KernelCounts kernels, unfused;     // as planned, and what it would be without fusion; with notes
  std::vector<std::string> fusion{}; // what FuseOpsByPattern did, and what it could not do
  /// Steps of each function; empty if not asked for, or if ops are unknown.
  std::vector<std::vector<StepOperations>> operations{};
};

std::string plan_text(const PlanView &view);
std::string plan_json(const PlanView &view);
/// The regions' graphs; nodes are steps.
std::string plan_dot(const PlanView &view);
/// The arenas: offset against time, one rectangle a tensor.
std::string plan_svg(const PlanView &view);

/// "device memory for @main at n = 8, in bytes" and, in a line of its own, its parts.
std::string memory_text(const MemoryRow &row);
/// "body of 'while %more'", "then of 'if %c'": a level of a region that is not its own graph.
std::string body_name(const plan::Function &function, const plan::Region &region,
                      const plan::RegionLevel &level);
/// "from the call of @leaf in line 12, from the call of @twice in line 30": innermost first.
std::string calls_text(const plan::CallChain &chain);
/// "b*s <= 4096" for each of a function's constraints.
std::vector<std::string> constraint_texts(const plan::Plan &plan, const plan::Function &function);
/// "%x, result 0".
std::string slot_names(const plan::Function &function, const std::vector<uint32_t> &slots);
std::string key_names(const plan::Function &function, const std::vector<plan::SymbolId> &key);

/// Adds a note for each binding of `module`, as written, whose place `report` does not mention: an
/// unused one is not in `used`, the module after EliminateDeadBindings; another is part of its
/// first user that the report mentions. Bindings without a place in a text, and those of functions
/// that nothing calls, get none.
void note_untold(const ir::Module &module, const ir::Module &used, const plan::Plan &plan,
                 plan::PlanReport &report);

/// plan_page.html, with the word @PLAN@ where the plan's JSON stands.
extern const std::string_view kPlanPage;

/// The plan as one page for a browser, with layers that fold and search. It names no address and
/// needs no network. Texts of bindings are cut where there are so many that the page would weigh
/// more than some megabytes; names of steps never are.
std::string plan_page(const PlanView &view);

/// "(1, 2, 3)"
inline std::string dim3_text(const driver::Dim3 &dim) {
  return "(" + std::to_string(dim.x) + ", " + std::to_string(dim.y) + ", " + std::to_string(dim.z) +
         ")";
}

/// A string of Graphviz's language.
inline std::string dot_quoted(const std::string &text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      out += '\\';
    out += c;
  }
  return out + "\"";
}

// How many kernels a plan has, and how many of them are one kernel compiled for different sizes.

/// A kernel of the library that was specialised: the compiled function of one source, for one set
/// of options.
struct SpecializedKernel {
  std::string name, source; // of the first one that is declared
  uint32_t specialized = 0; // declarations that tell the compiler what is known of their sizes
  uint32_t general = 0;     // that take all sizes as parameters: what came beyond the bound, or
                            // nothing is known of; of attention for each number of registers
};

struct CodeSummary {
  size_t kernels = 0;
  size_t codes = 0; // what is compiled, or loaded, once for each architecture
  std::vector<SpecializedKernel> specialized; // most specialised first, then by name
  size_t specialized_count() const;
};

CodeSummary summarize_code(const plan::Plan &plan);

/// Lines of a report, each indented: one for all, then one for each specialised function.
std::string code_summary_text(const CodeSummary &summary);

// Layers of a sequence of steps: stretches that repeat, so that a reader may fold them.

/// Steps [first, first + count): the `number`-th of `of` repetitions, from 1; a stretch without
/// repetition is 1 of 1.
struct StepLayer {
  uint32_t first = 0, count = 0, number = 1, of = 1;
  friend bool operator==(const StepLayer &, const StepLayer &) = default;
};

inline constexpr uint32_t kLeastLayer = 4, kMostLayer = 1024, kMostUnrepeated = 64; // steps

/// Divides steps of these kinds, in order, without gaps: finds the tandem repeat that covers most
/// of them, then continues before and behind it. Cuts stretches without repeats into pieces of
/// kMostUnrepeated steps.
std::vector<StepLayer> find_layers(std::span<const uint32_t> kinds);

} // namespace cugrt::runtime
