// Strides, broadcasting, merging of dimensions.
#include "ops/emit/index_space.h"

#include "base/check.h"

namespace cugrt::codegen {

std::vector<ir::ExprId> contiguous_strides(ir::ExprPool &exprs, std::span<const ir::ExprId> dims) {
  std::vector<ir::ExprId> strides(dims.size());
  ir::ExprId stride = exprs.constant(1);
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride = exprs.mul(stride, dims[i]);
  }
  return strides;
}

std::vector<ir::ExprId> strides_of(ir::ExprPool &exprs, const ir::Type &tensor) {
  return tensor.strides.empty() ? contiguous_strides(exprs, tensor.dims) : tensor.strides;
}

ir::ExprId element_count(ir::ExprPool &exprs, std::span<const ir::ExprId> dims) {
  ir::ExprId count = exprs.constant(1);
  for (ir::ExprId dim : dims)
    count = exprs.mul(count, dim);
  return count;
}

std::vector<ir::ExprId> broadcast_strides(ir::ExprPool &exprs, const ir::Type &tensor,
                                          std::span<const ir::ExprId> dims) {
  CUGRT_CHECK(tensor.dims.size() <= dims.size());
  const std::vector<ir::ExprId> own = strides_of(exprs, tensor);
  const size_t missing = dims.size() - own.size();
  std::vector<ir::ExprId> strides(dims.size(), exprs.constant(0));
  for (size_t i = 0; i < own.size(); ++i)
    if (exprs.as_constant(tensor.dims[i]) != 1)
      strides[missing + i] = own[i];
  return strides;
}

std::vector<ir::SliceDimension> slice_of_shapes(std::span<const ir::ExprId> begins,
                                                std::span<const ir::ExprId> sizes) {
  std::vector<ir::SliceDimension> slice;
  for (size_t d = 0; d < begins.size(); ++d)
    slice.push_back({begins[d], sizes[d], 1});
  return slice;
}

ir::ExprId run_begin(ir::ExprPool &exprs, std::span<const ir::ExprId> dims,
                     std::span<const ir::SliceDimension> slice) {
  // Along one axis, with nothing but ones before it and all of those behind it.
  size_t axis = 0;
  while (axis < dims.size() && slice[axis].size == dims[axis] && exprs.as_constant(dims[axis]) == 1)
    ++axis;
  for (size_t d = 0; d < dims.size(); ++d)
    if (slice[d].step != 1 || (d > axis && slice[d].size != dims[d]))
      return {};
  return axis < dims.size()
             ? exprs.mul(slice[axis].begin, element_count(exprs, dims.subspan(axis + 1)))
             : exprs.constant(0);
}

std::vector<Dimension> merge(ir::ExprPool &exprs, std::vector<Dimension> dimensions) {
  std::vector<Dimension> merged;
  for (Dimension &inner : dimensions) {
    if (exprs.as_constant(inner.size) == 1)
      continue;
    bool joins = !merged.empty();
    for (size_t t = 0; joins && t < inner.strides.size(); ++t)
      joins = merged.back().strides[t] == exprs.mul(inner.strides[t], inner.size);
    if (joins) {
      merged.back().size = exprs.mul(merged.back().size, inner.size);
      merged.back().strides = std::move(inner.strides);
    } else {
      merged.push_back(std::move(inner));
    }
  }
  return merged;
}

} // namespace cugrt::codegen
