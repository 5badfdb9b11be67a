// Walks over tensors, by strides: the dimensions of an index space with one stride for each tensor.
#pragma once

#include "base/type/type.h"
#include "ops/table/ops.h"

#include <vector>

namespace cugrt::codegen {

struct Dimension {
  ir::ExprId size;
  std::vector<ir::ExprId>
      strides; // in elements, one for each tensor; constant 0 where it broadcasts
};

/// Strides of a contiguous tensor, in elements.
std::vector<ir::ExprId> contiguous_strides(ir::ExprPool &exprs, std::span<const ir::ExprId> dims);
/// A tensor's strides, whether its type gives them or it is contiguous.
std::vector<ir::ExprId> strides_of(ir::ExprPool &exprs, const ir::Type &tensor);
/// Product of the dimensions; 1 for none.
ir::ExprId element_count(ir::ExprPool &exprs, std::span<const ir::ExprId> dims);

/// The strides with which `tensor` is walked over `dims` when it broadcasts to them as NumPy does:
/// aligned at the last dimension, 0 along those that it lacks or has as 1.
std::vector<ir::ExprId> broadcast_strides(ir::ExprPool &exprs, const ir::Type &tensor,
                                          std::span<const ir::ExprId> dims);

/// The slice that begins at `begins` and has `sizes`.
std::vector<ir::SliceDimension> slice_of_shapes(std::span<const ir::ExprId> begins,
                                                std::span<const ir::ExprId> sizes);
/// The first index of a slice that takes one run of elements from a contiguous tensor of dimensions
/// `dims`. Invalid for other slices.
ir::ExprId run_begin(ir::ExprPool &exprs, std::span<const ir::ExprId> dims,
                     std::span<const ir::SliceDimension> slice);

/// Fewest dimensions for the same walk: those of size 1 go, and neighbours (outermost first) become
/// one wherever every tensor's outer stride is its inner stride times the inner size.
std::vector<Dimension> merge(ir::ExprPool &exprs, std::vector<Dimension> dimensions);

} // namespace cugrt::codegen
