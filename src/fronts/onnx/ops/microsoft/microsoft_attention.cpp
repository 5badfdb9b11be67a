// Attention as ONNX Runtime's tools write it, domain com.microsoft: projected or not, over a cache,
// with rotary embeddings. Source: ONNX Runtime's ContribOperators (1.32), and its CPU kernels where
// that says nothing.
#include "fronts/onnx/ops/attention.h"

namespace cugrt::onnx {

// --- Shared; see attention.h

V in_heads(Call &c, V x, int64_t heads) {
  if (c.rank(x) != 3 || heads < 1)
    c.w.fail(Code::parse_error, "inputs of rank 3 and their number of heads are needed");
  const Dims d = c.dims(x);
  return c.reshape(x,
                   {d[0], d[1], c.constant(heads), c.w.exprs().floordiv(d[2], c.constant(heads))});
}

V swapped(Call &c, V x) { return c.transpose(x, {0, 2, 1, 3}); }

V attend(Call &c, V q, V k, V v, V bias, double scale, double cap, V sink) {
  const Dims d = c.dims(q), of_k = c.dims(k), of_v = c.dims(v);
  const int64_t heads = c.number_of(d[1], "the number of heads"),
                groups = c.number_of(of_k[1], "the number of heads"),
                size = c.number_of(d[3], "the size of a head");
  if (groups < 1 || heads % groups)
    c.w.fail(Code::parse_error, "heads are no multiple of those of the keys");
  const E rows = c.w.exprs().mul(c.constant(heads / groups), d[2]); // of one group
  q = c.binary(Op::mul, q, c.like(q, scale != 0 ? scale : 1 / std::sqrt(double(size))));
  V scores = c.matmul(c.reshape(q, {d[0], of_k[1], rows, d[3]}), c.transpose(k, {0, 1, 3, 2}));
  scores = c.reshape(scores, {d[0], d[1], d[2], of_k[2]});
  if (cap > 0)
    scores = c.binary(Op::mul, c.op(Op::tanh, {c.binary(Op::div, scores, c.like(scores, cap))}),
                      c.like(scores, cap));
  if (bias.valid())
    scores = c.binary(Op::add, scores, c.stretch(bias, c.dims(scores)));
  if (sink.valid()) {
    const E one = c.constant(1);
    sink = c.reshape(c.cast(sink, c.dtype(scores)), {one, d[1], one, one});
    scores = c.concat({scores, c.broadcast(sink, {d[0], d[1], d[2], one})}, 3);
  }
  V weights = c.op(Op::softmax, {scores}, {attr("axis", int64_t(-1))});
  if (sink.valid())
    weights = c.slice(weights, 3, c.constant(0), of_k[2]);
  V y = c.matmul(c.reshape(weights, {d[0], of_k[1], rows, of_k[2]}), v);
  y = swapped(c, c.reshape(y, {d[0], d[1], d[2], of_v[3]}));
  return c.reshape(y, {d[0], d[2], c.w.exprs().mul(d[1], of_v[3])});
}

V bias_where(Call &c, V holds, DType dtype, double masked) {
  return c.op(Op::where, {holds, c.scalar(dtype, 0), c.scalar(dtype, masked)});
}

V summed(Call &c, V a, V b) {
  return !a.valid() ? b : !b.valid() ? a : c.broadcasting(Op::add, a, b);
}

V stretched(Call &c, V x, E keys) {
  if (!x.valid())
    return {};
  const size_t last = c.rank(x) - 1;
  const E n = c.dims(x)[last];
  if (n == keys || c.known(n) == 1)
    return x;
  ir::ExprPool &exprs = c.w.exprs();
  return padded(c, x, last, c.constant(0), exprs.max(exprs.sub(keys, n), c.constant(0)),
                c.like(x, 0));
}

V written(Call &c, V cache, V fresh, V place, V count, E more) {
  const Dims d = c.dims(cache), of_fresh = c.dims(fresh);
  const E batch = of_fresh[0], one = c.constant(1), rows = c.w.exprs().add(d[2], more);
  if (c.known(more) != 0)
    cache = c.concat({cache, c.broadcast(c.like(fresh, 0), {d[0], d[1], more, d[3]})}, 2);
  V row = c.binary(Op::sub, c.reshape(c.counting(rows), {one, one, rows, one}),
                   c.reshape(place, {c.dims(place)[0], one, one, one}));
  V end = count.valid() ? c.reshape(count, {batch, one, one, one}) : c.whole(of_fresh[2]);
  V inside = c.binary(Op::logical_and, c.binary(Op::greater_equal, row, c.like(row, 0)),
                      c.binary(Op::less, row, end));
  V ids = c.broadcast(c.op(Op::where, {inside, row, c.like(row, 0)}),
                      {batch, of_fresh[1], rows, of_fresh[3]});
  V taken = c.op(Op::gather_elements, {fresh, ids}, {attr("axis", int64_t(2))});
  return c.op(Op::where, {inside, taken, cache});
}

V angles(Call &c, V table, V positions) {
  V y = c.gather(table, positions, 0);
  const Dims d = c.dims(y);
  return c.reshape(y, {d[0], d[1], c.constant(1), d[2]});
}

namespace {

/// The bias of a mask: [batch] lengths, [2 batch] ends and beginnings, [3 batch + 2] lengths and
/// their sums, [batch, keys] or [batch, queries, keys] of 0 and 1, or [batch, 1, places, places] of
/// them, where queries are behind `past` others.
V mask_bias(Call &c, V mask, DType dtype, E batch, E past, E queries, E keys) {
  if (!mask.valid())
    return {};
  const Dims d = c.dims(mask);
  const E one = c.constant(1), zero = c.constant(0);
  ir::ExprPool &exprs = c.w.exprs();
  const double masked = c.number("mask_filter_value", -10000);
  const E twice = exprs.mul(c.constant(2), batch), sums = exprs.add(twice, c.constant(2));
  if (d.size() == 1 && (d[0] == batch || d[0] == twice || d[0] == exprs.add(batch, sums))) {
    const V at = c.counting(keys), all = c.cast(mask, DType::i64);
    auto places = [&](E from) {
      return c.reshape(c.slice(all, 0, from, batch), {batch, one, one, one});
    };
    V seen = c.binary(Op::less, at, places(zero));
    if (d[0] == twice)
      seen = c.binary(Op::logical_and, seen, c.binary(Op::greater_equal, at, places(batch)));
    return bias_where(c, seen, dtype, masked);
  }
  if (d.size() == 4 && d[1] == one && past.valid())
    mask = c.slice(c.slice(mask, 2, past, queries), 3, zero, keys);
  else if (d.size() == 2 || d.size() == 3)
    mask =
        c.reshape(mask, d.size() == 2 ? Dims{d[0], one, one, d[1]} : Dims{d[0], one, d[1], d[2]});
  else
    c.unsupported("a mask that is neither lengths nor one number for each key");
  return bias_where(c, c.binary(Op::not_equal, mask, c.like(mask, 0)), dtype, masked);
}

/// Keys or values of all: the new ones behind a cache, which may be absent, or in its room from
/// `place` [1, 1] on.
V joined(Call &c, V past, V fresh, V place) {
  return !past.valid()    ? fresh
         : !place.valid() ? c.concat({past, fresh}, 2)
                          : written(c, past, fresh, place, {}, c.constant(0));
}

/// Operands of attention: heads of queries, keys and values.
struct Heads {
  V q, k, v; // [batch, heads, length, size]
};

/// Queries are behind those of the cache `past_k`, which may be absent; if keys stand in its room,
/// `place` [1, 1] is the first new one.
void finish(Call &c, Heads x, V past_k, V place, V mask, V bias) {
  c.ignore({"mask_filter_value"}); // of a mask, which reads it
  const E past = place.valid() ? E() : past_k.valid() ? c.dims(past_k)[2] : c.constant(0);
  const E batch = c.dims(x.q)[0], queries = c.dims(x.q)[2], keys = c.dims(x.k)[2];
  const DType dtype = c.dtype(x.q);
  mask = mask_bias(c, mask, dtype, batch, past, queries, keys);
  if (place.valid())
    mask = stretched(c, mask, keys), bias = stretched(c, bias, keys);
  V all = summed(c, mask, bias), seen;
  if (c.integer("unidirectional", 0)) { // keys up to each query's own place
    V first = place.valid() ? place : c.whole(past);
    V row = c.binary(Op::add, c.reshape(c.counting(queries), {queries, c.constant(1)}), first);
    seen = c.binary(Op::greater_equal, row, c.counting(keys));
  } else if (place.valid()) {
    seen = c.binary(Op::less, c.counting(keys), c.binary(Op::add, place, c.whole(queries)));
  }
  if (seen.valid())
    all = summed(c, all, bias_where(c, seen, dtype, kMinusInfinity));
  c.result(attend(c, x.q, x.k, x.v, all, c.number("scale", 0), 0, {}), 0);
}

/// Input `i`: how many keys a cache has in its room; [1, 1].
V place_of(Call &c, size_t i) {
  V place = c.cast(c.value(i), DType::i64);
  return c.reshape(place, {c.constant(1), c.constant(1)});
}

void multi_head_attention(Call &c) {
  const int64_t heads = c.integer("num_heads", 0);
  V q = c.value(0), k = c.value(1), v = c.value(2);
  if (c.wants(3))
    return c.unsupported("scores as a result");
  auto part = [&](V of, int64_t i) { // of [batch, length, heads, 2 or 3, size]
    const Dims d = c.dims(of);
    return c.reshape(c.slice(of, 3, c.constant(i), c.constant(1)),
                     {d[0], d[1], c.w.exprs().mul(d[2], d[4])});
  };
  if (c.rank(q) == 5)
    k = part(q, 1), v = part(q, 2), q = part(q, 0);
  else if (k.valid() && c.rank(k) == 5)
    v = part(k, 1), k = part(k, 0);
  if (!k.valid() || !v.valid())
    return c.unsupported("queries without keys and values");
  V bias = c.value(3);
  E at = c.constant(0);
  auto biased = [&](V x) { // its part of [hidden of q, of k, of v]
    if (!bias.valid() || c.rank(x) != 3)
      return x;
    const E size = c.dims(x)[2];
    V part = c.slice(bias, 0, at, size);
    at = c.w.exprs().add(at, size);
    return c.binary(Op::add, x, part);
  };
  Heads x;
  x.q = swapped(c, in_heads(c, biased(q), heads));
  // Of rank 4 they are in heads, as a cache is.
  x.k = c.rank(k) == 4 ? k : swapped(c, in_heads(c, biased(k), heads));
  x.v = c.rank(v) == 4 ? v : swapped(c, in_heads(c, biased(v), heads));
  V past_k = c.value(6), past_v = c.value(7);
  V place = past_k.valid() && past_v.valid() && c.has(8) ? place_of(c, 8) : V();
  x.k = joined(c, past_k, x.k, place), x.v = joined(c, past_v, x.v, place);
  c.result(x.k, 1);
  c.result(x.v, 2);
  finish(c, x, past_k, place, c.value(4), c.value(5));
}

/// Attention with its projection: [batch, length, in] times [in, 3 * hidden], and a cache [2,
/// batch, heads, ..].
void microsoft_attention(Call &c) {
  const int64_t heads = c.integer("num_heads", 0);
  V x = c.value(0), w = c.value(1);
  if (heads < 1 || c.rank(w) != 2)
    return c.w.fail(Code::parse_error, "num_heads and weights of rank 2 are needed");
  if (c.integer("do_rotary", 0))
    return c.unsupported("rotary embeddings");
  c.ignore({"rotary_embedding_dim"});
  V projected = c.matmul(x, w);
  if (c.has(2))
    projected = c.binary(Op::add, projected, c.value(2));
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
  if (past.valid()) {
    Dims d = c.dims(past);
    d.erase(d.begin());
    past_k = c.reshape(c.slice(past, 0, c.constant(0), c.constant(1)), d);
    past_v = c.reshape(c.slice(past, 0, c.constant(1), c.constant(1)), d);
  }
  c.ignore_input(6); // read where the cache has room
  V place = c.integer("past_present_share_buffer", 0) && past.valid() ? place_of(c, 6) : V();
  V k = joined(c, past_k, parts[1], place), v = joined(c, past_v, parts[2], place);
  if (c.wants(1)) {
    Dims d = c.dims(k);
    d.insert(d.begin(), c.constant(1));
    c.result(c.concat({c.reshape(k, d), c.reshape(v, d)}, 0), 1);
  }
  finish(c, {parts[0], k, v}, past_k, place, c.value(3), c.value(5));
}

void microsoft_rotary(Call &c) {
  V x = c.value(0), ids = c.value(1), cosines = c.value(2), sines = c.value(3);
  if (c.integer("is_packed_batching", 0))
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
  const E one = c.constant(1), length = c.dims(x)[1];
  ids = c.cast(ids, DType::i64);
  if (c.rank(ids) == 1) // where the first is
    ids =
        c.binary(Op::add, c.reshape(ids, {one, one}), c.reshape(c.counting(length), {one, length}));
  V y = rotated(c, x, angles(c, cosines, ids), angles(c, sines, ids),
                c.integer("interleaved", 0) != 0);
  c.result(flat ? c.reshape(y, original) : swapped(c, y));
}

} // namespace

void add_microsoft_attention(HandlerTable &table) {
  table["MultiHeadAttention"] = multi_head_attention;
  table["Attention"] = microsoft_attention;
  table["GroupQueryAttention"] = group_query_attention;
  table["PackedAttention"] = packed_attention;
  table["PackedMultiHeadAttention"] = packed_multi_head_attention;
  table["RotaryEmbedding"] = microsoft_rotary;
}

} // namespace cugrt::onnx
