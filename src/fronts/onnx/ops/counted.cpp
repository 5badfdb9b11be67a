// Results whose size the data decides: NonZero, Compress, Unique, NonMaxSuppression.
//
// They are made at their upper bound, with their number of rows beside them. So they stay where
// they only become results of the model (../counted_values.cpp); else the host reads the number
// (one wait), and the rows that are there are gathered. What decides on the device which elements
// stay is a list of flags; where the n-th of them goes is their running sum.
#include "fronts/onnx/call.h"

#include <algorithm>

namespace cugrt::onnx {

namespace {

V whole(Call &c, int64_t value) { return c.scalar(DType::i64, double(value)); }

V running(Call &c, V x) { return c.op(Op::cumsum, {x}, {attr("axis", int64_t(0))}); }

/// `updates` [n] put into zeros [size] at `places`; where several meet, the largest, or their sum.
V placed(Call &c, E size, V places, V updates, const char *reduction = "max") {
  return c.op(Op::scatter_elements, {c.broadcast(whole(c, 0), {size}), places, updates},
              {attr("axis", int64_t(0)), attr("reduction", std::string(reduction))});
}

struct Kept {
  V positions; // of the flags that are set, in order, i64 [size]; behind these 0
  E size;      // how many there are, or can be
  V count{};   // in the second case: how many there are, i64 [1]
};

/// Places of the elements kept by flags [n], bool.
Kept kept(Call &c, V flags) {
  const E n = c.dims(flags)[0];
  V set = c.cast(flags, DType::i64), sums = running(c, set);
  V last = c.w.range(n).lower < 1 // a dimension that may be 0 has no last element
               ? c.reduce(Op::reduce_sum, set, {0}, true)
               : c.slice(sums, 0, c.w.exprs().sub(n, c.constant(1)), c.constant(1));
  const bool stays = c.w.may_stay_counted(c.node);
  const E size = stays ? n : c.w.count_on_host(last, n);
  // Place 0 is for elements that are not kept.
  V places =
      placed(c, c.w.exprs().add(n, c.constant(1)), c.binary(Op::mul, sums, set), c.counting(n));
  V positions = c.gather(places, c.counting(size, 1), 0);
  // A value of its own: a result that is a part of the sums would keep all of them.
  return {positions, size, stays ? c.binary(Op::maximum, last, c.like(last, 0)) : V()};
}

V flags_of(Call &c, V x) {
  return c.dtype(x) == DType::boolean ? x : c.binary(Op::not_equal, x, c.like(x, 0));
}

/// Element `position` of [.., size, stride].
V coordinate(Call &c, V positions, E stride, std::optional<E> size) {
  V at = c.known(stride) == 1 ? positions : c.binary(Op::div, positions, c.whole(stride));
  return size ? c.binary(Op::trunc_mod, at, c.whole(*size)) : at;
}

void nonzero(Call &c) {
  V x = c.value(0);
  Dims d = c.dims(x);
  if (d.empty())
    d = {c.constant(1)};
  const Kept found = kept(c, c.reshape(flags_of(c, x), {c.product(d)}));
  std::vector<V> rows;
  for (size_t i = 0; i < d.size(); ++i) {
    const E stride = c.product(d.from(i + 1));
    V row = coordinate(c, found.positions, stride, i ? std::optional(d[i]) : std::nullopt);
    rows.push_back(c.reshape(row, {c.constant(1), found.size}));
  }
  c.result(c.concat(rows, 0), 0, 1, found.count);
}

/// The axis; without one x becomes a list.
size_t axis_or_flat(Call &c, V &x) {
  if (c.attribute("axis"))
    return c.axis(c.integer("axis", 0), c.rank(x));
  x = c.reshape(x, {c.product(c.dims(x))});
  return 0;
}

void compress(Call &c) {
  V x = c.value(0);
  c.required(1);
  const size_t axis = axis_or_flat(c, x);
  const Host *known = c.host(1);
  if (known && known->dims.size() == 1 &&
      std::all_of(known->ints.begin(), known->ints.end(), [&](E e) { return c.known(e); })) {
    Host ids{DType::i64, {}, {}, {}};
    for (size_t i = 0; i < known->ints.size(); ++i)
      if (c.known(known->ints[i]) != 0)
        ids.ints.push_back(c.constant(int64_t(i)));
    ids.dims = {int64_t(ids.ints.size())};
    return c.result(c.gather(x, c.w.materialize(ids), axis));
  }
  V condition = c.value(1);
  if (c.rank(condition) != 1)
    return c.w.fail(Code::parse_error, "the condition is no list");
  const Kept found = kept(c, flags_of(c, condition));
  c.result(c.gather(x, found.positions, axis), 0, axis, found.count);
}

// --- Unique

/// Positions of rows in ascending order, equal ones as they stood, and which of these differ from
/// the row before.
struct Sorted {
  V positions, is_new;
};

/// at - 1, of the first one itself.
V earlier(Call &c, V at) {
  return c.binary(Op::maximum, c.binary(Op::sub, at, whole(c, 1)), whole(c, 0));
}

Sorted sorted_elements(Call &c, V x, int64_t n) {
  const auto both = c.ops("top_k", {c.dtype(x) == DType::boolean ? c.cast(x, DType::u8) : x},
                          {attr("k", n), attr("axis", int64_t(0)), attr("largest", false)});
  V values = both[0], at = c.counting(c.constant(n));
  V before = c.gather(values, earlier(c, at), 0);
  V is_new = c.op(Op::logical_or,
                  {c.op(Op::not_equal, {values, before}), c.binary(Op::equal, at, whole(c, 0))});
  return {both[1], is_new};
}

/// Compares each row of x [rows, m] with each.
Sorted sorted_rows(Call &c, V x, E rows, int64_t m) {
  const E one = c.constant(1), columns = c.constant(m);
  V a = c.reshape(x, {rows, one, columns}), b = c.reshape(x, {one, rows, columns});
  V sign = c.binary(Op::sub, c.cast(c.binary(Op::greater, a, b), DType::i32),
                    c.cast(c.binary(Op::less, a, b), DType::i32));
  V first = c.op(Op::argmax, {c.op(Op::abs, {sign})},
                 {attr("axis", int64_t(2)), attr("keep_dims", true)});
  V order =
      c.reshape(c.op(Op::gather_elements, {sign, first}, {attr("axis", int64_t(2))}), {rows, rows});
  V at = c.counting(rows);
  V is_earlier = c.binary(Op::less, c.reshape(at, {one, rows}), c.reshape(at, {rows, one}));
  V zero = c.like(order, 0);
  V above =
      c.op(Op::logical_or, {c.binary(Op::greater, order, zero),
                            c.op(Op::logical_and, {c.binary(Op::equal, order, zero), is_earlier})});
  V rank = c.reduce(Op::reduce_sum, c.cast(above, DType::i64), {1}, false);
  V positions = placed(c, rows, rank, at);
  V previous = c.gather(positions, earlier(c, at), 0);
  V pairs = c.binary(Op::add, c.binary(Op::mul, positions, c.whole(rows)), previous);
  V differs = c.gather(c.reshape(order, {c.w.exprs().mul(rows, rows)}), pairs, 0);
  V is_new = c.op(Op::logical_or,
                  {c.binary(Op::not_equal, differs, zero), c.binary(Op::equal, at, whole(c, 0))});
  return {positions, is_new};
}

void unique(Call &c) {
  constexpr int64_t kMostCompared = int64_t(1) << 22;
  V x = c.value(0);
  const bool flat = !c.attribute("axis");
  const size_t axis = axis_or_flat(c, x);
  const Dims d = c.dims(x);
  const E size = d[axis];
  const auto number = c.known(size);
  const int64_t n = c.w.range(size).upper;
  int64_t m = 1;
  for (size_t i = 0; i < d.size(); ++i)
    if (i != axis)
      m = std::min(m * std::min(c.number_of(d[i], "the size of what is compared"), kMostCompared),
                   kMostCompared + 1);
  if (number == 0) {
    c.result(x);
    for (size_t i = 1; i < 4; ++i)
      c.result(Host{DType::i64, {0}, {}, {}}, i);
    return;
  }
  if (m < 1)
    return c.unsupported("rows without elements to choose from");
  const bool by_rows = !flat || !number; // a sort's length must be a number
  if (n > kMostCompared || m > kMostCompared ||
      (by_rows && double(n) * double(n) * double(m) > double(kMostCompared)))
    return c.unsupported("up to " + std::to_string(n) + " rows of " + std::to_string(m) +
                         " to choose from");
  Sorted sorted;
  if (!by_rows) {
    sorted = sorted_elements(c, x, n);
  } else {
    Ints axes = {int64_t(axis)};
    for (size_t i = 0; i < d.size(); ++i)
      if (i != axis)
        axes.push_back(int64_t(i));
    V rows = c.reshape(c.transpose(x, axes), {size, c.constant(m)});
    sorted = sorted_rows(c, c.dtype(x) == DType::boolean ? c.cast(rows, DType::u8) : rows, size, m);
  }
  V set = c.cast(sorted.is_new, DType::i64);
  V group = c.binary(Op::sub, running(c, set), whole(c, 1)); // of each sorted place
  Kept firsts;                                               // where each group occurs first
  if (c.integer("sorted", 1)) {
    firsts = kept(c, sorted.is_new);
    firsts.positions = c.gather(sorted.positions, firsts.positions, 0);
  } else {
    V is_first = placed(c, size, sorted.positions, set);
    V first_of = placed(c, size, group, c.binary(Op::mul, sorted.positions, set));
    V among = c.binary(Op::sub, running(c, is_first), whole(c, 1)); // the firsts
    group = c.gather(among, c.gather(first_of, group, 0), 0);
    firsts = kept(c, c.binary(Op::not_equal, is_first, whole(c, 0)));
  }
  c.result(c.gather(x, firsts.positions, axis), 0, axis, firsts.count);
  if (c.wants(1))
    c.result(c.binary(Op::add, firsts.positions, whole(c, 0)), 1, 0, firsts.count);
  if (c.wants(2))
    c.result(placed(c, size, sorted.positions, group), 2);
  if (c.wants(3))
    c.result(c.gather(placed(c, size, group, c.broadcast(whole(c, 1), {size}), "add"),
                      c.counting(firsts.size), 0),
             3, 0, firsts.count);
}

// --- NonMaxSuppression

void non_max_suppression(Call &c) {
  V boxes = c.value(0), scores = c.value(1);
  if (c.rank(boxes) != 3 || c.rank(scores) != 3 || c.known(c.dims(boxes)[2]) != 4)
    return c.w.fail(Code::parse_error, "boxes are [images, n, 4], scores [images, classes, n]");
  const Ints limit = c.has(2) ? c.constants(2) : Ints{0};
  const double overlap = c.real(3, 0);
  const bool centres = c.integer("center_point_box", 0) != 0;
  const std::vector<double> least = c.has(4) ? c.reals(4) : std::vector<double>();
  const Dims d = c.dims(scores);
  boxes = c.w.match(boxes, {d[0], d[2], c.constant(4)});
  if (limit.empty() || limit[0] <= 0)
    return c.result(Host{DType::i64, {0, 3}, {}, {}});
  const E most = c.w.exprs().min(d[2], c.constant(limit[0]));
  const E lists = c.w.exprs().mul(d[0], d[1]), all = c.w.exprs().mul(lists, most);
  KernelCall call;
  call.source = "nms.cu", call.entry = "nms";
  call.options = {"-DOVERLAP=" + float_text(overlap)};
  if (!least.empty())
    call.options.push_back("-DLEAST_SCORE=" + float_text(least[0]));
  if (centres)
    call.options.push_back("-DCENTERS");
  call.inputs = {c.cast(boxes, DType::f32), c.cast(scores, DType::f32)};
  call.outputs = {c.w.tensor_type(DType::i64, {all}), c.w.tensor_type(DType::u8, {lists, d[2]})};
  call.sizes = {d[1], d[2], most, lists};
  call.grid[0] = 3, call.each[0] = 1, call.block[0] = 256;
  V selected = c.w.launch(call)[0];
  const Kept found = kept(c, c.binary(Op::greater_equal, selected, whole(c, 0)));
  const E one = c.constant(1);
  std::vector<V> columns = {
      coordinate(c, found.positions, c.w.exprs().mul(d[1], most), std::nullopt),
      coordinate(c, found.positions, most, d[1]), c.gather(selected, found.positions, 0)};
  for (V &column : columns)
    column = c.reshape(column, {found.size, one});
  c.result(c.concat(columns, 1), 0, 0, found.count);
}

} // namespace

void add_counted(HandlerTable &table) {
  table["NonZero"] = nonzero;
  table["Compress"] = compress;
  table["Unique"] = unique;
  table["NonMaxSuppression"] = non_max_suppression;
}

} // namespace cugrt::onnx
