// Pad: by numbers the device's own op; by what depends on dimensions, or in circle, a gather along
// the axis at positions that are computed.
#include "fronts/onnx/call.h"

#include <algorithm>

namespace cugrt::onnx {

namespace {

struct Padding {
  E before, after;
};

/// Element i of the result is element i - before of x where there is one; else, by the mode,
/// another one or `fill` (a scalar).
V chosen(Call &c, V x, size_t axis, const Padding &padding, const std::string &mode, V fill) {
  ir::ExprPool &exprs = c.w.exprs();
  const E size = c.dims(x)[axis];
  c.w.require_at_least(size, 1);
  if (mode == "reflect")
    c.w.require_at_least(exprs.sub(size, exprs.max(padding.before, padding.after)), 1);
  E total = exprs.add(exprs.add(size, padding.before), padding.after);
  if (c.w.range(total).lower < 0)
    total = exprs.max(total, c.constant(0));
  V at = c.counting(total);
  at = c.binary(Op::sub, at, c.whole(padding.before));
  const V first = c.whole(c.constant(0)), last = c.whole(exprs.sub(size, c.constant(1)));
  V from = at;
  if (mode == "wrap") {
    from = c.binary(Op::floor_mod, at, c.whole(size));
  } else {
    if (mode == "reflect") {
      from = c.op(Op::abs, {at});
      from = c.binary(Op::minimum, from, c.binary(Op::sub, c.binary(Op::add, last, last), from));
    }
    from = c.binary(Op::minimum, c.binary(Op::maximum, from, first), last);
  }
  V y = c.gather(x, from, axis);
  if (mode != "constant")
    return y;
  Dims along(c.rank(x), c.constant(1));
  along[axis] = total;
  V inside = c.op(Op::logical_and,
                  {c.binary(Op::greater_equal, at, first), c.binary(Op::less_equal, at, last)});
  return c.op(Op::where, {c.reshape(inside, along), y, fill});
}

/// Pads by numbers, none negative. Constant mode reads `fill`: if only the device knows it, a
/// padded mask places it.
V by_numbers(Call &c, V x, const Ints &before, const Ints &after, const std::string &mode) {
  const Host *known = c.has(2) && mode == "constant" ? c.host(2) : nullptr;
  if (c.has(2) && mode == "constant" && !known) {
    V mask = c.op(Op::pad, {c.broadcast(c.scalar(DType::u8, 1), c.dims(x))},
                  {attr("before", before), attr("after", after)});
    V padded = c.op(Op::pad, {x}, {attr("before", before), attr("after", after)});
    V fill = c.value(2);
    if (c.rank(fill))
      fill = c.reshape(fill, {});
    return c.op(Op::where, {c.cast(mask, DType::boolean), padded, fill});
  }
  const double value = known ? c.real(2, 0) : c.attribute("value") ? c.number("value", 0) : 0;
  const bool of_bools = c.dtype(x) == DType::boolean;
  V y = c.op(
      Op::pad, {of_bools ? c.cast(x, DType::u8) : x},
      {attr("before", before), attr("after", after), attr("mode", mode), attr("value", value)});
  return of_bools ? c.cast(y, DType::boolean) : y;
}

void pad(Call &c) {
  V x = c.value(0);
  const size_t rank = c.rank(x);
  std::vector<E> given;
  if (c.attribute("pads"))
    for (int64_t one : c.integers("pads", {}))
      given.push_back(c.constant(one));
  else
    given = c.exprs(1);
  Ints axes;
  if (c.has(3))
    axes = c.axes(c.constants(3), rank);
  else
    for (size_t i = 0; i < rank; ++i)
      axes.push_back(int64_t(i));
  if (given.size() != 2 * axes.size())
    return c.w.fail(Code::parse_error, "pads are not two for each axis");
  const std::string mode = c.text("mode", "constant");
  c.ignore({"value"}), c.ignore_input(2); // read where there is something to fill with it
  Ints before(rank, 0), after(rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = size_t(axes[i]);
    Padding padding = {given[i], given[axes.size() + i]};
    const auto first = c.known(padding.before), last = c.known(padding.after);
    if (first == 0 && last == 0)
      continue;
    if (first && last) {
      constexpr int64_t kMost = INT32_MAX / 2;
      for (int64_t n : {*first, *last})
        if (n < -kMost || n > kMost)
          return c.w.fail(Code::parse_error, "a padding of " + std::to_string(n));
      before[axis] = *first, after[axis] = *last;
      const int64_t less = std::min<int64_t>(before[axis], 0),
                    more = std::min<int64_t>(after[axis], 0);
      if (less || more) // cuts come first
        x = c.slice(x, axis, c.constant(-less),
                    c.w.exprs().add(c.dims(x)[axis], c.constant(less + more)));
      before[axis] -= less, after[axis] -= more;
    }
    if (mode == "wrap" && first && last) {
      padding = {c.constant(before[axis]), c.constant(after[axis])};
      before[axis] = after[axis] = 0;
    }
    if (!first || !last || mode == "wrap") {
      V fill = mode != "constant" ? V()
               : c.has(2)         ? c.value(2)
                                  : c.like(x, c.attribute("value") ? c.number("value", 0) : 0);
      if (c.rank(fill))
        fill = c.reshape(fill, {});
      x = chosen(c, x, axis, padding, mode, fill);
      continue;
    }
    if (mode == "reflect")
      c.w.require_at_least(c.dims(x)[axis], std::max(before[axis], after[axis]) + 1);
  }
  const auto is_nothing = [](int64_t one) { return one == 0; };
  if (std::all_of(before.begin(), before.end(), is_nothing) &&
      std::all_of(after.begin(), after.end(), is_nothing))
    return c.result(x);
  c.result(by_numbers(c, x, before, after, mode));
}

} // namespace

V padded(Call &c, V x, size_t axis, E before, E after, V fill) {
  return chosen(c, x, axis, {before, after}, "constant", fill);
}

void add_padding(HandlerTable &table) { table["Pad"] = pad; }

} // namespace cugrt::onnx
