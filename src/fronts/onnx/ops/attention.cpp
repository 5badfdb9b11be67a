// Attention as products and a softmax, and rotary embeddings. Source: ONNX's Attention, whose masks
// are sums of biases and whose rows without an attendable key are 0.
#include "fronts/onnx/call.h"

namespace cugrt::onnx {

namespace {

class Attention {
public:
  explicit Attention(Call &c) : c(c) {}
  void run();

private:
  /// [batch, heads, length, size] of [batch, length, heads * size].
  V split_heads(V x, int64_t heads);
  V repeated(V x, int64_t times);
  void allow(V condition) {
    allowed_ = allowed_.valid() ? c.binary(Op::logical_and, allowed_, condition) : condition;
  }
  void masks();
  V bias(V mask);

  Call &c;
  V q_, k_, v_, past_k_, past_v_, lengths_, allowed_;
  E queries_, keys_;
};

V Attention::split_heads(V x, int64_t heads) {
  if (c.rank(x) == 4)
    return x;
  const Dims d = c.dims(x);
  if (d.size() != 3 || heads < 1)
    c.w.fail(Code::parse_error, "inputs of rank 3 need q_num_heads and kv_num_heads");
  const E size = c.w.exprs().floordiv(d[2], c.constant(heads));
  return c.transpose(c.reshape(x, {d[0], d[1], c.constant(heads), size}), {0, 2, 1, 3});
}

V Attention::repeated(V x, int64_t times) {
  if (times == 1)
    return x;
  const Dims d = c.dims(x);
  const E n = c.constant(times);
  V wide = c.broadcast(c.reshape(x, {d[0], d[1], c.constant(1), d[2], d[3]}),
                       {d[0], d[1], n, d[2], d[3]});
  return c.reshape(wide, {d[0], c.w.exprs().mul(d[1], n), d[2], d[3]});
}

/// Makes masks from the attributes and the lengths.
void Attention::masks() {
  const int64_t left = c.integer("left_window_size", -1),
                right = c.integer("right_window_size", -1);
  const bool causal = c.integer("is_causal", 0) != 0;
  V lengths; // [batch, 1, 1, 1]
  if (lengths_.valid())
    lengths = c.reshape(c.cast(lengths_, DType::i64),
                        {c.dims(lengths_)[0], c.constant(1), c.constant(1), c.constant(1)});
  if (causal || left >= 0 || right >= 0) {
    // Position of a query among the keys: its own and how many precede the first.
    V at = c.reshape(c.counting(queries_), {queries_, c.constant(1)});
    if (past_k_.valid())
      at = c.binary(Op::add, at, c.whole(c.dims(past_k_)[2]));
    else if (lengths.valid())
      at = c.binary(Op::add, c.binary(Op::sub, lengths, c.whole(queries_)), at);
    V difference = c.binary(Op::sub, at, c.counting(keys_));
    if (causal)
      allow(c.binary(Op::greater_equal, difference, c.like(difference, 0)));
    if (left >= 0)
      allow(c.binary(Op::less_equal, difference, c.like(difference, double(left))));
    if (right >= 0)
      allow(c.binary(Op::greater_equal, difference, c.like(difference, -double(right))));
  }
  if (lengths.valid())
    allow(c.binary(Op::less, c.counting(keys_), lengths));
}

/// The mask as a sum to the scores, -inf where nothing is seen; invalid: there is none.
V Attention::bias(V mask) {
  const DType dtype = c.dtype(q_);
  if (mask.valid()) {
    if (c.dtype(mask) == DType::boolean)
      mask = c.op(Op::where, {mask, c.scalar(dtype, 0), c.scalar(dtype, kMinusInfinity)});
    const Dims d = c.dims(mask);
    if (d.back() != keys_) { // shorter: positions behind it are not seen
      const int64_t more = c.number_of(c.w.exprs().sub(keys_, d.back()), "the length of a mask");
      if (more > 0 && c.known(d.back()) != 1) {
        Ints before(d.size(), 0), after(d.size(), 0);
        after.back() = more;
        mask = c.op(Op::pad, {mask},
                    {attr("before", before), attr("after", after), attr("value", kMinusInfinity)});
      }
    }
  }
  if (!allowed_.valid())
    return mask;
  V base = mask.valid() ? mask : c.scalar(dtype, 0);
  c.spread({&allowed_, &base});
  return c.op(Op::where, {allowed_, base, c.scalar(dtype, kMinusInfinity)});
}

void Attention::run() {
  q_ = c.value(0), k_ = c.value(1), v_ = c.value(2);
  const bool flat = c.rank(q_) == 3;
  const int64_t q_heads = c.integer("q_num_heads", 0), kv_heads = c.integer("kv_num_heads", 0);
  q_ = split_heads(q_, q_heads), k_ = split_heads(k_, kv_heads), v_ = split_heads(v_, kv_heads);
  past_k_ = c.value(4);
  past_v_ = c.value(5);
  lengths_ = c.value(6);
  if (past_k_.valid())
    k_ = c.concat({past_k_, k_}, 2);
  if (past_v_.valid())
    v_ = c.concat({past_v_, v_}, 2);
  c.result(k_, 1);
  c.result(v_, 2);
  if (c.rank(q_) != 4)
    return;
  queries_ = c.dims(q_)[2], keys_ = c.dims(k_)[2];
  const int64_t heads = c.number_of(c.dims(q_)[1], "the number of heads"),
                groups = c.number_of(c.dims(k_)[1], "the number of heads");
  if (groups < 1 || heads % groups)
    return c.w.fail(Code::parse_error, "heads are no multiple of those of the keys");
  masks();
  V mask = bias(c.value(3));
  const DType dtype = c.dtype(q_);
  const int64_t size = c.number_of(c.dims(q_)[3], "the size of a head");
  const double scale = std::sqrt(c.number("scale", 1 / std::sqrt(double(size))));
  V scores =
      c.matmul(c.binary(Op::mul, q_, c.like(q_, scale)),
               c.transpose(c.binary(Op::mul, repeated(k_, heads / groups), c.like(k_, scale)),
                           {0, 1, 3, 2}));
  const V product = scores;
  if (const double cap = c.number("softcap", 0); cap > 0)
    scores = c.binary(Op::mul, c.op(Op::tanh, {c.binary(Op::div, scores, c.like(scores, cap))}),
                      c.like(scores, cap));
  if (mask.valid())
    mask = c.stretch(mask, c.dims(scores));
  V biased = mask.valid() ? c.binary(Op::add, scores, mask) : scores;
  V softmax = biased;
  if (const auto precision = dtype_of(static_cast<int32_t>(c.integer("softmax_precision", 0))))
    softmax = c.cast(softmax, *precision);
  softmax = c.cast(c.op(Op::softmax, {softmax}, {attr("axis", int64_t(-1))}), dtype);
  if (mask.valid()) {
    V most =
        c.rank(mask) ? c.reduce(Op::reduce_max, mask, {int64_t(c.rank(mask)) - 1}, true) : mask;
    softmax = c.op(Op::where, {c.binary(Op::equal, most, c.like(most, kMinusInfinity)),
                               c.like(softmax, 0), softmax});
  }
  const int64_t mode = c.integer("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3)
    return c.w.fail(Code::parse_error, "qk_matmul_output_mode is none of 0 to 3");
  c.result(mode == 3 ? softmax : mode == 2 ? biased : mode == 1 ? scores : product, 3);
  V y = c.matmul(softmax, repeated(v_, heads / groups));
  if (flat) {
    const Dims d = c.dims(y);
    y = c.reshape(c.transpose(y, {0, 2, 1, 3}), {d[0], d[2], c.w.exprs().mul(d[1], d[3])});
  }
  c.result(y, 0);
}

void attention(Call &c) { Attention(c).run(); }

void rotary(Call &c) {
  V x = c.value(0), cosines = c.value(1), sines = c.value(2);
  const Dims original = c.dims(x);
  const bool flat = original.size() == 3;
  const int64_t heads = c.integer("num_heads", 0);
  if (flat) {
    if (heads < 1)
      return c.w.fail(Code::parse_error, "an input of rank 3 needs num_heads");
    x = c.reshape(x, {original[0], original[1], c.constant(heads),
                      c.w.exprs().floordiv(original[2], c.constant(heads))});
  } else {
    x = c.transpose(x, {0, 2, 1, 3}); // [batch, length, heads, size]
  }
  const Dims d = c.dims(x);
  const int64_t size = c.number_of(d[3], "the size of a head"),
                given = c.integer("rotary_embedding_dim", 0);
  const int64_t turned = given ? given : size;
  if (c.has(3)) {
    V ids = c.cast(c.value(3), DType::i64);
    cosines = c.gather(cosines, ids, 0), sines = c.gather(sines, ids, 0);
  }
  const Dims table = {d[0], d[1], c.constant(1), c.constant(turned / 2)};
  V y = rotated(c, x, c.reshape(cosines, table), c.reshape(sines, table),
                c.integer("interleaved", 0) != 0);
  c.result(flat ? c.reshape(y, original) : c.transpose(y, {0, 2, 1, 3}));
}

void swiglu(Call &c) {
  V a = c.value(0), b = c.value(1);
  const double alpha = c.number("alpha", 1);
  V gate = alpha == 1
               ? c.op(Op::silu, {a})
               : c.binary(Op::mul, a, c.op(Op::sigmoid, {c.binary(Op::mul, a, c.like(a, alpha))}));
  c.result(c.binary(Op::mul, gate, b));
}

} // namespace

V rotated(Call &c, V x, V cosines, V sines, bool interleaved) {
  const Dims d = c.dims(x);
  const E half = c.dims(cosines).back();
  const int64_t size = c.number_of(d[3], "the size of a head"),
                turned = 2 * c.number_of(half, "the angles of a head");
  V head = c.slice(x, 3, c.constant(0), c.constant(turned));
  auto part = [&](int64_t i) {
    if (!interleaved)
      return c.slice(head, 3, c.constant(i * (turned / 2)), half);
    V pairs = c.reshape(head, {d[0], d[1], d[2], half, c.constant(2)});
    return c.reshape(c.slice(pairs, 4, c.constant(i), c.constant(1)), {d[0], d[1], d[2], half});
  };
  V a = part(0), b = part(1);
  V real = c.binary(Op::sub, c.binary(Op::mul, cosines, a), c.binary(Op::mul, sines, b));
  V imaginary = c.binary(Op::add, c.binary(Op::mul, sines, a), c.binary(Op::mul, cosines, b));
  V y;
  if (interleaved) {
    const Dims column = {d[0], d[1], d[2], half, c.constant(1)};
    y = c.reshape(c.concat({c.reshape(real, column), c.reshape(imaginary, column)}, 4),
                  {d[0], d[1], d[2], c.constant(turned)});
  } else {
    y = c.concat({real, imaginary}, 3);
  }
  if (turned < size)
    y = c.concat({y, c.slice(x, 3, c.constant(turned), c.constant(size - turned))}, 3);
  return y;
}

void add_attention(HandlerTable &table) {
  table["Attention"] = attention;
  table["RotaryEmbedding"] = rotary;
  table["SwiGLU"] = swiglu;
}

} // namespace cugrt::onnx
