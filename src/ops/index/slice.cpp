// Parts of tensors, and tensors that are padded, stretched or counted: kernels/movement/pad.cu,
// kernels/index/range.cu; slices and stretched tensors by way of transpose.cu.
#include "base/check.h"
#include "ops/emit/op_emitter.h"
#include "ops/table/infer_op.h"
#include "ops/table/op_padding.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cugrt::ir {

/// One bound of a slice as a position of a dimension `d`, within [low, high]: by Python's rule a
/// negative one counts from the end.
static ExprId position(ExprPool &exprs, int64_t bound, ExprId d, ExprId low, ExprId high) {
  if (bound == std::numeric_limits<int64_t>::max())
    return high;
  if (bound == std::numeric_limits<int64_t>::min())
    return low;
  if (bound == 0 && exprs.as_constant(low) == 0)
    return low;
  return bound < 0 ? exprs.max(exprs.add(d, exprs.constant(bound)), low)
                   : exprs.min(exprs.constant(bound), high);
}

static SliceDimension slice_dimension(ExprPool &exprs, ExprId d, int64_t start, int64_t end,
                                      int64_t step) {
  const ExprId zero = exprs.constant(0);
  if (step < 0) {
    const ExprId low = exprs.constant(-1), high = exprs.add(d, low);
    const ExprId begin = position(exprs, start, d, low, high);
    const ExprId length = exprs.sub(begin, position(exprs, end, d, low, high));
    return {begin, exprs.max(exprs.ceildiv(length, exprs.constant(-step)), zero), step};
  }
  const ExprId begin = position(exprs, start, d, zero, d);
  const ExprId stop = position(exprs, end, d, zero, d);
  if (step == 1 && stop == d) // up to the end there is never less than nothing
    return {
        begin,
        start < 0
            ? exprs.min(exprs.constant(-std::max(start, -std::numeric_limits<int64_t>::max())), d)
            : exprs.sub(d, begin),
        step};
  if (step == 1 && begin == zero)
    return {begin, stop, step};
  const ExprId length = exprs.ceildiv(exprs.sub(stop, begin), exprs.constant(step));
  return {begin, exprs.max(length, zero), step};
}

Result<std::vector<SliceDimension>> slice_dimensions(ExprPool &exprs, std::span<const ExprId> dims,
                                                     std::span<const Attribute> attributes) {
  const std::vector<int64_t> starts = op_integers(Op::slice, attributes, "starts");
  const std::vector<int64_t> ends = op_integers(Op::slice, attributes, "ends");
  const std::vector<int64_t> axes = op_integers(Op::slice, attributes, "axes");
  const std::vector<int64_t> steps = op_integers(Op::slice, attributes, "steps");
  if (starts.size() != ends.size() || (!axes.empty() && axes.size() != starts.size()) ||
      (!steps.empty() && steps.size() != starts.size()) || starts.size() > dims.size())
    return wrong("attributes 'starts' and 'ends', and where given 'axes' and 'steps', have one "
                 "number for each sliced axis");
  std::vector<SliceDimension> result;
  for (ExprId d : dims)
    result.push_back({exprs.constant(0), d, 1});
  std::vector<bool> sliced(dims.size(), false);
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t given = axes.empty() ? static_cast<int64_t>(i) : axes[i];
    const std::optional<size_t> axis = normalize_axis(given, dims.size());
    if (!axis || sliced[*axis])
      return wrong("axis " + std::to_string(given) + " is " +
                   (axis ? "given twice" : "outside of rank " + std::to_string(dims.size())));
    sliced[*axis] = true;
    const int64_t step = steps.empty() ? 1 : steps[i];
    if (step == 0 || step == std::numeric_limits<int64_t>::min())
      return wrong("attribute 'steps' has no 0");
    result[*axis] = slice_dimension(exprs, dims[*axis], starts[i], ends[i], step);
  }
  return result;
}

Types Inference::slice() const {
  CUGRT_TRY(check_whole_bytes(0));
  Dims out;
  if (!has(1) && !has(2)) {
    CUGRT_ASSIGN(const std::vector<SliceDimension> slice,
                 slice_dimensions(m.exprs, dims(0), attributes));
    for (const SliceDimension &d : slice)
      out.push_back(d.size);
    return one(type(0).dtype, std::move(out));
  }
  if (!has(1) || !has(2) || !attributes.empty())
    return wrong("takes either attributes or two shapes, where the slice begins and its size");
  CUGRT_TRY(check_rank(1, rank(0)));
  CUGRT_TRY(check_rank(2, rank(0)));
  for (size_t i = 0; i < rank(0); ++i) {
    const ExprId begin = dims(1)[i], size = dims(2)[i];
    if (!never_negative(begin) || !never_negative(size) ||
        !never_negative(m.exprs.sub(dims(0)[i], m.exprs.add(begin, size))))
      return wrong(text(size) + " elements from " + text(begin) + " on cannot be shown to lie in " +
                   text(dims(0)[i]) + "; bound the symbols or use match");
  }
  return one(type(0).dtype, dims(2));
}

// --- pad, broadcast_to, range --------------------------------------------------------------------

Types Inference::pad() const {
  CUGRT_TRY(check_whole_bytes(0));
  const std::vector<int64_t> before = op_integers(op, attributes, "before");
  const std::vector<int64_t> after = op_integers(op, attributes, "after");
  const std::string mode = op_string(op, attributes, "mode");
  if (before.size() != rank(0) || after.size() != rank(0))
    return wrong("attributes 'before' and 'after' have one number for each dimension");
  Dims out;
  for (size_t i = 0; i < rank(0); ++i) {
    const int64_t widest = std::max(before[i], after[i]);
    if (before[i] < 0 || after[i] < 0 || widest > kMaxWindow)
      return wrong("padding is from 0 to " + std::to_string(kMaxWindow));
    const std::optional<int64_t> size = known(dims(0)[i]);
    const int64_t least = widest == 0 || mode == "constant" ? 0 : mode == "edge" ? 1 : widest + 1;
    if (range_of(dims(0)[i]).lower < least)
      return wrong("dimension " + text(dims(0)[i]) + " " +
                   (size ? "is" : "cannot be shown not to be") + " less than the " +
                   std::to_string(least) + " that mode \"" + mode + "\" takes for this padding");
    out.push_back(m.exprs.add(dims(0)[i], constant(before[i] + after[i])));
  }
  return one(type(0).dtype, std::move(out));
}

Types Inference::broadcast_to() const {
  CUGRT_TRY(check_whole_bytes(0));
  const Dims &wanted = dims(1);
  CUGRT_ASSIGN(const Dims out, broadcast(dims(0), wanted));
  for (size_t i = 0; i < out.size(); ++i)
    if (out.size() != wanted.size() || out[i] != wanted[i])
      return wrong("operand 1 does not stretch to the shape of operand 2");
  return one(type(0).dtype, wanted);
}

Types Inference::range() const {
  const DType dtype = op_dtype(op, attributes, "dtype");
  const DTypeInfo &row = info(dtype);
  if (row.elements_per_block != 1 || row.kind == DTypeKind::boolean)
    return wrong("attribute 'dtype' is a float or an integer of whole bytes");
  const int64_t length = op_integer(op, attributes, "length");
  if (has(0) == (length >= 0))
    return wrong("takes either a shape of one dimension or attribute 'length'");
  if (!has(0))
    return one(dtype, {constant(length)});
  CUGRT_TRY(check_rank(0, 1));
  return one(dtype, dims(0));
}

} // namespace cugrt::ir

namespace cugrt::padding {

/// Positions that are counted from the end, or towards it, are others in a bucket.
Status OpPadding::slice() {
  ir::ExprPool &exprs = all_.exprs;
  const std::vector<int64_t> starts = list("starts"), ends = list("ends"), steps = list("steps");
  std::vector<int64_t> axes = list("axes");
  for (size_t i = axes.size(); i < starts.size(); ++i)
    axes.push_back(static_cast<int64_t>(i));
  std::vector<bool> keeps(rank(0), true), forwards(rank(0), true);
  for (size_t d = 0; d < rank(0); ++d) {
    const ExprId from = operands_[0].dims[d], to = results_[0].dims[d].parts[0];
    if (operands_.size() > 1) {
      if (all_.is_padded(operands_[1].dims[d]))
        return refuse(1, d, "begins behind");
      // Otherwise a caller's elements may lie behind the shorter part, and count as added.
      keeps[d] = exprs.as_constant(operands_[1].dims[d]) == 0 && from == to;
    }
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axis(axes[i]) != d)
        continue;
      const int64_t step = i < steps.size() ? steps[i] : 1;
      forwards[d] = starts[i] >= 0 && ends[i] >= 0 && step > 0;
      keeps[d] = starts[i] == 0 && step == 1 && from == to;
    }
  }
  for (size_t d = 0; d < rank(0); ++d) {
    if (!forwards[d])
      CUGRT_TRY(take(0, d, Fill::any));
    CUGRT_TRY(keeps[d] ? carry(0, d, d) : follow(0, d, d));
  }
  fills([&](size_t d, size_t) {
    return keeps[d] || (operands_.size() == 1 && is_padded(0, d)) ? fill(0, d) : Fill::any;
  });
  return {};
}

/// Elements put behind a padded dimension must equal those that are there already.
Status OpPadding::pad() {
  const std::vector<int64_t> before = list("before"), after = list("after");
  const std::string mode = ir::op_string(op_, attributes_, "mode");
  const double value = ir::op_float(op_, attributes_, "value");
  const bool zeros = mode == "constant" && value == 0;
  for (size_t d = 0; d < rank(0); ++d) {
    const bool grows = before[d] != 0 || after[d] != 0;
    if (after[d] != 0 || (grows && mode == "reflect"))
      CUGRT_TRY(take(0, d, zeros ? Fill::zero : Fill::any));
    CUGRT_TRY(grows ? follow(0, d, d) : carry(0, d, d));
  }
  const Fill around = zeros ? Fill::zero : std::isfinite(value) ? Fill::finite : Fill::any;
  fills([&](size_t d, size_t) {
    Fill all = fill(0, d);
    for (size_t other = 0; other < rank(0) && mode == "constant"; ++other)
      if (other != d && (before[other] != 0 || after[other] != 0))
        all = either(all, around);
    return all;
  });
  return {};
}

Status OpPadding::broadcast_to() {
  CUGRT_TRY(align(0));
  fills([&](size_t d, size_t) { return fill(0, d); });
  results_[0].all = operands_[0].facts.all;
  return {};
}

Status OpPadding::range() {
  fills([](size_t, size_t) { return Fill::place; });
  return {};
}

} // namespace cugrt::padding

namespace cugrt::codegen {

/// The axis, of constant size, along which a slice takes neighbours, where it takes all of the
/// others.
static std::optional<size_t> only_sliced(const ir::ExprPool &exprs,
                                         std::span<const ir::ExprId> dims,
                                         std::span<const ir::SliceDimension> slice) {
  std::optional<size_t> axis;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (slice[d].step != 1 || (slice[d].size != dims[d] && axis))
      return std::nullopt;
    if (slice[d].size != dims[d])
      axis = d;
  }
  return axis && exprs.as_constant(dims[*axis]) ? axis : std::nullopt;
}

Status emit_slice(OpEmitter &op) {
  ir::ExprPool &exprs = op.exprs();
  const ir::Type x = op.operand_type(0);
  const std::vector<ir::ExprId> strides = contiguous_strides(exprs, x.dims);
  std::vector<ir::SliceDimension> slice;
  if (op.has_operand(1)) {
    slice = slice_of_shapes(op.operand_type(1).dims, op.operand_type(2).dims);
  } else {
    CUGRT_ASSIGN(slice, ir::slice_dimensions(exprs, x.dims, op.call().attributes));
  }
  if (const std::optional<size_t> axis = only_sliced(exprs, x.dims, slice)) {
    emit_section(op, op.operand(0), op.result(), *axis, slice[*axis].begin);
    return {};
  }
  std::vector<Dimension> walk;
  ir::ExprId base = exprs.constant(0);
  for (size_t i = 0; i < slice.size(); ++i) {
    base = exprs.add(base, exprs.mul(slice[i].begin, strides[i]));
    walk.push_back({slice[i].size, {exprs.mul(strides[i], exprs.constant(slice[i].step))}});
  }
  emit_permutation(op.table(), op.builder(), op.operand(0), op.result(), x.dtype, std::move(walk),
                   op.call().location, base);
  return {};
}

Status emit_broadcast_to(OpEmitter &op) {
  const ir::Type x = op.operand_type(0), y = op.result_type();
  const std::vector<ir::ExprId> strides = broadcast_strides(op.exprs(), x, y.dims);
  std::vector<Dimension> walk;
  for (size_t i = 0; i < y.dims.size(); ++i)
    walk.push_back({y.dims[i], {strides[i]}});
  emit_permutation(op.table(), op.builder(), op.operand(0), op.result(), x.dtype, std::move(walk),
                   op.call().location);
  return {};
}

namespace {

struct Padded {
  ir::ExprId size, x_size; // of the result and the operand
  int64_t before, after;
  ir::ExprId stride; // in the operand
};

// Neighbours that are not padded become one dimension, and those of size 1 that are not go.
std::vector<Padded> padded_dimensions(OpEmitter &op) {
  ir::ExprPool &exprs = op.exprs();
  const ir::Type x = op.operand_type(0), y = op.result_type();
  const std::vector<int64_t> before = op.integers("before"), after = op.integers("after");
  const std::vector<ir::ExprId> strides = contiguous_strides(exprs, x.dims);
  std::vector<Padded> merged;
  bool last_is_plain = false;
  for (size_t i = 0; i < x.dims.size(); ++i) {
    const bool plain = before[i] == 0 && after[i] == 0;
    if (plain && exprs.as_constant(x.dims[i]) == 1)
      continue;
    if (plain && last_is_plain) {
      merged.back().size = merged.back().x_size = exprs.mul(merged.back().size, x.dims[i]);
      merged.back().stride = strides[i];
    } else {
      merged.push_back({y.dims[i], x.dims[i], before[i], after[i], strides[i]});
    }
    last_is_plain = plain;
  }
  return merged;
}

} // namespace

Status emit_pad(OpEmitter &op) {
  const ir::Type y = op.result_type();
  std::vector<Padded> walk = padded_dimensions(op);
  const size_t rank = walk.size() <= 4 ? 4 : 8;
  CUGRT_CHECK(walk.size() <= rank);
  walk.resize(rank, {op.constant(1), op.constant(1), 0, 0, op.constant(0)});

  KernelLaunch launch = op.moving_launch("pad.cu", "pad", y.dtype);
  launch.option("-DMODE=" + std::to_string(op.word("mode")));
  launch.option("-DMAX_RANK=" + std::to_string(rank));
  launch.index_type({op.count(y)});
  launch.input("x", op.operand(0));
  launch.output("y", op.result());
  const ir::ExprId counted = launch.count("count", op.count(y));
  launch.count("bits", op.constant(element_bits(y.dtype, op.number("value"))));
  for (size_t d = 1; d < rank; ++d)
    launch.size("size" + std::to_string(d), walk[d].size);
  for (size_t d = 0; d < rank; ++d)
    launch.size("before" + std::to_string(d), op.constant(walk[d].before));
  for (size_t d = 0; d < rank; ++d)
    launch.size("x_size" + std::to_string(d), walk[d].x_size);
  for (size_t d = 0; d < rank; ++d)
    launch.size("stride" + std::to_string(d), walk[d].stride);
  launch.loop_variant(counted);
  return op.emit(launch);
}

Status emit_range(OpEmitter &op) {
  const ir::Type y = op.result_type();
  const ir::ExprId count = op.count(y);
  KernelLaunch launch = op.number_launch("range.cu", "range", y.dtype);
  launch.index_type({count});
  launch.output("y", op.result());
  const ir::ExprId counted = launch.count("count", count);
  launch.parameter("start", y.dtype, op.number("start"));
  launch.parameter("delta", y.dtype, op.number("step"));
  launch.loop_variant(counted);
  return op.emit(launch);
}

} // namespace cugrt::codegen
