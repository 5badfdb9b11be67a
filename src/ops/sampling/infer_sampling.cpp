// Result types of ops that read between elements: resize and grid_sample.
#include "ops/table/infer_op.h"

#include <algorithm>

namespace cugrt::ir {

Types Inference::interpolate() const {
  CUGRT_TRY(op_string(op, attributes, "mode") == "nearest" ? check_whole_bytes(0) : check_float(0));
  CUGRT_TRY(check_rank(1, rank(0)));
  std::vector<bool> resized(rank(0), false);
  const std::vector<int64_t> axes = op_integers(op, attributes, "axes");
  for (int64_t given : axes) {
    CUGRT_ASSIGN(const size_t axis, axis_of(given, 0));
    if (std::find(resized.begin() + static_cast<ptrdiff_t>(axis), resized.end(), true) !=
        resized.end())
      return wrong("attribute 'axes' lists them in order, each once");
    resized[axis] = true;
  }
  const size_t count = axes.empty() ? rank(0) : axes.size();
  if (count < 1 || count > 4)
    return wrong("one to four axes are resized; name them by attribute 'axes'");
  for (size_t i = 0; i < rank(0); ++i)
    if (!axes.empty() && !resized[i])
      CUGRT_TRY(check_equal(dims(0)[i], dims(1)[i], "dimensions that are not resized"));
  const bool crops = op_string(op, attributes, "coordinates") == "tf_crop_and_resize";
  if (crops != has(3))
    return wrong("takes a region with coordinates \"tf_crop_and_resize\", and only with them");
  for (size_t i : {2, 3})
    if (has(i)) {
      CUGRT_TRY(check_dtype(i, DType::f32));
      CUGRT_TRY(check_rank(i, 1));
      CUGRT_TRY(check_equal(dims(i)[0], constant(static_cast<int64_t>(i == 2 ? count : 2 * count)),
                            i == 2 ? "scales and resized axes" : "bounds of the region"));
    }
  return one(type(0).dtype, dims(1));
}

Types Inference::grid_sample() const {
  CUGRT_TRY(check_float(0));
  CUGRT_TRY(check_same_dtype(1));
  if (rank(0) != 4 && rank(0) != 5)
    return wrong("operand 1 has rank 4 or 5: batch, channels, and two or three dimensions");
  CUGRT_TRY(check_rank(1, rank(0)));
  CUGRT_TRY(check_equal(dims(0)[0], dims(1)[0], "batches of operands"));
  CUGRT_TRY(check_equal(dims(1).back(), constant(static_cast<int64_t>(rank(0)) - 2),
                        "coordinates of a place and the dimensions"));
  if (rank(0) == 5 && op_string(op, attributes, "mode") == "cubic")
    return wrong("mode \"cubic\" is of two dimensions");
  Dims out = {dims(0)[0], dims(0)[1]};
  out.insert(out.end(), dims(1).begin() + 1, dims(1).end() - 1);
  return one(type(0).dtype, std::move(out));
}

} // namespace cugrt::ir
