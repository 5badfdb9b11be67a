// Ops of com.microsoft, from the bytes of a model to results, against arithmetic in double
// precision; and what is stored as bytes behind a norm or a softmax.
#include "support/onnx_run.h"

using namespace cugrt;
using namespace cugrt::test;
using namespace cugrt::test::onnx_bytes;
using namespace cugrt::test::onnx_run;

namespace {

/// softmax(scores) over what is there, times rows of v [keys, size].
std::vector<double> weighted(const std::vector<double> &scores,
                             const std::vector<std::vector<double>> &v) {
  double most = scores[0], sum = 0;
  for (double s : scores)
    most = std::max(most, s);
  std::vector<double> y(v[0].size(), 0);
  for (double s : scores)
    sum += std::exp(s - most);
  for (size_t k = 0; k < scores.size(); ++k)
    for (size_t i = 0; i < y.size(); ++i)
      y[i] += std::exp(scores[k] - most) / sum * v[k][i];
  return y;
}

std::vector<double> part(const std::vector<float> &x, size_t at, size_t size) {
  return {x.begin() + ptrdiff_t(at), x.begin() + ptrdiff_t(at + size)};
}
double dot(const std::vector<double> &a, const std::vector<double> &b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += a[i] * b[i];
  return sum;
}

} // namespace

TEST_CASE("MatMulNBits: blocks of 4-bit weights with a zero point each, the last one cut off") {
  constexpr size_t kRows = 2, kN = 5, kK = 20, kBlock = 16, kBlocks = 2;
  const std::vector<float> a = numbers(kRows * kK, 1), scales = numbers(kN * kBlocks, 2);
  std::vector<uint8_t> packed(kN * kBlocks * kBlock / 2), zeros(kN);
  for (size_t i = 0; i < packed.size(); ++i)
    packed[i] = uint8_t(i * 37 + 11);
  for (size_t i = 0; i < kN; ++i)
    zeros[i] = uint8_t(i * 71 + 5); // of two blocks
  std::vector<double> expected;
  for (size_t row = 0; row < kRows; ++row)
    for (size_t n = 0; n < kN; ++n) {
      double sum = 0;
      for (size_t k = 0; k < kK; ++k) {
        const size_t block = k / kBlock;
        const uint8_t both = packed[(n * kBlocks + block) * kBlock / 2 + k % kBlock / 2];
        const int level = k % 2 ? both >> 4 : both & 15,
                  zero = block ? zeros[n] >> 4 : zeros[n] & 15;
        sum += double(a[row * kK + k]) * (level - zero) * double(scales[n * kBlocks + block]);
      }
      expected.push_back(sum);
    }
  check_close(run<float>(microsoft_node("MatMulNBits", {"a", "b", "s", "z"}, {"y"},
                                        integer_attribute("K", kK) + integer_attribute("N", kN) +
                                            integer_attribute("bits", 4) +
                                            integer_attribute("block_size", kBlock)),
                         {floats("a", {kRows, kK}, a),
                          weight({"b", kU8, {kN, kBlocks, kBlock / 2}, raw(packed)}),
                          weight(floats("s", {kN * kBlocks}, scales)),
                          weight({"z", kU8, {kN}, raw(zeros)})}),
              expected, 1e-5);
}

TEST_CASE("GatherBlockQuantized: rows of a table of packed numbers, with zero points and without") {
  constexpr size_t kRows = 5, kK = 40, kBlock = 16, kBlocks = 3;
  const std::vector<float> scales = numbers(kRows * kBlocks, 2);
  const std::vector<int64_t> ids = {3, -1, 0};
  for (const size_t bits : {size_t(4), size_t(8)})
    for (bool has_zeros : {true, false}) {
      const size_t row_bytes = kK * bits / 8, zero_bytes = (kBlocks * bits + 7) / 8;
      std::vector<uint8_t> packed(kRows * row_bytes), zeros(kRows * zero_bytes);
      for (size_t i = 0; i < packed.size(); ++i)
        packed[i] = uint8_t(i * 37 + 11);
      for (size_t i = 0; i < zeros.size(); ++i)
        zeros[i] = uint8_t(i * 71 + 5);
      auto number = [&](const std::vector<uint8_t> &from, size_t row, size_t bytes, size_t at) {
        const int both = from[row * bytes + at * bits / 8];
        return bits == 8 ? both : at % 2 ? both >> 4 : both & 15;
      };
      std::vector<double> expected;
      for (int64_t id : ids)
        for (size_t k = 0; k < kK; ++k) {
          const size_t row = size_t(id < 0 ? id + int64_t(kRows) : id), block = k / kBlock;
          const int zero = has_zeros ? number(zeros, row, zero_bytes, block) : 1 << (bits - 1);
          expected.push_back(double(number(packed, row, row_bytes, k) - zero) *
                             double(scales[row * kBlocks + block]));
        }
      std::vector<std::string> inputs = {"t", "ids", "s"};
      std::vector<Given> given = {weight({"t", kU8, {kRows, int64_t(row_bytes)}, raw(packed)}),
                                  {"ids", kI64, {3}, raw(ids)},
                                  weight(floats("s", {kRows, kBlocks}, scales))};
      if (has_zeros) {
        inputs.push_back("z");
        given.push_back(weight({"z", kU8, {kRows, int64_t(zero_bytes)}, raw(zeros)}));
      }
      check_close(run<float>(microsoft_node("GatherBlockQuantized", inputs, {"y"},
                                            integer_attribute("bits", int64_t(bits)) +
                                                integer_attribute("block_size", kBlock)),
                             given),
                  expected, 1e-6);
    }
}

TEST_CASE("MultiHeadAttention: biases, and keys that a mask takes away") {
  constexpr size_t kQueries = 3, kKeys = 5, kHeads = 2, kSize = 4, kHidden = kHeads * kSize;
  const std::vector<float> q = numbers(kQueries * kHidden, 1), k = numbers(kKeys * kHidden, 2),
                           v = numbers(kKeys * kHidden, 3), bias = numbers(3 * kHidden, 4);
  const std::vector<int32_t> mask = {1, 0, 1, 1, 0};
  std::vector<double> expected;
  auto head = [&](const std::vector<float> &x, size_t row, size_t h, size_t of) {
    std::vector<double> y = part(x, row * kHidden + h * kSize, kSize);
    for (size_t i = 0; i < kSize; ++i)
      y[i] += double(bias[of * kHidden + h * kSize + i]);
    return y;
  };
  for (size_t row = 0; row < kQueries; ++row)
    for (size_t h = 0; h < kHeads; ++h) {
      std::vector<double> scores;
      std::vector<std::vector<double>> values;
      for (size_t key = 0; key < kKeys; ++key)
        if (mask[key]) {
          scores.push_back(dot(head(q, row, h, 0), head(k, key, h, 1)) / 2);
          values.push_back(head(v, key, h, 2));
        }
      const auto y = weighted(scores, values);
      expected.insert(expected.end(), y.begin(), y.end());
    }
  check_close(run<float>(microsoft_node("MultiHeadAttention", {"q", "k", "v", "b", "m"}, {"y"},
                                        integer_attribute("num_heads", kHeads)),
                         {floats("q", {1, kQueries, kHidden}, q),
                          floats("k", {1, kKeys, kHidden}, k),
                          floats("v", {1, kKeys, kHidden}, v),
                          floats("b", {3 * kHidden}, bias),
                          {"m", kI32, {1, kKeys}, raw(mask)}}),
              expected, 1e-5);
}

TEST_CASE("attention of com.microsoft: masks of all forms, packed heads, and queries up to their "
          "own place") {
  constexpr size_t kBatch = 2, kLength = 3, kHeads = 2, kSize = 4, kHidden = kHeads * kSize;
  const std::vector<float> x = numbers(kBatch * kLength * kHidden, 1); // queries, keys and values
  const auto expected = [&](size_t keys, auto sees) {
    std::vector<double> y;
    for (size_t b = 0; b < kBatch; ++b)
      for (size_t row = 0; row < kLength; ++row)
        for (size_t h = 0; h < kHeads; ++h) {
          const auto head = [&](size_t at) {
            return part(x, (b * kLength + at) * kHidden + h * kSize, kSize);
          };
          std::vector<double> scores;
          std::vector<std::vector<double>> values;
          for (size_t key = 0; key < keys; ++key)
            if (sees(b, row, key)) {
              scores.push_back(dot(head(row), head(key)) / 2);
              values.push_back(head(key));
            }
          const auto one = weighted(scores, values);
          y.insert(y.end(), one.begin(), one.end());
        }
    return y;
  };
  std::vector<float> packed, eyes(kHidden * 3 * kHidden, 0);
  for (size_t head = 0; head < kBatch * kLength * kHeads; ++head)
    for (int copy = 0; copy < 3; ++copy)
      packed.insert(packed.end(), x.begin() + ptrdiff_t(head * kSize),
                    x.begin() + ptrdiff_t((head + 1) * kSize));
  for (size_t i = 0; i < 3 * kHidden; ++i)
    eyes[i % kHidden * 3 * kHidden + i] = 1;
  struct Mask {
    std::vector<int64_t> dims;
    std::vector<int32_t> values;
    bool (*sees)(size_t batch, size_t row, size_t key);
  };
  std::vector<int32_t> places; // [2, 1, 5, 5], of which three are there
  for (size_t i = 0; i < 50; ++i)
    places.push_back((i * 7 % 5 + i / 25) % 3 != 0 || i % 5 == 0);
  for (const Mask &mask :
       std::vector<Mask>{{{2}, {3, 2}, [](size_t b, size_t, size_t key) { return key < 3 - b; }},
                         {{4},
                          {3, 2, 1, 0}, // ends and beginnings
                          [](size_t b, size_t, size_t key) { return key < 3 - b && key >= 1 - b; }},
                         {{8},
                          {2, 3, 0, 2, 5, 0, 3, 6}, // lengths and their sums
                          [](size_t b, size_t, size_t key) { return key < 2 + b; }},
                         {{2, 1, 5, 5}, places, [](size_t b, size_t row, size_t key) {
                            const size_t i = b * 25 + row * 5 + key;
                            return (i * 7 % 5 + i / 25) % 3 != 0 || key == 0;
                          }}}) {
    const std::string attributes =
        integer_attribute("num_heads", kHeads) + float_attribute("mask_filter_value", -1e9f);
    const auto want = expected(kLength, mask.sees);
    const Given given = {"m", kI32, mask.dims, raw(mask.values)};
    check_close(run<float>(microsoft_node("Attention", {"x", "w", "", "m"}, {"y"}, attributes),
                           {floats("x", {kBatch, kLength, kHidden}, x),
                            weight(floats("w", {kHidden, 3 * kHidden}, eyes)), given}),
                want, 1e-5);
    check_close(
        run<float>(microsoft_node("MultiHeadAttention", {"x", "", "", "", "m"}, {"y"}, attributes),
                   {floats("x", {kBatch, kLength, kHeads, 3, kSize}, packed), given}),
        want, 1e-5);
  }
  // Without the padding of the first sequence.
  auto want = expected(kLength, [](size_t b, size_t, size_t key) { return key < 2 + b; });
  want.erase(want.begin() + 2 * kHidden, want.begin() + 3 * kHidden);
  const auto tokens = [](std::vector<float> of, size_t row) {
    of.erase(of.begin() + ptrdiff_t(2 * row), of.begin() + ptrdiff_t(3 * row));
    return of;
  };
  const Given offsets = {"o", kI32, {kBatch, kLength}, raw(std::vector<int32_t>{0, 1, 3, 4, 5, 2})},
              begins = {"c", kI32, {kBatch + 1}, raw(std::vector<int32_t>{0, 2, 5})};
  check_close(
      run<float>(microsoft_node("PackedAttention", {"x", "w", "b", "o", "c"}, {"y"},
                                integer_attribute("num_heads", kHeads)),
                 {floats("x", {5, kHidden}, tokens(x, kHidden)),
                  weight(floats("w", {kHidden, 3 * kHidden}, eyes)),
                  floats("b", {3 * kHidden}, std::vector<float>(3 * kHidden, 0)), offsets, begins}),
      want, 1e-5);
  check_close(run<float>(microsoft_node("PackedMultiHeadAttention", {"x", "", "", "", "o", "c"},
                                        {"y"}, integer_attribute("num_heads", kHeads)),
                         {floats("x", {5, kHeads, 3, kSize}, tokens(packed, 3 * kHidden)), offsets,
                          begins}),
              want, 1e-5);
  // More queries than keys: the first query sees the first key.
  std::vector<float> keys;
  for (size_t b = 0; b < kBatch; ++b)
    keys.insert(keys.end(), x.begin() + ptrdiff_t(b * kLength * kHidden),
                x.begin() + ptrdiff_t((b * kLength + 2) * kHidden));
  check_close(run<float>(microsoft_node("MultiHeadAttention", {"x", "k", "k"}, {"y"},
                                        integer_attribute("num_heads", kHeads) +
                                            integer_attribute("unidirectional", 1)),
                         {floats("x", {kBatch, kLength, kHidden}, x),
                          floats("k", {kBatch, 2, kHidden}, keys)}),
              expected(2, [](size_t, size_t row, size_t key) { return key <= row; }), 1e-5);
}

TEST_CASE(
    "GroupQueryAttention: each sequence's new key goes behind its own in the cache, turned by "
    "its place") {
  constexpr size_t kBatch = 2, kHeads = 4, kGroups = 2, kSize = 8, kPast = 3, kHalf = kSize / 2;
  const std::vector<float> q = numbers(kBatch * kHeads * kSize, 1),
                           k = numbers(kBatch * kGroups * kSize, 2),
                           v = numbers(kBatch * kGroups * kSize, 3),
                           past_k = numbers(kBatch * kGroups * kPast * kSize, 4),
                           past_v = numbers(kBatch * kGroups * kPast * kSize, 5);
  const std::vector<int32_t> last = {1, 3}; // numbers of keys less one
  std::vector<float> cosines, sines;
  for (size_t place = 0; place < 8; ++place)
    for (size_t i = 0; i < kHalf; ++i) {
      cosines.push_back(float(std::cos(double(place) * std::pow(0.1, double(i)))));
      sines.push_back(float(std::sin(double(place) * std::pow(0.1, double(i)))));
    }
  auto turned = [&](std::vector<double> x, size_t place) {
    for (size_t i = 0; i < kHalf; ++i) {
      const double c = double(cosines[place * kHalf + i]), s = double(sines[place * kHalf + i]);
      const double a = x[i], b = x[kHalf + i];
      x[i] = a * c - b * s, x[kHalf + i] = a * s + b * c;
    }
    return x;
  };
  std::vector<double> expected;
  for (size_t b = 0; b < kBatch; ++b)
    for (size_t h = 0; h < kHeads; ++h) {
      const size_t place = size_t(last[b]), g = h / (kHeads / kGroups),
                   cache = (b * kGroups + g) * kPast;
      const auto query = turned(part(q, (b * kHeads + h) * kSize, kSize), place);
      std::vector<double> scores;
      std::vector<std::vector<double>> values;
      for (size_t key = 0; key <= place; ++key) {
        const bool fresh = key == place;
        const auto one = fresh ? turned(part(k, (b * kGroups + g) * kSize, kSize), place)
                               : part(past_k, (cache + key) * kSize, kSize);
        scores.push_back(dot(query, one) / std::sqrt(double(kSize)));
        values.push_back(fresh ? part(v, (b * kGroups + g) * kSize, kSize)
                               : part(past_v, (cache + key) * kSize, kSize));
      }
      const auto y = weighted(scores, values);
      expected.insert(expected.end(), y.begin(), y.end());
    }
  check_close(run<float>(microsoft_node("GroupQueryAttention",
                                        {"q", "k", "v", "pk", "pv", "last", "total", "cos", "sin"},
                                        {"y", "present_k", "present_v"},
                                        integer_attribute("num_heads", kHeads) +
                                            integer_attribute("kv_num_heads", kGroups) +
                                            integer_attribute("do_rotary", 1)),
                         {floats("q", {kBatch, 1, kHeads * kSize}, q),
                          floats("k", {kBatch, 1, kGroups * kSize}, k),
                          floats("v", {kBatch, 1, kGroups * kSize}, v),
                          floats("pk", {kBatch, kGroups, kPast, kSize}, past_k),
                          floats("pv", {kBatch, kGroups, kPast, kSize}, past_v),
                          {"last", kI32, {kBatch}, raw(last)},
                          weight({"total", kI32, {}, raw(std::vector<int32_t>{4})}),
                          weight(floats("cos", {8, kHalf}, cosines)),
                          weight(floats("sin", {8, kHalf}, sines))}),
              expected, 1e-5);
}

TEST_CASE("SkipLayerNormalization and FusedMatMul: sums, factors and turned operands") {
  constexpr size_t kRows = 3, kSize = 6;
  const std::vector<float> x = numbers(kRows * kSize, 1), skip = numbers(kRows * kSize, 2),
                           scale = numbers(kSize, 3), w = numbers(4 * kSize, 4);
  std::vector<double> expected;
  for (size_t row = 0; row < kRows; ++row) {
    std::vector<double> sum(kSize), y(kSize);
    double mean = 0, variance = 0;
    for (size_t i = 0; i < kSize; ++i)
      mean += (sum[i] = double(x[row * kSize + i]) + double(skip[row * kSize + i])) / kSize;
    for (double one : sum)
      variance += (one - mean) * (one - mean) / kSize;
    for (size_t i = 0; i < kSize; ++i)
      y[i] = (sum[i] - mean) / std::sqrt(variance + 1e-3) * double(scale[i]);
    for (size_t n = 0; n < 4; ++n)
      expected.push_back(0.5 * dot(y, part(w, n * kSize, kSize)));
  }
  check_close(
      run<float>(
          microsoft_node("SkipLayerNormalization", {"x", "skip", "scale"}, {"n"},
                         float_attribute("epsilon", 1e-3f)) +
              microsoft_node("FusedMatMul", {"n", "w"}, {"y"},
                             integer_attribute("transB", 1) + float_attribute("alpha", 0.5f)),
          {floats("x", {1, kRows, kSize}, x), floats("skip", {1, kRows, kSize}, skip),
           weight(floats("scale", {kSize}, scale)), weight(floats("w", {4, kSize}, w))}),
      expected, 1e-5);
}

TEST_CASE(
    "a loop of as many turns as an input says, and a scan backwards, give what they collect") {
  // Each turn: v = 2 v + i; collected.
  const std::string body = input("i", kI64, {}) + input("c", 9, {}) + input("v", kF32, {"2"}) +
                           node("Add", {"v", "v"}, {"twice"}) +
                           node("Cast", {"i"}, {"place"}, integer_attribute("to", kF32)) +
                           node("Add", {"twice", "place"}, {"w"}) +
                           node("Identity", {"w"}, {"row"}) + output("c", 9, {}) +
                           output("w", kF32, {"2"}) + output("row", kF32, {"2"});
  const std::vector<float> x = {1, -0.5f};
  constexpr size_t kTurns = 5;
  std::vector<double> v = {1, -0.5}, expected;
  for (size_t i = 0; i < kTurns; ++i)
    for (double &one : v)
      expected.push_back(one = 2 * one + double(i));
  check_close(run<float>(node("Loop", {"n", "", "x"}, {"last", "y"}, graph_attribute("body", body)),
                         {{"n", kI64, {}, raw(std::vector<int64_t>{kTurns})}, floats("x", {2}, x)}),
              expected, 1e-6);

  // Backwards over x, sums stand at their own place.
  const std::string sum = input("s", kF32, {}) + input("one", kF32, {}) +
                          node("Add", {"s", "one"}, {"t"}) + node("Identity", {"t"}, {"row"}) +
                          output("t", kF32, {}) + output("row", kF32, {});
  const std::vector<float> numbers_of = numbers(100, 3);
  std::vector<double> sums(100);
  double total = 0.25;
  for (size_t i = 100; i-- > 0;)
    sums[i] = total += double(numbers_of[i]);
  const std::string attributes = graph_attribute("body", sum) +
                                 integer_attribute("num_scan_inputs", 1) +
                                 integers_attribute("scan_input_directions", {1}) +
                                 integers_attribute("scan_output_directions", {1});
  check_close(run<float>(node("Scan", {"start", "x"}, {"last", "y"}, attributes),
                         {floats("start", {}, {0.25f}), floats("x", {100}, numbers_of)}),
              sums, 1e-5);
}

TEST_CASE("a softmax and a norm are stored as bytes where a quantisation follows them") {
  constexpr size_t kRows = 3, kSize = 10;
  const std::vector<float> x = numbers(kRows * kSize, 7);
  for (const char *op : {"Softmax", "LayerNormalization"}) {
    const bool soft = std::string(op) == "Softmax";
    const float step = soft ? 1.0f / 256 : 1.0f / 32;
    const uint8_t zero = soft ? 0 : 128;
    const auto y = run<uint8_t>(
        node(op, soft ? std::vector<std::string>{"x"} : std::vector<std::string>{"x", "one"},
             {"s"}) +
            node("QuantizeLinear", {"s", "step", "zero"}, {"y"}),
        {floats("x", {kRows, kSize}, x),
         weight(floats("one", {kSize}, std::vector<float>(kSize, 1))),
         weight(floats("step", {}, {step})),
         weight({"zero", kU8, {}, std::string(1, char(zero))})});
    REQUIRE(y.size() == kRows * kSize);
    for (size_t row = 0; row < kRows; ++row) {
      double sum = 0, mean = 0, variance = 0;
      for (size_t i = 0; i < kSize; ++i) {
        sum += std::exp(double(x[row * kSize + i]));
        mean += double(x[row * kSize + i]) / kSize;
      }
      for (size_t i = 0; i < kSize; ++i)
        variance +=
            (double(x[row * kSize + i]) - mean) * (double(x[row * kSize + i]) - mean) / kSize;
      for (size_t i = 0; i < kSize; ++i) {
        const double one = double(x[row * kSize + i]);
        const double exact =
            (soft ? std::exp(one) / sum : (one - mean) / std::sqrt(variance + 1e-5)) /
                double(step) +
            zero;
        INFO(op << " " << row << " " << i << " " << exact);
        CHECK(std::fabs(double(y[row * kSize + i]) - std::min(255.0, std::max(0.0, exact))) <=
              0.501);
      }
    }
  }
}

TEST_CASE("QLinearSoftmax of an older opset is over all axes from its own on, or the last") {
  const std::vector<uint8_t> x = {3, 1, 0, 2, 7, 7, 7, 7}, zero = {0}, five = {5};
  for (size_t each : {4, 2}) { // elements from axis 1 on, and of the last
    std::vector<double> expected;
    for (size_t row = 0; row < x.size(); row += each) {
      double sum = 0;
      for (size_t i = 0; i < each; ++i)
        sum += std::exp(0.5 * x[row + i]);
      for (size_t i = 0; i < each; ++i)
        expected.push_back(std::nearbyint(200 * std::exp(0.5 * x[row + i]) / sum) + 5);
    }
    const std::string axis = each == 4 ? integer_attribute("axis", 1) : "";
    const auto y = run<uint8_t>(microsoft_node("QLinearSoftmax", {"x", "s", "z", "t", "f"}, {"y"},
                                               integer_attribute("opset", 11) + axis),
                                {{"x", kU8, {2, 2, 2}, raw(x)},
                                 weight(floats("s", {}, {0.5f})),
                                 weight({"z", kU8, {}, raw(zero)}),
                                 weight(floats("t", {}, {0.005f})),
                                 weight({"f", kU8, {}, raw(five)})});
    CHECK(std::vector<double>(y.begin(), y.end()) == expected);
  }
}

TEST_CASE("norms of sums add 1e-12 where nothing else is said") {
  const float x = 0x1p-14f; // with its skip 2^-13, whose square is 1.5e-8
  const double want = 2 * x / std::sqrt(4.0 * x * x + 1e-12);
  check_close(run<float>(microsoft_node("SkipSimplifiedLayerNormalization", {"x", "x", "s"}, {"y"}),
                         {floats("x", {1, 1, 2}, {x, -x}), floats("s", {2}, {1, 1})}),
              {want, -want}, 1e-6);
}

TEST_CASE(
    "QLinearAveragePool and QLinearWhere: floats between bytes, with channels second and last") {
  const std::vector<uint8_t> x = {3, 9, 27, 81, 200, 250}, two = {2}, one = {1};
  // 0.5 (x - 2) is 0.5, 3.5, 12.5 and 39.5, 99, 124: averages of the first alone, as nothing stands
  // before it, and of the others; by 0.75, and 1 more.
  std::vector<double> expected;
  for (double mean : {0.5, 39.5, (3.5 + 12.5) / 2, (99.0 + 124) / 2})
    expected.push_back(std::nearbyint(mean / 0.75) + 1);
  const Given scale = weight(floats("s", {}, {0.5f})), zero = weight({"z", kU8, {}, raw(two)}),
              y_scale = weight(floats("t", {}, {0.75f})), y_zero = weight({"f", kU8, {}, raw(one)});
  const std::string window = integers_attribute("kernel_shape", {2}) +
                             integers_attribute("strides", {2}) +
                             integers_attribute("pads", {1, 0});
  const auto second =
      run<uint8_t>(microsoft_node("QLinearAveragePool", {"x", "s", "z", "t", "f"}, {"y"}, window),
                   {{"x", kU8, {1, 2, 3}, raw(x)}, scale, zero, y_scale, y_zero});
  CHECK(std::vector<double>{double(second[0]), double(second[2]), double(second[1]),
                            double(second[3])} == expected);
  const std::vector<uint8_t> turned = {3, 81, 9, 200, 27, 250};
  const auto last =
      run<uint8_t>(microsoft_node("QLinearAveragePool", {"x", "s", "z", "t", "f"}, {"y"},
                                  window + integer_attribute("channels_last", 1)),
                   {{"x", kU8, {1, 3, 2}, raw(turned)}, scale, zero, y_scale, y_zero});
  CHECK(std::vector<double>(last.begin(), last.end()) == expected);

  const std::vector<uint8_t> which = {1, 0}, b = {11};
  const auto chosen = run<uint8_t>(
      microsoft_node("QLinearWhere", {"w", "x", "s", "z", "b", "t", "f", "s", "f"}, {"y"}),
      {{"w", kBool, {2}, raw(which)},
       {"x", kU8, {2}, raw(std::vector<uint8_t>{6, 8})},
       {"b", kU8, {1}, raw(b)},
       scale,
       zero,
       y_scale,
       y_zero});
  CHECK(chosen == std::vector<uint8_t>{5, 16}); // 0.5 (6 - 2) / 0.5 + 1, 0.75 (11 - 1) / 0.5 + 1
}

TEST_CASE("products of integers with vectors, as matrices of one row or column") {
  const std::vector<int64_t> m = {1, 2, 3, int64_t(1) << 40, 5, 6}, v = {7, -8, 9}, w = {2, -1};
  const Given matrix{"m", kI64, {2, 3}, raw(m)}, right{"v", kI64, {3}, raw(v)},
      left{"w", kI64, {2}, raw(w)};
  using Ints = std::vector<int64_t>;
  CHECK(run<int64_t>(node("MatMul", {"m", "v"}, {"y"}), {matrix, right}) ==
        Ints{18, 7 * (int64_t(1) << 40) + 14});
  CHECK(run<int64_t>(node("MatMul", {"w", "m"}, {"y"}), {left, matrix}) ==
        Ints{2 - (int64_t(1) << 40), -1, 0});
  const auto y = run_model<int64_t>(node("MatMul", {"v", "v"}, {"y"}), {right});
  CHECK(y.dims.empty());
  CHECK(y.values == Ints{49 + 64 + 81});
}

TEST_CASE("bytes are scattered with their reduction, and wrap around") {
  const std::vector<uint8_t> x = {250, 1, 2}, u = {10, 3, 4};
  const std::vector<int64_t> at = {0, 1, 1};
  auto scattered = [&](const std::string &reduction) {
    return run<uint8_t>(
        node("ScatterElements", {"x", "at", "u"}, {"y"}, text_attribute("reduction", reduction)),
        {{"x", kU8, {3}, raw(x)}, {"at", kI64, {3}, raw(at)}, {"u", kU8, {3}, raw(u)}});
  };
  CHECK(scattered("add") == std::vector<uint8_t>{4, 8, 2});
  CHECK(scattered("mul") == std::vector<uint8_t>{196, 12, 2});
  CHECK(scattered("max") == std::vector<uint8_t>{250, 4, 2});
  CHECK(scattered("min") == std::vector<uint8_t>{10, 1, 2});
}

TEST_CASE("a product of bytes is scaled by one factor, which decides where halves go") {
  // 140 * 0.075 is 10.5 or a little less, as the factors are multiplied.
  std::vector<uint8_t> a, expected;
  for (int i = 0; i < 256; ++i) {
    a.push_back(uint8_t(i));
    const float factor = 0.1f * 0.3f / 0.4f;
    expected.push_back(uint8_t(std::min(255.0f, std::nearbyint(float(10 * i) * factor))));
  }
  const std::vector<uint8_t> ten = {10}, zero = {0};
  const Given z = weight({"z", kU8, {}, raw(zero)}), sa = weight(floats("sa", {}, {0.1f})),
              sb = weight(floats("sb", {}, {0.3f})), sy = weight(floats("sy", {}, {0.4f}));
  CHECK(run<uint8_t>(
            node("QLinearMatMul", {"a", "sa", "z", "b", "sb", "z", "sy", "z"}, {"y"}),
            {{"a", kU8, {256, 1}, raw(a)}, sa, z, weight({"b", kU8, {1, 1}, raw(ten)}), sb, sy}) ==
        expected);
  CHECK(run<uint8_t>(node("QLinearConv", {"a", "sa", "z", "b", "sb", "z", "sy", "z"}, {"y"}),
                     {{"a", kU8, {1, 1, 256}, raw(a)},
                      sa,
                      z,
                      weight({"b", kU8, {1, 1, 1}, raw(ten)}),
                      sb,
                      sy}) == expected);
}

TEST_CASE("gates have other activations, each with its parameters in order") {
  auto strings = [](const std::string &name, const std::vector<std::string> &list) {
    std::string all = bytes(1, name);
    for (const std::string &one : list)
      all += bytes(9, one);
    return bytes(5, all + number(20, 8));
  };
  auto reals = [](const std::string &name, const std::vector<float> &list) {
    return bytes(5, bytes(1, name) + bytes(7, raw(list)) + number(20, 6));
  };
  // One unit, one step from nothing: i = o = f(x), c = g(x), h = o h(i c).
  struct Case {
    std::vector<std::string> names;
    std::vector<float> alphas, betas;
    double (*f)(double), (*g)(double), (*h)(double);
  };
  constexpr auto tanh = [](double x) { return std::tanh(x); };
  for (const Case &one :
       std::vector<Case>{{{"HardSigmoid", "Tanh", "Tanh"},
                          {},
                          {},
                          [](double x) { return std::clamp(0.2 * x + 0.5, 0.0, 1.0); },
                          tanh,
                          tanh},
                         {{"HardSigmoid", "LeakyRelu", "ScaledTanh"},
                          {0.25f, 0.5f, 2},
                          {0.75f, 3},
                          [](double x) { return std::clamp(0.25 * x + 0.75, 0.0, 1.0); },
                          [](double x) { return x < 0 ? 0.5 * x : x; },
                          [](double x) { return 2 * std::tanh(3 * x); }},
                         {{"sigmoid", "tanh", "TANH"}, // as ONNX Runtime takes them
                          {},
                          {},
                          [](double x) { return 1 / (1 + std::exp(-x)); },
                          tanh,
                          tanh},
                         {{"hardsigmoid", "leakyrelu", "tanh"},
                          {0.25f, 0.5f},
                          {0.75f},
                          [](double x) { return std::clamp(0.25 * x + 0.75, 0.0, 1.0); },
                          [](double x) { return x < 0 ? 0.5 * x : x; },
                          tanh},
                         {{"Affine", "Elu", "ThresholdedRelu"},
                          {0.5f, 2, 1.5f},
                          {0.25f},
                          [](double x) { return 0.5 * x + 0.25; },
                          [](double x) { return x < 0 ? 2 * std::expm1(x) : x; },
                          [](double x) { return x > 1.5 ? x : 0; }}}) {
    std::string attributes =
        integer_attribute("hidden_size", 1) + strings("activations", one.names);
    if (!one.alphas.empty())
      attributes += reals("activation_alpha", one.alphas) + reals("activation_beta", one.betas);
    std::vector<double> want;
    for (double x : {0.5, 4.0, -4.0})
      want.push_back(one.f(x) * one.h(one.f(x) * one.g(x)));
    check_close(run<float>(node("LSTM", {"x", "w", "r"}, {"all", "y"}, attributes),
                           {floats("x", {1, 3, 1}, {0.5f, 4, -4}),
                            weight(floats("w", {1, 4, 1}, {1, 1, 1, 1})),
                            weight(floats("r", {1, 4, 1}, {0, 0, 0, 0}))}),
                want, 1e-5);
  }
}

TEST_CASE("states have sequences first where inputs have, by one launch and written out") {
  const std::vector<float> x = {1, -2}, h = {0.5f, -0.25f, -1, 0.75f}; // [batch, directions, 1]
  std::vector<double> want;
  for (size_t i = 0; i < 4; ++i)
    want.push_back(std::tanh(double(x[i / 2]) + double(h[i])));
  for (float clip : {0.0f, 9.0f})
    check_close(
        run_model<float>(node("RNN", {"x", "w", "r", "", "", "h"}, {"", "y"},
                              integer_attribute("hidden_size", 1) + integer_attribute("layout", 1) +
                                  text_attribute("direction", "bidirectional") +
                                  (clip > 0 ? float_attribute("clip", clip) : "")),
                         {floats("x", {2, 1, 1}, x), weight(floats("w", {2, 1, 1}, {1, 1})),
                          weight(floats("r", {2, 1, 1}, {1, 1})), floats("h", {2, 2, 1}, h)},
                         {}, 14)
            .values,
        want, 1e-5);
}

TEST_CASE("integers to a power of a float, and products of wide integers, lose no digit") {
  const Given exponent = floats("b", {2}, {1, 2});
  const std::vector<int64_t> base = {(int64_t(1) << 40) + 1, -3};
  CHECK(run<int64_t>(node("Pow", {"a", "b"}, {"y"}), {{"a", kI64, {2}, raw(base)}, exponent}) ==
        std::vector<int64_t>{base[0], 9});
  const std::vector<int32_t> a = {1 << 30, 3}, b = {(1 << 20) + 1, 5};
  CHECK(run<int32_t>(node("Gemm", {"a", "b"}, {"y"}, integer_attribute("transB", 1)),
                     {{"a", kI32, {1, 2}, raw(a)}, {"b", kI32, {1, 2}, raw(b)}}) ==
        std::vector<int32_t>{(1 << 30) + 15}); // 2^50 is 0 in 32 bits
}

TEST_CASE("a logarithm of sums of no axis is its operand, whose exponential may be infinite") {
  const std::vector<float> x = {1000, -3};
  CHECK(run_model<float>(
            node("ReduceLogSumExp", {"x"}, {"y"}, integer_attribute("noop_with_empty_axes", 1)),
            {floats("x", {2}, x)}, {}, 18)
            .values == x);
}

TEST_CASE("a bound of Clip that is a list of one gives a number no axis") {
  const Ran<float> y = run_model<float>(node("Clip", {"x", "least"}, {"y"}),
                                        {floats("x", {}, {3}), floats("least", {1}, {4})});
  CHECK(y.values == std::vector<float>{4});
  CHECK(y.dims.empty());
}
