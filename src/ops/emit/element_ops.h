// Single elements in CUDA C++: types, numbers, and the functions of ops
// (kernels/elementwise/elementwise.cuh on floats, kernels/elementwise/integers.cuh on integers and
// bools).
#pragma once

#include "ir/module/module.h"
#include "ops/table/ops.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cugrt::codegen {

/// The type of elements of `dtype` in CUDA C++; empty for those that it has no plain type for.
std::string_view element_type(ir::DType dtype);

/// `value` as an element of a plain dtype: rounded, or truncated and limited, as the library's
/// kernels are given it. The text has that type or a wider one that holds it exactly.
std::string element_literal(ir::DType dtype, double value);

/// Whether an op computes each element from the elements of the same index by a function.
inline bool is_elementwise_function(ir::Op op) { return is_part(op, ir::OpPart::function); }
/// The name of that function, without its namespace: the op's own, or that of what its attributes
/// choose.
std::string elementwise_function(ir::Op op, std::span<const ir::Attribute> attributes);
/// Attributes that the function takes as numbers, in the order of its parameters.
std::vector<std::string_view> elementwise_parameters(ir::Op op);

/// Whether a pad repeats elements, those at the edge or mirrored ones.
bool repeats_elements(ir::Op op, std::span<const ir::Attribute> attributes);

/// An op without a kernel: its results are bytes of its first operand.
struct OpView {
  bool is_operand = false;               // the result is the operand itself
  std::vector<ir::ExprId> offsets_bytes; // of each result, within the operand
};

/// The results of an op on contiguous tensors of known shape, where they are runs of bytes of
/// operand 0; otherwise none. Absent operands have an invalid type. Errors are those of attributes.
Result<std::optional<OpView>> op_view(ir::Module &module, ir::Op op,
                                      std::span<const ir::TypeId> operands,
                                      std::span<const ir::TypeId> results,
                                      std::span<const ir::Attribute> attributes);

} // namespace cugrt::codegen
