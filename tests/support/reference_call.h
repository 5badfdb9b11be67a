// One op's operands and attributes, and indices, for the reference arithmetic in reference_*.cpp.
// Indices are taken apart and put together by general helpers. Speed is no aim, but what is done
// for each factor of a sum allocates nothing: under a sanitizer that would take most of a test's
// time.
#pragma once

#include "support/reference_ops.h"

namespace cugrt::test {

using ir::Op;
using Dims = std::vector<int64_t>;

int64_t product(const Dims &dims, size_t begin = 0, size_t end = SIZE_MAX);
Dims coordinates(int64_t index, const Dims &dims);
int64_t index_of(std::span<const int64_t> at, const Dims &dims);
inline int64_t index_of(std::initializer_list<int64_t> at, const Dims &dims) {
  return index_of(std::span(at.begin(), at.size()), dims);
}
/// The element of `x` that result coordinates `at` see under NumPy's broadcasting.
double broadcast_at(const Array &x, std::span<const int64_t> at);
Dims broadcast_dims(const Dims &a, const Dims &b);

// One op's operands and attributes.
struct Call {
  Op op;
  std::span<const Array *const> operands;
  std::span<const ir::Attribute> attributes;
  ir::DType dtype; // of the operands that the arithmetic is on

  bool is_integer() const {
    return ir::info(dtype).kind == ir::DTypeKind::signed_integer ||
           ir::info(dtype).kind == ir::DTypeKind::unsigned_integer;
  }
  /// A result of the operands' dtype: integers keep their low bits.
  double stored(double value) const { return is_integer() ? wrap_to(dtype, value) : value; }
  const Array &operand(size_t i) const { return *operands[i]; }
  const Array *optional(size_t i) const { return i < operands.size() ? operands[i] : nullptr; }
  int64_t integer(std::string_view name) const { return ir::op_integer(op, attributes, name); }
  Dims integers(std::string_view name) const { return ir::op_integers(op, attributes, name); }
  double number(std::string_view name) const { return ir::op_float(op, attributes, name); }
  std::string text(std::string_view name) const { return ir::op_string(op, attributes, name); }
  bool flag(std::string_view name) const { return ir::op_bool(op, attributes, name); }
  size_t axis() const {
    const int64_t axis = integer("axis");
    return size_t(axis < 0 ? axis + int64_t(operand(0).dims.size()) : axis);
  }
};

// Calls row(begin, stride, length) for every line of `x` along `axis`.
template <class Row> void each_line(const Array &x, size_t axis, Row row) {
  const int64_t inner = product(x.dims, axis + 1), length = x.dims[axis];
  for (int64_t outer = 0; outer < product(x.dims, 0, axis); ++outer)
    for (int64_t i = 0; i < inner; ++i)
      row(outer * length * inner + i, inner, length);
}

// Rows of a table [v, d] by ids, the nearest where there is none: element(i) is the table's.
template <class Element> Array looked_up(const Array &table, const Array &ids, Element element) {
  Dims dims = ids.dims;
  const int64_t rows = table.dims[0], width = table.dims[1];
  dims.push_back(width);
  Array y = Array::of(dims);
  for (size_t i = 0; i < y.values.size() && rows > 0; ++i) {
    const auto id = int64_t(ids.values[i / size_t(width)]);
    const int64_t row = std::min(std::max(id, int64_t(0)), rows - 1);
    y.values[i] = element(row * width + int64_t(i) % width);
  }
  return y;
}

double binary(Op op, double a, double b);

/// A convolution's result, channels second, whose channels are those of phases: their pixels
/// between one another, without what is cut off.
Array spread(const Call &call, const Array &y);

// The rules, by the names in rows.
#define rule(name) std::vector<Array> reference_##name(const Call &call);
#define same(name)
#define CUGRT_OP(name, operands, results, RULE, ...) RULE
#include "ops/table/ops.def"

} // namespace cugrt::test
