// Reductions, searches and ops made of them: norms of vectors, losses.
#include "fronts/onnx/call.h"

namespace cugrt::onnx {

namespace {

/// Axes of an attribute, or of input `i` in later opsets; empty if not given.
Ints given_axes(Call &c, size_t i, size_t rank) {
  if (c.attribute("axes"))
    return c.axes(c.integers("axes", {}), rank);
  return c.has(i) ? c.axes(c.constants(i), rank) : Ints();
}

Ints all_axes(size_t rank) {
  Ints all;
  for (size_t i = 0; i < rank; ++i)
    all.push_back(static_cast<int64_t>(i));
  return all;
}

void reduce(Call &c) {
  V x = c.value(0);
  const std::string_view kind = c.node.op.substr(6);
  const DType dtype = c.dtype(x);
  Ints axes = given_axes(c, 1, c.rank(x));
  const bool noop = c.integer("noop_with_empty_axes", 0) != 0, nothing = axes.empty() && noop;
  if (axes.empty() && !nothing)
    axes = all_axes(c.rank(x));
  const bool keep = c.integer("keepdims", 1) != 0;
  if (nothing && kind == "LogSumExp") // log(exp(x)), which overflows
    return c.result(c.entry(0));
  const bool through_float = !is_real(dtype) && (kind == "L2" || kind == "LogSum" ||
                                                 kind == "LogSumExp" || kind == "Mean");
  if (dtype == DType::boolean) { // of bools: largest and smallest
    V y =
        c.reduce(kind == "Max" ? Op::reduce_max : Op::reduce_min, c.cast(x, DType::u8), axes, keep);
    return c.result(c.cast(y, DType::boolean));
  }
  if (through_float)
    x = c.cast(x, DType::f64);
  if (kind == "L1")
    x = c.op(Op::abs, {x});
  else if (kind == "L2" || kind == "SumSquare")
    x = c.binary(Op::mul, x, x);
  V largest;
  if (kind == "LogSumExp") {
    // log(sum(exp(x - m))) + m; where m is infinite nothing is taken away.
    V m = c.reduce(Op::reduce_max, x, axes, true);
    V finite = c.op(Op::where, {c.op(Op::is_inf, {m}), c.like(m, 0), m});
    x = c.op(Op::exp, {c.binary(Op::sub, x, finite)});
    largest = c.reduce(Op::reduce_max, finite, axes, keep);
  }
  const Op op = kind == "Mean"   ? Op::reduce_mean
                : kind == "Max"  ? Op::reduce_max
                : kind == "Min"  ? Op::reduce_min
                : kind == "Prod" ? Op::reduce_prod
                                 : Op::reduce_sum;
  V y = nothing ? x : c.reduce(op, x, axes, keep);
  if (kind == "L2")
    y = c.op(Op::sqrt, {y});
  else if (kind == "LogSum" || kind == "LogSumExp")
    y = c.op(Op::log, {y});
  if (largest.valid())
    y = c.binary(Op::add, y, largest);
  c.result(through_float ? c.cast(y, dtype) : y);
}

void search(Call &c) {
  V x = c.value(0);
  c.result(
      c.op(c.node.op == "ArgMax" ? Op::argmax : Op::argmin, {x},
           {attr("axis", c.integer("axis", 0)), attr("keep_dims", c.integer("keepdims", 1) != 0),
            attr("last", c.integer("select_last_index", 0) != 0)}));
}

void cumulative(Call &c) {
  V x = c.value(0);
  const Ints axis = c.constants(1);
  c.result(c.op(c.node.op == "CumSum" ? Op::cumsum : Op::cumprod, {x},
                {attr("axis", axis.empty() ? 0 : axis[0]),
                 attr("exclusive", c.integer("exclusive", 0) != 0),
                 attr("reverse", c.integer("reverse", 0) != 0)}));
}

/// The number of a dtype that no other one is above, or below; an infinity of floats.
V farthest(Call &c, DType dtype, bool above) {
  if (is_real(dtype))
    return c.scalar(dtype, above ? -kMinusInfinity : kMinusInfinity);
  const auto bits = int(8 * ir::info(dtype).bytes_per_block);
  const bool has_sign = ir::info(dtype).kind == ir::DTypeKind::signed_integer;
  const uint64_t all = ~uint64_t(0) >> (64 - bits), most = has_sign ? all >> 1 : all;
  const auto least = has_sign ? -int64_t(all >> 1) - 1 : int64_t(0);
  return c.w.materialize({dtype, {}, {c.constant(above ? int64_t(most) : least)}, {}});
}

/// If k is a symbol, sorts this many elements, whatever it is.
constexpr int64_t kMostOfSymbol = 4096;

void top_k(Call &c) {
  V x = c.value(0);
  const std::vector<E> given =
      c.has(1) ? c.exprs(1) : std::vector<E>{c.constant(c.integer("k", 0))};
  if (given.size() != 1)
    return c.w.fail(Code::parse_error, "k has " + std::to_string(given.size()) + " elements");
  const E k = given[0];
  const auto number = c.known(k);
  const size_t axis = c.axis(c.integer("axis", -1), c.rank(x));
  c.ignore({"sorted"}); // unsorted ones may stand in any order
  const E length = c.dims(x)[axis];
  const int64_t most =
      number.value_or(std::min(c.w.range(k).upper, c.known(length).value_or(INT64_MAX)));
  if (most > kMostOfSymbol && !number)
    return static_cast<void>(c.number_of(k, "k"));
  if (number)
    c.w.require_at_least(length, most);
  const bool largest = c.integer("largest", 1) != 0;
  const bool all_there = c.known(length) || c.w.range(length).lower >= most;
  if (!all_there) { // behind its elements, such as come last
    Dims room = c.dims(x);
    room[axis] = c.constant(most);
    x = c.concat({x, c.broadcast(farthest(c, c.dtype(x), !largest), room)}, axis);
  }
  std::vector<V> both = c.w.emit(
      Op::top_k, {x},
      {attr("k", most), attr("axis", static_cast<int64_t>(axis)), attr("largest", largest)});
  for (size_t i = 0; i < 2; ++i) {
    V y = both[i];
    if (!number || !all_there) {
      Dims wanted = c.dims(y);
      wanted.at(axis) = k;
      y = c.w.match(c.slice(y, axis, c.constant(0), number ? c.w.exprs().min(length, k) : k),
                    wanted);
    }
    c.result(y, i);
  }
}

void softmax(Call &c) {
  V x = c.value(0);
  const Op op = c.node.op == "Softmax" ? Op::softmax : Op::log_softmax;
  if (c.w.opset() >= 13)
    return c.result(c.op(op, {x}, {attr("axis", c.integer("axis", -1))}));
  const size_t axis = c.integer("axis", 1) == int64_t(c.rank(x))
                          ? c.rank(x)
                          : c.axis(c.integer("axis", 1), c.rank(x));
  const Dims dims = c.dims(x); // before opset 13: of all axes from that one on
  const Dims flat = {c.product(dims.first(axis)), c.product(dims.from(axis))};
  c.result(c.reshape(c.op(op, {c.reshape(x, flat)}, {attr("axis", int64_t(-1))}), dims));
}

void hardmax(Call &c) {
  V x = c.value(0);
  const bool old = c.w.opset() < 13;
  const Dims dims = c.dims(x);
  size_t axis = c.axis(c.integer("axis", old ? 1 : -1), c.rank(x));
  if (old) {
    x = c.reshape(x, {c.product(dims.first(axis)), c.product(dims.from(axis))});
    axis = 1;
  }
  Dims one = c.dims(x), along(c.rank(x), c.constant(1));
  std::swap(one[axis], along[axis]);
  V largest = c.reshape(c.op(Op::argmax, {x}, {attr("axis", static_cast<int64_t>(axis))}), one);
  V places = c.reshape(c.op(Op::range, {c.w.shape({along[axis]})},
                            {attr("dtype", ir::DTypeLiteral(c.dtype(largest)))}),
                       along);
  c.result(c.reshape(c.cast(c.binary(Op::equal, places, largest), c.dtype(x)), dims));
}

void lp_norm(Call &c) {
  V x = c.value(0);
  const Ints axes = {static_cast<int64_t>(c.axis(c.integer("axis", -1), c.rank(x)))};
  const int64_t p = c.integer("p", 2);
  if (p != 1 && p != 2)
    return c.unsupported("powers other than 1 and 2");
  V sum =
      c.reduce(Op::reduce_sum, p == 1 ? c.op(Op::abs, {x}) : c.binary(Op::mul, x, x), axes, true);
  V norm = p == 1 ? sum : c.op(Op::sqrt, {sum});
  V zero = c.binary(Op::equal, norm, c.like(norm, 0)); // then the result is 0
  c.result(c.binary(Op::div, x, c.op(Op::where, {zero, c.like(norm, 1), norm})));
}

/// -weight[t] input[t] over the class axis, then summed or averaged by weight.
V nll(Call &c, V x, V target, V weight, bool has_weight) {
  if (c.rank(x) < 2 || c.rank(target) + 1 != c.rank(x))
    c.w.fail(Code::parse_error, "scores have a class axis more than targets");
  const DType dtype = c.dtype(x);
  if (c.dtype(target) != DType::i32)
    target = c.cast(target, DType::i64);
  V ignored;
  if (c.attribute("ignore_index")) {
    ignored = c.binary(Op::equal, target, c.like(target, double(c.integer("ignore_index", 0))));
    target = c.op(Op::where, {ignored, c.like(target, 0), target});
  }
  Dims column = c.dims(target);
  const Dims plain = column;
  column.insert_at(1, c.constant(1));
  V taken = c.op(Op::gather_elements, {x, c.reshape(target, column)}, {attr("axis", int64_t(1))});
  V loss = c.op(Op::neg, {c.reshape(taken, plain)});
  V weights;
  if (has_weight)
    weights = c.gather(weight, target, 0);
  if (ignored.valid()) {
    if (!has_weight)
      weights = c.broadcast(c.scalar(dtype, 1), plain);
    weights = c.op(Op::where, {ignored, c.like(x, 0), weights});
  }
  if (weights.valid())
    loss = c.binary(Op::mul, loss, weights);
  const std::string how = c.text("reduction", "mean");
  const Ints all = all_axes(plain.size());
  if (how == "none")
    return loss;
  V sum = c.reduce(Op::reduce_sum, loss, all, false);
  if (how == "sum")
    return sum;
  return weights.valid() ? c.binary(Op::div, sum, c.reduce(Op::reduce_sum, weights, all, false))
                         : c.reduce(Op::reduce_mean, loss, all, false);
}

void nll_loss(Call &c) { c.result(nll(c, c.value(0), c.value(1), c.value(2), c.has(2))); }

void cross_entropy(Call &c) {
  V logs = c.op(Op::log_softmax, {c.value(0)}, {attr("axis", int64_t(1))});
  c.result(nll(c, logs, c.value(1), c.value(2), c.has(2)));
  c.result(logs, 1);
}

} // namespace

void add_reductions(HandlerTable &table) {
  for (std::string_view name :
       {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
        "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"})
    table[name] = reduce;
  table["ArgMax"] = table["ArgMin"] = search;
  table["CumSum"] = table["CumProd"] = cumulative;
  table["TopK"] = top_k;
  table["Softmax"] = table["LogSoftmax"] = softmax;
  table["Hardmax"] = hardmax;
  table["LpNormalization"] = lp_norm;
  table["NegativeLogLikelihoodLoss"] = nll_loss;
  table["SoftmaxCrossEntropyLoss"] = cross_entropy;
}

} // namespace cugrt::onnx
