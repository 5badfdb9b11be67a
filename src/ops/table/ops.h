// Tensor-level ops. Their rows are ops.def, the rules of result types the files of the families
// beside them, the reader's version docs/ir.md.
#pragma once

#include "ir/module/op.h"

namespace cugrt::ir {

enum class Op : uint32_t {
#define CUGRT_OP(name, ...) name,
#include "ops/table/ops.def"
};

/// The place of `word` among `words`, which spaces separate.
std::optional<size_t> word_number(std::string_view words, std::string_view word);

/// `axis` counted from the front; negative ones count from the end. None outside the rank.
std::optional<size_t> normalize_axis(int64_t axis, size_t rank);

/// One dimension of a slice: `size` elements of a dimension, `step` apart, from `begin` on.
struct SliceDimension {
  ExprId begin, size;
  int64_t step;
};
/// Applies a slice's attributes to a tensor of dimensions `dims`, by Python's rules: negative
/// positions count from the end, positions outside are left out.
Result<std::vector<SliceDimension>> slice_dimensions(ExprPool &exprs, std::span<const ExprId> dims,
                                                     std::span<const Attribute> attributes);

/// The pattern of an op on operands of these types (absent ones invalid): a `broadcast` op is
/// `elementwise` if some operand has the result's dimensions.
OpPattern op_pattern(const Module &module, Op op, std::span<const TypeId> operands, TypeId result);

} // namespace cugrt::ir
