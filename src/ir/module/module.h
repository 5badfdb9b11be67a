// The module: kernels, constants and functions over tensors.
//
// Everything of a function stands in a few flat arrays, named by 32-bit ids; bindings hold ranges
// into them. A function is built front to back by FunctionBuilder (ir/module/builder.h) and not
// changed afterwards: passes read one and build another. Ids are dense, so that analyses keep their
// facts in plain vectors.
//
//   Module ── exprs, types          pools of all functions; symbols are numbered per function
//     ├─ Kernel     source, entry, parameters with access, launch variants
//     ├─ Constant   a named tensor with its bytes
//     └─ Function   symbols, values, operands, exprs, attributes
//          └─ Block 0 (the body) ── Binding ── nested Blocks (if, while)
#pragma once

#include "base/diagnostics.h"
#include "base/expr/symbols.h"
#include "base/status.h"
#include "base/type/kinds.h"
#include "base/type/type.h"

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace cugrt::ir {

struct ValueId {
  uint32_t index = UINT32_MAX;
  bool valid() const { return index != UINT32_MAX; }
  friend auto operator<=>(ValueId, ValueId) = default;
};

/// The copy constructor is written out so that the type is not trivially copyable: libstdc++ 12
/// takes a variant of strings, vectors and trivial types for one that always holds a value, and
/// destroys garbage when memory runs out while one is copied.
struct DTypeLiteral {
  DType dtype;
  DTypeLiteral(DType d) : dtype(d) {}
  DTypeLiteral(const DTypeLiteral &other) noexcept : dtype(other.dtype) {}
  DTypeLiteral &operator=(const DTypeLiteral &) = default;
  friend bool operator==(const DTypeLiteral &, const DTypeLiteral &) = default;
};

/// Attribute values and literals.
using AttributeValue =
    std::variant<bool, int64_t, double, std::string, DTypeLiteral, std::vector<int64_t>,
                 std::vector<double>, std::vector<std::string>>;

struct Attribute {
  std::string name{};
  AttributeValue value;
  friend bool operator==(const Attribute &, const Attribute &) = default;
};

// --- Kernels ------------------------------------------------------------------------------------

struct KernelParam {
  std::string name{};
  KernelParamKind kind = KernelParamKind::tensor;
  Access access = Access::in; // of tensors
  DType dtype = DType::f32;
  bool any_dtype = false; // of tensors: the kernel takes the address whatever the dtype
  SymbolId symbol{};      // of symbols: its number within the kernel declaration
  /// For written tensors: parameters that are read and may be the same bytes. The thread that
  /// writes an element reads it before.
  std::vector<uint32_t> over{};
};

/// One way to launch the kernel. The first variant whose predicate holds is taken.
struct KernelVariant {
  std::string entry; // the compiled function; empty: the kernel's
  ExprId predicate;  // invalid: always
  std::array<ExprId, 3> grid, block;
  ExprId shared_bytes;               // dynamic shared memory; invalid: 0
  ExprId workspace_bytes;            // scratch passed as a last pointer argument; invalid: none
  std::array<uint32_t, 3> cluster{}; // zeros: none
  bool cooperative = false;
  bool programmatic = false; // written with wait and trigger
};

struct Kernel {
  std::string name{};
  CodeKind code_kind = CodeKind::source_file;
  std::string code;  // a path relative to the module's file ("builtin:softmax.cu": one of the
                     // library's own), or text
  std::string entry; // the function's name in the compiled code
  std::vector<std::string> options; // of the compiler
  std::vector<KernelParam> params;
  std::vector<std::string> symbols;    // names of the kernel's symbols, by SymbolId
  std::vector<KernelVariant> variants; // at least one
  SourceLocation location{};
};

// --- Constants ----------------------------------------------------------------------------------

struct Constant {
  std::string name{};
  TypeId type;       // a tensor with constant dimensions
  std::string bytes; // exactly tensor_bytes of them
  SourceLocation location{};
};

// --- Functions ----------------------------------------------------------------------------------

struct Symbol {
  std::string name{};
  SymbolSource source = SymbolSource::parameter;
  Interval bounds{0, INT64_MAX}; // from the function's attributes, or the read binding
  bool capturable = false;       // listed in capture_symbols
  SourceLocation location{};
  /// For parameters: sizes that tensors may be padded to along this dimension; empty: no padding.
  std::vector<int64_t> buckets{};
  uint32_t bucket_of = UINT32_MAX; // of buckets: the symbol
};

/// Bounds of the bucket of a symbol.
Interval bucket_bounds(const Symbol &symbol);

struct Value {
  std::string name; // without %, unique in its function
  TypeId type;
  SourceLocation location{};
};

/// An operand of a binding.
struct Operand {
  enum class Kind : uint8_t {
    none,     // an absent optional operand
    value,    // Function::values
    expr,     // an integer expression (symbol parameters of kernels, shape elements)
    literal,  // Module::literals
    function, // Module::functions: what a cuda_graph builtin runs (ir/module/graph_builtins.h)
  };
  Kind kind = Kind::none;
  uint32_t index = 0;
  static Operand of(ValueId value) { return {Kind::value, value.index}; }
  static Operand of(ExprId expr) { return {Kind::expr, expr.index}; }
  static Operand of_literal(uint32_t literal) { return {Kind::literal, literal}; }
  static Operand of_function(uint32_t function) { return {Kind::function, function}; }
  ValueId value() const { return {index}; }
  ExprId expr() const { return {index}; }
  friend bool operator==(const Operand &, const Operand &) = default;
};

enum class BindingKind : uint8_t {
#define CUGRT_BINDING(name, ...) name,
#include "ir/module/bindings.def"
#undef CUGRT_BINDING
};

/// Table that Binding::callee is a number in.
enum class CalleeKind : uint8_t { none, kernel, function, name, constant, op };

enum BindingFlags : uint8_t { kTakesValues = 1, kMayBeCaptured = 2 };

/// Work of a binding.
enum class BindingWork : uint8_t {
  names, // or makes storage, tensors and host values: nothing runs, is read, checked or ended
  kills,
  launches,
  calls,
  calls_host, // builtins and externs
  matches,
  reads, // a symbol
  controls,
  computes, // a tensor-level op
};

/// A row of bindings.def.
struct BindingInfo {
  static constexpr uint32_t kMany = UINT32_MAX;
  std::string_view word; // in text
  CalleeKind callee;
  uint32_t operands, exprs, results, blocks; // how many, or kMany
  uint8_t flags;                             // of BindingFlags
  BindingWork work;
};
const BindingInfo &binding_info(BindingKind kind);

/// One binding. bindings.def says which fields a kind uses; its results are consecutive
/// values.
struct Binding {
  BindingKind kind;
  uint32_t callee = UINT32_MAX; // op, kernel, function, constant, or callee name: see bindings.def
  uint32_t first_result = 0, result_count = 0;
  Range operands;             // Function::operands
  Range exprs;                // Function::exprs
  Range attributes;           // Function::attributes
  Range blocks;               // Function::blocks: nested ones
  uint32_t carried_count = 0; // of while: the first operands are initial values, the rest captures
  uint32_t call_site = UINT32_MAX; // Function::call_sites: the inlined call that it came from
  SourceLocation location{};

  ValueId result(uint32_t i = 0) const { return {first_result + i}; }
  BindingWork work() const { return binding_info(kind).work; }
};

/// A block's bindings run in order; its results are what it yields or returns.
struct Block {
  uint32_t first_param = 0, param_count = 0; // values: carried values of while blocks
  std::vector<Binding> bindings;
  Range results; // Function::operands
  SourceLocation end_location{};
};

struct Parameter {
  ValueId value;
  Access access = Access::in;   // of tensors; out and inout are the caller's buffers or state
  uint32_t alignment_bytes = 0; // of tensors: a power of two that callers guarantee; 0: the dtype's
};

/// A call that was inlined: its callee's bindings replace it. For people; text has none.
struct CallSite {
  std::string callee;           // without @
  std::string call;             // the binding, as printed
  uint32_t steps = 0;           // launches that came from it
  uint32_t parent = UINT32_MAX; // Function::call_sites: the call that it came from itself
  SourceLocation location{};
};

struct Function {
  std::string name; // without @
  bool is_private = false;
  std::vector<Parameter> params;
  /// Number of per-call inputs: parameters from this one on are weights, uploaded once.
  uint32_t num_inputs = UINT32_MAX;
  std::vector<TypeId> result_types;
  std::vector<CountedDim> counted_dims;    // at most one of a result
  std::vector<Attribute> extra_attributes; // kept and printed; no meaning here
  SourceLocation location{};

  std::vector<Symbol> symbols;
  std::vector<Constraint> constraints;
  std::vector<Value> values;
  std::vector<Operand> operands;
  std::vector<ExprId> exprs;
  std::vector<Attribute> attributes;
  std::vector<Block> blocks; // blocks[0] is the body
  std::vector<CallSite> call_sites;
  /// Why its calls stay calls, in program order, where they were to be inlined. For people; text
  /// has none.
  std::vector<std::string> kept_calls;

  const Block &body() const { return blocks.front(); }
  const Value &value(ValueId id) const { return values[id.index]; }
  bool is_weight(size_t param) const { return param >= num_inputs; }
  std::span<const Operand> operands_of(const Binding &b) const {
    return std::span(operands).subspan(b.operands.begin, b.operands.count);
  }
  /// Operand i; invalid where it is absent or no value.
  ValueId operand_of(const Binding &b, size_t i) const {
    const auto all = operands_of(b);
    return i < all.size() && all[i].kind == Operand::Kind::value ? all[i].value() : ValueId();
  }
  std::span<const Operand> results_of(const Block &b) const {
    return std::span(operands).subspan(b.results.begin, b.results.count);
  }
  std::span<const ExprId> exprs_of(const Binding &b) const {
    return std::span(exprs).subspan(b.exprs.begin, b.exprs.count);
  }
  std::span<const Attribute> attributes_of(const Binding &b) const {
    return std::span(attributes).subspan(b.attributes.begin, b.attributes.count);
  }
  std::vector<std::string> symbol_names() const;
  std::vector<Interval> symbol_bounds() const;
  /// The values that the symbols may have: within the bounds and, but for constraints that are none
  /// (the verifier refuses them), all constraints.
  SymbolDomain symbol_domain(const ExprPool &exprs) const;
};

struct Module {
  ExprPool exprs;
  TypePool types;
  std::vector<Kernel> kernels;
  std::vector<Constant> constants;
  std::vector<Function> functions;
  std::vector<AttributeValue> literals;
  std::vector<std::string> callee_names; // of host and extern calls

  const Function *find_function(std::string_view name) const;
  const Kernel *find_kernel(std::string_view name) const;
};

/// "in @function: message" at "line:column", or at "@function" where no place is known.
inline Status located(Code code, const Function &function, SourceLocation location,
                      const std::string &message) {
  std::string place = location.known()
                          ? std::to_string(location.line) + ":" + std::to_string(location.column)
                          : "@" + function.name;
  return Status::error(code, "in @" + function.name + ": " + message).at(std::move(place));
}

} // namespace cugrt::ir
