// Attention over caches, from the bytes of a model to results, against the rule in double
// precision: each query sees keys of its own sequence by their places since its beginning.
#include "support/onnx_run.h"

using namespace cugrt;
using namespace cugrt::test;
using namespace cugrt::test::onnx_bytes;
using namespace cugrt::test::onnx_run;

namespace {

constexpr size_t kSize = 4; // of a head

using Row = std::vector<double>;

Row row_of(const std::vector<float> &x, size_t number) {
  return {x.begin() + ptrdiff_t(number * kSize), x.begin() + ptrdiff_t((number + 1) * kSize)};
}
double inner(const Row &a, const Row &b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += a[i] * b[i];
  return sum;
}

/// Sequences of which some keys are in a cache, and a step of new ones.
struct Step {
  size_t heads = 4, groups = 2, queries = 1, room = 0;
  std::vector<size_t> before, added; // keys of each sequence before the step, and of the step
  size_t window = 0;                 // 0: none
  bool slides = false, causal = true, padded = false, half = false;
  double sink = -1e30;
  bool has_sink = false;

  size_t batch() const { return before.size(); }
  /// Rows of a sliding window's cache that hold its last keys, of so many.
  size_t resident(size_t total) const {
    const size_t gap = room - window + 1;
    return total <= room ? total : total - gap * ((total - room + gap - 1) / gap);
  }
  size_t kept(size_t total) const { return slides ? resident(total) : total; }
  /// Key or value of a place: of the step, where the place is there.
  std::vector<float> fresh(unsigned seed) const {
    return numbers(batch() * queries * groups * kSize, seed);
  }
  std::vector<float> history(unsigned seed) const {
    return numbers(batch() * groups * 32 * kSize, seed);
  }
  Row key(size_t b, size_t g, size_t place, unsigned seed) const {
    if (place < before[b])
      return row_of(history(seed + 10), (b * groups + g) * 32 + place);
    return row_of(fresh(seed), (b * queries + place - before[b]) * groups + g);
  }
  /// What is behind the keys in it is far from everything.
  std::vector<float> cache(unsigned seed) const {
    std::vector<float> out(batch() * groups * room * kSize, 77);
    for (size_t b = 0; b < batch(); ++b)
      for (size_t g = 0; g < groups; ++g)
        for (size_t i = 0; i < kept(before[b]); ++i) {
          const Row one = key(b, g, before[b] - kept(before[b]) + i, seed);
          std::copy(one.begin(), one.end(),
                    out.begin() + ptrdiff_t(((b * groups + g) * room + i) * kSize));
        }
    return out;
  }
  bool sees(size_t query, size_t place) const {
    return !causal || (place <= query && (!window || query - place < window));
  }
};

/// By the rule; of queries that are padding nothing is said: NaN.
std::vector<double> expected(const Step &step) {
  const auto q = numbers(step.batch() * step.queries * step.heads * kSize, 1);
  std::vector<double> out;
  for (size_t b = 0; b < step.batch(); ++b)
    for (size_t s = 0; s < step.queries; ++s)
      for (size_t h = 0; h < step.heads; ++h) {
        if (s >= step.added[b]) {
          out.insert(out.end(), kSize, std::nan(""));
          continue;
        }
        const size_t g = h / (step.heads / step.groups);
        Row y(kSize, 0);
        double sum = step.has_sink ? std::exp(step.sink) : 0;
        for (size_t place = 0; place < step.before[b] + step.added[b]; ++place)
          if (step.sees(step.before[b] + s, place)) {
            const double weight = std::exp(inner(row_of(q, (b * step.queries + s) * step.heads + h),
                                                 step.key(b, g, place, 2)) /
                                           2);
            sum += weight;
            for (size_t i = 0; i < kSize; ++i)
              y[i] += weight * step.key(b, g, place, 3)[i];
          }
        for (double one : y)
          out.push_back(one / sum);
      }
  return out;
}

/// The cache behind the step; NaN in rows of which nothing is said.
std::vector<double> expected_cache(const Step &step, unsigned seed) {
  std::vector<double> out(step.batch() * step.groups * step.room * kSize, std::nan(""));
  for (size_t b = 0; b < step.batch(); ++b)
    for (size_t g = 0; g < step.groups; ++g) {
      const size_t total = step.before[b] + step.added[b], keep = step.kept(total);
      for (size_t i = 0; i < keep; ++i) {
        const Row one = step.key(b, g, total - keep + i, seed);
        std::copy(one.begin(), one.end(),
                  out.begin() + ptrdiff_t(((b * step.groups + g) * step.room + i) * kSize));
      }
    }
  return out;
}

void check_said(const std::vector<float> &got, const std::vector<double> &want, double error) {
  REQUIRE(got.size() == want.size());
  size_t wrong = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    wrong += !std::isfinite(got[i]);
    wrong += !std::isnan(want[i]) && !(std::fabs(double(got[i]) - want[i]) <= error);
  }
  CHECK(wrong == 0);
}

Given words(const std::string &name, std::vector<int64_t> dims,
            const std::vector<int32_t> &values) {
  return {name, kI32, std::move(dims), raw(values)};
}

/// Result `which` of the node: 0 is the attention's, 1 and 2 are keys and values.
Ran<float> run_step(const Step &step, size_t which, std::vector<Given> more = {},
                    const std::string &attributes_of = "") {
  const auto batch = int64_t(step.batch()), room = int64_t(step.room);
  const auto groups = int64_t(step.groups), queries = int64_t(step.queries);
  std::vector<int32_t> last, added;
  size_t longest = 0;
  for (size_t b = 0; b < step.batch(); ++b) {
    last.push_back(int32_t(step.before[b] + step.added[b]) - 1);
    added.push_back(int32_t(step.added[b]));
    longest = std::max(longest, step.before[b] + step.added[b]);
  }
  if (step.padded && !step.slides)
    longest = step.room; // a bound alone
  std::vector<std::string> inputs = {"q", "k", "v", "pk", "pv", "last", "total"};
  std::vector<Given> given = {
      floats("q", {batch, queries, int64_t(step.heads * kSize)},
             numbers(step.batch() * step.queries * step.heads * kSize, 1)),
      floats("k", {batch, queries, int64_t(step.groups * kSize)}, step.fresh(2)),
      floats("v", {batch, queries, int64_t(step.groups * kSize)}, step.fresh(3)),
      floats("pk", {batch, groups, room, int64_t(kSize)}, step.cache(2)),
      floats("pv", {batch, groups, room, int64_t(kSize)}, step.cache(3)),
      words("last", {batch}, last),
      weight(words("total", {}, {int32_t(longest)}))};
  if (!step.room) {
    inputs[3] = inputs[4] = "";
    given.erase(given.begin() + 3, given.begin() + 5);
  }
  inputs.resize(17);
  if (step.padded) {
    inputs[16] = "added";
    given.push_back(words("added", {batch}, added));
  }
  for (const Given &one : more) {
    inputs[one.declared] = one.name;
    given.push_back(one);
    given.back().declared = 0;
  }
  std::string before, behind;
  if (step.half) // f32 outside of the node
    for (size_t i = 0; i < 5; ++i) {
      before += node("Cast", {inputs[i]}, {inputs[i] + "16"}, integer_attribute("to", kF16));
      inputs[i] += "16";
    }
  std::vector<std::string> outputs = {"o", "ok", "ov"};
  if (step.half)
    behind = node("Cast", {outputs[which]}, {"y"}, integer_attribute("to", kF32));
  else
    outputs[which] = "y";
  std::string attributes =
      attributes_of + integer_attribute("num_heads", step.heads) +
      integer_attribute("kv_num_heads", step.groups) +
      integer_attribute("local_window_size", step.window ? step.window : uint64_t(-1));
  if (step.slides)
    attributes += integer_attribute("sliding_window_cache", 1);
  if (!step.causal)
    attributes += integer_attribute("causal", 0);
  return run_model<float>(
      before + microsoft_node("GroupQueryAttention", inputs, outputs, attributes) + behind, given);
}

void check_step(const Step &step) {
  CAPTURE(step.before, step.added, step.queries, step.room, step.window, step.slides, step.half);
  const double error = step.half ? 4e-3 : 1e-5;
  check_said(run_step(step, 0).values, expected(step), error);
  if (!step.room)
    return;
  for (size_t which : {1, 2}) {
    const Ran<float> cache = run_step(step, which);
    CHECK(cache.dims == std::vector<int64_t>{int64_t(step.batch()), int64_t(step.groups),
                                             int64_t(step.room), int64_t(kSize)});
    check_said(cache.values, expected_cache(step, unsigned(which + 1)), step.half ? 1e-3 : 0);
  }
}

} // namespace

TEST_CASE("GroupQueryAttention: a cache with room keeps its size, each sequence's new key is "
          "behind its own") {
  Step step;
  step.room = 8, step.before = {3, 5}, step.added = {1, 1};
  check_step(step);
  step.window = 3;
  check_step(step);
  step.half = true, step.heads = 6, step.groups = 3;
  check_step(step);
  step = {};
  step.room = 9, step.queries = 4, step.before = {2}, step.added = {4};
  check_step(step);
  step.before = {0}; // a prompt
  check_step(step);
  step.before = {5}; // all of the room
  check_step(step);
}

TEST_CASE("GroupQueryAttention: a cache of the window keeps the last keys from row 0 on") {
  for (const auto &[window, room] : {std::pair<size_t, size_t>{4, 4}, {3, 5}, {1, 1}, {2, 6}})
    for (size_t before : {0, 2, 5, 9, 12}) {
      Step step;
      step.slides = true, step.window = window, step.room = room, step.before = {before};
      step.queries = before == 9 ? 7 : before == 5 ? 2 : 1; // also more than the room
      step.added = {step.queries};
      check_step(step);
    }
  Step step;
  step.slides = true, step.window = 3, step.room = 4;
  step.before = {1, 8}, step.added = {1, 1}, step.half = true;
  check_step(step);
}

TEST_CASE("GroupQueryAttention: queries that are padding behind each sequence's own") {
  for (bool slides : {false, true}) {
    Step step;
    step.padded = true, step.queries = 4, step.before = {3, 0, 5}, step.added = {4, 2, 0};
    step.slides = slides, step.window = slides ? 3 : 0, step.room = slides ? 4 : 10;
    check_step(step);
  }
}

TEST_CASE("GroupQueryAttention without a causal mask sees all keys of its sequence") {
  Step step;
  step.causal = false, step.queries = 4, step.before = {0, 0}, step.added = {4, 3};
  check_step(step);
  step.room = 8, step.before = {3}, step.added = {4};
  check_step(step);
}

TEST_CASE("GroupQueryAttention: a sink of the softmax, and one of score 0") {
  Step step;
  step.room = 6, step.before = {2, 3}, step.added = {1, 1}, step.has_sink = true, step.sink = 0.75;
  Given sink = floats("sink", {4}, {0.75f, 0.75f, 0.75f, 0.75f});
  sink.declared = 11;
  check_said(run_step(step, 0, {sink}).values, expected(step), 1e-5);
  step.sink = 0;
  check_said(run_step(step, 0, {}, integer_attribute("smooth_softmax", 1)).values, expected(step),
             1e-5);
}

TEST_CASE("GroupQueryAttention: biases of keys of a cache with room, and of a window's") {
  for (bool slides : {false, true}) {
    Step step;
    step.room = slides ? 3 : 8, step.slides = slides, step.window = slides ? 3 : 0;
    step.before = {5}, step.added = {1};
    const std::vector<float> bias = numbers(6, 9); // of places 0 to 5, for all heads
    const auto q = numbers(step.heads * kSize, 1);
    std::vector<double> want;
    for (size_t h = 0; h < step.heads; ++h) {
      Row y(kSize, 0);
      double sum = 0;
      for (size_t place = slides ? 3 : 0; place < 6; ++place) {
        const double weight =
            std::exp(inner(row_of(q, h), step.key(0, h / 2, place, 2)) / 2 + double(bias[place]));
        sum += weight;
        for (size_t i = 0; i < kSize; ++i)
          y[i] += weight * step.key(0, h / 2, place, 3)[i];
      }
      for (double one : y)
        want.push_back(one / sum);
    }
    Given given = floats("bias", {1, 1, 1, 6}, bias);
    given.declared = 10;
    check_said(run_step(step, 0, {given}).values, want, 1e-5);
  }
}

TEST_CASE("GroupQueryAttention: norms of queries and keys, each with its own epsilon") {
  // One key alone: the result is its value; the cache has the key behind its norm.
  Step step;
  step.room = 2, step.before = {0}, step.added = {1}, step.heads = 2;
  const std::vector<float> weights = numbers(kSize, 8);
  Given of_q = weight(floats("wq", {int64_t(kSize)}, weights)), of_k = of_q;
  of_k.name = "wk", of_q.declared = 14, of_k.declared = 15;
  const std::string attributes =
      float_attribute("qk_norm_epsilon", 0.5f) + float_attribute("k_norm_epsilon", 0.25f);
  const Ran<float> keys = run_step(step, 1, {of_q, of_k}, attributes);
  std::vector<double> want(keys.values.size(), std::nan(""));
  for (size_t g = 0; g < step.groups; ++g) {
    const Row k = step.key(0, g, 0, 2);
    for (size_t i = 0; i < kSize; ++i)
      want[g * step.room * kSize + i] =
          k[i] / std::sqrt(inner(k, k) / kSize + 0.25) * double(weights[i]);
  }
  check_said(keys.values, want, 1e-5);
  // Of two keys queries tell: a scale for each norm.
  step.before = {1};
  const auto q = numbers(step.heads * kSize, 1);
  want.clear();
  for (size_t h = 0; h < step.heads; ++h) {
    Row query = row_of(q, h), fresh = step.key(0, h, 1, 2), y(kSize, 0);
    const double of_query = std::sqrt(inner(query, query) / kSize + 0.5),
                 of_key = std::sqrt(inner(fresh, fresh) / kSize + 0.25);
    for (size_t i = 0; i < kSize; ++i) {
      query[i] *= double(weights[i]) / of_query;
      fresh[i] *= double(weights[i]) / of_key;
    }
    const double a = std::exp(inner(query, step.key(0, h, 0, 2)) / 2),
                 b = std::exp(inner(query, fresh) / 2);
    for (size_t i = 0; i < kSize; ++i)
      want.push_back((a * step.key(0, h, 0, 3)[i] + b * step.key(0, h, 1, 3)[i]) / (a + b));
  }
  check_said(run_step(step, 0, {of_q, of_k}, attributes).values, want, 1e-5);
}

TEST_CASE("GroupQueryAttention: quantised caches, and windows that do not fit, are refused") {
  const auto check_refused = [](const Step &step, const std::string &attributes,
                                const std::string &part) {
    std::string error;
    try {
      run_step(step, 0, {}, attributes);
    } catch (const Error &thrown) {
      error = thrown.what();
    }
    INFO(error);
    CHECK(error.find(part) != std::string::npos);
  };
  Step step;
  step.room = 6, step.before = {2}, step.added = {1};
  check_refused(step, integer_attribute("kv_cache_bit_width", 8), "is 8, and only 0 is taken");
  check_refused(step, text_attribute("k_quant_type", "PER_TENSOR"), "a quantised cache");
  step.causal = false, step.window = 2;
  check_refused(step, "", "0 without a window");
  step.causal = true, step.slides = true, step.window = 7, step.before = {0};
  check_refused(step, "", "fewer rows");
}

TEST_CASE(
    "MultiHeadAttention and Attention: keys in the room of a cache, as many as an input says") {
  constexpr size_t kHeads = 2, kRoom = 6, kPast = 3, kQueries = 2, kHidden = kHeads * kSize;
  const auto q = numbers(kQueries * kHidden, 1), k = numbers(kQueries * kHidden, 2),
             v = numbers(kQueries * kHidden, 3), past_k = numbers(kHeads * kRoom * kSize, 4),
             past_v = numbers(kHeads * kRoom * kSize, 5);
  const auto row = [&](const std::vector<float> &past, const std::vector<float> &fresh, size_t h,
                       size_t place) {
    return place < kPast ? row_of(past, h * kRoom + place)
                         : row_of(fresh, (place - kPast) * kHeads + h);
  };
  for (bool causal : {false, true}) {
    std::vector<double> want, keys(kHeads * kRoom * kSize, std::nan(""));
    for (size_t s = 0; s < kQueries; ++s)
      for (size_t h = 0; h < kHeads; ++h) {
        Row y(kSize, 0);
        double sum = 0;
        for (size_t place = 0; place < (causal ? kPast + s + 1 : kPast + kQueries); ++place) {
          const double weight =
              std::exp(inner(row_of(q, s * kHeads + h), row(past_k, k, h, place)) / 2);
          sum += weight;
          for (size_t i = 0; i < kSize; ++i) {
            y[i] += weight * row(past_v, v, h, place)[i];
            keys[(h * kRoom + place) * kSize + i] = row(past_k, k, h, place)[i];
          }
        }
        for (double one : y)
          want.push_back(one / sum);
      }
    const std::string attributes =
        integer_attribute("num_heads", kHeads) + integer_attribute("unidirectional", causal);
    const std::vector<Given> given = {floats("q", {1, kQueries, kHidden}, q),
                                      floats("k", {1, kQueries, kHidden}, k),
                                      floats("v", {1, kQueries, kHidden}, v),
                                      floats("pk", {1, kHeads, kRoom, kSize}, past_k),
                                      floats("pv", {1, kHeads, kRoom, kSize}, past_v),
                                      words("n", {1}, {kPast})};
    for (size_t which : {0, 1}) {
      std::vector<std::string> outputs = {"o", "ok", "ov"};
      outputs[which] = "y";
      const auto ran = run_model<float>(microsoft_node("MultiHeadAttention",
                                                       {"q", "k", "v", "", "", "", "pk", "pv", "n"},
                                                       outputs, attributes),
                                        given);
      check_said(ran.values, which ? keys : want, 1e-5);
    }
    // The same by projections that take x [q, k, v] apart.
    std::vector<float> x, eye(3 * kHidden * 3 * kHidden, 0), both = past_k;
    for (size_t s = 0; s < kQueries; ++s)
      for (const auto *part : {&q, &k, &v})
        x.insert(x.end(), part->begin() + ptrdiff_t(s * kHidden),
                 part->begin() + ptrdiff_t((s + 1) * kHidden));
    for (size_t i = 0; i < 3 * kHidden; ++i)
      eye[i * 3 * kHidden + i] = 1;
    both.insert(both.end(), past_v.begin(), past_v.end());
    check_said(
        run<float>(microsoft_node("Attention", {"x", "w", "", "", "past", "", "n"},
                                  {"y", "present"},
                                  attributes + integer_attribute("past_present_share_buffer", 1)),
                   {floats("x", {1, kQueries, 3 * kHidden}, x),
                    weight(floats("w", {3 * kHidden, 3 * kHidden}, eye)),
                    floats("past", {2, 1, kHeads, kRoom, kSize}, both), words("n", {1}, {kPast})}),
        want, 1e-5);
  }
}

TEST_CASE(
    "Attention: its scores before the softcap, behind it, with the mask, and behind the softmax") {
  constexpr size_t kQueries = 2, kKeys = 3;
  const auto q = numbers(kQueries * kSize, 1), k = numbers(kKeys * kSize, 2),
             v = numbers(kKeys * kSize, 3), mask = numbers(kQueries * kKeys, 4);
  for (size_t mode = 0; mode < 4; ++mode) {
    std::vector<double> want;
    for (size_t s = 0; s < kQueries; ++s) {
      std::vector<double> row(kKeys);
      double sum = 0;
      for (size_t i = 0; i < kKeys; ++i) {
        row[i] = 3 * inner(row_of(q, s), row_of(k, i));
        if (mode > 0)
          row[i] = 0.5 * std::tanh(row[i] / 0.5);
        if (mode > 1)
          row[i] += double(mask[s * kKeys + i]);
        sum += std::exp(row[i]);
      }
      for (double one : row)
        want.push_back(mode == 3 ? std::exp(one) / sum : one);
    }
    const std::string attributes = float_attribute("softcap", 0.5f) + float_attribute("scale", 3) +
                                   integer_attribute("qk_matmul_output_mode", mode);
    check_said(run_model<float>(
                   node("Attention", {"q", "k", "v", "m"}, {"o", "", "", "y"}, attributes),
                   {floats("q", {1, 1, kQueries, kSize}, q), floats("k", {1, 1, kKeys, kSize}, k),
                    floats("v", {1, 1, kKeys, kSize}, v), floats("m", {kQueries, kKeys}, mask)},
                   {}, 23)
                   .values,
               want, 1e-5);
  }
}
