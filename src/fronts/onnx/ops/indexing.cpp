// Ops that take elements by position.
#include "fronts/onnx/call.h"

namespace cugrt::onnx {

V positions(Call &c, size_t i) {
  V ids = c.value(i);
  return c.dtype(ids) == DType::i32 ? ids : c.cast(ids, DType::i64);
}

static void gather(Call &c) {
  V x = c.value(0), ids = positions(c, 1);
  c.result(c.gather(x, ids, c.axis(c.integer("axis", 0), c.rank(x))));
}

static void gather_elements(Call &c) {
  V x = c.value(0), ids = positions(c, 1);
  const size_t axis = c.axis(c.integer("axis", 0), c.rank(x));
  Dims wanted = c.dims(ids);
  for (size_t i = 0; i < c.rank(x) && i < wanted.size(); ++i) // positions for a part of the tensor
    if (i != axis && c.dims(x)[i] != wanted[i]) {
      wanted[i] = c.w.exprs().min(wanted[i], c.dims(x)[i]);
      x = c.slice(x, i, c.constant(0), wanted[i]);
    }
  ids = c.w.match(ids, wanted);
  c.result(c.op(Op::gather_elements, {x, ids}, {attr("axis", static_cast<int64_t>(axis))}));
}

static void gather_nd(Call &c) {
  V x = c.value(0), ids = positions(c, 1);
  const int64_t batch = c.integer("batch_dims", 0);
  Dims wanted = c.dims(ids); // a batch is the same of both
  if (batch == 0 && !wanted.empty() && c.w.exprs().as_constant(wanted.back()) == 1) {
    wanted.pop_back(); // indices of one number are positions along the first axis
    return c.result(c.gather(x, c.reshape(ids, wanted), 0));
  }
  for (size_t i = 0; batch > 0 && i < size_t(batch); ++i)
    wanted[i] = c.dims(x)[i];
  c.result(c.op(Op::gather_nd, {x, c.w.match(ids, wanted)}, {attr("batch_dims", batch)}));
}

static void one_hot(Call &c) {
  V ids = c.value(0);
  const std::vector<double> depth = c.reals(1);
  V values = c.value(2);
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
static void reverse_sequence(Call &c) {
  V x = c.value(0), lengths = c.cast(c.value(1), DType::i64);
  const auto batch = static_cast<size_t>(c.integer("batch_axis", 1)),
             time = static_cast<size_t>(c.integer("time_axis", 0));
  if (c.rank(x) < 2 || batch > 1 || time > 1 || batch == time)
    return c.unsupported("axes other than the first two");
  const Dims d = c.dims(x);
  V t = c.counting(d[time]);
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

static void scatter(Call &c) {
  V x = c.value(0), ids = positions(c, 1), updates = c.value(2);
  const std::string reduction = c.text("reduction", "none");
  const DType dtype = c.dtype(x);
  if (reduction != "none" && (dtype == DType::u8 || dtype == DType::i8)) // reduced as words
    x = c.cast(x, DType::i32), updates = c.cast(updates, DType::i32);
  if (c.node.op != "ScatterND") { // positions for a part of the other dimensions
    Dims part = c.dims(ids);
    const size_t axis = c.axis(c.integer("axis", 0), c.rank(x));
    for (size_t i = 0; i < c.rank(x) && i < part.size(); ++i)
      if (i != axis && part[i] != c.dims(x)[i])
        part[i] = c.w.exprs().min(part[i], c.dims(x)[i]);
    ids = c.w.match(ids, part);
  }
  Dims wanted = c.dims(ids); // an update for each position
  if (c.node.op == "ScatterND" && !wanted.empty()) {
    const std::optional<int64_t> indexed = c.known(wanted.back());
    wanted.pop_back();
    for (size_t i = size_t(indexed.value_or(0)); indexed >= 0 && i < c.rank(x); ++i)
      wanted.push_back(c.dims(x)[i]);
  }
  if (wanted.size() == c.rank(updates))
    updates = c.w.match(updates, wanted);
  std::vector<ir::Attribute> attributes = {attr("reduction", reduction)};
  if (c.node.op != "ScatterND")
    attributes.push_back(attr("axis", c.integer("axis", 0)));
  c.result(c.cast(c.op(c.node.op == "ScatterND" ? "scatter_nd" : "scatter_elements",
                       {x, ids, updates}, attributes),
                  dtype));
}

void add_indexing(HandlerTable &table) {
  table["Gather"] = gather;
  table["GatherElements"] = gather_elements;
  table["GatherND"] = gather_nd;
  table["OneHot"] = one_hot;
  table["ReverseSequence"] = reverse_sequence;
  table["ScatterElements"] = table["Scatter"] = table["ScatterND"] = scatter;
}

} // namespace cugrt::onnx
