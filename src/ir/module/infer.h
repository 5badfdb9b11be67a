// Types that follow from other types: of operands, and of calls' results.
#pragma once

#include "ir/module/module.h"

#include <span>
#include <vector>

namespace cugrt::ir {

enum class Op : uint32_t;

/// The type of an operand: a value's own; int<e> for an expression e; of the literal; invalid for
/// none.
TypeId operand_type(Module &module, const Function &function, const Operand &operand);

/// The op that a text means by `op`, as src/ops answers: a product with the transpose of a matrix
/// of blocks is matmul_blocks, which has no attribute for that; it leaves `attributes`.
Op meant_op(const Module &module, Op op, std::span<const TypeId> operands,
            std::vector<Attribute> &attributes);

/// Maps the callee's symbols to the caller: symbol i becomes result[i], an expression of the
/// caller, or is invalid where the arguments do not determine it. A symbol is determined by the
/// first parameter, in order, in which it stands bare: as a dimension of a tensor or shape, or as
/// the integer itself.
std::vector<ExprId> bind_callee_symbols(const Module &module, const Function &callee,
                                        std::span<const TypeId> argument_types);

/// The type with symbol i replaced by replacement[i]; invalid when one that occurs has none.
TypeId substitute_type(Module &module, TypeId type, std::span<const ExprId> replacement);

/// The type of a value carried by a while block when none is written: that of its initial value,
/// without the value of an integer, which changes.
TypeId carried_type(Module &module, TypeId initial);

} // namespace cugrt::ir
