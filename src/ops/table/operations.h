// How many operations an op is, and of what kind: what tables of times set against the device.
#pragma once

#include "ops/table/ops.h"

namespace cugrt::ir {

/// Kinds of operations for which a device has different rates.
enum class OperationKind : uint8_t {
  vector, // additions, multiplications, comparisons and functions, one by one
  f16,    // of products of f16 or bf16, which tensor cores take
  int8,   // of products of i8 or u8, likewise
  f64,
};
inline constexpr size_t kOperationKinds = 4;

/// A tensor whose sizes are expressions, or nothing, in the place of an absent operand or a shape.
struct SizedTensor {
  bool is_tensor = false;
  DType dtype = DType::f32;
  std::vector<ExprId> dims{};
};

/// A number times sizes.
struct OperationTerm {
  double factor = 1;
  std::vector<ExprId> sizes{};
};

struct Operations {
  OperationKind kind = OperationKind::vector;
  std::vector<OperationTerm> terms{}; // their sum is how many
};

/// Counts a checked op on these operands. A product and its sum are two; moving elements is none; a
/// function of an element is one. The count follows the op's definition for these sizes, however
/// kernels compute it: lengths, masks and zero padding reduce nothing. docs/measuring.md is the
/// reader's version.
Operations count_operations(Op op, std::span<const SizedTensor> operands,
                            std::span<const SizedTensor> results,
                            std::span<const Attribute> attributes);

} // namespace cugrt::ir
