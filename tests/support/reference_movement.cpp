// Reference arithmetic: ops that move elements.
#include "support/reference_call.h"

#include <cmath>
#include <limits>
#include <stdexcept>

namespace cugrt::test {

std::vector<Array> reference_reshape(const Call &call) {
  Array y = call.operand(0);
  if (const Array *shape = call.optional(1)) {
    y.dims.assign(shape->values.begin(), shape->values.end());
    return {y};
  }
  y.dims = call.integers("shape");
  for (int64_t &dim : y.dims)
    if (dim == -1) {
      dim = 1;
      dim = int64_t(y.values.size()) / product(y.dims);
    }
  return {y};
}

std::vector<Array> reference_transpose(const Call &call) {
  const Array &x = call.operand(0);
  Dims axes = call.integers("axes");
  if (axes.empty())
    for (size_t i = x.dims.size(); i-- > 0;)
      axes.push_back(int64_t(i));
  Dims dims;
  for (int64_t &axis : axes) {
    axis += axis < 0 ? int64_t(x.dims.size()) : 0;
    dims.push_back(x.dims[size_t(axis)]);
  }
  Array y = Array::of(dims);
  for (size_t i = 0; i < y.values.size(); ++i) {
    const Dims at = coordinates(int64_t(i), dims);
    Dims from(at.size());
    for (size_t d = 0; d < at.size(); ++d)
      from[size_t(axes[d])] = at[d];
    y.values[i] = x.values[size_t(index_of(from, x.dims))];
  }
  return {y};
}

// Moves between a whole and its parts along an axis.
void each_part_element(const Dims &whole, const Dims &part, size_t axis, int64_t begin,
                       const auto &move) {
  for (int64_t i = 0; i < product(part); ++i) {
    Dims at = coordinates(i, part);
    at[axis] += begin;
    move(size_t(index_of(at, whole)), size_t(i));
  }
}

std::vector<Array> reference_concat(const Call &call) {
  Dims dims = call.operand(0).dims;
  const size_t axis = call.axis();
  dims[axis] = 0;
  for (const Array *part : call.operands)
    dims[axis] += part->dims[axis];
  Array y = Array::of(dims);
  int64_t begin = 0;
  for (const Array *part : call.operands) {
    each_part_element(dims, part->dims, axis, begin,
                      [&](size_t to, size_t from) { y.values[to] = part->values[from]; });
    begin += part->dims[axis];
  }
  return {y};
}

std::vector<Array> reference_split(const Call &call) {
  const Array &x = call.operand(0);
  const size_t axis = call.axis();
  std::vector<Array> parts;
  int64_t begin = 0;
  for (int64_t section : call.integers("sections")) {
    Dims dims = x.dims;
    dims[axis] = section;
    parts.push_back(Array::of(dims));
    each_part_element(x.dims, dims, axis, begin,
                      [&](size_t from, size_t to) { parts.back().values[to] = x.values[from]; });
    begin += section;
  }
  return parts;
}

std::vector<Array> reference_embedding(const Call &call) {
  const Array &table = call.operand(0);
  return {looked_up(table, call.operand(1), [&](int64_t i) { return table.values[size_t(i)]; })};
}

} // namespace cugrt::test
