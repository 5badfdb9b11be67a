// Values that ops spread over more elements: scales of channels, beside images; and ops that each
// of their readers can do for itself. Private to FuseOps.
#pragma once

#include "compiler/passes/value_uses.h"
#include "ops/table/ops.h"

#include <algorithm>

namespace cugrt::passes {

/// Most bytes that further readers of a transposition read across, instead of from what a launch
/// has turned: in the time of a launch a device reads about as many. The first one reads what that
/// would have read, and written besides.
constexpr int64_t kMostTurnedBytes = 8 << 20;

/// Whether an op takes or moves elements, and does no more: a slice or a transposition.
inline bool only_moves(const ir::Binding &op) {
  return ir::is_op(op, ir::Op::slice) || ir::is_op(op, ir::Op::transpose);
}

/// Whether the op only takes or moves elements, and each of so many readers can do that as it
/// reads.
inline bool moves_for_readers(const ir::Module &module, const ir::Function &function,
                              const ir::Binding &op, size_t readers) {
  if (!only_moves(op))
    return false;
  if (ir::is_op(op, ir::Op::slice) || readers < 2)
    return true;
  const ir::Type &type = module.types[function.value(op.result()).type];
  double bytes = double(readers - 1) * ir::info(type.dtype).bytes_per_block;
  for (ir::ExprId dim : type.dims)
    bytes *= double(module.exprs.as_constant(dim).value_or(kMostTurnedBytes));
  return bytes <= double(kMostTurnedBytes);
}

class SpreadValues {
public:
  SpreadValues(const ir::Module &module, const ir::Function &function)
      : module_(module), function_(function), is_spread_(function.values.size()),
        is_reduced_(function.values.size()) {
    const ValueUses uses(function);
    for (auto block = function.blocks.rbegin(); block != function.blocks.rend(); ++block)
      for (auto b = block->bindings.rbegin(); b != block->bindings.rend(); ++b) {
        if (b->result_count == 1)
          is_reduced_[b->first_result] =
              std::ranges::any_of(uses.readers(b->result()), [&](const ir::Binding *reader) {
                return reader->kind == ir::BindingKind::op &&
                       (ir::is_part(ir::op_of(*reader), ir::OpPart::reduces) ||
                        ir::is_part(ir::op_of(*reader), ir::OpPart::searches) ||
                        (is_elementwise(*reader) && is_reduced_[reader->first_result]));
              });
        if (b->result_count == 1 && !uses.is_yielded(b->result()))
          is_spread_[b->first_result] =
              !uses.readers(b->result()).empty() &&
              std::ranges::all_of(uses.readers(b->result()), [&](const ir::Binding *reader) {
                return spreads(*reader, b->result());
              });
      }
  }

  /// Whether a reduction reads the value, perhaps behind elementwise ops.
  bool is_reduced(ir::ValueId value) const { return is_reduced_[value.index]; }

  /// Whether the op only names or chooses elements, of one operand, that all that read its result
  /// spread, in turn behind elementwise ops or such ones.
  bool only_chooses(const ir::Binding &binding) const {
    return is_spread_[binding.first_result] && chooses(binding);
  }

private:
  static ir::OpPattern pattern(const ir::Binding &op) { return ir::op_info(ir::op_of(op)).pattern; }
  static bool is_elementwise(const ir::Binding &op) {
    return pattern(op) == ir::OpPattern::elementwise || pattern(op) == ir::OpPattern::broadcast;
  }
  const std::vector<ir::ExprId> &dims(ir::ValueId value) const {
    return module_.types[function_.value(value).type].dims;
  }
  bool is_one(ir::ExprId dim) const { return module_.exprs.as_constant(dim) == 1; }

  bool chooses(const ir::Binding &binding) const {
    const ir::Op op = ir::op_of(binding);
    return op == ir::Op::slice || op == ir::Op::gather ||
           (op == ir::Op::reshape && without_ones(function_.operands_of(binding)[0].value()) ==
                                         without_ones(binding.result()));
  }
  std::vector<ir::ExprId> without_ones(ir::ValueId value) const {
    std::vector<ir::ExprId> out = dims(value);
    std::erase_if(out, [&](ir::ExprId dim) { return is_one(dim); });
    return out;
  }

  bool spreads(const ir::Binding &reader, ir::ValueId value) const {
    if (reader.kind != ir::BindingKind::op || reader.result_count != 1)
      return false;
    if (!is_elementwise(reader))
      return is_spread_[reader.first_result] && chooses(reader) &&
             function_.operands_of(reader)[0] == ir::Operand::of(value);
    const std::vector<ir::ExprId> &own = dims(value), &wide = dims(reader.result());
    for (size_t d = 0; d < wide.size(); ++d)
      if (!is_one(wide[d]) &&
          (d + own.size() < wide.size() || is_one(own[d + own.size() - wide.size()])))
        return true;
    return is_spread_[reader.first_result];
  }

  const ir::Module &module_;
  const ir::Function &function_;
  std::vector<bool> is_spread_, is_reduced_; // by value
};

} // namespace cugrt::passes
