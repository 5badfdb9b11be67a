// The plan: everything the runtime needs to run a module, as a plain value.
//
// The planner makes a plan from kernel-level IR; the runtime consumes the plan and compiled code
// and never sees the IR. A plan holds no pointers and no host addresses; indices name rows of its
// tables, and it has a form in bytes that round-trips (serialize.h). It is a function of the module
// and the planner's options alone: the same on every host.
//
//   Plan ── exprs                      expressions; symbols are numbered within each function
//     ├─ codes     units of compilation: source or bytes, options
//     ├─ kernels   a function of a code: parameters, one entry a variant
//     ├─ constants
//     ├─ arenas    one for each storage scope: bytes for all functions together
//     └─ functions
//          ├─ symbols, params, results   the calling convention, checked on every run
//          ├─ slots       where callers' buffers are bound: tensor parameters, results
//          ├─ buffers     byte ranges that steps touch: in an arena, a slot, a weight, a constant
//          ├─ steps       launch steps: one kernel launch, copy or fill each
//          ├─ conditionals  branches and loops within regions
//          ├─ regions     static regions: steps and edges that become one CUDA graph
//          └─ blocks      the host's program: launch a region, run a step eagerly, call, branch
#pragma once

#include "base/expr/symbols.h"
#include "base/type/kinds.h"
#include "base/type/type.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace cugrt::plan {

using ir::Access;
using ir::Constraint;
using ir::CountedDim;
using ir::ExprId;
using ir::Range;
using ir::SymbolId;

inline constexpr uint32_t kPlanVersion = 5;
inline constexpr uint32_t kNone = UINT32_MAX;
/// Every buffer of an arena begins at a multiple of this.
inline constexpr int64_t kArenaAlignment = 256;
/// Result slots are aligned to this, since kernels that write them may use vector stores.
inline constexpr uint32_t kResultAlignment = 16;
/// No region has more steps; the planner splits, the validator refuses.
inline constexpr uint32_t kMaxRegionNodes = 16384;

/// One module of code, which is compiled or loaded as a whole.
struct CodeUnit {
  ir::CodeKind kind = ir::CodeKind::source_file;
  std::string name; // path as written in the module, or the kernel's name for inline text
  std::string text; // of source_text; files are read by the runtime when it opens the plan
  std::vector<std::string> options; // of the compiler
  friend bool operator==(const CodeUnit &, const CodeUnit &) = default;
};

struct KernelParam {
  ir::KernelParamKind kind = ir::KernelParamKind::tensor;
  Access access = Access::in;
  ir::DType dtype = ir::DType::f32;
  std::vector<uint32_t> over{}; // parameters that may be the same bytes (ir::KernelParam)
  friend bool operator==(const KernelParam &, const KernelParam &) = default;
};

struct Kernel {
  std::string name;
  uint32_t code = 0;                // Plan::codes
  std::vector<KernelParam> params;  // a variant with a workspace takes one more pointer
  std::vector<std::string> entries; // the compiled function of each variant
  std::vector<std::array<uint32_t, 3>> clusters; // of each variant; zeros: none
  std::vector<bool> cooperative, programmatic;   // of each variant
  friend bool operator==(const Kernel &, const Kernel &) = default;
};

struct Constant {
  std::string name, bytes;
  friend bool operator==(const Constant &, const Constant &) = default;
};

/// One storage scope's memory. All figures in bytes, at the symbols' upper bounds.
struct Arena {
  std::string scope;
  int64_t bytes = 0;             // what a session maps
  int64_t lower_bound_bytes = 0; // the largest sum of tensors alive at one instant
  int64_t tensor_bytes = 0;      // the sum of all planned tensors: memory without any sharing
  friend bool operator==(const Arena &, const Arena &) = default;
};

struct Symbol {
  std::string name;
  ir::SymbolSource source = ir::SymbolSource::parameter;
  ir::Interval bounds;
  friend bool operator==(const Symbol &, const Symbol &) = default;
};

/// Every run gives `symbol` the least of `sizes`, which ascend, that holds the value of `of`, a
/// parameter's; beyond the last that value. Where steps of a region only take `of` by value it is
/// not in its key.
struct Bucket {
  SymbolId symbol, of;
  std::vector<int64_t> sizes;
  friend bool operator==(const Bucket &, const Bucket &) = default;
};

enum class ParamKind : uint8_t { tensor, weight, scalar, shape };

/// A parameter, as callers see it. A dimension (or scalar) that is a bare symbol defines it at its
/// first appearance in parameter order; every other dimension is evaluated and must agree.
struct Param {
  std::string name;
  ParamKind kind = ParamKind::tensor;
  ir::DType dtype = ir::DType::f32;
  ir::ScalarKind scalar = ir::ScalarKind::integer;
  bool known_shape = true;
  // Dimensions of tensors and shapes; for an integer scalar its one expression, or none.
  std::vector<ExprId> dims;
  Access access = Access::in;
  uint32_t alignment_bytes = 1;
  uint32_t slot = kNone;       // of tensors
  uint32_t host_value = kNone; // of scalars
  std::string scope;
  SourceLocation location;
  friend bool operator==(const Param &, const Param &) = default;
};

/// A tensor result lies in `buffer`. A fresh one has a slot of its own (kind result); one that is a
/// parameter, a weight, a constant or another result, or part of one, is that buffer: callers
/// read it there and cannot bind it.
struct FunctionResult {
  uint32_t buffer = kNone;     // a tensor result
  uint32_t host_value = kNone; // or a host scalar
  friend bool operator==(const FunctionResult &, const FunctionResult &) = default;
};

enum class SlotKind : uint8_t {
  param,  // bound by the caller to every run
  result, // bound by the caller, or else to memory of the session, valid until the function's next
          // run
};

struct Slot {
  SlotKind kind = SlotKind::param;
  uint32_t index = 0; // of Function::params or Function::results
  Access access = Access::in;
  ExprId bytes;
  uint32_t alignment_bytes = 1;
  friend bool operator==(const Slot &, const Slot &) = default;
};

enum class BufferBase : uint8_t {
  arena,    // Plan::arenas[index], at offset_bytes
  slot,     // Function::slots[index]
  weight,   // Function::params[index], in the loaded executable
  constant, // Plan::constants[index], in the loaded executable
  dynamic, // an unplanned allocation, number `index` of the function; made by an allocate item, or,
           // where the shape is not known, by the host call that returns it
};

/// A tensor's bytes: [base + offset, base + offset + bytes). Buffers of one base may overlap. An
/// invalid `bytes` means the whole base: a tensor whose shape is not known.
struct Buffer {
  std::string name;
  BufferBase base = BufferBase::arena;
  uint32_t index = 0;
  ExprId offset_bytes, bytes;
  ir::DType dtype = ir::DType::f32;
  std::vector<ExprId> dims, strides; // strides in elements; empty: contiguous
  /// Buffers with one number are names for the same tensor or parts of it; those with different
  /// numbers never overlap while both are live.
  uint32_t tensor = 0;
  friend bool operator==(const Buffer &, const Buffer &) = default;
};

enum class ArgumentKind : uint8_t {
  buffer,     // index: Function::buffers; its address
  expr,       // index: ExprId; its value as `dtype`
  host_value, // index: Function::host_values; as `dtype`
  bits,       // a literal: `bits` hold the value as `dtype`
  /// index: Function::buffers, one element of `dtype`; bits: the device symbol that is read there.
  /// Its address, with the symbol's bounds and where the kernel says that it is out of them.
  checked_symbol,
};

struct Argument {
  ArgumentKind kind = ArgumentKind::buffer;
  ir::DType dtype = ir::DType::i64; // of by-value arguments, and of symbols
  uint32_t index = 0;
  uint64_t bits = 0;
  /// Whether `index` is a buffer's, which the step has among its accesses.
  bool names_buffer() const {
    return kind == ArgumentKind::buffer || kind == ArgumentKind::checked_symbol;
  }
  friend bool operator==(const Argument &, const Argument &) = default;
};

/// How one variant of a kernel is launched by one step, over the function's symbols.
struct LaunchRule {
  ExprId predicate; // invalid: always
  std::array<ExprId, 3> grid, block;
  ExprId shared_bytes;        // invalid: 0
  uint32_t workspace = kNone; // Function::buffers
  friend bool operator==(const LaunchRule &, const LaunchRule &) = default;
};

struct BufferAccess {
  uint32_t buffer = 0;
  Access access = Access::in;
  friend bool operator==(const BufferAccess &, const BufferAccess &) = default;
};

enum class StepKind : uint8_t { kernel, copy, fill, empty, conditional, set_condition };

/// One node, or one eager launch. A copy moves buffer accesses[1] to accesses[0]; a fill writes the
/// byte `fill_byte` all over accesses[0]; an empty step does nothing, it stands in a region where
/// several steps wait for the same others, or is all that a body has. Conditional describes steps
/// of branches and loops.
struct Step {
  StepKind kind = StepKind::kernel;
  std::string name; // for people: kernel and result, as in node names
  uint32_t kernel = kNone;
  Range arguments; // Function::arguments, one for each kernel parameter
  Range launches;  // Function::launches, one for each variant
  Range accesses;  // Function::accesses: every byte range read or written, workspaces included
  uint8_t fill_byte = 0;
  uint32_t conditional = kNone; // Function::conditionals
  /// Runs only if this is not 0: a step of a branch on a symbol. Invalid: always. Edges hold
  /// whether it runs or not: those through a step that does not run join what stands before and
  /// behind it.
  ExprId when;
  SourceLocation location;
  friend bool operator==(const Step &, const Step &) = default;
};

enum class ConditionalKind : uint8_t { if_, while_ };

/// A branch or a loop within a region: a conditional node. Its step reads the condition, a device
/// scalar, accesses[0], and touches what the steps of its bodies touch. These follow it, body after
/// body, each a graph of its own whose edges join its own steps; bodies nest.
///
///   if_     then, else where there is one: the condition is read once
///   while_  one body, run while the condition is not 0: it is read before the first time, and by
///           the body's step of kind set_condition after each
struct Conditional {
  ConditionalKind kind = ConditionalKind::if_;
  std::vector<uint32_t> bodies; // the number of steps of each, those of nested bodies included
  friend bool operator==(const Conditional &, const Conditional &) = default;
};

/// `to` begins after `from` has ended; both count from the region's first step and are steps of one
/// graph: the region's own, or one body.
struct Edge {
  uint32_t from = 0, to = 0;
  friend auto operator<=>(const Edge &, const Edge &) = default;
};

/// A static region: consecutive steps that become one graph.
struct Region {
  std::string name;
  Range steps;
  std::vector<Edge> edges; // transitively reduced, sorted
  /// Numbers in `edges`, ascending, of edges whose dependent may begin before its predecessor has
  /// ended, if the code of both allows it (programmatic dependent launch).
  std::vector<uint32_t> programmatic;
  /// Symbols that any field of any step depends on, in symbol order; but for those that have a
  /// bucket where steps only take them by value.
  std::vector<SymbolId> key;
  std::vector<uint32_t> slots;       // slots that any step touches, ascending
  std::vector<uint32_t> host_values; // by-value host scalars that steps take
  friend bool operator==(const Region &, const Region &) = default;
};

enum class HostValueKind : uint8_t {
  param,
  expr,
  literal,
  host_result, // assigned during the run: a result of an item, or a block's parameter
  object,      // likewise, but opaque: only host calls make and take it
};

/// A scalar that lives on the host during a run.
struct HostValue {
  HostValueKind kind = HostValueKind::param;
  ir::ScalarKind scalar = ir::ScalarKind::integer;
  uint32_t index = 0; // param: Function::params; expr: ExprId
  uint64_t bits = 0;  // literal: an int64_t or the bits of a double
  friend bool operator==(const HostValue &, const HostValue &) = default;
};

enum class ItemKind : uint8_t {
  region,    // index: Function::regions
  step,      // index: Function::steps, run eagerly
  allocate,  // index: a buffer of base `dynamic`; its bytes are allocated now
  release,   // index: likewise; its bytes may be given back once earlier work has ended
  host_call, // name; operands; results: buffers are destinations that the callee fills
  call,      // index: Plan::functions; operands, one a parameter; results, one a function result: a
             // buffer that the callee's result slot is bound to, or where its result lies already
  match,     // operands[0]; dims: symbols to define (those in `defines`) or dimensions to check
  read,      // operands[0] a buffer, dims[0] the device symbol: nothing to do on the host
  if_,       // operands[0] the condition; blocks: then, else; results
  while_,    // operands: initial values; blocks: condition, body; results
  copy_back, // eager copy of operands[0] (buffer) into operands[1] (buffer)
  extern_call, // as host_call, but the name is looked up among the extern functions
};

struct OperandRef {
  enum class Kind : uint8_t {
    none,
    buffer,
    host_value,
    expr,
    string, // index: Function::strings
    dtype,  // index: ir::DType
    list,   // index: Function::lists: a shape's elements, a tuple's fields
  } kind = Kind::none;
  uint32_t index = 0;
  friend bool operator==(const OperandRef &, const OperandRef &) = default;
};

struct Item {
  ItemKind kind = ItemKind::region;
  uint32_t index = 0;
  std::string name{};
  std::vector<OperandRef> operands{}, results{};
  std::vector<ExprId> dims{};
  std::vector<SymbolId> defines{}; // of match: its bare symbols that each run sets here
  Range blocks{};                  // Function::blocks
  SourceLocation location{};
  friend bool operator==(const Item &, const Item &) = default;
};

/// A block of the host's program. Parameters are a loop's carried values, results what the block
/// yields. The host moves host values only: on entry to a loop operands to parameters, after a
/// branch or an iteration the results to the item's results or the parameters, all at once. Where
/// tensors must move, the blocks hold copy steps that do it, and the buffers are listed for
/// information.
struct Block {
  std::vector<Item> items;
  std::vector<OperandRef> params, results;
  friend bool operator==(const Block &, const Block &) = default;
};

struct Function {
  std::string name;
  bool is_private = false;
  std::vector<Symbol> symbols;
  std::vector<Bucket> buckets;
  std::vector<Constraint> constraints; // runs that break one are refused; sizes rely on them
  std::vector<Param> params;
  std::vector<FunctionResult> results;
  std::vector<CountedDim> counted_dims; // of results
  std::vector<Slot> slots;
  std::vector<HostValue> host_values;
  std::vector<Buffer> buffers;
  std::vector<Argument> arguments;
  std::vector<LaunchRule> launches;
  std::vector<BufferAccess> accesses;
  std::vector<Step> steps;
  std::vector<Conditional> conditionals;
  std::vector<Region> regions;
  std::vector<std::string> strings;
  std::vector<std::vector<OperandRef>> lists;
  uint32_t dynamic_count = 0; // unplanned allocations
  std::vector<Block> blocks;  // blocks[0] is the body
  SourceLocation location;

  std::vector<std::string> symbol_names() const;
  /// "%x" or "result 0": the parameter or result of a slot.
  std::string slot_text(uint32_t slot) const;
  friend bool operator==(const Function &, const Function &) = default;
};

struct Plan {
  std::string target; // the profile the plan was made for; empty: any
  ir::ExprPool exprs;
  std::vector<CodeUnit> codes;
  std::vector<Kernel> kernels;
  std::vector<Constant> constants;
  std::vector<Arena> arenas;
  std::vector<Function> functions;

  const Function *find_function(std::string_view name) const;
  /// The memory that buffers of a base lie in: "arena global", "slot %x", "weight %w".
  std::string place_text(const Function &function, BufferBase base, uint32_t index) const;
};

} // namespace cugrt::plan
