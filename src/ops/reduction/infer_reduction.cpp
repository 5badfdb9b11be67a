// Result types of reductions along axes.
#include "ops/table/infer_op.h"

namespace cugrt::ir {

Types Inference::without_axes(DType result, std::vector<int64_t> axes) const {
  bool keep = op_bool(op, attributes, "keep_dims");
  std::vector<bool> reduced(rank(0), axes.empty());
  for (int64_t axis : axes) {
    CUGRT_ASSIGN(size_t a, axis_of(axis, 0));
    if (reduced[a])
      return wrong("axis " + std::to_string(axis) + " is given twice");
    reduced[a] = true;
  }
  Dims out;
  for (size_t i = 0; i < rank(0); ++i)
    if (!reduced[i])
      out.push_back(dims(0)[i]);
    else if (keep)
      out.push_back(constant(1));
  return one(result, std::move(out));
}

Types Inference::reduce() const {
  CUGRT_TRY(op == Op::reduce_mean ? check_float(0) : check_number(0));
  return without_axes(type(0).dtype, op_integers(op, attributes, "axes"));
}

Types Inference::argmax() const {
  CUGRT_TRY(check_number(0));
  return without_axes(DType::i64, {op_integer(op, attributes, "axis")});
}

Types Inference::cumsum() const {
  CUGRT_TRY(check_number(0));
  CUGRT_TRY(axis_of(op_integer(op, attributes, "axis"), 0).take_status());
  return one(type(0).dtype, dims(0));
}

Types Inference::top_k() const {
  CUGRT_TRY(check_number(0));
  CUGRT_ASSIGN(const size_t axis, axis_of(op_integer(op, attributes, "axis"), 0));
  const int64_t k = op_integer(op, attributes, "k");
  Dims out = dims(0);
  if (const std::optional<int64_t> size = known(out[axis]); k < 0 || (size && k > *size))
    return wrong("attribute 'k' is " + std::to_string(k) + ", of a dimension of " +
                 text(out[axis]));
  if (range_of(out[axis]).lower < k)
    return wrong("the dimension that top_k searches, " + text(out[axis]) +
                 ", cannot be shown to have k elements; bound it from below");
  out[axis] = constant(k);
  const DType dtype = type(0).dtype;
  return std::vector<TypeId>{m.types.tensor(dtype, out), m.types.tensor(DType::i64, out)};
}

} // namespace cugrt::ir
