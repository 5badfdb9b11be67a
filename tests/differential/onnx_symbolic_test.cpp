// Ops whose sizes follow from dimensions that are symbols, from a model's bytes to results.
#include "support/onnx_run.h"

#include <cmath>

using namespace cugrt;
using namespace cugrt::test;
using namespace cugrt::test::onnx_bytes;
using namespace cugrt::test::onnx_run;

namespace {

using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

Given row(const Floats &values) {
  Given x = floats("x", {int64_t(values.size())}, values);
  x.names = {"n"};
  return x;
}

/// x [n] padded by n // 2 before and 8 - n after, which is less than 0 where n is more than 8.
Ran<float> padded(const Floats &values, const std::string &mode, const std::string &fill) {
  std::vector<std::string> inputs = {"x", "pads"};
  if (!fill.empty())
    inputs.push_back(fill);
  return run_model<float>(
      node("Shape", {"x"}, {"n"}) + node("Div", {"n", "two"}, {"before"}) +
          node("Sub", {"eight", "n"}, {"after"}) +
          node("Concat", {"before", "after"}, {"pads"}, integer_attribute("axis", 0)) +
          integers("two", {2}) + integers("eight", {8}) +
          node("Pad", inputs, {"y"}, text_attribute("mode", mode)),
      {row(values), weight(floats("seven", {}, {7}))});
}

} // namespace

TEST_CASE("Pad by what depends on a dimension: numbers, the edge, mirrored, in circle, cut off") {
  CHECK(padded({1, 2, 3, 4, 5}, "constant", "").values == Floats{0, 0, 1, 2, 3, 4, 5, 0, 0, 0});
  CHECK(padded({1, 2, 3, 4, 5}, "constant", "seven").values ==
        Floats{7, 7, 1, 2, 3, 4, 5, 7, 7, 7});
  CHECK(padded({1, 2, 3, 4, 5}, "edge", "").values == Floats{1, 1, 1, 2, 3, 4, 5, 5, 5, 5});
  CHECK(padded({1, 2, 3, 4, 5}, "reflect", "").values == Floats{3, 2, 1, 2, 3, 4, 5, 4, 3, 2});
  CHECK(padded({1, 2, 3, 4, 5}, "wrap", "").values == Floats{4, 5, 1, 2, 3, 4, 5, 1, 2, 3});
  CHECK(padded({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, "constant", "").values ==
        Floats{0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8});
}

TEST_CASE("convolutions and pools that auto_pad pads for a stride, by images of any size") {
  const Floats taps = {1, 10, 100};
  for (const char *mode : {"SAME_UPPER", "SAME_LOWER"})
    for (int64_t n : {3, 4, 7}) {
      INFO(mode << " " << n);
      Floats x;
      for (int64_t i = 0; i < n; ++i)
        x.push_back(float(i - 9));
      const int64_t windows = (n + 1) / 2, all = std::max<int64_t>(0, (windows - 1) * 2 + 3 - n),
                    before = std::string(mode) == "SAME_UPPER" ? all / 2 : all - all / 2;
      Floats sums, largest;
      for (int64_t w = 0; w < windows; ++w) {
        float sum = 0, most = -INFINITY;
        for (int64_t k = 0; k < 3; ++k)
          if (const int64_t at = 2 * w + k - before; at >= 0 && at < n) {
            sum += taps[size_t(k)] * x[size_t(at)];
            most = std::max(most, x[size_t(at)]);
          }
        sums.push_back(sum), largest.push_back(most);
      }
      Given image = floats("x", {1, 1, n}, x);
      image.names = {"1", "1", "n"};
      const std::string attributes = text_attribute("auto_pad", mode) +
                                     integers_attribute("strides", {2}) +
                                     integers_attribute("kernel_shape", {3});
      CHECK(run<float>(node("Conv", {"x", "w"}, {"y"}, attributes),
                       {image, weight(floats("w", {1, 1, 3}, taps))}) == sums);
      CHECK(run<float>(node("MaxPool", {"x"}, {"y"}, attributes), {image}) == largest);
    }
}

TEST_CASE("a range up to a dimension that was cast, halved and rounded up as floats") {
  for (size_t n : {4u, 5u}) {
    const auto y = run_model<float>(
        node("Shape", {"x"}, {"s"}) + node("Cast", {"s"}, {"f"}, integer_attribute("to", kF32)) +
            node("Mul", {"f", "half"}, {"h"}) + node("Ceil", {"h"}, {"c"}) +
            node("Squeeze", {"c"}, {"limit"}) + node("Range", {"zero", "limit", "one"}, {"y"}),
        {row(Floats(n, 1)), weight(floats("half", {}, {0.5f})), weight(floats("zero", {}, {0})),
         weight(floats("one", {}, {1}))});
    CHECK(y.values == (n == 4 ? Floats{0, 1} : Floats{0, 1, 2}));
  }
}

TEST_CASE("floats that depend on a dimension, where the device computes with them") {
  // y = n / 3 + 0.25, at a place where only its value counts.
  const auto y = run_model<float>(
      node("Shape", {"x"}, {"s"}) + node("Cast", {"s"}, {"f"}, integer_attribute("to", kF32)) +
          node("Div", {"f", "three"}, {"d"}) + node("Add", {"d", "quarter"}, {"a"}) +
          node("Mul", {"x", "a"}, {"y"}),
      {row({1, 2}), weight(floats("three", {}, {3})), weight(floats("quarter", {}, {0.25f}))});
  const float a = 2.0f / 3.0f + 0.25f;
  CHECK(y.values == Floats{a, 2 * a});
}

TEST_CASE("a reshape's -1 beside products of dimensions: what is in common goes") {
  Given x = floats("x", {2, 3, 4}, Floats(24, 2));
  x.names = {"b", "n", "4"};
  const auto y = run_model<float>(
      node("Shape", {"x"}, {"s"}) + node("Split", {"s"}, {"sb", "sn", "s4"}) +
          node("Mul", {"sb", "s4"}, {"wide"}) +
          node("Concat", {"wide", "sn"}, {"first"}, integer_attribute("axis", 0)) +
          node("Transpose", {"x"}, {"t"}, integers_attribute("perm", {0, 2, 1})) +
          node("Reshape", {"t", "first"}, {"r"}) +
          node("Concat", {"sb", "open", "sn"}, {"second"}, integer_attribute("axis", 0)) +
          node("Reshape", {"r", "second"}, {"u"}) + node("Add", {"t", "u"}, {"y"}) +
          integers("open", {-1}),
      {x}, {.bounds = {"b=1..8"}});
  CHECK(y.dims == Ints{2, 4, 3});
  CHECK(y.values == Floats(24, 4));
}
