// Result types of ops that choose elements: by position, by a slice, by a shape to fill.
#include "ops/table/infer_op.h"

#include <limits>

namespace cugrt::ir {

Types Inference::gather() const {
  CUGRT_TRY(check_whole_bytes(0));
  CUGRT_TRY(check_ids(1));
  CUGRT_ASSIGN(const size_t axis, axis_of(op_integer(op, attributes, "axis"), 0));
  Dims out = dims(0);
  out.erase(out.begin() + static_cast<ptrdiff_t>(axis));
  out.insert(out.begin() + static_cast<ptrdiff_t>(axis), dims(1).begin(), dims(1).end());
  return one(type(0).dtype, std::move(out));
}

Types Inference::gather_elements() const {
  CUGRT_TRY(check_whole_bytes(0));
  CUGRT_TRY(check_ids(1));
  CUGRT_TRY(check_rank(1, rank(0)));
  CUGRT_ASSIGN(const size_t axis, axis_of(op_integer(op, attributes, "axis"), 0));
  for (size_t i = 0; i < rank(0); ++i)
    if (i != axis)
      CUGRT_TRY(check_equal(dims(0)[i], dims(1)[i], "dimensions beside the axis"));
  return one(type(0).dtype, dims(1));
}

Types Inference::gather_nd() const {
  CUGRT_TRY(check_whole_bytes(0));
  CUGRT_TRY(check_ids(1));
  const int64_t batch = op_integer(op, attributes, "batch_dims");
  if (rank(1) == 0)
    return wrong("operand 2 has rank 1 or more");
  const std::optional<int64_t> places = known(dims(1).back());
  if (batch < 0 || batch >= static_cast<int64_t>(rank(1)) || !places || *places < 0 ||
      *places > static_cast<int64_t>(rank(0)) - batch)
    return wrong("the last dimension of operand 2 is a constant, and with 'batch_dims' at most the "
                 "rank of operand 1");
  const auto outer = static_cast<size_t>(batch);
  for (size_t i = 0; i < outer; ++i)
    CUGRT_TRY(check_equal(dims(0)[i], dims(1)[i], "dimensions of the batch"));
  Dims out(dims(1).begin(), dims(1).end() - 1);
  out.insert(out.end(), dims(0).begin() + batch + *places, dims(0).end());
  return one(type(0).dtype, std::move(out));
}

Status Inference::check_reduction() const {
  const std::string reduction = op_string(op, attributes, "reduction");
  if (reduction == "none")
    return check_whole_bytes(0);
  CUGRT_TRY(check_number(0));
  return info(type(0).dtype).bytes_per_block == 1
             ? wrong("elements of one byte cannot be reduced in place; insert a cast")
             : Status();
}

Types Inference::scatter_elements() const {
  CUGRT_TRY(check_reduction());
  CUGRT_TRY(check_ids(1));
  CUGRT_TRY(check_same_dtype(2));
  CUGRT_TRY(check_rank(1, rank(0)));
  CUGRT_TRY(check_rank(2, rank(0)));
  CUGRT_ASSIGN(const size_t axis, axis_of(op_integer(op, attributes, "axis"), 0));
  for (size_t i = 0; i < rank(0); ++i) {
    CUGRT_TRY(check_equal(dims(1)[i], dims(2)[i], "dimensions of indices and updates"));
    if (i != axis && !never_negative(m.exprs.sub(dims(0)[i], dims(1)[i])))
      return wrong("dimension " + text(dims(1)[i]) + " of the indices cannot be shown to lie in " +
                   text(dims(0)[i]) + "; use match to require it");
  }
  return one(type(0).dtype, dims(0));
}

Types Inference::scatter_nd() const {
  CUGRT_TRY(check_reduction());
  CUGRT_TRY(check_ids(1));
  CUGRT_TRY(check_same_dtype(2));
  const std::optional<int64_t> places = rank(1) == 0 ? std::nullopt : known(dims(1).back());
  if (!places || *places < 0 || *places > static_cast<int64_t>(rank(0)))
    return wrong("the last dimension of operand 2 is a constant, at most the rank of operand 1");
  Dims wanted(dims(1).begin(), dims(1).end() - 1);
  wanted.insert(wanted.end(), dims(0).begin() + *places, dims(0).end());
  CUGRT_TRY(check_rank(2, wanted.size()));
  for (size_t i = 0; i < wanted.size(); ++i)
    CUGRT_TRY(check_equal(wanted[i], dims(2)[i], "dimensions of what is written and the updates"));
  return one(type(0).dtype, dims(0));
}

Types Inference::one_hot() const {
  CUGRT_TRY(check_ids(0));
  const int64_t depth = op_integer(op, attributes, "depth");
  const DType dtype = op_dtype(op, attributes, "dtype");
  if (depth < 0)
    return wrong("attribute 'depth' is not negative");
  if (info(dtype).elements_per_block != 1)
    return wrong("attribute 'dtype' has elements of whole bytes");
  const std::optional<size_t> axis =
      normalize_axis(op_integer(op, attributes, "axis"), rank(0) + 1);
  if (!axis)
    return wrong("attribute 'axis' is outside of the result's rank " + std::to_string(rank(0) + 1));
  Dims out = dims(0);
  out.insert(out.begin() + static_cast<ptrdiff_t>(*axis), constant(depth));
  return one(dtype, std::move(out));
}

// --- slice ---------------------------------------------------------------------------------------

namespace {

/// One bound of a slice as a position of a dimension `d`, within [low, high]: by Python's rule it
/// counts from the end when it is negative.
ExprId position(ExprPool &exprs, int64_t bound, ExprId d, ExprId low, ExprId high) {
  if (bound == std::numeric_limits<int64_t>::max())
    return high;
  if (bound == std::numeric_limits<int64_t>::min())
    return low;
  if (bound == 0 && exprs.as_constant(low) == 0)
    return low;
  return bound < 0 ? exprs.max(exprs.add(d, exprs.constant(bound)), low)
                   : exprs.min(exprs.constant(bound), high);
}

SliceDimension slice_dimension(ExprPool &exprs, ExprId d, int64_t start, int64_t end,
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
    return {begin, start < 0 ? exprs.min(exprs.constant(-start), d) : exprs.sub(d, begin), step};
  if (step == 1 && begin == zero)
    return {begin, stop, step};
  const ExprId length = exprs.ceildiv(exprs.sub(stop, begin), exprs.constant(step));
  return {begin, exprs.max(length, zero), step};
}

} // namespace

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
