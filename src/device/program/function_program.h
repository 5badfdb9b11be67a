// Data that the runtime computes once from a plan: for each launch of a function, where every
// argument's bytes come from.
//
// Everything that a step can depend on in a run has a number: symbols (plan's SymbolId), host
// values (plan's index), and bases, the addresses that buffers are offsets from. The plan tells
// bases apart by kind and index; from here on they are numbered through, so that a changed address
// names the arguments to set whatever kind it is of:
//
//   [0, slots) slots | params: weights | dynamic allocations | arenas | constants | symbol flag
//
// Constants and the word of symbol_flag.h do not move while a session lives. An arena moves when a
// group gives it another place, weights when they are updated or when a function is called by
// another one with other tensors.
#pragma once

#include "plan/format/plan.h"

namespace cugrt::runtime {

using ir::ExprId;
using ir::Range;
using plan::kNone;

/// Source of one by-value argument. Constant offsets and expressions are folded into `bits`.
struct ValueSource {
  enum class Kind : uint8_t {
    bits,    // a constant
    address, // base `index` + bits + value of `expr`, where it is valid
    expr,    // value of `expr` as `dtype`
    host,    // host value `index` as `dtype`
    handle,  // number `bits` of conditional `index`: known to the instance that made it
  };
  Kind kind = Kind::bits;
  ir::DType dtype = ir::DType::i64;
  uint32_t index = 0;
  ExprId expr{};
  uint64_t bits = 0;
  /// Another field of 8 bytes in the same argument as the source before.
  bool joined = false;
};

enum class VariantKind : uint8_t {
  kernel,
  copy, // sources: destination, source, bytes
  fill, // sources: destination, bytes, byte
  empty,
  left_out,      // of a step whose condition does not hold: no node
  conditional,   // our kernel that sets the condition, and the node behind it; see set_condition
  set_condition, // sources: address, bytes, handle, other handle or 0
};

/// One of the variants of a step's kernel, or a transfer.
struct StepVariant {
  VariantKind kind = VariantKind::kernel;
  /// A copy or fill whose size and addresses never change: it may be a node of its kind. Others are
  /// launches of our own kernels in a graph, since setters refuse new sizes and kinds of memory.
  bool fixed = false;
  uint32_t step = 0;                     // Function::steps
  uint32_t kernel = kNone, variant = 0;  // Plan::kernels
  Range sources{};                       // FunctionProgram::sources; a workspace is the last
  ExprId predicate{};                    // invalid: always
  std::array<ExprId, 3> grid{}, block{}; // of kernels
  ExprId shared_bytes{};                 // invalid: 0
};

struct FunctionProgram {
  std::vector<ValueSource> sources;
  std::vector<StepVariant> variants;
  /// For each step, its variants in `variants`. A step with a condition ends with a `left_out`.
  std::vector<Range> step_variants;
  std::vector<uint32_t> call_params; // per-call parameters, in order: those that are not weights
  uint32_t slot_count = 0, first_weight = 0, first_dynamic = 0, first_arena = 0, first_constant = 0,
           symbol_flag = 0, base_count = 0;
  bool needs_copy_kernels = false, needs_control_kernels = false, checks_symbols = false;

  uint32_t base_of(const plan::Buffer &buffer) const;
  /// The base whose address is a caller's buffer: slots come first.
  uint32_t base_of_slot(uint32_t slot) const { return slot; }
};

/// Numbers the function's symbols from `first_symbol` (symbol_flag.h). Fails (unsupported) for a
/// 4-bit by-value argument and a result that is not contiguous, which no value can express.
Result<FunctionProgram> make_function_program(const plan::Plan &plan,
                                              const plan::Function &function,
                                              uint64_t first_symbol);

/// The place that defines a symbol: a parameter's dimension, a match or a read. Unknown if the plan
/// does not say.
SourceLocation definition_of(const plan::Plan &plan, const plan::Function &function,
                             ir::SymbolId symbol);

/// "name:line:column", or "" for an unknown place.
std::string location_text(const std::string &file, SourceLocation location);

} // namespace cugrt::runtime
