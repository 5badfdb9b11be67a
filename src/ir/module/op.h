// Facts about an op that the language needs: its name, numbers of operands and results,
// attributes, and result types. src/ops, which stands above the IR, has the ops themselves and
// these facts.
#pragma once

#include "ir/module/module.h"

#include <optional>
#include <span>
#include <string_view>

namespace cugrt::ir {

enum class Op : uint32_t; // its enumerators: ops/table/ops.h

/// How the elements of an op's result follow from those of its operands, from the simplest to what
/// cannot be said. Fusion (compiler/passes/fuse_ops.cpp) compares them by this order.
enum class OpPattern : uint8_t {
  elementwise, // from the elements of the same index
  broadcast,   // likewise, where operands lack some of the result's axes
  injective,   // each from an element at another index (transpose, concat, gather)
  reduction,   // from all elements along some axes
  out_fusable, // anything, but each result may still go through what is elementwise (matmul,
               // softmax)
  opaque,      // not fused
};

/// Result of an elementwise op on operands whose elements are 0, or finite numbers. Used
/// for elements that a bucket adds (compiler/passes/padding_effects.h). Ignores
/// overflow.
enum class OpZeros : uint8_t {
  zero_stays,   // f(0) = 0, and finite numbers stay finite
  zero_only,    // f(0) = 0, other numbers may have no value
  finite_stays, // finite numbers stay finite
  unbounded,    // nothing is said
  tests,        // a bool
  unequal,      // a bool, false where both operands are 0
  clips,        // as `zero_stays` where the attributes min and max let 0 through
  sums,         // as `all_zero`; what is infinite stays so beside finite numbers
  all_zero,     // 0 where all operands are
  any_zero,     // 0 where one operand is, and the others are finite
  first_zero,   // 0 where the first operand is
  chooses,      // where
  casts,        // cast
  by_rule,      // not elementwise: the op's own padding rule says it
};

/// What an op can be in a generated kernel of several ops (compiler/fused/).
enum class OpPart : uint8_t {
  function,         // each element is a function of the operands' elements of the same index
  element,          // likewise, but a choice (where) or a conversion (cast), which no function is
  relabels,         // says anew how elements lie; no kernel is made for it alone
  moves,            // reads elements elsewhere, at places that follow from the result's index
  of_index,         // elements follow from their index
  reduces,          // the kernel's anchor, which computes what it loads: over axes
  searches,         // likewise, for a place
  normalizes,       // the anchor; computes in f32 and rounds once
  multiplies_bytes, // the anchor; its sums are integers
  anchors,          // another anchor: a kernel of the library, to which elements are added
  alone,            // none: the op has a kernel to itself
};

/// What ToMixedPrecision does with an op. Denied are those that square, invert or exponentiate, sum
/// over an axis, compare, count or round to integers, where an error of half a unit in the last
/// place grows.
enum class OpPrecision : uint8_t {
  allow,  // its f32 operands become f16 or bf16, sums are kept in fp32
  follow, // it is computed in that dtype where all of its operands are in it anyway
  deny,   // it stays in f32
};

/// Which f32 operands of an op stay in f32 though the op is computed in f16 or bf16.
enum class OpWide : uint8_t {
  none,
  second, // coordinates
  rest,   // sizes, from the third operand on
  fifth,  // a mask, whose finite numbers have no like in f16
  states, // first states of a recurrent layer, behind x and w, where one of them is in f32
};

/// Whose bytes an op's results are.
enum class OpStorage : uint8_t {
  fresh,   // their own
  copied,  // their own, and each element is one of the first operand's
  view,    // those of the first operand, where LegalizeOps can (ops/emit/element_ops.h)
  retyped, // likewise, in another dtype
  joined,  // likewise, those of all operands
  written, // those of the first operand, which the op writes
};

/// Which operands of an op are shapes; others are tensors.
enum class OpShapes : uint8_t { none, second, rest, all }; // rest: all but the first

/// Layouts of images that an op takes, for LayOutImages, and the ops that convolve or pool them.
enum class OpImages : uint8_t {
  keeps,           // with channels second or last, and gives what it takes
  convolves,       // floats; this and what follows up to `grouped` have a form for either layout
  spreads,         // likewise, a transposed convolution
  convolves_bytes, // likewise, of bytes, into sums
  pools,           // by a window
  parts,           // splits
  reduces,         // over axes
  along_axis,      // computes along an axis
  reshapes,
  norms, // over channels
  transposes,
  pads,
  slices,
  gathers,
  stretches, // broadcasts
  grouped,   // norms over groups of channels: LayOutImages itself writes it
  second,    // with channels second alone, or it takes none
};

/// What a device computes an op's operations with (ops/table/operations.h).
enum class OpRate : uint8_t {
  vectors,  // arithmetic one by one
  products, // tensor cores, where the first operand has a dtype that they take
  gates,    // likewise, by the second operand: weights
};

/// Whether a convolution of floats is of that kind.
inline bool convolves_floats(OpImages images) {
  return images == OpImages::convolves || images == OpImages::spreads;
}

struct OpInfo {
  std::string_view name;
  uint32_t least_operands, most_operands;
  uint32_t absent_operands; // a bit each: those that may be absent
  uint32_t most_results;    // 1, or more where the number follows from attributes (split)
  OpPattern pattern;        // of the op in general; op_pattern says it of one with its types
  OpPart part;
  OpZeros zeros;
  OpPrecision precision;
  OpWide wide;
  OpStorage storage;
  OpShapes shapes;
  OpImages images;
  OpRate rate;
};

enum class AttributeKind : uint8_t { boolean, integer, floating, string, dtype, integers };

struct OpAttribute {
  std::string_view name;
  AttributeKind kind;
  bool required = false;
  AttributeValue default_value{}; // where not required
  std::string_view words{};       // of a string: those that it may be, separated by spaces
};

size_t op_count();
const OpInfo &op_info(Op op);
std::optional<Op> op_from_name(std::string_view name);
inline bool is_part(Op op, OpPart part) { return op_info(op).part == part; }
inline Op op_of(const Binding &binding) { return static_cast<Op>(binding.callee); }
inline bool is_op(const Binding &binding, Op op) {
  return binding.kind == BindingKind::op && op_of(binding) == op;
}
inline bool is_op(const Binding *binding, Op op) { return binding && is_op(*binding, op); }
/// The attributes that `op` takes. An integer is taken where a float is expected.
std::span<const OpAttribute> op_attributes(Op op);

/// The value of an attribute of a checked op: as given, else its default. An empty list stands for
/// the default that depends on operands (all axes, reversed axes).
AttributeValue op_attribute(Op op, std::span<const Attribute> attributes, std::string_view name);
int64_t op_integer(Op op, std::span<const Attribute> attributes, std::string_view name);
double op_float(Op op, std::span<const Attribute> attributes, std::string_view name);
bool op_bool(Op op, std::span<const Attribute> attributes, std::string_view name);
std::string op_string(Op op, std::span<const Attribute> attributes, std::string_view name);
/// The number of a word among those of the op's row, by which kernels know it.
size_t op_word(Op op, std::span<const Attribute> attributes, std::string_view name);
std::vector<int64_t> op_integers(Op op, std::span<const Attribute> attributes,
                                 std::string_view name);
DType op_dtype(Op op, std::span<const Attribute> attributes, std::string_view name);

/// Whether `op` writes its first operand in place and gives it as its result: no name of these
/// bytes keeps its old value. All other ops only compute their results.
inline bool writes_operand(Op op) { return op_info(op).storage == OpStorage::written; }
inline bool writes_operand(const Binding &binding) {
  return binding.kind == BindingKind::op && writes_operand(op_of(binding));
}

/// Whether results may lie in operands' bytes.
inline bool shares_bytes(Op op) {
  const OpStorage storage = op_info(op).storage;
  return storage != OpStorage::fresh && storage != OpStorage::copied;
}

/// Whether each element of the op's results is one of the first operand's, whatever it is.
inline bool moves_elements(Op op) {
  const OpStorage storage = op_info(op).storage;
  return storage == OpStorage::view || storage == OpStorage::copied;
}

/// Whether a binding may change memory that others read. Killed memory is gone, which counts.
inline bool may_write(const Binding &binding) {
  if (binding.kind == BindingKind::op)
    return writes_operand(binding);
  const BindingWork work = binding.work();
  return work != BindingWork::names && work != BindingWork::matches && work != BindingWork::reads;
}

/// Whether operand i is of those that stay in f32 by the row; of states if one of them is in f32.
inline bool is_wide_operand(const OpInfo &op, size_t i) {
  switch (op.wide) {
  case OpWide::none:
    return false;
  case OpWide::second:
    return i == 1;
  case OpWide::rest:
    return i >= 2;
  case OpWide::fifth:
    return i == 4;
  case OpWide::states: // one for each result but the first
    return i >= 2 && i < op.most_results + 1;
  }
  return false;
}

/// Whether operand i of `op` is a shape; others are tensors.
bool is_shape_operand(Op op, size_t i);

/// Checks operands and attributes and returns the result types. Absent operands have an invalid
/// type. Errors are Code::verify_error; they describe the mistake without its place, with the names
/// of `function`'s symbols.
Result<std::vector<TypeId>> infer_op(Module &module, Op op, std::span<const TypeId> operands,
                                     std::span<const Attribute> attributes,
                                     const Function *function = nullptr);

} // namespace cugrt::ir
