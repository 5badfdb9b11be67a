// Result types of matrix products, convolutions, pools, softmax and norms.
#include "ir/ops_infer.h"

#include <algorithm>

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

Types Inference::matmul_blocks() const {
  CUGRT_TRY(check_float(0));
  CUGRT_TRY(check_rank(1, 2));
  if (info(type(1).dtype).kind != DTypeKind::block)
    return wrong("operand 2 has dtype " + std::string(info(type(1).dtype).name) +
                 ", a block format (q4_0, q4_1 or q8_0) is needed");
  if (rank(0) == 0)
    return wrong("operand 1 has rank 1 or more");
  CUGRT_TRY(check_equal(dims(0).back(), dims(1)[1], "inner dimensions"));
  const int64_t elements = info(type(1).dtype).elements_per_block;
  if (std::optional<int64_t> k = known(dims(1)[1]); !k || *k % elements != 0)
    return wrong("the inner dimension is a constant multiple of the " + std::to_string(elements) +
                 " elements of a block, not " + text(dims(1)[1]));
  CUGRT_TRY(check_vector(2, dims(1)[0]));
  Dims out = dims(0);
  out.back() = dims(1)[0];
  return one(type(0).dtype, std::move(out));
}

Result<ExprId> Inference::windowed(ExprId size, ExprId window, int64_t stride,
                                   const std::array<int64_t, 2> &padding, int64_t dilation) const {
  ExprPool &e = m.exprs;
  ExprId reach = e.add(e.mul(e.sub(window, constant(1)), constant(dilation)), constant(1));
  ExprId steps = e.sub(e.add(size, constant(padding[0] + padding[1])), reach);
  if (auto last = known(steps); last && *last < 0)
    return wrong("the window is larger than the padded input by " + std::to_string(-*last));
  return e.add(e.floordiv(steps, constant(stride)), constant(1));
}

Types Inference::convolution(size_t axes) const {
  CUGRT_TRY(check_float(0));
  CUGRT_TRY(check_same_dtype(1));
  CUGRT_TRY(check_rank(0, 2 + axes));
  CUGRT_TRY(check_rank(1, 2 + axes));
  CUGRT_ASSIGN(const auto strides, window_list("strides", axes, 1));
  CUGRT_ASSIGN(const auto padding, paddings(axes));
  CUGRT_ASSIGN(const auto dilation, window_list("dilation", axes, 1));
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
  Dims out = {x[0], w[0]};
  for (size_t i = 0; i < axes; ++i) {
    CUGRT_ASSIGN(const ExprId size,
                 windowed(x[2 + i], w[2 + i], strides[i], padding[i], dilation[i]));
    out.push_back(size);
  }
  return one(type(0).dtype, std::move(out));
}

Types Inference::conv1d() const { return convolution(1); }
Types Inference::conv2d() const { return convolution(2); }

Types Inference::pool2d() const {
  CUGRT_TRY(op == Op::avg_pool2d ? check_float(0) : check_number(0));
  CUGRT_TRY(check_rank(0, 4));
  CUGRT_ASSIGN(const auto kernel, window_list("kernel", 2, 1));
  CUGRT_ASSIGN(const auto strides, window_list("strides", 2, 1));
  CUGRT_ASSIGN(const auto dilation, window_list("dilation", 2, 1));
  CUGRT_ASSIGN(const auto padding, paddings(2));
  const bool round_up = op_bool(op, attributes, "ceil_mode");
  Dims out = {dims(0)[0], dims(0)[1]};
  for (size_t i = 0; i < 2; ++i) {
    const auto [before, after] = padding[i];
    const int64_t reach = (kernel[i] - 1) * dilation[i] + 1;
    if (std::max(before, after) >= reach)
      return wrong("padding of a pool is smaller than its kernel");
    const std::array<int64_t, 2> padded = {before, after + (round_up ? strides[i] - 1 : 0)};
    CUGRT_ASSIGN(ExprId size,
                 windowed(dims(0)[2 + i], constant(kernel[i]), strides[i], padded, dilation[i]));
    // Of windows that are not whole, those which begin behind the image are none.
    if (round_up)
      size = m.exprs.min(size, m.exprs.ceildiv(m.exprs.add(dims(0)[2 + i], constant(before)),
                                               constant(strides[i])));
    out.push_back(size);
  }
  return one(type(0).dtype, std::move(out));
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
