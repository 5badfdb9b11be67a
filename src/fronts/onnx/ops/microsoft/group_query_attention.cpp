// GroupQueryAttention: groups of queries share keys, and each sequence has its own number of keys
// in the cache. Source: ONNX Runtime's ContribOperators (1.32), and its CPU kernel where that says
// nothing.
//
// A cache grows by the new keys, or has room for them: then they go behind each sequence's own, and
// the result has the cache's size. A cache of a sliding window keeps the last keys, from row 0 on.
#include "fronts/onnx/ops/attention.h"

namespace cugrt::onnx {

namespace {

class GroupQuery {
public:
  explicit GroupQuery(Call &c) : c(c) {}
  void run();

private:
  void check_attributes();
  void projections();
  void places();
  void turn();
  E rows_of_cache();
  void in_cache();
  void in_window();
  V resident(V total);
  V column(V v) { // of each sequence, beside queries and keys
    return c.reshape(v, {batch_, c.constant(1), c.constant(1), c.constant(1)});
  }

  Call &c;
  int64_t heads_ = 0, groups_ = 0, window_ = -1;
  V q_, k_, v_, past_k_, past_v_; // [batch, heads, length, size], first with the middle two swapped
  E batch_, queries_, before_;    // `before_`: rows of the cache
  V total_, count_, place_, at_;  // [batch, 1]: keys behind the step, new ones, place of the first
                                  // of these; [batch, queries]: places of queries
  V keys_, values_, seen_, bias_; // what attention is over
};

void GroupQuery::check_attributes() {
  heads_ = c.integer("num_heads", 0), groups_ = c.integer("kv_num_heads", 0);
  window_ = c.integer("local_window_size", -1);
  if (c.wants(3))
    c.unsupported("scores as a result");
  c.ignore({"qk_output"}); // of that result
  if (c.text("k_quant_type", "NONE") != "NONE" || c.text("v_quant_type", "NONE") != "NONE")
    c.unsupported("a quantised cache");
  c.expect("kv_cache_bit_width", 0);
  const int64_t causal = c.integer("causal", 1);
  if ((causal != 0 && causal != 1) || (causal == 0 && window_ != -1))
    c.w.fail(Code::parse_error, "causal is 0 or 1, and 0 without a window");
}

void GroupQuery::projections() {
  q_ = c.value(0), k_ = c.value(1), v_ = c.value(2);
  past_k_ = c.value(3), past_v_ = c.value(4);
  if (heads_ < 1 || groups_ < 1 || c.rank(q_) != 3 || past_k_.valid() != past_v_.valid())
    return c.w.fail(Code::parse_error, "num_heads, kv_num_heads, queries of rank 3, and both or "
                                       "none of the caches are needed");
  if (!k_.valid()) { // packed: heads of queries, of keys, of values
    ir::ExprPool &exprs = c.w.exprs();
    const E size = exprs.floordiv(c.dims(q_)[2], c.constant(heads_ + 2 * groups_));
    const E of_q = exprs.mul(c.constant(heads_), size), of_k = exprs.mul(c.constant(groups_), size);
    k_ = c.slice(q_, 2, of_q, of_k);
    v_ = c.slice(q_, 2, exprs.add(of_q, of_k), of_k);
    q_ = c.slice(q_, 2, c.constant(0), of_q);
  }
  q_ = in_heads(c, q_, heads_), k_ = in_heads(c, k_, groups_), v_ = in_heads(c, v_, groups_);
  if (c.has(14) != c.has(15))
    return c.w.fail(Code::parse_error, "weights of the norms of queries and keys come together");
  const double epsilon = c.number("qk_norm_epsilon", 1e-6);
  auto normed = [&](V x, size_t weight, const char *own) {
    const double of_this = c.number(own, epsilon);
    return c.has(weight) ? c.op(Op::rms_norm, {x, c.value(weight)}, {attr("epsilon", of_this)}) : x;
  };
  q_ = normed(q_, 14, "q_norm_epsilon"), k_ = normed(k_, 15, "k_norm_epsilon");
}

/// seqlens_k is the number of keys behind the step, less 1.
void GroupQuery::places() {
  batch_ = c.dims(q_)[0], queries_ = c.dims(q_)[1];
  before_ = past_k_.valid() ? c.dims(past_k_)[2] : c.constant(0);
  total_ = c.reshape(c.cast(c.value(5), DType::i64), {batch_, c.constant(1)});
  total_ = c.binary(Op::maximum, c.binary(Op::add, total_, c.like(total_, 1)), c.like(total_, 0));
  count_ = c.binary(Op::minimum, total_, c.whole(queries_));
  if (c.has(16)) {
    V given = c.reshape(c.cast(c.value(16), DType::i64), {batch_, c.constant(1)});
    count_ = c.binary(Op::minimum, c.binary(Op::maximum, given, c.like(given, 0)), count_);
  }
  place_ = c.binary(Op::sub, total_, count_);
  at_ = c.binary(Op::add, place_, c.counting(queries_));
}

void GroupQuery::turn() {
  const bool interleaved = c.integer("rotary_interleaved", 0) != 0;
  c.ignore_input(7), c.ignore_input(8), c.ignore_input(9);
  if (!c.integer("do_rotary", 0))
    return;
  V places = at_;
  if (c.has(9)) {
    places = c.cast(c.value(9), DType::i64);
    const EntryPtr total = c.entry(6);
    const Host *known = total ? c.w.host(*total, Importer::Need::no) : nullptr;
    if (known && known->ints.size() == 1 && known->ints[0] == queries_ && !c.has(16)) {
      // A first prompt: the first element alone is read.
      const E zero = c.constant(0), one = c.constant(1);
      places = c.slice(c.slice(places, 0, zero, one), 1, zero, one);
      places = c.broadcast(c.binary(Op::add, places, c.counting(queries_)), {batch_, queries_});
    }
  }
  V cosines = angles(c, c.value(7), places), sines = angles(c, c.value(8), places);
  q_ = rotated(c, q_, cosines, sines, interleaved);
  k_ = rotated(c, k_, cosines, sines, interleaved);
}

/// As many as the longest sequence has keys behind the step, or as the cache has, if there is
/// room.
E GroupQuery::rows_of_cache() {
  c.ignore_input(6); // without a cache it is the number of queries
  if (!past_k_.valid() || c.known(before_) == 0)
    return queries_;
  const EntryPtr total = c.required(6);
  const Host *known = c.w.host(*total, Importer::Need::condition);
  if (!known || known->ints.size() != 1)
    c.unsupported("total_sequence_length is only known on the device, and decides sizes");
  ir::ExprPool &exprs = c.w.exprs();
  const E more = exprs.max(exprs.sub(known->ints[0], before_), c.constant(0));
  // For padded queries the total is a bound, else they and the cache are all.
  return exprs.add(before_, c.has(16) ? more : exprs.min(more, queries_));
}

void GroupQuery::in_cache() {
  const E rows = rows_of_cache(), one = c.constant(1), new_rows = c.dims(k_)[2];
  const bool has_past = past_k_.valid() && c.known(before_) != 0;
  auto all = [&](V past, V fresh) {
    if (!has_past)
      return fresh;
    if (c.known(new_rows) == 0) // keys of another layer: there are only those of the cache
      return past;
    return written(c, past, fresh, place_, c.has(16) ? count_ : V(),
                   c.w.exprs().sub(rows, before_));
  };
  keys_ = all(past_k_, k_), values_ = all(past_v_, v_);
  c.result(keys_, 1);
  c.result(values_, 2);
  const E keys = c.dims(keys_)[2];
  if (c.integer("causal", 1)) {
    V difference =
        c.binary(Op::sub, c.reshape(at_, {batch_, one, queries_, one}), c.counting(keys));
    seen_ = c.binary(Op::greater_equal, difference, c.like(difference, 0));
    if (window_ > 0)
      seen_ = c.binary(Op::logical_and, seen_,
                       c.binary(Op::less, difference, c.like(difference, double(window_))));
  } else {
    seen_ = c.binary(Op::less, c.reshape(c.counting(keys), {one, one, one, keys}), column(total_));
  }
  bias_ = stretched(c, c.value(10), keys);
}

/// How many rows a cache of a window has of so many keys [batch, 1]: all that fit; behind that
/// `gap` rows go at once, so that the window stays.
V GroupQuery::resident(V total) {
  V gap = c.whole(c.w.exprs().sub(before_, c.constant(window_ - 1)));
  V over = c.binary(Op::maximum, c.binary(Op::sub, total, c.whole(before_)), c.like(total, 0));
  V blocks =
      c.binary(Op::div, c.binary(Op::add, over, c.binary(Op::sub, gap, c.like(gap, 1))), gap);
  return c.binary(Op::sub, total, c.binary(Op::mul, blocks, gap));
}

/// The cache holds the last keys from row 0 on; the new ones are behind it for this step.
void GroupQuery::in_window() {
  if (window_ < 1 || !past_k_.valid())
    return c.w.fail(Code::parse_error, "a cache of a window has a window, and a past");
  c.ignore_input(6); // the largest of the numbers of keys
  c.w.require_at_least(before_, window_);
  if (c.w.range(before_).lower < window_)
    return c.w.fail(Code::parse_error, "a cache of a window has fewer rows than that");
  const E one = c.constant(1), rows = c.w.exprs().add(before_, queries_);
  k_ = c.w.match(k_, {batch_, c.constant(groups_), queries_, c.dims(k_)[3]});
  v_ = c.w.match(v_, {batch_, c.constant(groups_), queries_, c.dims(v_)[3]});
  keys_ = c.concat({past_k_, k_}, 2), values_ = c.concat({past_v_, v_}, 2);
  V have = resident(place_), keep = resident(total_), room = c.whole(before_);
  V gone = c.binary(Op::sub, place_, have); // the place of row 0
  V row = c.counting(rows), is_new = c.binary(Op::greater_equal, row, room);
  V at = c.op(Op::where, {c.broadcast(is_new, {batch_, rows}),
                          c.binary(Op::add, c.binary(Op::sub, place_, room), row),
                          c.binary(Op::add, gone, row)});
  V there = c.binary(Op::logical_or, is_new, c.binary(Op::less, row, have));
  at = c.reshape(at, {batch_, one, one, rows});
  V difference = c.binary(Op::sub, c.reshape(at_, {batch_, one, queries_, one}), at);
  seen_ = c.binary(Op::logical_and, c.binary(Op::greater_equal, difference, c.like(at, 0)),
                   c.binary(Op::less, difference, c.like(at, double(window_))));
  seen_ = c.binary(Op::logical_and, seen_, c.reshape(there, {batch_, one, one, rows}));
  if (c.has(10)) { // a column for each place since the beginning
    V bias = c.value(10);
    const Dims d = c.dims(bias);
    const Dims all = {batch_, d.at(1), d.at(2), d.at(3)}, wanted = {batch_, d[1], d[2], rows};
    V last = c.whole(c.w.exprs().sub(d[3], one));
    V ids = c.binary(Op::minimum, c.binary(Op::maximum, at, c.like(at, 0)), last);
    bias_ = c.op(Op::gather_elements, {c.broadcast(bias, all), c.broadcast(ids, wanted)},
                 {attr("axis", int64_t(3))});
  }
  // Row i of the result is the key of place total - keep + i; behind these rows stay.
  V to = c.counting(before_);
  V wanted = c.binary(Op::add, c.binary(Op::sub, total_, keep), to);
  V from = c.op(Op::where, {c.binary(Op::greater_equal, wanted, place_),
                            c.binary(Op::add, c.binary(Op::sub, wanted, place_), room),
                            c.binary(Op::sub, wanted, gone)});
  from = c.op(Op::where, {c.binary(Op::less, to, keep), from, c.broadcast(to, {batch_, before_})});
  auto left = [&](V all) {
    const Dims d = c.dims(all);
    V ids =
        c.broadcast(c.reshape(from, {batch_, one, before_, one}), {batch_, d[1], before_, d[3]});
    return c.op(Op::gather_elements, {all, ids}, {attr("axis", int64_t(2))});
  };
  c.result(left(keys_), 1);
  c.result(left(values_), 2);
}

void GroupQuery::run() {
  check_attributes();
  projections();
  places();
  turn();
  q_ = swapped(c, q_), k_ = swapped(c, k_), v_ = swapped(c, v_);
  if (c.integer("sliding_window_cache", 0))
    in_window();
  else
    in_cache();
  V bias = summed(c, bias_where(c, seen_, c.dtype(q_), kMinusInfinity), bias_);
  V sink = c.value(11);
  if (c.integer("smooth_softmax", 0) == 1 && !sink.valid()) // as by a key whose score is 0
    sink = c.broadcast(c.like(q_, 0), {c.constant(heads_)});
  c.result(attend(c, q_, keys_, values_, bias, c.number("scale", 0), c.number("softcap", 0), sink),
           0);
}

} // namespace

void group_query_attention(Call &c) { GroupQuery(c).run(); }

} // namespace cugrt::onnx
