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

TEST_CASE("Trilu from a diagonal that depends on a dimension, as masks behind a cache have it") {
  for (int64_t n : {1, 2, 4}) // [n, 4], from the diagonal n - 2 on
    for (const bool upper : {true, false}) {
      Floats x, expected;
      for (int64_t i = 0; i < n * 4; ++i) {
        const int64_t behind = i % 4 - i / 4 - (n - 2);
        x.push_back(float(i + 1));
        expected.push_back((upper ? behind >= 0 : behind <= 0) ? float(i + 1) : 0);
      }
      Given given = floats("x", {n, 4}, x);
      given.names = {"n"};
      CHECK(
          run_model<float>(node("Shape", {"x"}, {"dims"}, integer_attribute("end", 1)) +
                               integers("two", {2}) + node("Sub", {"dims", "two"}, {"k"}) +
                               node("Trilu", {"x", "k"}, {"y"}, integer_attribute("upper", upper)),
                           {given})
              .values == expected);
    }
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
      Floats sums, largest, thirds;
      std::vector<double> means;
      for (int64_t w = 0; w < windows; ++w) {
        float sum = 0, most = -INFINITY, whole = 0, count = 0;
        for (int64_t k = 0; k < 3; ++k)
          if (const int64_t at = 2 * w + k - before; at >= 0 && at < n) {
            sum += taps[size_t(k)] * x[size_t(at)];
            most = std::max(most, x[size_t(at)]);
            whole += x[size_t(at)], count += 1;
          }
        sums.push_back(sum), largest.push_back(most);
        means.push_back(double(whole) / count), thirds.push_back(whole / 3);
      }
      Given image = floats("x", {1, 1, n}, x);
      image.names = {"1", "1", "n"};
      const std::string attributes = text_attribute("auto_pad", mode) +
                                     integers_attribute("strides", {2}) +
                                     integers_attribute("kernel_shape", {3});
      CHECK(run<float>(node("Conv", {"x", "w"}, {"y"}, attributes),
                       {image, weight(floats("w", {1, 1, 3}, taps))}) == sums);
      CHECK(run<float>(node("MaxPool", {"x"}, {"y"}, attributes), {image}) == largest);
      check_close(run<float>(node("AveragePool", {"x"}, {"y"}, attributes), {image}), means, 1e-6);
      CHECK(run<float>(node("AveragePool", {"x"}, {"y"},
                            attributes + integer_attribute("count_include_pad", 1)),
                       {image}) == thirds);
      std::vector<uint8_t> bytes_of_x, largest_byte;
      for (float one : x)
        bytes_of_x.push_back(uint8_t(one + 20));
      for (float one : largest)
        largest_byte.push_back(uint8_t(one + 20));
      Given image_of_bytes{"x", kU8, {1, 1, n}, raw(bytes_of_x)};
      image_of_bytes.names = image.names;
      CHECK(run<uint8_t>(node("MaxPool", {"x"}, {"y"}, attributes), {image_of_bytes}) ==
            largest_byte);
    }
}

TEST_CASE("a sum over no axes of dimensions is the dimensions, where the node says so") {
  const auto sum = [](int64_t keeps) {
    return run<int64_t>(node("Shape", {"x"}, {"s"}) +
                            node("ReduceSum", {"s"}, {"y"},
                                 integer_attribute("noop_with_empty_axes", uint64_t(keeps))),
                        {floats("x", {2, 3}, numbers(6, 1))});
  };
  CHECK(sum(1) == std::vector<int64_t>{2, 3});
  CHECK(sum(0) == std::vector<int64_t>{5});
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

TEST_CASE("a Split of a shape may name its axis, the only one") {
  Given x = floats("x", {2, 3}, Floats(6, 2));
  x.names = {"b", "n"};
  for (const uint64_t axis : {uint64_t(0), uint64_t(-1)}) {
    const std::string split = node("Shape", {"x"}, {"s"}) +
                              node("Split", {"s"}, {"sb", "sn"}, integer_attribute("axis", axis)) +
                              node("Concat", {"sn", "sb"}, {"t"}, integer_attribute("axis", 0)) +
                              node("Reshape", {"x", "t"}, {"y"});
    CHECK(run_model<float>(split, {x}).dims == Ints{3, 2});
  }
  CHECK_THROWS_AS(
      run_model<float>(node("Shape", {"x"}, {"s"}) +
                           node("Split", {"s"}, {"sb", "sn"}, integer_attribute("axis", 1)) +
                           node("Reshape", {"x", "sb"}, {"y"}),
                       {x}),
      Error);
}

TEST_CASE("parts of a dimension of any size, from the first axis on and along another") {
  struct Part {
    int64_t from, to, step;
  };
  for (const Part &part : {Part{0, 8, 1}, Part{1, 8, 1}, Part{1, 1000, 1}, Part{-100, -1, 1},
                           Part{2, -1, 1}, Part{-3, -1, 1}, Part{-1, -1000, -1}, Part{7, 1, -2}})
    for (int64_t n : {1, 2, 5, 16})
      for (size_t axis : {0, 1}) {
        INFO(part.from << ":" << part.to << ":" << part.step << " of " << n << " along " << axis);
        // ONNX's rule: negative ones count from the end, then all are limited to what there is.
        auto place = [&](int64_t at, int64_t low, int64_t high) {
          return std::clamp(at < 0 ? at + n : at, low, high);
        };
        const bool forward = part.step > 0;
        const int64_t from = place(part.from, 0, forward ? n : n - 1),
                      to = place(part.to, forward ? 0 : -1, forward ? n : n - 1);
        Floats all, wanted;
        for (int64_t i = 0; i < 2 * n; ++i)
          all.push_back(float(i));
        for (int64_t r = 0; r < (axis ? 2 : 1); ++r)
          for (int64_t i = from; forward ? i < to : i > to; i += part.step)
            for (int64_t k = 0; k < (axis ? 1 : 2); ++k)
              wanted.push_back(float(axis ? r * n + i : 2 * i + k));
        Given x = floats("x", axis ? Ints{2, n} : Ints{n, 2}, all);
        x.names = axis ? std::vector<std::string>{"2", "n"} : std::vector<std::string>{"n", "2"};
        CHECK(run_model<float>(node("Slice", {"x", "from", "to", "axis", "step"}, {"y"}) +
                                   integers("from", {part.from}) + integers("to", {part.to}) +
                                   integers("axis", {int64_t(axis)}) +
                                   integers("step", {part.step}),
                               {x}, {.bounds = {"n=1..16"}})
                  .values == wanted);
      }
}

TEST_CASE("halves of a dimension, turned") {
  const auto y =
      run_model<float>(node("Shape", {"x"}, {"n"}) + node("Div", {"n", "two"}, {"half"}) +
                           node("Slice", {"x", "zero", "half", "zero"}, {"a"}) +
                           node("Slice", {"x", "half", "n", "zero"}, {"b"}) +
                           node("Concat", {"b", "a"}, {"y"}, integer_attribute("axis", 0)) +
                           integers("two", {2}) + integers("zero", {0}),
                       {row({1, 2, 3, 4, 5})}, {.bounds = {"n=1..16"}});
  CHECK(y.values == Floats{3, 4, 5, 1, 2});
}

TEST_CASE("parts of a dimension, cut at numbers, turned") {
  for (int64_t n : {1, 2, 5}) {
    Floats x, turned;
    for (int64_t i = 0; i < n; ++i)
      x.push_back(float(i));
    turned.insert(turned.end(), x.begin() + std::min<int64_t>(n, 3), x.end());
    turned.insert(turned.end(), x.begin() + std::min<int64_t>(n, 1),
                  x.begin() + std::min<int64_t>(n, 3));
    turned.insert(turned.end(), x.begin(), x.begin() + std::min<int64_t>(n, 1));
    CHECK(
        run_model<float>(node("Slice", {"x", "zero", "one", "zero"}, {"a"}) +
                             node("Slice", {"x", "one", "three", "zero"}, {"b"}) +
                             node("Slice", {"x", "three", "far", "zero"}, {"c"}) +
                             node("Concat", {"c", "b", "a"}, {"y"}, integer_attribute("axis", 0)) +
                             integers("zero", {0}) + integers("one", {1}) + integers("three", {3}) +
                             integers("far", {1000}),
                         {row(x)}, {.bounds = {"n=1..16"}})
            .values == turned);
  }
}

TEST_CASE("the first largest one along an axis of any size is 1, the others 0") {
  Given x = floats("x", {2, 3}, {1, 5, 5, 7, 2, 3});
  x.names = {"2", "n"};
  CHECK(run<float>(node("Hardmax", {"x"}, {"y"}), {x}) == Floats{0, 1, 0, 1, 0, 0});
  CHECK(run<float>(node("Hardmax", {"x"}, {"y"}, integer_attribute("axis", 0)), {x}) ==
        Floats{0, 1, 1, 1, 0, 0});
}

TEST_CASE("a circle is made of what is left after the cut") {
  CHECK(run<float>(node("Pad", {"x", "pads"}, {"y"}, text_attribute("mode", "wrap")) +
                       integers("pads", {2, -1}),
                   {row({1, 2, 3, 4})}) == Floats{2, 3, 1, 2, 3});
}

TEST_CASE("one and a half times a dimension of any size") {
  // Result i is element floor(i / 1.5) of n; there are floor(1.5 n).
  for (int64_t n : {1, 4, 7}) {
    Floats x, wanted;
    for (int64_t i = 0; i < n; ++i)
      x.push_back(float(i));
    for (int64_t i = 0; i < 3 * n / 2; ++i)
      wanted.push_back(float(2 * i / 3));
    Given image = floats("x", {1, 1, n}, x);
    image.names = {"1", "1", "n"};
    CHECK(run_model<float>(
              node("Resize", {"x", "", "scales"}, {"y"},
                   text_attribute("mode", "nearest") + text_attribute("nearest_mode", "floor") +
                       text_attribute("coordinate_transformation_mode", "asymmetric")),
              {image, weight(floats("scales", {3}, {1, 1, 1.5f}))}, {.bounds = {"n=1..16"}})
              .values == wanted);
  }
}

TEST_CASE("Resize of opset 10 takes the place behind where an axis shrinks, the one before where "
          "it grows") {
  // Columns 0, 1/0.75 and 2/0.75, rounded up, are 0, 2 and 3; rows 0, 1/2, 2/2, 3/2, rounded down,
  // 0, 0, 1, 1; columns 0, 1/1.5, ... 5/1.5, rounded down, 0, 0, 1, 2, 2, 3.
  for (const bool is_symbol : {false, true}) {
    Given image = floats("x", {1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
    if (is_symbol)
      image.names = {"1", "1", "h", "w"};
    const ImportOptions bounds{.bounds = {"h=1..4", "w=1..8"}};
    const auto sized = [&](Floats scales) {
      return run_model<float>(node("Resize", {"x", "scales"}, {"y"}),
                              {image, weight(floats("scales", {4}, scales))},
                              is_symbol ? bounds : ImportOptions{}, 10)
          .values;
    };
    CHECK(sized({1, 1, 0.5, 0.75}) == Floats{1, 3, 4});
    CHECK(sized({1, 1, 2, 0.75}) == Floats{1, 3, 4, 1, 3, 4, 5, 7, 8, 5, 7, 8});
    CHECK(sized({1, 1, 0.5, 1.5}) == Floats{1, 1, 2, 3, 3, 4});
    if (!is_symbol)
      CHECK(sized({1, 1, 0.6F, 0.6F}) == Floats{1, 3}); // ONNX 1.5's own example
  }
}

TEST_CASE("a tile along more axes than fit beside their repeats") {
  Given x = floats("x", {1, 2, 1, 1, 2}, {0, 1, 2, 3});
  x.names = {"1", "n", "1", "1", "m"};
  const auto y =
      run_model<float>(node("Tile", {"x", "by"}, {"y"}) + integers("by", {2, 2, 3, 2, 2}), {x});
  CHECK(y.dims == Ints{2, 4, 3, 2, 4});
  Floats wanted;
  for (int64_t i = 0; i < 2 * 4 * 6 * 4; ++i)
    wanted.push_back(float(i / 24 % 4 % 2 * 2 + i % 4 % 2));
  CHECK(y.values == wanted);
}

namespace {

Given list(const std::string &name, const Ints &values) {
  return {name, kI64, {int64_t(values.size())}, raw(values)};
}
Given image() { return floats("x", {2, 3}, {1, 2, 3, 4, 5, 6}); }
Ran<float> of_list(const std::string &op, const Ints &values) {
  return run_model<float>(node(op, {"x", "list"}, {"y"}), {image(), list("list", values)});
}

} // namespace

TEST_CASE("floats of dimensions are bounded, as exporters pad for a stride") {
  // n - 5, as floats, but at least 0 and at most 2.
  for (const auto &[n, wanted] : {std::pair{4, 0}, {6, 1}, {9, 2}}) {
    Given x = floats("x", {n}, Floats(size_t(n), 1));
    x.names = {"n"};
    const auto ran = run_model<float>(
        node("Shape", {"x"}, {"shape"}) +
            node("Cast", {"shape"}, {"f"}, integer_attribute("to", kF32)) +
            node("Sub", {"f", "five"}, {"d"}) + node("Clip", {"d", "least", "most"}, {"c"}) +
            node("Cast", {"c"}, {"i"}, integer_attribute("to", kI64)) +
            node("ConstantOfShape", {"i"}, {"y"}),
        {x, weight(floats("five", {1}, {5})), weight(floats("least", {}, {0})),
         weight(floats("most", {}, {2}))});
    CHECK(ran.dims == Ints{wanted});
  }
}

TEST_CASE("parts of what has no elements begin within it") {
  for (const char *rows : {"3", "n"}) { // no row is left, known at once or by the bound of n
    Given x = floats("x", {3, 4}, Floats(12, 1));
    x.names = {rows, "4"};
    const auto ran = run_model<float>(
        node("Slice", {"x", "from", "to"}, {"rows"}) + node("Neg", {"rows"}, {"none"}) +
            node("Split", {"none", "sizes"}, {"left", "right"}, integer_attribute("axis", 1)) +
            node("MatMul", {"right", "w"}, {"y"}) + integers("from", {3}) + integers("to", {9}) +
            integers("sizes", {1, 3}),
        {x, weight(floats("w", {3, 2}, Floats(6, 1)))});
    CHECK(ran.dims == Ints{0, 2});
  }
}

TEST_CASE("lists of integers that a run gives: shapes, repeats, pads, places") {
  const auto reshaped = of_list("Reshape", {3, 2});
  CHECK(reshaped.dims == Ints{3, 2});
  CHECK(reshaped.values == Floats{1, 2, 3, 4, 5, 6});
  const auto expanded = run_model<float>(node("Expand", {"row", "list"}, {"y"}),
                                         {floats("row", {1, 3}, {1, 2, 3}), list("list", {2, 3})});
  CHECK(expanded.dims == Ints{2, 3});
  CHECK(expanded.values == Floats{1, 2, 3, 1, 2, 3});
  const auto tiled = of_list("Tile", {1, 2});
  CHECK(tiled.dims == Ints{2, 6});
  CHECK(tiled.values == Floats{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6});
  const auto padded = of_list("Pad", {0, 1, 1, 0});
  CHECK(padded.dims == Ints{3, 4});
  CHECK(padded.values == Floats{0, 1, 2, 3, 0, 4, 5, 6, 0, 0, 0, 0});
  const auto zeros =
      run_model<float>(node("ConstantOfShape", {"list"}, {"y"}), {list("list", {2, 1, 2})});
  CHECK(zeros.dims == Ints{2, 1, 2});
  CHECK(zeros.values == Floats{0, 0, 0, 0});
  const auto sliced = run_model<float>(node("Slice", {"x", "from", "to"}, {"y"}),
                                       {image(), list("from", {0, 1}), list("to", {1, 3})});
  CHECK(sliced.dims == Ints{1, 2});
  CHECK(sliced.values == Floats{2, 3});
  const std::string split = node("Split", {"x", "list"}, {"z", "y"});
  for (const char *rows : {"n", "3"}) { // a symbol, and a size that is known
    Given column = floats("x", {3, 1}, {1, 2, 3});
    column.names = {rows, "1"};
    const auto parts = run_model<float>(split, {column, list("list", {1, 2})});
    CHECK(parts.dims == Ints{2, 1});
    CHECK(parts.values == Floats{2, 3});
    for (const Ints &wrong : {Ints{1, 1}, Ints{4, -1}, Ints{-1, 4}})
      CHECK_THROWS_AS(run_model<float>(split, {column, list("list", wrong)}), Error);
  }
}

TEST_CASE("one session takes shapes in turn, and refuses one that the input does not have") {
  const TemporaryFolder folder;
  std::ofstream(folder.path + "/m.onnx", std::ios::binary)
      << model(node("Reshape", {"x", "list"}, {"r"}) + node("Neg", {"r"}, {"y"}) +
               input("x", kF32, {"n", "4"}) + input("list", kI64, {"2"}) + output("y", kF32, {}));
  Runtime &runtime = emulated_runtime();
  const Module module = Module::load(folder.path + "/m.onnx");
  Executable executable(runtime, module);
  Session session(executable, runtime, module.weights());
  Floats x(12), expected(12);
  for (size_t i = 0; i < 12; ++i)
    x[i] = float(i), expected[i] = -float(i);
  const Buffer buffer = upload(x);
  for (const Ints &wanted : {Ints{3, 4}, Ints{12, 1}, Ints{2, 6}, Ints{3, 4}}) {
    const auto results = session.run(executable.function("main"),
                                     {buffer.tensor(CUGRT_F32, {3, 4}), Value::shape(wanted)});
    session.synchronize();
    const cugrt_tensor &y = results.at(0).as.tensor;
    CHECK(Ints(y.dims, y.dims + y.rank) == wanted);
    CHECK(download<float>(y.address, 12) == expected);
  }
  for (const Ints &wrong : {Ints{3, 5}, Ints{0, 12}, Ints{12}})
    CHECK_THROWS_AS(session.run(executable.function("main"),
                                {buffer.tensor(CUGRT_F32, {3, 4}), Value::shape(wrong)}),
                    Error);
}
