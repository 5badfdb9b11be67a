// Ops that take elements by position.
#include "import/onnx/call.h"

namespace cugrt::onnx {

namespace {

V positions(Call &c, size_t i) {
  V ids = c.value(i);
  return c.dtype(ids) == DType::i32 ? ids : c.cast(ids, DType::i64);
}

void gather(Call &c) {
  V x = c.value(0), ids = positions(c, 1);
  c.result(c.gather(x, ids, c.axis(c.integer("axis", 0), c.rank(x))));
}

void gather_elements(Call &c) {
  V x = c.value(0), ids = positions(c, 1);
  if (c.failed())
    return;
  const size_t axis = c.axis(c.integer("axis", 0), c.rank(x));
  for (size_t i = 0; i < c.rank(x) && i < c.rank(ids); ++i) // positions for a part of the tensor
    if (i != axis && c.dims(x)[i] != c.dims(ids)[i])
      x = c.slice(x, i, c.constant(0), c.dims(ids)[i]);
  c.result(c.op(Op::gather_elements, {x, ids}, {attr("axis", static_cast<int64_t>(axis))}));
}

/// Positions of several axes become one, of a tensor whose axes are joined.
void gather_nd(Call &c) {
  V x = c.value(0), ids = c.cast(c.value(1), DType::i64);
  if (c.failed())
    return;
  const auto batch = static_cast<size_t>(c.integer("batch_dims", 0));
  const Dims d = c.dims(x), at = c.dims(ids);
  if (at.empty() || batch >= at.size() || batch >= d.size())
    return c.w.fail(Code::parse_error, "positions have too few axes");
  const auto depth = static_cast<size_t>(c.number_of(at.back(), "the number of axes"));
  if (c.failed() || batch + depth > d.size())
    return c.w.fail(Code::parse_error, "positions are of more axes than there are");
  // Axes: batch, chosen, rest. A batch is one more chosen axis, whose position is its own.
  Dims places(at.begin(), at.end() - 1);
  V flat;
  auto add = [&](V one) { flat = flat.valid() ? c.binary(Op::add, flat, one) : one; };
  auto stride_of = [&](size_t axis) {
    return c.product(Dims(d.begin() + ptrdiff_t(axis) + 1, d.begin() + ptrdiff_t(batch + depth)));
  };
  auto times = [&](V one, E stride) {
    if (c.known(stride) == 1)
      return one;
    Host host{DType::i64, {}, {stride}, {}};
    return c.binary(Op::mul, one, c.w.materialize(host));
  };
  for (size_t b = 0; b < batch; ++b) {
    Dims own(places.size(), c.constant(1));
    own[b] = places[b];
    V own_place =
        c.op(Op::range, {c.w.shape({d[b]})}, {attr("dtype", ir::DTypeLiteral(DType::i64))});
    add(c.broadcast(c.reshape(times(own_place, stride_of(b)), own), places));
  }
  for (size_t i = 0; i < depth; ++i) {
    V one = c.reshape(c.slice(ids, at.size() - 1, c.constant(int64_t(i)), c.constant(1)), places);
    Host size{DType::i64, {}, {d[batch + i]}, {}};
    V length = c.w.materialize(size);
    V negative = c.binary(Op::less, one, c.like(one, 0));
    one = c.op(Op::where, {negative, c.binary(Op::add, one, length), one});
    add(times(one, stride_of(batch + i)));
  }
  Dims joined = {c.product(Dims(d.begin(), d.begin() + ptrdiff_t(batch + depth)))};
  joined.insert(joined.end(), d.begin() + ptrdiff_t(batch + depth), d.end());
  c.result(c.gather(c.reshape(x, joined), flat, 0));
}

void one_hot(Call &c) {
  V ids = c.value(0);
  const std::vector<double> depth = c.reals(1);
  V values = c.value(2);
  if (c.failed())
    return;
  if (depth.size() != 1 || !(depth[0] >= 0 && depth[0] < 1e9))
    return c.unsupported("a depth of " + std::to_string(depth.empty() ? 0 : depth[0]));
  const auto count = static_cast<int64_t>(depth[0]);
  if (c.dtype(ids) != DType::i32)
    ids = c.cast(ids, DType::i64);
  V hot = c.op(Op::one_hot, {ids},
               {attr("depth", count), attr("axis", c.integer("axis", -1)),
                attr("dtype", ir::DTypeLiteral(DType::u8))});
  V off = c.reshape(c.slice(values, 0, c.constant(0), c.constant(1)), {});
  V on = c.reshape(c.slice(values, 0, c.constant(1), c.constant(1)), {});
  c.result(c.op(Op::where, {c.cast(hot, DType::boolean), on, off}));
}

/// Rows of a batch, reversed up to their length.
void reverse_sequence(Call &c) {
  V x = c.value(0), lengths = c.cast(c.value(1), DType::i64);
  if (c.failed())
    return;
  const auto batch = static_cast<size_t>(c.integer("batch_axis", 1)),
             time = static_cast<size_t>(c.integer("time_axis", 0));
  if (c.rank(x) < 2 || batch > 1 || time > 1 || batch == time)
    return c.unsupported("axes other than the first two");
  const Dims d = c.dims(x);
  V t = c.op(Op::range, {c.w.shape({d[time]})}, {attr("dtype", ir::DTypeLiteral(DType::i64))});
  Dims column(2, c.constant(1)), row(2, c.constant(1));
  column[time] = d[time], row[batch] = d[batch];
  t = c.reshape(t, column), lengths = c.reshape(lengths, row);
  V mirrored = c.binary(Op::sub, c.binary(Op::sub, lengths, c.like(t, 1)), t);
  V ids = c.op(Op::where, {c.binary(Op::less, t, lengths), mirrored, t});
  Dims wide = c.dims(ids);
  while (wide.size() < d.size())
    wide.push_back(c.constant(1));
  c.result(c.op(Op::gather_elements, {x, c.broadcast(c.reshape(ids, wide), d)},
                {attr("axis", static_cast<int64_t>(time))}));
}

/// What is not 0, of which nothing is known but that all are: positions in order.
void non_zero(Call &c) { c.unsupported("a result whose size the data decide"); }

/// Elements along an axis by a condition that is known here.
void compress(Call &c) {
  V x = c.value(0);
  const Ints condition = c.constants(1);
  if (c.failed())
    return;
  size_t axis = 0;
  if (c.attribute("axis"))
    axis = c.axis(c.integer("axis", 0), c.rank(x));
  else
    x = c.reshape(x, {c.product(c.dims(x))});
  Host ids{DType::i64, {}, {}, {}};
  for (size_t i = 0; i < condition.size(); ++i)
    if (condition[i])
      ids.ints.push_back(c.constant(int64_t(i)));
  ids.dims = {int64_t(ids.ints.size())};
  c.result(c.gather(x, c.w.materialize(ids), axis));
}

void scatter(Call &c) {
  V x = c.value(0), ids = positions(c, 1), updates = c.value(2);
  const std::string reduction = c.text("reduction", "none");
  if (c.node.op == "ScatterND")
    return c.result(c.op("scatter_nd", {x, ids, updates}, {attr("reduction", reduction)}));
  c.result(c.op("scatter_elements", {x, ids, updates},
                {attr("axis", c.integer("axis", 0)), attr("reduction", reduction)}));
}

} // namespace

void add_indexing(HandlerTable &table) {
  table["Gather"] = gather;
  table["GatherElements"] = gather_elements;
  table["GatherND"] = gather_nd;
  table["OneHot"] = one_hot;
  table["ReverseSequence"] = reverse_sequence;
  table["NonZero"] = non_zero;
  table["Compress"] = compress;
  table["ScatterElements"] = table["Scatter"] = table["ScatterND"] = scatter;
}

} // namespace cugrt::onnx
