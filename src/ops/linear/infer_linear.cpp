// Result types of matrix products, convolutions, pools, softmax and norms.
#include "ops/table/infer_op.h"

#include <algorithm>
#include <utility>

namespace cugrt::ir {

Types Inference::matmul() const {
  CUGRT_TRY(check_float(0));
  CUGRT_TRY(check_same_dtype(1));
  if (rank(0) < 2 || rank(1) < 2)
    return wrong("matmul needs operands of rank 2 or more");
  const Dims &a = dims(0);
  Dims b = dims(1);
  if (op_bool(op, attributes, "transpose_b"))
    std::swap(b.back(), b[b.size() - 2]);
  CUGRT_TRY(check_equal(a[a.size() - 1], b[b.size() - 2], "inner dimensions of matmul"));
  CUGRT_ASSIGN(Dims out,
               broadcast(std::span(a).first(a.size() - 2), std::span(b).first(b.size() - 2)));
  CUGRT_TRY(check_vector(2, b.back()));
  out.push_back(a[a.size() - 2]);
  out.push_back(b.back());
  return one(type(0).dtype, std::move(out));
}

Status Inference::check_blocks(size_t i) const {
  CUGRT_TRY(check_rank(i, 2));
  if (info(type(i).dtype).kind != DTypeKind::block)
    return wrong(number(i) + " has dtype " + std::string(info(type(i).dtype).name) +
                 ", a block format, as q4_0, is needed");
  return {};
}

Status Inference::check_whole_blocks(ExprId dim, DType dtype) const {
  const int64_t elements = info(dtype).elements_per_block;
  if (std::optional<int64_t> k = known(dim); !k || *k % elements != 0)
    return wrong("the inner dimension is a constant multiple of the " + std::to_string(elements) +
                 " elements of a block, not " + text(dim));
  return {};
}

Types Inference::repack_blocks() const {
  CUGRT_TRY(check_blocks(0));
  return one(type(0).dtype, dims(0));
}

Types Inference::matmul_blocks() const {
  CUGRT_TRY(check_float(0));
  CUGRT_TRY(check_blocks(1));
  if (rank(0) == 0)
    return wrong("operand 1 has rank 1 or more");
  CUGRT_TRY(check_equal(dims(0).back(), dims(1)[1], "inner dimensions"));
  CUGRT_TRY(check_whole_blocks(dims(1)[1], type(1).dtype));
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

Types Inference::convolution(size_t axes, DType result) const {
  CUGRT_TRY(check_rank(0, 2 + axes));
  CUGRT_TRY(check_rank(1, 2 + axes));
  CUGRT_ASSIGN(const auto strides, window_list("strides", axes, 1));
  CUGRT_ASSIGN(const auto padding, paddings(axes));
  CUGRT_ASSIGN(const auto dilation, window_list("dilation", axes, 1));
  int64_t groups = op_integer(op, attributes, "groups");
  const Dims x = dims(0), w = dims(1);
  const bool last = op == Op::conv2d && op_bool(op, attributes, "channels_last");
  const size_t channels = last ? 1 + axes : 1, first = last ? 1 : 2; // first: of the axes
  if (groups < 1 || groups > kMaxWindow)
    return wrong("attribute 'groups' is at least 1");
  if (auto out = known(w[0]); out && *out % groups != 0)
    return wrong("the weight's " + std::to_string(*out) + " output channels do not divide into " +
                 std::to_string(groups) + " groups");
  CUGRT_TRY(check_equal(x[channels], m.exprs.mul(w[channels], constant(groups)),
                        "the input's channels and the weight's times groups"));
  if (op == Op::conv_integer) {
    CUGRT_TRY(check_zero_point(2, 0, constant(1)));
    CUGRT_TRY(check_zero_point(3, 1, w[0]));
  } else {
    CUGRT_TRY(check_vector(2, w[0]));
  }
  Dims out = x;
  out[channels] = w[0];
  for (size_t i = 0; i < axes; ++i) {
    CUGRT_ASSIGN(out[first + i],
                 windowed(x[first + i], w[first + i], strides[i], padding[i], dilation[i]));
  }
  return one(result, std::move(out));
}

static Types of_floats(const Inference &op, size_t axes) {
  CUGRT_TRY(op.check_float(0));
  CUGRT_TRY(op.check_same_dtype(1));
  return op.convolution(axes, op.type(0).dtype);
}

Types Inference::conv1d() const { return of_floats(*this, 1); }
Types Inference::conv2d() const { return of_floats(*this, 2); }
Types Inference::conv3d() const { return of_floats(*this, 3); }

Types Inference::conv_transpose() const {
  CUGRT_TRY(check_float(0));
  CUGRT_TRY(check_same_dtype(1));
  if (rank(0) < 3 || rank(0) > 5)
    return wrong("operand 1 has rank 3 to 5: batch, channels, and one to three dimensions");
  const size_t axes = rank(0) - 2;
  CUGRT_TRY(check_rank(1, rank(0)));
  CUGRT_ASSIGN(const auto strides, window_list("strides", axes, 1));
  CUGRT_ASSIGN(const auto padding, paddings(axes));
  CUGRT_ASSIGN(const auto dilation, window_list("dilation", axes, 1));
  CUGRT_ASSIGN(const auto added, window_list("output_padding", axes, 0));
  const int64_t groups = op_integer(op, attributes, "groups");
  const Dims x = dims(0), w = dims(1);
  if (groups < 1 || groups > kMaxWindow)
    return wrong("attribute 'groups' is at least 1");
  CUGRT_TRY(check_equal(x[1], w[0], "the input's channels and the weight's"));
  if (auto in = known(x[1]); in && *in % groups != 0)
    return wrong("the " + std::to_string(*in) + " input channels do not divide into " +
                 std::to_string(groups) + " groups");
  ExprPool &e = m.exprs;
  const ExprId channels = e.mul(w[1], constant(groups));
  CUGRT_TRY(check_vector(2, channels));
  Dims out = {x[0], channels};
  for (size_t i = 0; i < axes; ++i) {
    if (added[i] >= std::max(strides[i], dilation[i]))
      return wrong("attribute 'output_padding' is less than the stride or the dilation");
    const ExprId reach = e.mul(e.sub(w[2 + i], constant(1)), constant(dilation[i]));
    const ExprId steps = e.mul(e.sub(x[2 + i], constant(1)), constant(strides[i]));
    const int64_t more = 1 + added[i] - padding[i][0] - padding[i][1];
    const ExprId size = e.add(e.add(steps, reach), constant(more));
    if (auto wrong_size = known(size); wrong_size && *wrong_size < 0)
      return wrong("the padding is larger than the result by " + std::to_string(-*wrong_size));
    out.push_back(size);
  }
  return one(type(0).dtype, std::move(out));
}

// --- Products of bytes ---------------------------------------------------------------------------

Status Inference::check_byte(size_t i) const {
  if (type(i).dtype == DType::i8 || type(i).dtype == DType::u8)
    return {};
  return wrong(number(i) + " has dtype " + std::string(info(type(i).dtype).name) +
               ", i8 or u8 is needed");
}

Status Inference::check_zero_point(size_t i, size_t of, ExprId length) const {
  if (!has(i))
    return {};
  CUGRT_TRY(check_dtype(i, type(of).dtype));
  if (rank(i) == 0 || (rank(i) == 1 && known(dims(i)[0]) == 1))
    return {};
  CUGRT_TRY(check_rank(i, 1));
  return check_equal(dims(i)[0], length,
                     "the zero points of " + number(of) + " and what they go with");
}

Types Inference::matmul_integer() const {
  CUGRT_TRY(check_byte(0));
  CUGRT_TRY(check_byte(1));
  if (rank(0) < 2 || rank(1) < 2)
    return wrong("matmul_integer needs operands of rank 2 or more");
  const Dims &a = dims(0), &b = dims(1);
  CUGRT_TRY(check_equal(a[a.size() - 1], b[b.size() - 2], "inner dimensions"));
  if (rank(1) > 2)
    for (size_t i = 0; i + 2 < std::max(rank(0), rank(1)); ++i)
      if (rank(0) != rank(1) || a[i] != b[i])
        return wrong("operand 2 has rank 2, or the outer dimensions of operand 1");
  CUGRT_TRY(check_zero_point(2, 0, a[a.size() - 2]));
  CUGRT_TRY(check_zero_point(3, 1, b.back()));
  Dims out = a;
  out.back() = b.back();
  return one(DType::i32, std::move(out));
}

Types Inference::conv_integer() const {
  CUGRT_TRY(check_byte(0));
  CUGRT_TRY(check_byte(1));
  if (rank(0) < 3 || rank(0) > 5)
    return wrong("operand 1 has rank 3 to 5: batch, channels, and one to three dimensions");
  return convolution(rank(0) - 2, DType::i32);
}

Types Inference::pool2d() const {
  CUGRT_TRY(op == Op::avg_pool2d ? check_float(0) : check_number(0));
  CUGRT_TRY(check_rank(0, 4));
  CUGRT_ASSIGN(const auto kernel, window_list("kernel", 2, 1));
  CUGRT_ASSIGN(const auto strides, window_list("strides", 2, 1));
  CUGRT_ASSIGN(const auto dilation, window_list("dilation", 2, 1));
  CUGRT_ASSIGN(const auto padding, paddings(2));
  const bool round_up = op_bool(op, attributes, "ceil_mode");
  const Dims x = dims(0);
  const size_t first = op_bool(op, attributes, "channels_last") ? 1 : 2; // of the axes
  Dims out = x;
  for (size_t i = 0; i < 2; ++i) {
    const auto [before, after] = padding[i];
    const int64_t reach = (kernel[i] - 1) * dilation[i] + 1;
    if (std::max(before, after) >= reach)
      return wrong("padding of a pool is smaller than its kernel");
    const std::array<int64_t, 2> padded = {before, after + (round_up ? strides[i] - 1 : 0)};
    CUGRT_ASSIGN(ExprId size,
                 windowed(x[first + i], constant(kernel[i]), strides[i], padded, dilation[i]));
    // Of windows that are not whole, those which begin behind the image are none.
    if (round_up)
      size = m.exprs.min(
          size, m.exprs.ceildiv(m.exprs.add(x[first + i], constant(before)), constant(strides[i])));
    out[first + i] = size;
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
