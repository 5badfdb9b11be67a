// Result types of ops that move elements, or only say anew how they lie.
#include "ops/table/infer_op.h"

#include <algorithm>

namespace cugrt::ir {

ExprId Inference::product(const Dims &dims) const {
  ExprId total = constant(1);
  for (ExprId d : dims)
    total = m.exprs.mul(total, d);
  return total;
}

/// The attribute's dimensions; a single -1 becomes what is left over.
Result<Dims> Inference::attribute_shape(ExprId total) const {
  Dims out;
  size_t open = SIZE_MAX;
  for (int64_t d : op_integers(op, attributes, "shape")) {
    if (d < -1 || (d == -1 && open != SIZE_MAX))
      return wrong("attribute 'shape' has dimensions of at least 0 and at most one -1");
    if (d == -1)
      open = out.size();
    out.push_back(constant(d == -1 ? 1 : d));
  }
  if (open != SIZE_MAX) {
    ExprId rest = product(out);
    if (known(rest) == 0)
      return wrong("the -1 of attribute 'shape' is undetermined beside a dimension 0");
    out[open] = m.exprs.floordiv(total, rest);
  }
  return out;
}

Types Inference::reshape() const {
  if (info(type(0).dtype).elements_per_block != 1)
    return wrong("packed and block dtypes cannot be reshaped");
  ExprId total = product(dims(0));
  bool given = std::any_of(attributes.begin(), attributes.end(),
                           [](const Attribute &a) { return a.name == "shape"; });
  if (given == has(1))
    return wrong("takes either a shape operand or attribute 'shape'");
  Dims out;
  if (has(1)) {
    out = dims(1);
  } else {
    CUGRT_ASSIGN(out, attribute_shape(total));
  }
  CUGRT_TRY(check_equal(total, product(out), "numbers of elements before and after reshape"));
  return one(type(0).dtype, std::move(out));
}

Types Inference::transpose() const {
  std::vector<int64_t> axes = op_integers(op, attributes, "axes");
  if (info(type(0).dtype).elements_per_block != 1)
    return wrong("packed and block dtypes cannot be transposed");
  Dims out;
  if (axes.empty()) {
    out.assign(dims(0).rbegin(), dims(0).rend());
    return one(type(0).dtype, std::move(out));
  }
  std::vector<bool> used(rank(0), false);
  for (int64_t axis : axes) {
    CUGRT_ASSIGN(size_t a, axis_of(axis, 0));
    if (used[a])
      return wrong("axis " + std::to_string(axis) + " is given twice");
    used[a] = true;
    out.push_back(dims(0)[a]);
  }
  if (out.size() != rank(0))
    return wrong("attribute 'axes' lists every axis once");
  return one(type(0).dtype, std::move(out));
}

Types Inference::concat() const {
  CUGRT_ASSIGN(size_t axis, axis_of(op_integer(op, attributes, "axis"), 0));
  Dims out = dims(0);
  for (size_t i = 1; i < operands.size(); ++i) {
    CUGRT_TRY(check_same_dtype(i));
    CUGRT_TRY(check_rank(i, rank(0)));
    for (size_t d = 0; d < out.size(); ++d)
      if (d != axis)
        CUGRT_TRY(check_equal(out[d], dims(i)[d], "dimensions beside the axis of concat"));
    out[axis] = m.exprs.add(out[axis], dims(i)[axis]);
  }
  return one(type(0).dtype, std::move(out));
}

Types Inference::split() const {
  CUGRT_ASSIGN(size_t axis, axis_of(op_integer(op, attributes, "axis"), 0));
  std::vector<int64_t> sections = op_integers(op, attributes, "sections");
  if (sections.empty() || sections.size() > op_info(op).most_results)
    return wrong("attribute 'sections' has 1 to " + std::to_string(op_info(op).most_results) +
                 " sizes");
  ExprId total = constant(0);
  for (int64_t s : sections) {
    if (s < 0)
      return wrong("sections are not negative");
    total = m.exprs.add(total, constant(s));
  }
  Dims out = dims(0);
  CUGRT_TRY(check_equal(out[axis], total, "the split dimension and the sum of the sections"));
  std::vector<TypeId> types;
  for (int64_t s : sections) {
    out[axis] = constant(s);
    types.push_back(m.types.tensor(m.types[operands[0]].dtype, out));
  }
  return types;
}

Types Inference::embedding() const {
  CUGRT_TRY(check_float(0));
  CUGRT_TRY(check_rank(0, 2));
  if (type(1).dtype != DType::i32 && type(1).dtype != DType::i64)
    return wrong("operand 2 of embedding has dtype i32 or i64");
  Dims out = dims(1);
  out.push_back(dims(0)[1]);
  return one(type(0).dtype, std::move(out));
}

Types Inference::embedding_blocks() const {
  CUGRT_TRY(check_blocks(0));
  CUGRT_TRY(check_whole_blocks(dims(0)[1], type(0).dtype));
  if (type(1).dtype != DType::i32 && type(1).dtype != DType::i64)
    return wrong("operand 2 of embedding_blocks has dtype i32 or i64");
  const DType dtype = op_dtype(op, attributes, "dtype");
  if (info(dtype).kind != DTypeKind::floating)
    return wrong("attribute 'dtype' is a floating-point dtype");
  Dims out = dims(1);
  out.push_back(dims(0)[1]);
  return one(dtype, std::move(out));
}

} // namespace cugrt::ir
