// Result types of matrix products, convolutions, pools, softmax and norms.
#include "ir/ops_infer.h"

namespace cugrt::ir {

Types Inference::matmul() const {
  CUGRT_TRY(check_float(0));
  CUGRT_TRY(check_same_dtype(1));
  if (rank(0) < 2 || rank(1) < 2)
    return wrong("matmul needs operands of rank 2 or more");
  const Dims &a = dims(0), &b = dims(1);
  CUGRT_TRY(check_equal(a[a.size() - 1], b[b.size() - 2], "inner dimensions of matmul"));
  CUGRT_ASSIGN(Dims out,
               broadcast(std::span(a).first(a.size() - 2), std::span(b).first(b.size() - 2)));
  CUGRT_TRY(check_vector(2, b.back()));
  out.push_back(a[a.size() - 2]);
  out.push_back(b.back());
  return one(type(0).dtype, std::move(out));
}

/// floor((size + 2 padding - dilation (window - 1) - 1) / stride) + 1.
Result<ExprId> Inference::windowed(ExprId size, ExprId window, int64_t stride, int64_t padding,
                                   int64_t dilation) const {
  ExprPool &e = m.exprs;
  ExprId reach = e.add(e.mul(e.sub(window, constant(1)), constant(dilation)), constant(1));
  ExprId steps = e.sub(e.add(size, constant(2 * padding)), reach);
  if (auto last = known(steps); last && *last < 0)
    return wrong("the window is larger than the padded input by " + std::to_string(-*last));
  return e.add(e.floordiv(steps, constant(stride)), constant(1));
}

Types Inference::conv2d() const {
  CUGRT_TRY(check_float(0));
  CUGRT_TRY(check_same_dtype(1));
  CUGRT_TRY(check_rank(0, 4));
  CUGRT_TRY(check_rank(1, 4));
  CUGRT_ASSIGN(auto strides, pair("strides", 1));
  CUGRT_ASSIGN(auto padding, pair("padding", 0));
  CUGRT_ASSIGN(auto dilation, pair("dilation", 1));
  int64_t groups = op_integer(op, attributes, "groups");
  const Dims x = dims(0), w = dims(1);
  if (groups < 1 || groups > kMaxWindow)
    return wrong("attribute 'groups' is at least 1");
  if (auto out = known(w[0]); out && *out % groups != 0)
    return wrong("the weight's " + std::to_string(*out) + " output channels do not divide into " +
                 std::to_string(groups) + " groups");
  CUGRT_TRY(check_equal(x[1], m.exprs.mul(w[1], constant(groups)),
                        "the input's channels and the weight's times groups"));
  CUGRT_TRY(check_vector(2, w[0]));
  CUGRT_ASSIGN(ExprId h, windowed(x[2], w[2], strides[0], padding[0], dilation[0]));
  CUGRT_ASSIGN(ExprId v, windowed(x[3], w[3], strides[1], padding[1], dilation[1]));
  return one(type(0).dtype, {x[0], w[0], h, v});
}

Types Inference::pool2d() const {
  CUGRT_TRY(check_float(0));
  CUGRT_TRY(check_rank(0, 4));
  CUGRT_ASSIGN(auto kernel, pair("kernel", 1));
  CUGRT_ASSIGN(auto strides, pair("strides", 1));
  CUGRT_ASSIGN(auto padding, pair("padding", 0));
  if (padding[0] >= kernel[0] || padding[1] >= kernel[1])
    return wrong("padding of a pool is smaller than its kernel");
  const Dims x = dims(0);
  CUGRT_ASSIGN(ExprId h, windowed(x[2], constant(kernel[0]), strides[0], padding[0], 1));
  CUGRT_ASSIGN(ExprId v, windowed(x[3], constant(kernel[1]), strides[1], padding[1], 1));
  return one(type(0).dtype, {x[0], x[1], h, v});
}

Types Inference::softmax() const {
  CUGRT_TRY(check_float(0));
  CUGRT_TRY(axis_of(op_integer(op, attributes, "axis"), 0).take_status());
  return one(type(0).dtype, dims(0));
}

Types Inference::norm() const {
  CUGRT_TRY(check_float(0));
  if (rank(0) == 0)
    return wrong("a norm needs at least rank 1");
  double epsilon = op_float(op, attributes, "epsilon");
  if (!(epsilon >= 0 && epsilon <= 1))
    return wrong("attribute 'epsilon' is from 0 to 1");
  CUGRT_TRY(check_vector(1, dims(0).back()));
  CUGRT_TRY(check_vector(2, dims(0).back()));
  return one(type(0).dtype, dims(0));
}

} // namespace cugrt::ir
