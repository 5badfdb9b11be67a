// The published rules of static regions (TVM's RewriteCUDAGraph), as an analysis that is a value.
//
// Per function: which storages are lifted, and why others are not; what each binding does to the
// region that may be open in its block; the regions, with what goes in, what comes out and the
// symbols that make the key. Over the module: the storages of the one allocation that all functions
// share, the index of each capture, and which lifted functions are equal and so have one name. The
// planner's policy `seed` and the pass RewriteCudaGraph both read it.
//
// Bindings are numbered in program order over the whole function: a binding with blocks comes
// before the bindings of its blocks. The analysis is linear in bindings and operands.
#pragma once

#include "base/status.h"
#include "compiler/planner/analysis/region_rules.h"
#include "ir/module/module.h"

#include <optional>
#include <string>
#include <vector>

namespace cugrt::plan {

/// The rule that decided about a binding. `subject` of PublishedBinding is its subject.
enum class PublishedRule : uint8_t {
  launch,              // every operand is static
  extern_call,         // likewise; taken for a launch until it is resolved
  names_static,        // a view, alias, tuple, .. of static things: runs nothing
  constant,            // static
  lifted_storage,      // constant size, holds no result
  symbolic_storage,    // stays: its size is no constant
  result_storage,      // stays: holds a result, which the next run would overwrite
  unplanned,           // stays: fresh in each run
  host_value,          // stays: a shape or literal
  operand_not_static,  // subject: the value
  shape_not_known,     // subject: the value
  symbol_not_captured, // subject: the symbol
  call,                // of another function
  host_builtin,
  builtin_extern, // an extern whose name begins with vm.builtin
  match,
  device_read,
  control,  // if, while
  captured, // stays: the function is run as one graph already
};

struct PublishedBinding {
  Verdict verdict = Verdict::stays;
  PublishedRule rule = PublishedRule::host_value;
  uint32_t subject = UINT32_MAX; // a value or symbol: see PublishedRule
  uint32_t region = UINT32_MAX;  // PublishedFunction::regions, of what is in one
};

/// An alloc_storage binding.
struct PublishedStorage {
  ir::ValueId value;
  uint32_t binding = 0;                               // its number
  uint32_t scope = 0;                                 // ir::TypePool
  int64_t bytes = 0;                                  // of lifted ones
  PublishedRule rule = PublishedRule::lifted_storage; // or why it stays
  bool used = false;                                  // anything names it
  uint32_t merged = UINT32_MAX; // PublishedAnalysis::merged, of storages that are lifted and used
  bool lifted() const { return rule == PublishedRule::lifted_storage; }
};

/// Bindings of one block that become one function.
struct PublishedRegion {
  uint32_t block = 0;
  std::vector<uint32_t> bindings;    // numbers, ascending; the launch stands at the first
  std::vector<ir::ValueId> inputs;   // in order of first use
  std::vector<ir::ValueId> outputs;  // in order of first use outside
  std::vector<ir::SymbolId> symbols; // of the shape argument and the key, in order of occurrence
  uint32_t capture_index = 0;        // within the module
  uint32_t lifted = 0;               // PublishedAnalysis::lifted
};

struct PublishedFunction {
  std::vector<PublishedBinding> bindings;
  std::vector<PublishedStorage> storages; // in program order
  std::vector<PublishedRegion> regions;   // in order of their first bindings
  bool allocates = false;                 // some storage is lifted and used
  uint32_t allocation = 0;                // the call goes before this binding
};

/// A storage of the allocation that all functions share.
struct MergedStorage {
  uint32_t scope = 0;
  int64_t bytes = 0;
  uint32_t function = 0, storage = 0; // the largest of those that share it
};

/// A function that regions are lifted into; equal regions of one module share it.
struct PublishedLifted {
  std::string name;
  uint32_t function = 0, region = 0; // the first of them
};

struct PublishedAnalysis {
  std::vector<PublishedFunction> functions; // by function of the module
  std::vector<MergedStorage> merged;
  std::string allocation_name; // of the function that allocates `merged`; empty: none
  std::vector<PublishedLifted> lifted;
};

/// The module must be verified. Functions that another one runs through run_or_capture, or takes
/// storages from, are results of the pass and have no regions.
PublishedAnalysis analyze_published(const ir::Module &module);

/// The same without merged storages, names and capture indices, which the planner does not need.
PublishedAnalysis analyze_published_regions(const ir::Module &module);

/// A function's bindings by number.
std::vector<const ir::Binding *> bindings_in_order(const ir::Function &function);

/// The rule in words.
std::string published_reason(const ir::Module &module, const ir::Function &function,
                             const ir::Binding &binding, const PublishedBinding &decision);

} // namespace cugrt::plan
