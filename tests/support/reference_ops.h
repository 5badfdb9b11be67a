// The tensor-level ops in double precision, written from their definitions: what kernels and whole
// runs are compared with. Plain loops, no cleverness, no code shared with the library's kernels.
#pragma once

#include "ops/table/ops.h"

#include <cstdint>
#include <span>
#include <vector>

namespace cugrt::test {

/// A contiguous tensor of any dtype; integers and bools are exact in a double up to 2^53.
struct Array {
  std::vector<int64_t> dims;
  std::vector<double> values;

  int64_t count() const;
  /// All zeros.
  static Array of(std::vector<int64_t> dims);
};

/// The results of one op. Absent operands are nullptr. A shape operand (of reshape) is an Array of
/// rank 1. Attributes are as in the IR; the op must be one that inference accepts. Results are not
/// rounded to their dtype, except by cast; of integers, named by `dtype`, they keep the low bits.
std::vector<Array> evaluate_op(ir::Op op, std::span<const Array *const> operands,
                               std::span<const ir::Attribute> attributes,
                               ir::DType dtype = ir::DType::f32);

/// Element `at` of rows of blocks of GGUF, given as bytes.
double block_element(ir::DType format, const std::vector<double> &bytes, int64_t at);

/// `value` after a conversion to `dtype` (plain types): rounded to nearest even for floats; for
/// integers truncated and limited to the type's range, a NaN to 0.
double round_to(ir::DType dtype, double value);
/// A whole number after a conversion to `dtype` that keeps its low bits where that is an integer
/// type.
double wrap_to(ir::DType dtype, double value);

} // namespace cugrt::test
