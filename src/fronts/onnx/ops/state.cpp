// Ops that carry a state from one call to the next: caches that are written at a place, causal
// convolutions, linear attention.
#include "fronts/onnx/call.h"

namespace cugrt::onnx {

/// past_cache with the updates from each sequence's place on along an axis.
static void tensor_scatter(Call &c) {
  V past = c.value(0), update = c.value(1), places = c.value(2);
  if (c.rank(past) < 2)
    return c.unsupported("a cache without sequences");
  const Dims d = c.dims(past);
  const size_t axis = c.axis(c.integer("axis", -2), d.size());
  if (axis == 0)
    return c.w.fail(Code::parse_error, "a cache is written along another axis than the batch's");
  // Element s of the axis is update s - place, where there is such.
  Dims row(d.size(), c.constant(1)), column(d.size(), c.constant(1));
  row[axis] = d[axis], column[0] = d[0];
  V at = c.reshape(c.counting(d[axis]), row);
  if (places.valid())
    at = c.binary(Op::sub, at, c.reshape(c.cast(places, DType::i64), column));
  if (c.text("mode", "linear") == "circular")
    at = c.binary(Op::floor_mod, at, c.whole(d[axis]));
  V length = c.whole(c.dims(update)[axis]), zero = c.like(at, 0);
  V inside = c.binary(Op::logical_and, c.binary(Op::greater_equal, at, zero),
                      c.binary(Op::less, at, length));
  at = c.broadcast(c.op(Op::where, {inside, at, zero}), d);
  V taken = c.op(Op::gather_elements, {update, at}, {attr("axis", static_cast<int64_t>(axis))});
  c.result(c.op(Op::where, {inside, taken, past}));
}

/// Channel by channel, each result of the elements up to its own; the last ones are the state.
static void causal_convolution(Call &c) {
  V x = c.value(0), w = c.value(1), bias = c.value(2), past = c.value(3);
  if (c.rank(x) != 3 || c.rank(w) != 3)
    return c.unsupported("a convolution of other than one dimension");
  const int64_t before = c.number_of(c.dims(w)[2], "the size of a kernel") - 1,
                channels = c.number_of(c.dims(x)[1], "the number of channels");
  V padded = past.valid() ? c.concat({past, x}, 2)
                          : c.op(Op::pad, {x},
                                 {attr("before", Ints{0, 0, before}), attr("after", Ints(3, 0))});
  V y = c.op(Op::conv1d, {padded, w, bias},
             {attr("strides", Ints{1}), attr("padding", Ints{0, 0}), attr("dilation", Ints{1}),
              attr("groups", channels)});
  const std::string activation = c.text("activation", "none");
  if (activation == "silu" || activation == "swish")
    y = c.op(Op::silu, {y});
  else if (activation != "none")
    return c.unsupported("activation " + activation);
  c.result(y, 0);
  if (c.wants(1))
    c.result(c.slice(padded, 2, c.w.exprs().sub(c.dims(padded)[2], c.constant(before)),
                     c.constant(before)),
             1);
}

/// A state [batch, heads, key, value] that each step decays, corrects, writes and reads.
static void linear_attention(Call &c) {
  const std::string rule = c.text("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta",
             corrects = rule == "delta" || rule == "gated_delta";
  c.ignore({"chunk_size"}); // of other ways to the same result
  V q = c.value(0), k = c.value(1), v = c.value(2), past = c.value(3),
    decay = gated ? c.value(4) : V(), beta = corrects ? c.value(5) : V();
  if ((rule != "linear" && !gated && !corrects) || gated != decay.valid() ||
      corrects != beta.valid())
    return c.w.fail(Code::parse_error, "update rule '" + rule + "' without what it needs");
  const int64_t q_heads = c.integer("q_num_heads", 0), heads = c.integer("kv_num_heads", 0);
  if (c.rank(q) != 3 || c.rank(k) != 3 || c.rank(v) != 3 || heads < 1 || q_heads < 1 ||
      q_heads % heads)
    return c.w.fail(Code::parse_error, "queries, keys and values are of rank 3, and heads of the "
                                       "queries a multiple of those of the keys");
  const DType dtype = c.dtype(q), state_dtype = past.valid() ? c.dtype(past) : dtype;
  const E batch = c.dims(q)[0], h = c.constant(heads), one = c.constant(1);
  const int64_t steps = c.number_of(c.dims(q)[1], "the number of steps");
  const E d_k = c.w.exprs().floordiv(c.dims(q)[2], c.constant(q_heads)),
          d_v = c.w.exprs().floordiv(c.dims(v)[2], h);
  const int64_t size = c.number_of(d_k, "the size of a head");
  if (steps < 1 || steps > kMostSteps)
    return c.unsupported("a linear attention of more than " + std::to_string(kMostSteps) +
                         " steps");
  // [batch, steps, n * size]: step i as [batch, groups.., size].
  auto step = [&](V x, int64_t i, const Dims &to) {
    return c.reshape(c.slice(x, 1, c.constant(i), one), to);
  };
  const double given = c.number("scale", 0);
  q = c.cast(q, DType::f32), k = c.cast(k, DType::f32), v = c.cast(v, DType::f32);
  q = c.binary(Op::mul, q, c.like(q, given != 0 ? given : 1 / std::sqrt(double(size))));
  if (decay.valid())
    decay = c.op(Op::exp, {c.cast(decay, DType::f32)});
  if (beta.valid())
    beta = c.cast(beta, DType::f32);
  V state = past.valid() ? c.cast(past, DType::f32)
                         : c.broadcast(c.scalar(DType::f32, 0), {batch, h, d_k, d_v});
  std::vector<V> outputs;
  for (int64_t i = 0; i < steps; ++i) {
    V key = step(k, i, {batch, h, one, d_k}), value = step(v, i, {batch, h, one, d_v});
    if (decay.valid()) {
      const E each = c.w.exprs().floordiv(c.dims(decay)[2], h); // 1, or one for each of the key
      state = c.binary(Op::mul, state, step(decay, i, {batch, h, each, one}));
    }
    if (beta.valid())
      value = c.binary(Op::mul, step(beta, i, {batch, c.dims(beta)[2], one, one}),
                       c.binary(Op::sub, value, c.matmul(key, state)));
    state =
        c.binary(Op::add, state, c.binary(Op::mul, c.reshape(key, {batch, h, d_k, one}), value));
    V query = step(q, i, {batch, h, c.constant(q_heads / heads), d_k});
    outputs.push_back(
        c.reshape(c.matmul(query, state), {batch, one, c.w.exprs().mul(c.constant(q_heads), d_v)}));
  }
  c.result(c.cast(c.concat(outputs, 1), dtype), 0);
  c.result(c.cast(state, state_dtype), 1);
}

void add_states(HandlerTable &table) {
  table["TensorScatter"] = tensor_scatter;
  table["CausalConvWithState"] = causal_convolution;
  table["LinearAttention"] = linear_attention;
}

} // namespace cugrt::onnx
