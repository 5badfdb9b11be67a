// PackedAttention and PackedMultiHeadAttention: sequences of a batch lie one behind the other,
// without padding. Source: ONNX Runtime's ContribOperators (1.32).
#include "fronts/onnx/ops/attention.h"

namespace cugrt::onnx {

namespace {

/// Attention of tokens [tokens, heads * size]. Input `i` has their places among those of all
/// sequences, [batch, length], with those of padding behind; the next one where sequences begin.
void attend_packed(Call &c, V q, V k, V v, size_t i) {
  const int64_t heads = c.integer("num_heads", 0);
  const V places = c.cast(c.value(i), DType::i64), begins = c.cast(c.value(i + 1), DType::i64);
  if (heads < 1 || c.rank(q) != 2 || c.rank(places) != 2 || c.rank(begins) != 1)
    return c.w.fail(Code::parse_error, "num_heads, tokens of rank 2, their places [batch, length] "
                                       "and where sequences begin are needed");
  const E batch = c.dims(places)[0], length = c.dims(places)[1], one = c.constant(1);
  auto bound = [&](E from) { return c.reshape(c.slice(begins, 0, from, batch), {batch, one}); };
  V token = c.binary(Op::add, bound(c.constant(0)), c.reshape(c.counting(length), {one, length}));
  const V inside = c.binary(Op::less, token, bound(one));
  token = c.op(Op::where, {inside, token, c.like(token, 0)});
  auto padded = [&](V x) { return swapped(c, in_heads(c, c.gather(x, token, 0), heads)); };
  const V bias =
      bias_where(c, c.reshape(inside, {batch, one, one, length}), c.dtype(q), kMinusInfinity);
  const V y = attend(c, padded(q), padded(k), padded(v), summed(c, bias, c.value(i + 2)),
                     c.number("scale", 0), 0, {});
  const E all = c.w.exprs().mul(batch, length);
  const V place = c.gather(c.reshape(places, {all}), c.counting(c.dims(q)[0]), 0);
  c.result(c.gather(c.reshape(y, {all, c.dims(y)[2]}), place, 0), 0);
}

} // namespace

void packed_attention(Call &c) {
  V projected = c.matmul(c.value(0), c.value(1));
  if (c.has(2))
    projected = c.binary(Op::add, projected, c.value(2));
  const int64_t wide = c.number_of(c.dims(c.value(1)).back(), "the columns of the weights");
  const Ints sizes = c.integers("qkv_hidden_sizes", Ints(3, wide / 3));
  if (sizes.size() != 3 || c.rank(projected) != 2)
    return c.w.fail(Code::parse_error, "three qkv_hidden_sizes and tokens of rank 2 are needed");
  auto part = [&](int64_t from, int64_t size) {
    return c.slice(projected, 1, c.constant(from), c.constant(size));
  };
  attend_packed(c, part(0, sizes[0]), part(sizes[0], sizes[1]), part(sizes[0] + sizes[1], sizes[2]),
                3);
}

void packed_multi_head_attention(Call &c) {
  c.ignore({"mask_filter_value"}); // there is no mask
  V q = c.value(0), k = c.value(1), v = c.value(2);
  if (c.rank(q) == 4) { // [tokens, heads, 3, size]
    const Dims d = c.dims(q);
    auto part = [&](int64_t i) {
      return c.reshape(c.slice(q, 2, c.constant(i), c.constant(1)),
                       {d[0], c.w.exprs().mul(d[1], d[3])});
    };
    k = part(1), v = part(2), q = part(0);
  }
  if (!k.valid() || !v.valid())
    return c.unsupported("queries without keys and values");
  E at = c.constant(0);
  for (V *x : {&q, &k, &v})
    if (c.has(3)) {
      const E size = c.dims(*x).back();
      *x = c.binary(Op::add, *x, c.slice(c.value(3), 0, at, size));
      at = c.w.exprs().add(at, size);
    }
  attend_packed(c, q, k, v, 4);
}

} // namespace cugrt::onnx
