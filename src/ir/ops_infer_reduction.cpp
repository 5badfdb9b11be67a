// Result types of reductions along axes.
#include "ir/ops_infer.h"

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
  CUGRT_TRY(check_float(0));
  return without_axes(type(0).dtype, op_integers(op, attributes, "axes"));
}

Types Inference::argmax() const {
  CUGRT_TRY(check_float(0));
  return without_axes(DType::i64, {op_integer(op, attributes, "axis")});
}

} // namespace cugrt::ir
