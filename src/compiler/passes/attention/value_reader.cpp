// Scalars, and operands of products behind what moves them; see value_reader.h.
#include "compiler/passes/attention/value_reader.h"

#include "base/type/element.h"
#include "compiler/ir_names.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace cugrt::passes {

constexpr int kMostPeeled = 64;

void ValueReader::enter(uint32_t block) {
  here_.clear();
  for (const Binding &binding : function_.blocks[block].bindings)
    here_.insert(&binding);
}

bool ValueReader::is_floating(ValueId value) const {
  const DType dtype = type(value).dtype;
  return is_half(dtype) || dtype == DType::f32 || dtype == DType::f64;
}

const Binding *ValueReader::maker(ValueId value) const {
  const Binding *made = uses_.maker(value);
  return is_here(made) ? made : nullptr;
}

const Binding *ValueReader::only_reader(ValueId value) const {
  const Binding *reader = uses_.only_reader(value);
  return is_here(reader) ? reader : nullptr;
}

const ir::Constant *ValueReader::constant(ValueId value) const {
  const Binding *made = value.valid() ? uses_.maker(value) : nullptr;
  return made && made->kind == BindingKind::constant ? &module_.constants[made->callee] : nullptr;
}

std::optional<double> ValueReader::scalar(ValueId value) const {
  const ir::Constant *made = constant(value);
  if (!made || !ir::has_number_elements(type(value).dtype))
    return std::nullopt;
  const ExprId one = module_.exprs.constant(1);
  if (!std::ranges::all_of(type(value).dims, [&](ExprId dim) { return dim == one; }))
    return std::nullopt;
  if (is_floating(value))
    return ir::float_at(type(value).dtype, made->bytes.data());
  return double(ir::integer_at(type(value).dtype, made->bytes.data()));
}

ValueId ValueReader::scaled(const Binding &b, double &factor) const {
  if (!is_op(&b, Op::mul) && !is_op(&b, Op::div))
    return {};
  for (size_t i : {1, 0}) {
    const ValueId other = operand(b, 1 - i);
    const std::optional<double> by = scalar(operand(b, i));
    if (!by || !std::isfinite(*by) || *by == 0 || type(other).dims != type(b.result()).dims ||
        (i == 0 && is_op(&b, Op::div)))
      continue;
    factor = is_op(&b, Op::mul) ? factor * *by : factor / *by;
    return other;
  }
  return {};
}

bool ValueReader::exchanges(const Binding &transpose) const {
  const size_t rank = type(transpose.result()).dims.size();
  const std::vector<int64_t> axes = ir::op_integers(Op::transpose, attributes(transpose), "axes");
  for (size_t i = 0; i < axes.size(); ++i)
    if (ir::normalize_axis(axes[i], rank) != (i + 2 < rank ? i : 2 * rank - 3 - i))
      return false;
  return rank == 2 || !axes.empty();
}

// --- Operands ------------------------------------------------------------------------------------

std::vector<ExprId> ValueReader::present_dims(const HeadsOperand &x) const {
  return !x.reshaped.empty() ? x.reshaped : !x.size.empty() ? x.size : type(x.value).dims;
}

std::vector<ExprId> ValueReader::dims_of(const HeadsOperand &x) const {
  const std::vector<ExprId> dims = present_dims(x);
  std::vector<ExprId> read;
  for (int64_t axis : x.axes)
    read.push_back(dims[size_t(axis)]);
  return read;
}

HeadsOperand ValueReader::peeled(ValueId value, bool exchanged) const {
  HeadsOperand x{.value = value, .begin = {}, .size = {}, .reshaped = {}, .axes = {}};
  x.axes.resize(type(value).dims.size());
  std::iota(x.axes.begin(), x.axes.end(), 0);
  if (exchanged)
    std::swap(x.axes[x.axes.size() - 1], x.axes[x.axes.size() - 2]);
  peel(x);
  return x;
}

/// Goes back as far as the read values stay the same; x has no slice and no reshape yet.
void ValueReader::peel(HeadsOperand &x) const {
  int steps = 0; // a chain may be read by many products
  for (const Binding *b = maker(x.value); b && steps < kMostPeeled; b = maker(x.value), ++steps) {
    if (const ValueId other = scaled(*b, x.scale); other.valid()) {
      x.value = other;
    } else if (is_op(b, Op::transpose)) {
      const ValueId from = operand(*b, 0);
      std::vector<int64_t> axes = ir::op_integers(Op::transpose, attributes(*b), "axes");
      if (axes.empty())
        for (size_t i = type(from).dims.size(); i-- > 0;)
          axes.push_back(int64_t(i));
      for (int64_t &axis : x.axes)
        axis = int64_t(*ir::normalize_axis(axes[size_t(axis)], axes.size()));
      x.value = from;
    } else if (is_op(b, Op::reshape) && type(operand(*b, 0)).dims == type(x.value).dims) {
      x.value = operand(*b, 0);
    } else if (is_op(b, Op::reshape) && (peel_repeated_heads(x, *b, type(x.value).dims) ||
                                         peel_joined_heads(x, *b) || peel_joined_batch(x, *b))) {
      if (!x.reshaped.empty())
        return;
    } else {
      peel_slice(x, *b);
      return;
    }
  }
}

/// reshape(broadcast_to(x [.., G, 1, ..], [.., G, n, ..]), [.., G n, ..]), of which x has four
/// dimensions, `joined`, whatever the reshape gives.
bool ValueReader::peel_repeated_heads(HeadsOperand &x, const Binding &reshape,
                                      const std::vector<ExprId> &joined) const {
  const ValueId wide = operand(reshape, 0);
  const Binding *broadcast = maker(wide);
  if (!is_op(broadcast, Op::broadcast_to))
    return false;
  const ValueId narrow = operand(*broadcast, 0);
  const std::vector<ExprId> &from = type(narrow).dims, &to = type(wide).dims;
  const ExprId one = module_.exprs.constant(1);
  if (from.size() != to.size() || to.size() != joined.size() + 1 || joined.size() != 4)
    return false;
  for (size_t j = 1; j < to.size(); ++j) {
    std::vector<ExprId> repeated = from, groups = from, all = to;
    repeated[j] = to[j];
    groups.erase(groups.begin() + ptrdiff_t(j));
    all.erase(all.begin() + ptrdiff_t(j));
    all[j - 1] = module_.exprs.mul(to[j - 1], to[j]);
    if (from[j] != one || repeated != to || all != joined || x.axes[1] != int64_t(j - 1))
      continue;
    const Binding *before = maker(narrow);
    if (is_op(before, Op::reshape) && type(operand(*before, 0)).dims == groups) {
      x.value = operand(*before, 0);
    } else {
      x.value = narrow;
      x.reshaped = groups;
    }
    return true;
  }
  return false;
}

/// reshape(transpose(reshape(x [B, H, ..], [B H, ..]), [0, 2, 1]), [B, H, ..]), with the
/// transposition or without: exporters turn the two last dimensions so.
bool ValueReader::peel_joined_heads(HeadsOperand &x, const Binding &reshape) const {
  const ValueId from = operand(reshape, 0);
  std::vector<ExprId> joined = type(x.value).dims;
  const std::vector<ExprId> &three = type(from).dims;
  if (joined.size() != 4 || three.size() != 3 ||
      !std::equal(three.begin() + 1, three.end(), joined.begin() + 2))
    return false;
  const Binding *before = maker(from);
  HeadsOperand y = x;
  if (is_op(before, Op::transpose)) {
    const std::vector<int64_t> axes = ir::op_integers(Op::transpose, attributes(*before), "axes");
    if (axes.size() != 3 || ir::normalize_axis(axes[0], 3) != 0 ||
        ir::normalize_axis(axes[1], 3) != 2)
      return false;
    for (int64_t &axis : y.axes)
      axis = axis < 2 ? axis : 5 - axis;
    std::swap(joined[2], joined[3]);
    before = maker(operand(*before, 0));
  }
  if (!is_op(before, Op::reshape))
    return false;
  if (const ValueId whole = operand(*before, 0); type(whole).dims == joined)
    y.value = whole;
  else if (!peel_repeated_heads(y, *before, joined))
    return false;
  x = std::move(y);
  return true;
}

bool ValueReader::joins_batch(const std::vector<ExprId> &five,
                              const std::vector<ExprId> &four) const {
  return five.size() == 5 && four.size() == 4 && four[0] == module_.exprs.mul(five[0], five[1]) &&
         std::equal(four.begin() + 1, four.end(), five.begin() + 2);
}

bool ValueReader::join_batch(HeadsOperand &x) const {
  const int64_t first = x.axes[0];
  if (x.axes.size() != 5 || x.axes[1] != first + 1)
    return false;
  std::vector<ExprId> dims = present_dims(x);
  dims[size_t(first)] = module_.exprs.mul(dims[size_t(first)], dims[size_t(first) + 1]);
  dims.erase(dims.begin() + first + 1);
  x.axes.erase(x.axes.begin() + 1);
  for (int64_t &axis : x.axes)
    axis -= axis > first;
  x.reshaped = std::move(dims);
  return true;
}

HeadsOperand ValueReader::flattened(ValueId value, bool exchanged) const {
  HeadsOperand x{.value = value, .begin = {}, .size = {}, .reshaped = {}, .axes = {0, 1, 2, 3}};
  for (const Binding *b = maker(value); b; b = maker(x.value))
    if (const ValueId other = scaled(*b, x.scale); other.valid()) {
      x.value = other;
    } else if (exchanged && is_op(b, Op::transpose) &&
               ir::op_integers(Op::transpose, attributes(*b), "axes") ==
                   std::vector<int64_t>{0, 1, 2, 4, 3}) {
      x.value = operand(*b, 0);
      exchanged = false;
    } else {
      break;
    }
  const std::vector<ExprId> &dims = type(x.value).dims;
  const ExprId one = module_.exprs.constant(1);
  x.reshaped = {module_.exprs.mul(module_.exprs.mul(dims[0], dims[1]), dims[2]), one, dims[3],
                dims[4]};
  if (exchanged)
    std::swap(x.axes[2], x.axes[3]);
  return x;
}

/// reshape(transpose(x [A, B, ..]), [A B, ..]), which leaves the first two dimensions in place.
bool ValueReader::peel_joined_batch(HeadsOperand &x, const Binding &reshape) const {
  const Binding *before = maker(operand(reshape, 0));
  if (!is_op(before, Op::transpose) || x.axes.size() != 4)
    return false;
  const ValueId whole = operand(*before, 0);
  const std::vector<int64_t> axes = ir::op_integers(Op::transpose, attributes(*before), "axes");
  if (axes.size() != 5 || ir::normalize_axis(axes[0], 5) != 0 ||
      ir::normalize_axis(axes[1], 5) != 1)
    return false;
  if (!joins_batch(type(before->result()).dims, type(x.value).dims))
    return false;
  std::vector<ExprId> dims = type(whole).dims;
  dims[1] = module_.exprs.mul(dims[0], dims[1]);
  dims.erase(dims.begin());
  for (int64_t &axis : x.axes)
    axis = axis == 0 ? 0 : int64_t(*ir::normalize_axis(axes[size_t(axis) + 1], 5)) - 1;
  x.value = whole;
  x.reshaped = std::move(dims);
  return true;
}

std::optional<std::vector<ExprId>> ValueReader::shape(ValueId value) const {
  const Binding *made = value.valid() ? uses_.maker(value) : nullptr;
  if (!made || made->kind != BindingKind::shape)
    return std::nullopt;
  const std::span<const ExprId> dims = function_.exprs_of(*made);
  return std::vector<ExprId>(dims.begin(), dims.end());
}

/// Takes one element along a dimension of a transposed tensor, without that dimension, from the
/// tensor before: queries, keys and values that one product made lie beside each other there.
bool ValueReader::peel_slice(HeadsOperand &x, const Binding &b) const {
  const ExprId one = module_.exprs.constant(1), zero = module_.exprs.constant(0);
  const std::vector<ExprId> &left = type(x.value).dims;
  ValueId whole;
  size_t dropped = 0;
  std::vector<ExprId> begin, size;
  if (is_op(&b, Op::gather)) {
    whole = operand(b, 0);
    const std::optional<double> index = scalar(operand(b, 1));
    size = type(whole).dims;
    dropped = *ir::normalize_axis(ir::op_integer(Op::gather, attributes(b), "axis"), size.size());
    const auto length = module_.exprs.as_constant(size[dropped]);
    if (!index || !length || !type(operand(b, 1)).dims.empty() || *index < 0 ||
        *index >= double(*length))
      return false;
    begin.assign(size.size(), zero);
    begin[dropped] = module_.exprs.constant(int64_t(*index));
    size[dropped] = one;
  } else {
    const Binding *slice = is_op(&b, Op::reshape) ? maker(operand(b, 0)) : nullptr;
    if (!is_op(slice, Op::slice))
      return false;
    whole = operand(*slice, 0);
    if (operand(*slice, 1).valid()) {
      const auto from = shape(operand(*slice, 1)), of = shape(operand(*slice, 2));
      if (!from || !of)
        return false;
      begin = *from, size = *of;
    } else {
      const auto parts = ir::slice_dimensions(module_.exprs, type(whole).dims, attributes(*slice));
      if (!parts.ok())
        return false;
      for (const ir::SliceDimension &part : *parts) {
        if (part.step != 1)
          return false;
        begin.push_back(part.begin), size.push_back(part.size);
      }
    }
    for (dropped = 0; dropped < size.size(); ++dropped) {
      std::vector<ExprId> rest = size;
      rest.erase(rest.begin() + ptrdiff_t(dropped));
      if (size[dropped] == one && type(whole).dims[dropped] != one && rest == left)
        break;
    }
    if (dropped == size.size())
      return false;
  }
  const Binding *transpose = maker(whole);
  if (!is_op(transpose, Op::transpose))
    return false;
  const std::vector<int64_t> given = ir::op_integers(Op::transpose, attributes(*transpose), "axes");
  const size_t rank = size.size();
  std::vector<size_t> place(rank); // of each dimension, in what is transposed
  for (size_t i = 0; i < rank; ++i)
    place[i] = given.empty() ? rank - 1 - i : *ir::normalize_axis(given[i], rank);
  x.value = operand(*transpose, 0);
  x.begin.assign(rank, zero), x.size.assign(rank, one);
  for (size_t i = 0; i < rank; ++i)
    x.begin[place[i]] = begin[i], x.size[place[i]] = size[i];
  x.reshaped = x.size;
  x.reshaped.erase(x.reshaped.begin() + ptrdiff_t(place[dropped]));
  for (int64_t &axis : x.axes) {
    const size_t at = place[size_t(axis) < dropped ? size_t(axis) : size_t(axis) + 1];
    axis = int64_t(at > place[dropped] ? at - 1 : at);
  }
  return true;
}

// --- Sequences and heads in one dimension --------------------------------------------------------

std::optional<std::array<ExprId, 2>> ValueReader::heads_before(const HeadsOperand &x) const {
  const Binding *b = x.reshaped.empty() ? maker(x.value) : nullptr;
  if (!is_op(b, Op::reshape) || x.axes.size() != 3 || x.axes[0] != 0)
    return std::nullopt;
  const std::vector<ExprId> &from = type(operand(*b, 0)).dims, &to = type(x.value).dims;
  if (from.size() != 4 || to.size() != 3 || !std::equal(to.begin() + 1, to.end(), from.begin() + 2))
    return std::nullopt;
  return std::array<ExprId, 2>{from[0], from[1]};
}

bool ValueReader::parts_alike(std::initializer_list<const HeadsOperand *> operands,
                              ExprId sequences, ExprId heads) const {
  return std::ranges::all_of(operands, [&](const HeadsOperand *x) {
    const auto parted = heads_before(*x);
    return parted && (*parted)[0] == sequences && (*parted)[1] == heads;
  });
}

bool ValueReader::are_heads_of_one(std::initializer_list<const HeadsOperand *> operands) const {
  return std::ranges::all_of(operands, [&](const HeadsOperand *x) {
    const Binding *b = x->reshaped.empty() && x->begin.empty() ? maker(x->value) : nullptr;
    if (x->axes == std::vector<int64_t>{1, 0, 2})
      return true;
    if (!is_op(b, Op::reshape) || x->axes != std::vector<int64_t>{0, 2, 1})
      return false;
    const std::vector<ExprId> &image = type(operand(*b, 0)).dims, &parts = type(x->value).dims;
    return image.size() == 4 && image[0] == module_.exprs.constant(1) &&
           image[1] == module_.exprs.mul(parts[0], parts[1]);
  });
}

bool ValueReader::part_heads(HeadsOperand &x, ExprId sequences, ExprId heads) const {
  if (x.axes.size() == 4)
    return true;
  if (x.axes.size() != 3)
    return false;
  if (parts_alike({&x}, sequences, heads)) {
    x.value = operand(*maker(x.value), 0);
    x.axes = {0, 1, x.axes[1] + 1, x.axes[2] + 1};
    peel(x);
    return true;
  }
  std::vector<ExprId> dims = present_dims(x);
  const int64_t joined = x.axes[0];
  if (dims[size_t(joined)] != module_.exprs.mul(sequences, heads))
    return false;
  dims[size_t(joined)] = sequences;
  dims.insert(dims.begin() + ptrdiff_t(joined) + 1, heads);
  const auto moved = [&](int64_t axis) { return axis > joined ? axis + 1 : axis; };
  x.axes = {joined, joined + 1, moved(x.axes[1]), moved(x.axes[2])};
  x.reshaped = std::move(dims);
  if (const Binding *b = x.begin.empty() ? maker(x.value) : nullptr; is_op(b, Op::reshape))
    x.value = operand(*b, 0);
  return true;
}

} // namespace cugrt::passes
