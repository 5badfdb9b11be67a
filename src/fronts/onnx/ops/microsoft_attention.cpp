// Attention as ONNX Runtime's tools write it, domain com.microsoft: projected or not, over a cache,
// with rotary embeddings. Source: ONNX Runtime's ContribOperators, and its CPU kernels where that
// says nothing.
#include "fronts/onnx/call.h"

#include <limits>

namespace cugrt::onnx {

namespace {

V range(Call &c, E size) {
  return c.op(Op::range, {c.w.shape({size})}, {attr("dtype", ir::DTypeLiteral(DType::i64))});
}

/// [batch, length, heads * size] to [batch, length, heads, size].
V in_heads(Call &c, V x, int64_t heads) {
  if (c.failed() || c.rank(x) != 3 || heads < 1)
    return c.w.fail(Code::parse_error, "inputs of rank 3 and their number of heads are needed"),
           V();
  const Dims d = c.dims(x);
  return c.reshape(x,
                   {d[0], d[1], c.constant(heads), c.w.exprs().floordiv(d[2], c.constant(heads))});
}

/// [batch, length, heads, size] and [batch, heads, length, size] are each other's.
V swapped(Call &c, V x) { return c.failed() ? V() : c.transpose(x, {0, 2, 1, 3}); }

/// softmax(q k' scale + bias) v as [batch, length, heads * size], of queries [b, heads, length,
/// size] and keys and values [b, groups, ..]. The bias may be absent.
V attend(Call &c, V q, V k, V v, V bias, double scale, double cap) {
  if (c.failed())
    return {};
  const Dims d = c.dims(q), of_k = c.dims(k), of_v = c.dims(v);
  const int64_t heads = c.number_of(d[1], "the number of heads"),
                groups = c.number_of(of_k[1], "the number of heads"),
                size = c.number_of(d[3], "the size of a head");
  if (c.failed() || groups < 1 || heads % groups)
    return c.w.fail(Code::parse_error, "heads are no multiple of those of the keys"), V();
  const E rows = c.w.exprs().mul(c.constant(heads / groups), d[2]); // of one group
  q = c.binary(Op::mul, q, c.like(q, scale != 0 ? scale : 1 / std::sqrt(double(size))));
  V scores = c.matmul(c.reshape(q, {d[0], of_k[1], rows, d[3]}), c.transpose(k, {0, 1, 3, 2}));
  scores = c.reshape(scores, {d[0], d[1], d[2], of_k[2]});
  if (cap > 0)
    scores = c.binary(Op::mul, c.op(Op::tanh, {c.binary(Op::div, scores, c.like(scores, cap))}),
                      c.like(scores, cap));
  if (bias.valid())
    scores = c.binary(Op::add, scores, bias);
  V weights = c.op(Op::softmax, {scores}, {attr("axis", int64_t(-1))});
  V y = c.matmul(c.reshape(weights, {d[0], of_k[1], rows, of_k[2]}), v);
  if (c.failed())
    return {};
  y = swapped(c, c.reshape(y, {d[0], d[1], d[2], of_v[3]}));
  return c.failed() ? V() : c.reshape(y, {d[0], d[2], c.w.exprs().mul(d[1], of_v[3])});
}

/// A sum to the scores: `masked` where a condition does not hold.
V bias_where(Call &c, V holds, DType dtype, double masked) {
  return c.op(Op::where, {holds, c.scalar(dtype, 0), c.scalar(dtype, masked)});
}

V summed(Call &c, V a, V b) { return !a.valid() ? b : !b.valid() ? a : c.binary(Op::add, a, b); }

/// Of a mask of keys: [batch] lengths, [batch, keys] or [batch, queries, keys] of 0 and 1.
V mask_bias(Call &c, V mask, DType dtype, E batch, E keys) {
  if (!mask.valid() || c.failed())
    return {};
  const Dims d = c.dims(mask);
  const E one = c.constant(1);
  const double masked = c.number("mask_filter_value", -10000);
  if (d.size() == 1 && d[0] == batch) {
    V at = range(c, keys);
    return bias_where(
        c, c.binary(Op::less, at, c.reshape(c.cast(mask, DType::i64), {batch, one, one, one})),
        dtype, masked);
  }
  if (d.size() != 2 && d.size() != 3)
    return c.unsupported("a mask that is neither lengths nor one number for each key"), V();
  mask = c.reshape(mask, d.size() == 2 ? Dims{d[0], one, one, d[1]} : Dims{d[0], one, d[1], d[2]});
  return bias_where(c, c.binary(Op::not_equal, mask, c.like(mask, 0)), dtype, masked);
}

/// Keys up to each query's own place, which is `first` and what follows.
V causal_bias(Call &c, DType dtype, E queries, E keys) {
  Host ahead{DType::i64, {}, {c.w.exprs().sub(keys, queries)}, {}};
  V row = c.reshape(range(c, queries), {queries, c.constant(1)});
  row = c.binary(Op::add, row, c.w.materialize(ahead));
  return bias_where(c, c.binary(Op::greater_equal, row, range(c, keys)), dtype, kMinusInfinity);
}

/// What attention is over: heads of queries, keys and values, with the cache before them.
struct Heads {
  V q, k, v; // [batch, heads, length, size]
};

void finish(Call &c, Heads x, V past_k, V past_v, V mask, V bias) {
  if (past_k.valid())
    x.k = c.concat({past_k, x.k}, 2);
  if (past_v.valid())
    x.v = c.concat({past_v, x.v}, 2);
  if (c.failed())
    return;
  c.ignore({"mask_filter_value"}); // of a mask, which reads it
  const E batch = c.dims(x.q)[0], queries = c.dims(x.q)[2], keys = c.dims(x.k)[2];
  const DType dtype = c.dtype(x.q);
  V all = summed(c, mask_bias(c, mask, dtype, batch, keys), bias);
  if (c.integer("unidirectional", 0))
    all = summed(c, all, causal_bias(c, dtype, queries, keys));
  c.result(attend(c, x.q, x.k, x.v, all, c.number("scale", 0), 0), 0);
}

void multi_head_attention(Call &c) {
  const int64_t heads = c.integer("num_heads", 0);
  V q = c.value(0), k = c.value(1), v = c.value(2);
  if (c.failed() || c.rank(q) != 3 || !k.valid())
    return c.unsupported("queries, keys and values packed in one tensor");
  if (c.wants(3))
    return c.unsupported("scores as a result");
  V bias = c.value(3);
  E at = c.constant(0);
  auto biased = [&](V x) { // its part of [hidden of q, of k, of v]
    if (!bias.valid() || c.failed() || c.rank(x) != 3)
      return x;
    const E size = c.dims(x)[2];
    V part = c.slice(bias, 0, at, size);
    at = c.w.exprs().add(at, size);
    return c.binary(Op::add, x, part);
  };
  Heads x;
  x.q = swapped(c, in_heads(c, biased(q), heads));
  if (c.rank(k) == 5) { // [batch, keys, heads, 2, size]
    const Dims d = c.dims(k);
    auto half = [&](int64_t i) {
      return swapped(
          c, c.reshape(c.slice(k, 3, c.constant(i), c.constant(1)), {d[0], d[1], d[2], d[4]}));
    };
    x.k = half(0), x.v = half(1);
  } else if (v.valid()) { // of rank 4 they are in heads, as a cache is
    x.k = c.rank(k) == 4 ? k : swapped(c, in_heads(c, biased(k), heads));
    x.v = c.rank(v) == 4 ? v : swapped(c, in_heads(c, biased(v), heads));
  } else {
    return c.unsupported("keys without values");
  }
  V past_k = c.value(6), past_v = c.value(7);
  c.result(past_k.valid() ? c.concat({past_k, x.k}, 2) : x.k, 1);
  c.result(past_v.valid() ? c.concat({past_v, x.v}, 2) : x.v, 2);
  finish(c, x, past_k, past_v, c.value(4), c.value(5));
}

/// With its projection: [batch, length, in] times [in, 3 * hidden], and a cache [2, batch, heads,
/// ..].
void microsoft_attention(Call &c) {
  const int64_t heads = c.integer("num_heads", 0);
  V x = c.value(0), w = c.value(1);
  if (c.failed() || heads < 1 || c.rank(w) != 2)
    return c.w.fail(Code::parse_error, "num_heads and weights of rank 2 are needed");
  if (c.integer("do_rotary", 0) || c.integer("past_present_share_buffer", 0))
    return c.unsupported("rotary embeddings, or a cache that is shared");
  c.ignore({"rotary_embedding_dim"});
  V projected = c.matmul(x, w);
  if (c.has(2))
    projected = c.binary(Op::add, projected, c.value(2));
  if (c.failed())
    return;
  const int64_t wide = c.number_of(c.dims(w)[1], "the columns of the weights");
  Ints sizes = c.integers("qkv_hidden_sizes", Ints(3, wide / 3));
  if (sizes.size() != 3)
    return c.w.fail(Code::parse_error, "qkv_hidden_sizes are not three");
  V parts[3];
  int64_t at = 0;
  for (size_t i = 0; i < 3; ++i) {
    parts[i] =
        swapped(c, in_heads(c, c.slice(projected, 2, c.constant(at), c.constant(sizes[i])), heads));
    at += sizes[i];
  }
  V past = c.value(4), past_k, past_v;
  if (past.valid() && !c.failed()) {
    Dims d = c.dims(past);
    d.erase(d.begin());
    past_k = c.reshape(c.slice(past, 0, c.constant(0), c.constant(1)), d);
    past_v = c.reshape(c.slice(past, 0, c.constant(1), c.constant(1)), d);
  }
  if (c.wants(1) && !c.failed()) {
    V k = past.valid() ? c.concat({past_k, parts[1]}, 2) : parts[1],
      v = past.valid() ? c.concat({past_v, parts[2]}, 2) : parts[2];
    Dims d = c.dims(k);
    d.insert(d.begin(), c.constant(1));
    c.result(c.concat({c.reshape(k, d), c.reshape(v, d)}, 0), 1);
  }
  finish(c, {parts[0], parts[1], parts[2]}, past_k, past_v, c.value(3), c.value(5));
}

/// cosines or sines of positions [batch, length], for heads.
V angles(Call &c, V table, V positions) {
  V y = c.gather(table, positions, 0);
  if (c.failed())
    return {};
  const Dims d = c.dims(y);
  return c.reshape(y, {d[0], d[1], c.constant(1), d[2]});
}

/// Groups of queries share keys; each sequence has its own number of keys in the cache.
void group_query_attention(Call &c) {
  const int64_t heads = c.integer("num_heads", 0), groups = c.integer("kv_num_heads", 0);
  V q = c.value(0), k = c.value(1), v = c.value(2), past_k = c.value(3), past_v = c.value(4);
  if (c.failed() || heads < 1 || groups < 1 || c.rank(q) != 3)
    return c.w.fail(Code::parse_error, "num_heads, kv_num_heads and queries of rank 3 are needed");
  if (c.has(11) || c.integer("smooth_softmax", 0) || c.wants(3))
    return c.unsupported("a sink of the softmax, or scores as a result");
  if (c.text("k_quant_type", "NONE") != "NONE" || c.text("v_quant_type", "NONE") != "NONE")
    return c.unsupported("a quantised cache");
  c.expect("kv_cache_bit_width", 0);
  c.expect("causal", 1);
  c.expect("sliding_window_cache", 0);
  c.ignore({"qk_output", "qk_norm_epsilon", "q_norm_epsilon", "k_norm_epsilon"}); // of what is not
  c.ignore_input(6); // the largest of input 5, plus 1
  const bool interleaved = c.integer("rotary_interleaved", 0) != 0;
  c.ignore_input(7), c.ignore_input(8), c.ignore_input(9); // read where there is a rotary embedding
  ir::ExprPool &exprs = c.w.exprs();
  if (!k.valid()) { // packed: heads of queries, of keys, of values
    const E size = exprs.floordiv(c.dims(q)[2], c.constant(heads + 2 * groups));
    const E of_q = exprs.mul(c.constant(heads), size), of_k = exprs.mul(c.constant(groups), size);
    k = c.slice(q, 2, of_q, of_k);
    v = c.slice(q, 2, exprs.add(of_q, of_k), of_k);
    q = c.slice(q, 2, c.constant(0), of_q);
  }
  q = in_heads(c, q, heads), k = in_heads(c, k, groups), v = in_heads(c, v, groups);
  if (c.failed())
    return;
  const E batch = c.dims(q)[0], queries = c.dims(q)[1], one = c.constant(1);
  // The place of each sequence's first new key: its number of keys less the new ones.
  Host count{DType::i64, {}, {exprs.sub(one, queries)}, {}};
  V place = c.binary(Op::add, c.cast(c.value(5), DType::i64), c.w.materialize(count));
  place = c.reshape(c.binary(Op::maximum, place, c.like(place, 0)), {batch, one});
  V at = c.binary(Op::add, place, range(c, queries)); // [batch, queries]
  if (c.integer("do_rotary", 0)) {
    V positions = c.has(9) ? c.cast(c.value(9), DType::i64) : at;
    V cosines = angles(c, c.value(7), positions), sines = angles(c, c.value(8), positions);
    q = rotated(c, q, cosines, sines, interleaved), k = rotated(c, k, cosines, sines, interleaved);
  }
  q = swapped(c, q), k = swapped(c, k), v = swapped(c, v);
  if (c.failed())
    return;
  const E before = past_k.valid() ? c.dims(past_k)[2] : c.constant(0),
          keys = exprs.add(before, queries);
  // Key s of the result is new one s - place, where there is such, else the cache's.
  auto placed = [&](V cache, V fresh) {
    if (!cache.valid() || c.failed() || c.known(before) == 0)
      return fresh;
    const Dims d = {batch, c.dims(fresh)[1], keys, c.dims(fresh)[3]};
    V row = c.binary(Op::sub, c.reshape(range(c, keys), {one, one, keys, one}),
                     c.reshape(place, {batch, one, one, one}));
    Host length{DType::i64, {}, {queries}, {}};
    V inside = c.binary(Op::logical_and, c.binary(Op::greater_equal, row, c.like(row, 0)),
                        c.binary(Op::less, row, c.w.materialize(length)));
    V ids = c.broadcast(c.op(Op::where, {inside, row, c.like(row, 0)}), d);
    V taken = c.op(Op::gather_elements, {fresh, ids}, {attr("axis", int64_t(2))});
    V zeros = c.broadcast(c.like(fresh, 0), c.dims(fresh));
    return c.op(Op::where, {inside, taken, c.concat({cache, zeros}, 2)});
  };
  k = placed(past_k, k), v = placed(past_v, v);
  c.result(k, 1);
  c.result(v, 2);
  V difference = c.binary(Op::sub, c.reshape(at, {batch, one, queries, one}), range(c, keys));
  V seen = c.binary(Op::greater_equal, difference, c.like(difference, 0));
  if (const int64_t window = c.integer("local_window_size", -1); window > 0)
    seen = c.binary(Op::logical_and, seen,
                    c.binary(Op::less, difference, c.like(difference, double(window))));
  V bias = bias_where(c, seen, c.dtype(q), kMinusInfinity);
  if (c.has(10))
    bias = c.binary(Op::add, bias, c.value(10));
  c.result(attend(c, q, k, v, bias, c.number("scale", 0), c.number("softcap", 0)), 0);
}

void microsoft_rotary(Call &c) {
  V x = c.value(0), ids = c.value(1), cosines = c.value(2), sines = c.value(3);
  if (c.failed() || c.integer("is_packed_batching", 0))
    return c.unsupported("sequences packed in one");
  const bool flat = c.rank(x) == 3;
  const Dims original = c.dims(x);
  int64_t heads = c.integer("num_heads", 0);
  if (const int64_t turned = c.integer("rotary_embedding_dim", 0);
      turned != 0 && c.known(c.dims(cosines)[1]).value_or(turned / 2) != turned / 2)
    return c.w.fail(Code::parse_error, "rotary_embedding_dim is not twice what the tables have");
  if (c.number("scale", 1) != 1)
    return c.unsupported("a scale of what is turned");
  if (flat) {
    if (!heads) // each as wide as two tables
      heads = c.number_of(original[2], "the size of all heads") /
              std::max<int64_t>(1, 2 * c.number_of(c.dims(cosines)[1], "the angles of a head"));
    x = in_heads(c, x, heads);
  } else {
    x = swapped(c, x);
  }
  if (c.failed())
    return;
  const E one = c.constant(1), length = c.dims(x)[1];
  ids = c.cast(ids, DType::i64);
  if (c.rank(ids) == 1) // where the first is
    ids = c.binary(Op::add, c.reshape(ids, {one, one}), c.reshape(range(c, length), {one, length}));
  V y = rotated(c, x, angles(c, cosines, ids), angles(c, sines, ids),
                c.integer("interleaved", 0) != 0);
  c.result(flat ? c.reshape(y, original) : swapped(c, y));
}

} // namespace

void add_microsoft_attention(HandlerTable &table) {
  table["MultiHeadAttention"] = multi_head_attention;
  table["Attention"] = microsoft_attention;
  table["GroupQueryAttention"] = group_query_attention;
  table["RotaryEmbedding"] = microsoft_rotary;
}

} // namespace cugrt::onnx
