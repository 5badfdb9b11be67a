// Which f32 values ToMixedPrecision makes narrow: f16 or bf16 (private to the pass).
//
// Decided for a function from front to back, before anything is rewritten:
//
//   %y = matmul(%x, %w)     allow    narrow, whatever its operands are
//   %z = relu(%y)           follow   narrow, since %y is; constants count as narrow
//   %u = add(%z, %x)        follow   f32, since %x is a parameter
//   %s = softmax(%z)        deny     f32
//   %t = reshape(%u)        follow   narrow, with a cast of %u, if all readers of both take them so
//
// Nested blocks stand in their place. What leaves a block, and what no op uses (launches, calls,
// host code), has its own dtype. A value whose bytes something may write stays as it is, whatever
// uses it.
#pragma once

#include "compiler/passes/pass.h"
#include "ir/module/module.h"
#include "ops/table/ops.h"

#include <vector>

namespace cugrt::passes {

using Precision = ir::OpPrecision;

/// The treatment of each op: the table ops/table/ops.def, overridden by the options mixed.allow and
/// so on.
class PrecisionTable {
public:
  /// invalid_argument when several of the options name one op.
  static Result<PrecisionTable> make(const PassContext &context);
  Precision operator[](ir::Op op) const { return rows_[static_cast<size_t>(op)]; }

  /// Casts stand before what only moves elements, where all that read it take it narrow.
  bool narrows_moves = true;

private:
  PrecisionTable();
  std::vector<Precision> rows_;
};

/// ToMixedPrecision with no other choices than the published pass has, for tests that compare them.
Result<ir::Module> to_published_mixed_precision(const ir::Module &module,
                                                const PassContext &context);

/// Decisions for one function.
class PrecisionChoices {
public:
  /// `source` is the module of `function`; `target` has its pools, and gets further types.
  PrecisionChoices(const ir::Module &source, const ir::Function &function, ir::Module &target,
                   const PrecisionTable &table, ir::DType narrow);

  /// Whether the pass is about this value: a tensor of f32 and known shape.
  bool is_f32(ir::ValueId value) const { return f32_[value.index]; }
  /// Whether the value itself becomes narrow; others may have a narrow copy.
  bool is_narrow(ir::ValueId value) const { return narrow_[value.index]; }
  /// Whether all that read the value take it narrow.
  bool only_narrow(ir::ValueId value) const {
    return read_narrow_[value.index] && !read_as_f32_[value.index];
  }
  /// Whether what reads the value as f32 reads its narrow copy, widened: the result of a norm that
  /// others read narrow, or of an elementwise op that products or convolutions do, where only
  /// elementwise ops read it as f32, such as the sum behind a layer. Then its kernel stores it
  /// narrow, and no cast stands beside it.
  bool is_rounded(ir::ValueId value) const {
    return rounds_[value.index] && read_narrow_[value.index] && read_as_f32_[value.index] &&
           !read_whole_[value.index];
  }
  bool is_written(ir::ValueId value) const { return written_[value.index]; }
  /// Whether an op is computed in the narrow dtype.
  bool is_narrow_op(const ir::Binding &op) const { return narrow_op_[op.first_result]; }
  /// Whether an operand stays in f32, whatever the op is computed in: masks, whose finite numbers
  /// hide, and have no like in f16, scales and regions of a resize and grids, which say places, and
  /// states that recurrent layers begin with, where not all are narrow.
  bool stays_f32(const ir::Binding &binding, size_t operand) const;
  /// Whether a recurrent layer that is computed in the narrow dtype gives its last states as f32.
  bool has_wide_states(const ir::Binding &op) const;
  /// Whether a binding gives another name to its operand, in the operand's dtype.
  bool renames(const ir::Binding &binding) const;
  /// The type of a narrow copy of an f32 value.
  ir::TypeId narrow_type(ir::ValueId value);

  /// Calls use(value, narrow) for each f32 value that a binding itself reads, in the dtype in which
  /// it reads it; what only its blocks use is left out.
  template <class Use> void for_uses(const ir::Binding &binding, Use use) const {
    const auto operands = function_.operands_of(binding);
    const size_t count = own_operands(binding);
    for (size_t i = 0; i < count; ++i)
      if (operands[i].kind == ir::Operand::Kind::value && is_f32(operands[i].value()))
        use(operands[i].value(), reads_narrow(binding, i));
  }
  /// Operands of a binding before those that its blocks capture.
  size_t own_operands(const ir::Binding &binding) const;

private:
  Precision precision_of(const ir::Binding &op, const PrecisionTable &table);
  bool can_be_narrow(const ir::Binding &op);
  bool reads_narrow(const ir::Binding &binding, size_t operand) const;
  void choose(uint32_t block);
  void keep_masks();
  void widen_last_states();
  bool views(const ir::Binding &op) const;
  void narrow_moves();
  void find_streams();
  void move_rounded();
  static bool is_elementwise(const ir::Binding &binding);
  static bool is_reduction(const ir::Binding &binding);
  void count_uses(uint32_t block);
  bool follows_narrow(const ir::Binding &op) const;
  bool is_of_constants(const ir::Binding &op, bool weights) const;
  bool is_image_scale(const ir::Binding &op, ir::ValueId operand) const;

  ir::Module &module_;
  const ir::Function &function_;
  ir::DType narrow_dtype_;
  const bool narrows_moves_; // as the table has it
  // A bit a value. read_whole_: ops that are not elementwise read it as f32; of_weights_: it
  // follows from weights and constants alone.
  std::vector<bool> f32_, written_, constant_, of_weights_, narrow_, rounds_, read_narrow_,
      read_as_f32_, read_whole_;
  std::vector<Precision> precision_; // by first result of an op
  std::vector<bool> narrow_op_, narrow_result_;
};

/// For each value: whether a binding may write its bytes, under any name.
std::vector<bool> find_written_values(const ir::Module &module, const ir::Function &function);

} // namespace cugrt::passes
