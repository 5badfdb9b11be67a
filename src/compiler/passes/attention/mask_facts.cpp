// Facts about masks; see value_reader.h.
#include "compiler/passes/attention/value_reader.h"

#include "base/type/element.h"
#include "compiler/ir_names.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cugrt::passes {

constexpr int kDeepest = 16; // ops that are looked through
constexpr int kMostSums = 4; // of sums in sums, whose terms are each looked at
constexpr double kHidden = std::numeric_limits<double>::infinity();

/// Whether a cast makes no large number infinite; f32's least is -infinity in bf16, too.
static bool keeps_finite(ir::DType from, ir::DType to) {
  const bool is_floating = ir::info(from).kind == ir::info(to).kind;
  return !is_floating || from == to ||
         ir::info(from).bytes_per_block < ir::info(to).bytes_per_block;
}

bool MaskFacts::may_hide(const MaskPart &part) {
  return part.is_condition ? !std::isfinite(part.fill) : !is_finite(part.value, kDeepest);
}

bool MaskFacts::is_finite(ValueId value, int depth) {
  if (const auto known = finite_.find(value.index); known != finite_.end())
    return known->second;
  const bool finite = find_finite(value, depth);
  finite_[value.index] = finite;
  return finite;
}

bool MaskFacts::find_finite(ValueId value, int depth) {
  if (!read_.is_floating(value))
    return true;
  if (const ir::Constant *constant = read_.constant(value)) {
    const ir::DType dtype = read_.type(value).dtype;
    const size_t step = ir::info(dtype).bytes_per_block;
    for (size_t at = 0; at < constant->bytes.size(); at += step)
      if (!std::isfinite(ir::float_at(dtype, &constant->bytes[at])))
        return false;
    return true;
  }
  const Binding *b = read_.maker_anywhere(value);
  if (!b || b->kind != BindingKind::op || depth == 0)
    return false;
  const auto are_finite = [&](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i)
      if (!is_finite(read_.operand(*b, i), depth - 1))
        return false;
    return true;
  };
  if (is_op(b, Op::cast))
    return are_finite(0, 1) &&
           keeps_finite(read_.type(read_.operand(*b, 0)).dtype, read_.type(value).dtype);
  for (Op op : {Op::reshape, Op::transpose, Op::slice, Op::broadcast_to, Op::gather, Op::neg})
    if (is_op(b, op))
      return are_finite(0, 1);
  for (Op op : {Op::add, Op::sub, Op::mul})
    if (is_op(b, op))
      return are_finite(0, 2);
  return is_op(b, Op::where) && are_finite(1, 3);
}

ValueId MaskFacts::largest_is_minus_infinity(ValueId condition) const {
  const Binding *equal = read_.maker(condition);
  if (!is_op(equal, Op::equal))
    return {};
  for (size_t i : {0, 1}) {
    const Binding *largest = read_.maker(read_.operand(*equal, i));
    if (!is_op(largest, Op::reduce_max) || read_.scalar(read_.operand(*equal, 1 - i)) != -kHidden)
      continue;
    const ValueId mask = read_.operand(*largest, 0);
    const size_t rank = read_.type(mask).dims.size();
    const auto axes = ir::op_integers(Op::reduce_max, read_.attributes(*largest), "axes");
    if (axes.size() == 1 && ir::normalize_axis(axes[0], rank) == rank - 1 &&
        ir::op_bool(Op::reduce_max, read_.attributes(*largest), "keep_dims"))
      return mask;
  }
  return {};
}

// --- Causal masks --------------------------------------------------------------------------------

bool MaskFacts::is_causal(const MaskPart &part, ExprId size, double most) const {
  if (!part.is_condition)
    return is_causal_bias(part.value, size, most);
  if (!part.hides_where_true)
    return is_lower_triangle(part.value, size, kDeepest);
  const Binding *b = read_.maker_anywhere(part.value);
  if (is_op(b, Op::logical_not))
    return is_lower_triangle(read_.operand(*b, 0), size, kDeepest);
  const auto n = square(part.value, size);
  const ir::Constant *constant = n ? read_.constant(part.value) : nullptr;
  for (int64_t i = 0; constant && i < *n * *n; ++i)
    if (bool(constant->bytes[size_t(i)]) != (i % *n > i / *n))
      return false;
  return constant;
}

/// The number of rows, where the value is one matrix of so many rows and columns.
std::optional<int64_t> MaskFacts::square(ValueId value, ExprId size) const {
  const std::vector<ExprId> &dims = read_.type(value).dims;
  const ExprId one = read_.module().exprs.constant(1);
  if (dims.size() < 2 || dims.back() != size || dims[dims.size() - 2] != size ||
      !std::all_of(dims.begin(), dims.end() - 2, [&](ExprId dim) { return dim == one; }))
    return std::nullopt;
  return read_.module().exprs.as_constant(size);
}

bool MaskFacts::is_causal_bias(ValueId mask, ExprId size, double most) const {
  if (const Binding *b = read_.maker_anywhere(mask); is_op(b, Op::where)) {
    const auto seen = read_.scalar(read_.operand(*b, 1)),
               hidden = read_.scalar(read_.operand(*b, 2));
    return seen == 0.0 && hidden && *hidden <= most &&
           is_lower_triangle(read_.operand(*b, 0), size, kDeepest);
  }
  const auto n = square(mask, size);
  const ir::Constant *constant = n ? read_.constant(mask) : nullptr;
  const ir::DType dtype = read_.type(mask).dtype;
  const size_t step = ir::info(dtype).bytes_per_block;
  for (int64_t i = 0; constant && i < *n * *n; ++i) {
    const double bias = ir::float_at(dtype, &constant->bytes[size_t(i) * step]);
    if (i % *n > i / *n ? !(bias <= most) : bias != 0)
      return false;
  }
  return constant;
}

/// Whether a condition holds where the position is at most the query.
bool MaskFacts::is_lower_triangle(ValueId condition, ExprId size, int depth) const {
  const std::vector<ExprId> &dims = read_.type(condition).dims;
  if (dims.size() < 2 || dims.back() != size || dims[dims.size() - 2] != size)
    return false; // a reshape may have made queries another dimension
  if (const ir::Constant *constant = read_.constant(condition)) {
    const auto n = square(condition, size);
    for (int64_t i = 0; n && i < *n * *n; ++i)
      if (bool(constant->bytes[size_t(i)]) != (i % *n <= i / *n))
        return false;
    return n.has_value();
  }
  const Binding *b = read_.maker_anywhere(condition);
  const bool above = is_op(b, Op::greater_equal), below = is_op(b, Op::less_equal);
  if ((is_op(b, Op::reshape) || is_op(b, Op::broadcast_to)) && depth > 0)
    return is_lower_triangle(read_.operand(*b, 0), size, depth - 1);
  if (!above && !below)
    return false;
  const auto a = places(read_.operand(*b, above ? 0 : 1), size, kMostSums),
             c = places(read_.operand(*b, above ? 1 : 0), size, kMostSums);
  return a && c && a->row - c->row == 1 && a->column - c->column == -1 && a->rest == c->rest;
}

/// The places of integers that follow from the query and the position of an element.
std::optional<MaskFacts::Places> MaskFacts::places(ValueId value, ExprId size, int depth) const {
  const Binding *b = value.valid() ? read_.maker_anywhere(value) : nullptr;
  if (!b || depth == 0 || read_.is_floating(value))
    return std::nullopt;
  if (const auto number = read_.scalar(value))
    return std::abs(*number) < 1e9 ? std::optional(Places{0, 0, int64_t(*number)}) : std::nullopt;
  const bool sum = is_op(b, Op::add), difference = is_op(b, Op::sub);
  if (!sum && !difference)
    return counted(value, size);
  const auto left = places(read_.operand(*b, 0), size, depth - 1),
             right = places(read_.operand(*b, 1), size, depth - 1);
  if (!left || !right)
    return std::nullopt;
  const int64_t sign = sum ? 1 : -1;
  return Places{left->row + sign * right->row, left->column + sign * right->column,
                left->rest + sign * right->rest};
}

/// 0, 1, .. along queries or positions.
std::optional<MaskFacts::Places> MaskFacts::counted(ValueId value, ExprId size) const {
  const std::vector<ExprId> &dims = read_.type(value).dims;
  const ExprId one = read_.module().exprs.constant(1);
  if (size == one || dims.empty())
    return std::nullopt;
  size_t along = 0, longer = 0; // the dimension that counts, from the last
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] != one)
      along = dims.size() - 1 - i, ++longer;
  if (longer != 1 || along > 1 || dims[dims.size() - 1 - along] != size)
    return std::nullopt;
  int steps = 0;
  for (const Binding *b = read_.maker_anywhere(value); b && steps < kDeepest;
       b = read_.maker_anywhere(value), ++steps) {
    if (is_op(b, Op::reshape)) {
      value = read_.operand(*b, 0);
      continue;
    }
    if (const ir::Constant *constant = read_.constant(value)) {
      const ir::DType dtype = read_.type(value).dtype;
      const size_t step = ir::info(dtype).bytes_per_block;
      for (size_t i = 0; i * step < constant->bytes.size(); ++i)
        if (read_.is_floating(value) ||
            ir::integer_at(dtype, &constant->bytes[i * step]) != int64_t(i))
          return std::nullopt;
    } else if (!is_op(b, Op::range) ||
               ir::op_float(Op::range, read_.attributes(*b), "start") != 0 ||
               ir::op_float(Op::range, read_.attributes(*b), "step") != 1) {
      return std::nullopt;
    }
    return along == 0 ? Places{0, 1, 0} : Places{1, 0, 0};
  }
  return std::nullopt;
}

} // namespace cugrt::passes
