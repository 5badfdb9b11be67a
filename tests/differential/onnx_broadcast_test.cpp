// Broadcasting and parts of dimensions that are symbols, each one of its own: a run tells which of
// them are equal or 1. What is right follows from ONNX's rules on the shapes of that run.
#include "support/onnx_run.h"

#include <cmath>
#include <functional>

using namespace cugrt;
using namespace cugrt::test;
using namespace cugrt::test::onnx_bytes;
using namespace cugrt::test::onnx_run;

namespace {

using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

int64_t product(const Ints &dims) {
  int64_t all = 1;
  for (int64_t d : dims)
    all *= d;
  return all;
}

/// Every dimension a symbol of its own.
Given own_names(Given given) {
  for (size_t i = 0; i < given.dims.size(); ++i)
    given.names.push_back(given.name + "_" + std::to_string(i));
  return given;
}

Given drawn(const std::string &name, const Ints &dims) {
  Floats values(size_t(product(dims)), 0);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = float((i * 7 + name[0] * 5) % 23) - 11;
  return own_names(floats(name, dims, values));
}

Floats values_of(const Given &given) {
  Floats out(given.bytes_of.size() / sizeof(float));
  if (!out.empty())
    std::memcpy(out.data(), given.bytes_of.data(), given.bytes_of.size());
  return out;
}

/// NumPy's rule, of shapes that broadcast.
Ints together(const Ints &a, const Ints &b) {
  Ints out(std::max(a.size(), b.size()), 1);
  for (const Ints *dims : {&a, &b})
    for (size_t i = 1; i <= dims->size(); ++i)
      if ((*dims)[dims->size() - i] != 1)
        out[out.size() - i] = (*dims)[dims->size() - i];
  return out;
}

/// The values as they lie when stretched to `to`.
Floats stretched(const Floats &values, const Ints &dims, const Ints &to) {
  Floats out;
  for (int64_t i = 0; i < product(to); ++i) {
    int64_t rest = i, from = 0, stride = 1;
    for (size_t d = 1; d <= to.size(); ++d) {
      const int64_t at = rest % to[to.size() - d];
      rest /= to[to.size() - d];
      if (d > dims.size())
        continue;
      from += (dims[dims.size() - d] == 1 ? 0 : at) * stride;
      stride *= dims[dims.size() - d];
    }
    out.push_back(values[size_t(from)]);
  }
  return out;
}

/// With dimensions from 1, where none of them is 0, and from 0: of one result.
Ran<float> run_named(const std::string &nodes, const std::vector<Given> &given,
                     uint64_t opset = 17) {
  ImportOptions from_nothing;
  bool has_nothing = false;
  for (const Given &one : given)
    for (size_t i = 0; i < one.dims.size(); ++i) {
      from_nothing.bounds.push_back(one.names[i] + "=0..16");
      has_nothing |= one.dims[i] == 0;
    }
  const Ran<float> y = run_model<float>(nodes, given, from_nothing, opset);
  if (!has_nothing) {
    const Ran<float> same = run_model<float>(nodes, given, {}, opset);
    CHECK(same.dims == y.dims);
    CHECK(same.values == y.values);
  }
  return y;
}

/// What a run or an import that is refused says.
template <class F> std::string refusal(const F &run) {
  try {
    run();
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}
template <class F> void check_says(const std::string &part, const F &run) {
  const std::string text = refusal(run);
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
}

const std::vector<std::pair<Ints, Ints>> kPairs = {
    {{2, 3}, {2, 1}}, {{2, 1}, {2, 3}}, {{2, 1}, {2, 1}}, {{2, 3}, {2, 3}},
    {{1, 3}, {4, 1}}, {{1, 1}, {4, 3}}, {{3}, {4, 1}},    {{4, 3}, {1}},
    {{4, 3}, {3}},    {{4, 0}, {1, 1}}, {{1, 1}, {1, 0}}};

} // namespace

TEST_CASE("operands whose dimensions have names of their own broadcast by what a run brings") {
  using Function = std::function<float(float, float)>;
  const std::vector<std::pair<std::string, Function>> ops = {
      {"Add", [](float a, float b) { return a + b; }},
      {"Max", [](float a, float b) { return std::max(a, b); }},
      {"Mul", [](float a, float b) { return a * b; }}};
  for (const auto &[op, function] : ops)
    for (const auto &[a, b] : kPairs) {
      const Given x = drawn("x", a), z = drawn("z", b);
      const Ints dims = together(a, b);
      Floats want = stretched(values_of(x), a, dims);
      const Floats other = stretched(values_of(z), b, dims);
      for (size_t i = 0; i < want.size(); ++i)
        want[i] = function(want[i], other[i]);
      INFO(op << " of ranks " << a.size() << ", " << b.size() << ", " << want.size());
      const auto y = run_named(node(op, {"x", "z"}, {"y"}), {x, z});
      CHECK(y.dims == dims);
      CHECK(y.values == want);
    }
}

TEST_CASE("a chain of operands is stretched to what all of them have together") {
  // ((x + z) * x) + w, where x and z are met twice.
  for (const auto &[a, b] : kPairs)
    for (const Ints &c : {Ints{1, 1}, Ints{1}}) {
      const Given x = drawn("x", a), z = drawn("z", b), w = drawn("w", c);
      const Ints dims = together(together(a, b), c);
      const Floats p = stretched(values_of(x), a, dims), q = stretched(values_of(z), b, dims),
                   r = stretched(values_of(w), c, dims);
      Floats want;
      for (size_t i = 0; i < p.size(); ++i)
        want.push_back((p[i] + q[i]) * p[i] + r[i]);
      const auto y = run_named(node("Add", {"x", "z"}, {"s"}) + node("Mul", {"s", "x"}, {"t"}) +
                                   node("Add", {"t", "w"}, {"y"}),
                               {x, z, w});
      CHECK(y.dims == dims);
      CHECK(y.values == want);
    }
}

TEST_CASE("dimensions that neither are equal nor 1 are refused when they meet") {
  for (const auto &[a, b] : std::vector<std::pair<Ints, Ints>>{
           {{2, 3}, {2, 2}}, {{2, 3}, {3, 1}}, {{2}, {3}}, {{2, 0}, {2, 2}}}) {
    const Given x = drawn("x", a), z = drawn("z", b);
    CHECK_THROWS_AS(run_model<float>(node("Add", {"x", "z"}, {"y"}), {x, z}), Error);
    CHECK_THROWS_AS(
        run_model<float>(node("Shape", {"z"}, {"s"}) + node("Expand", {"x", "s"}, {"y"}), {x, z}),
        Error);
  }
}

TEST_CASE("a number beside a symbol: the symbol is that or 1") {
  for (int64_t rows : {4, 1}) {
    Given x = drawn("x", {4, 3}), z = drawn("z", {rows, 3});
    x.names = {"4", "3"}, z.names = {"m", "3"};
    Floats want = values_of(x);
    const Floats other = stretched(values_of(z), {rows, 3}, {4, 3});
    for (size_t i = 0; i < want.size(); ++i)
      want[i] += other[i];
    CHECK(run_model<float>(node("Add", {"x", "z"}, {"y"}), {x, z}).values == want);
  }
}

TEST_CASE("Where of a condition and values of names of their own") {
  const Ints of_c = {1, 3}, of_a = {4, 3}, of_b = {4, 1}, all = {4, 3};
  Given c{"c", kBool, of_c, raw(std::vector<uint8_t>{1, 0, 1})};
  c = own_names(c);
  const Given a = drawn("a", of_a), b = drawn("b", of_b);
  const Floats yes = values_of(a), no = stretched(values_of(b), of_b, all);
  Floats want;
  for (size_t i = 0; i < yes.size(); ++i)
    want.push_back(i % 3 == 1 ? no[i] : yes[i]);
  CHECK(run_model<float>(node("Where", {"c", "a", "b"}, {"y"}), {c, a, b}).values == want);
}

TEST_CASE("the outer dimensions of a product's factors broadcast, the inner ones do not") {
  for (const auto &[outer_a, outer_b] :
       std::vector<std::pair<int64_t, int64_t>>{{4, 1}, {1, 4}, {3, 3}, {1, 1}}) {
    const Given a = drawn("a", {outer_a, 2, 3}), b = drawn("b", {outer_b, 3, 5});
    const int64_t outer = std::max(outer_a, outer_b);
    const Floats p = stretched(values_of(a), a.dims, {outer, 2, 3}),
                 q = stretched(values_of(b), b.dims, {outer, 3, 5});
    Floats want;
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < 2; ++i)
        for (int64_t j = 0; j < 5; ++j) {
          float sum = 0; // of whole numbers: exact
          for (int64_t k = 0; k < 3; ++k)
            sum += p[size_t((o * 2 + i) * 3 + k)] * q[size_t((o * 3 + k) * 5 + j)];
          want.push_back(sum);
        }
    const auto y = run_model<float>(node("MatMul", {"a", "b"}, {"y"}), {a, b});
    CHECK(y.dims == Ints{outer, 2, 5});
    CHECK(y.values == want);
  }
  CHECK_THROWS_AS(
      run_model<float>(node("MatMul", {"a", "b"}, {"y"}), {drawn("a", {2, 1}), drawn("b", {3, 2})}),
      Error);
}

TEST_CASE("the bias of a Gemm and the slope of a PRelu stretch one way") {
  for (const Ints &bias : {Ints{4, 2}, Ints{1, 2}, Ints{4, 1}, Ints{2}, Ints{1}}) {
    const Given a = drawn("a", {4, 1}), b = drawn("b", {1, 2}), c = drawn("c", bias);
    Floats want = stretched(values_of(c), bias, {4, 2});
    for (size_t i = 0; i < want.size(); ++i)
      want[i] += values_of(a)[i / 2] * values_of(b)[i % 2];
    CHECK(run_model<float>(node("Gemm", {"a", "b", "c"}, {"y"}), {a, b, c}).values == want);
    const Given x = drawn("x", {4, 2});
    const Floats slopes = stretched(values_of(c), bias, {4, 2});
    Floats bent = values_of(x);
    for (size_t i = 0; i < bent.size(); ++i)
      bent[i] *= bent[i] < 0 ? slopes[i] : 1;
    CHECK(run_model<float>(node("PRelu", {"x", "c"}, {"y"}), {x, c}).values == bent);
  }
}

TEST_CASE("Expand to the shape of another value, whichever of both is 1") {
  for (const auto &[a, b] : kPairs) {
    const Given x = drawn("x", a), t = drawn("t", b);
    const Ints dims = together(a, b);
    const Floats want = stretched(values_of(x), a, dims);
    const std::string shape = node("Shape", {"t"}, {"s"});
    const auto y = run_named(shape + node("Expand", {"x", "s"}, {"y"}), {x, t});
    CHECK(y.dims == dims);
    CHECK(y.values == want);
    // .. and read by an op beside that value
    const auto sum = run_named(
        shape + node("Expand", {"x", "s"}, {"e"}) + node("Add", {"e", "t"}, {"y"}), {x, t});
    Floats added = stretched(values_of(t), b, dims);
    for (size_t i = 0; i < added.size(); ++i)
      added[i] += want[i];
    CHECK(sum.dims == dims);
    CHECK(sum.values == added);
  }
}

TEST_CASE("bounds that leave 1 out leave dimensions equal: nothing is stretched") {
  ImportOptions options;
  options.bounds = {"x_0=2..8", "z_0=2..8"};
  const Given x = drawn("x", {3}), z = drawn("z", {3}), one = drawn("z", {1});
  Floats want = values_of(x);
  for (size_t i = 0; i < want.size(); ++i)
    want[i] += values_of(z)[i];
  CHECK(run_model<float>(node("Add", {"x", "z"}, {"y"}), {x, z}, options).values == want);
  CHECK_THROWS_AS(run_model<float>(node("Add", {"x", "z"}, {"y"}), {x, one}, options), Error);
}

TEST_CASE("Split into a number of parts: each the quotient rounded up, the last what is left") {
  for (int64_t n : {10, 9, 7, 5, 4, 1, 0})
    for (int64_t parts : {1, 2, 3, 4}) {
      const Given x = drawn("x", {n});
      const int64_t each = (n + parts - 1) / parts;
      for (int64_t part = 0; part < parts; ++part) {
        std::vector<std::string> outputs;
        for (int64_t i = 0; i < parts; ++i)
          outputs.push_back(i == part ? "p" : "q" + std::to_string(i));
        const int64_t begin = std::min(n, part * each), end = std::min(n, begin + each);
        const Floats all = values_of(x);
        INFO(n << " in " << parts << ", part " << part);
        const std::string split =
            node("Split", {"x"}, outputs, integer_attribute("num_outputs", uint64_t(parts)));
        const auto y = run_named(split + node("Identity", {"p"}, {"y"}), {x}, 18);
        CHECK(y.values == Floats(all.begin() + begin, all.begin() + end));
      }
    }
}

TEST_CASE("Split into a number of parts has all of them as results") {
  for (int64_t n : {7, 6, 5, 2, 1, 0})
    for (uint64_t parts : {2, 3, 4}) {
      const Given x = drawn("x", {n, 2});
      std::vector<std::string> outputs;
      std::string others; // declared before y: the first of them is what is read
      for (uint64_t i = 1; i < parts; ++i) {
        outputs.push_back("q" + std::to_string(i));
        others += output(outputs.back(), kF32, {});
      }
      outputs.push_back("y");
      INFO(n << " in " << parts);
      const auto y = run_named(
          node("Split", {"x"}, outputs, integer_attribute("num_outputs", parts)) + others, {x}, 18);
      const int64_t each = (n + int64_t(parts) - 1) / int64_t(parts);
      CHECK(y.dims == Ints{each, 2});
      Floats all = values_of(x);
      CHECK(y.values == Floats(all.begin(), all.begin() + each * 2));
      const std::string of_computed =
          node("Neg", {"x"}, {"n"}) +
          node("Split", {"n"}, outputs, integer_attribute("num_outputs", parts)) + others;
      for (float &value : all)
        value = -value;
      CHECK(run_named(of_computed, {x}, 18).values == Floats(all.begin(), all.begin() + each * 2));
    }
}

TEST_CASE("the last rows of a symbol are a result of the model, without a copy") {
  for (int64_t n : {1, 2, 5}) {
    const Given x = drawn("x", {n, 3});
    const auto y =
        run_named(node("Slice", {"x", "from", "to", "axis"}, {"y"}) + integers("from", {-2}) +
                      integers("to", {INT64_MAX}) + integers("axis", {0}),
                  {x});
    const Floats all = values_of(x);
    CHECK(y.dims == Ints{std::min<int64_t>(n, 2), 3});
    CHECK(y.values == Floats(all.end() - 3 * std::min<int64_t>(n, 2), all.end()));
  }
}

TEST_CASE("GatherElements takes positions for a part of the other dimensions, and of no more") {
  const Given x = drawn("x", {3, 4});
  const Given ids = own_names({"i", kI64, {2, 3}, raw(Ints{3, 0, 1, 2, 2, -1})});
  const std::string gathered =
      node("GatherElements", {"x", "i"}, {"y"}, integer_attribute("axis", 1));
  const Floats v = values_of(x);
  CHECK(run_named(gathered, {x, ids}).values == Floats{v[3], v[0], v[1], v[6], v[6], v[7]});
  check_says("dimension 0", [&] { run_model<float>(gathered, {drawn("x", {1, 4}), ids}); });
}

TEST_CASE("GatherND by indices of one number takes rows, as Gather does") {
  const Given x = drawn("x", {3, 4});
  Given ids = own_names({"i", kI64, {2, 2, 1}, raw(Ints{2, 0, -1, 1})});
  ids.names[2] = "1";
  const Floats v = values_of(x);
  Floats expected;
  for (int row : {2, 0, 2, 1})
    expected.insert(expected.end(), v.begin() + row * 4, v.begin() + row * 4 + 4);
  CHECK(run_model<float>(node("GatherND", {"x", "i"}, {"y"}), {x, ids}).values == expected);
}

TEST_CASE("ScatterElements and ScatterND have an update for each position, and a run tells") {
  const Given x = drawn("x", {2, 3}), updates = drawn("u", {2, 1});
  const Given ids = own_names({"i", kI64, {2, 1}, raw(Ints{2, 0})});
  const Floats v = values_of(x), u = values_of(updates);
  const std::string elements =
      node("ScatterElements", {"x", "i", "u"}, {"y"}, integer_attribute("axis", 1));
  CHECK(run_named(elements, {x, ids, updates}).values ==
        Floats{v[0], v[1], u[0], u[1], v[4], v[5]});
  check_says("dimension 0", [&] { run_model<float>(elements, {x, ids, drawn("u", {1, 1})}); });
  // Rows 1 and 0, in this order.
  Given rows = own_names({"i", kI64, {2, 1}, raw(Ints{1, 0})});
  rows.names[1] = "1";
  const Given of_rows = drawn("u", {2, 3});
  const Floats r = values_of(of_rows);
  const std::string nd = node("ScatterND", {"x", "i", "u"}, {"y"});
  CHECK(run_model<float>(nd, {x, rows, of_rows}).values ==
        Floats{r[3], r[4], r[5], r[0], r[1], r[2]});
  check_says("dimension 1", [&] { run_model<float>(nd, {x, rows, drawn("u", {2, 2})}); });
}

TEST_CASE("GridSample takes as many grids as images, and a run tells") {
  const Given x = drawn("x", {2, 1, 1, 1}),
              grid = own_names(floats("g", {2, 1, 1, 2}, Floats(4, 0)));
  const std::string sampled =
      node("GridSample", {"x", "g"}, {"y"}, integer_attribute("align_corners", 1));
  CHECK(run_model<float>(sampled, {x, grid}).values == values_of(x));
  check_says("dimension 0", [&] {
    run_model<float>(sampled, {x, own_names(floats("g", {1, 1, 1, 2}, Floats(2, 0)))});
  });
}

TEST_CASE("Split without num_outputs has equal parts, and sizes come to the dimension") {
  const std::string even = node("Split", {"x"}, {"y", "z"});
  CHECK(run_model<float>(even, {drawn("x", {6})}).values.size() == 3);
  CHECK_THROWS_AS(run_model<float>(even, {drawn("x", {7})}), Error);
  Given seven = drawn("x", {7});
  seven.names.clear();
  check_says("equal parts", [&] { run_model<float>(even, {seven}); });
  const std::string sizes = node("Split", {"x", "sizes"}, {"z", "y"});
  CHECK(run_model<float>(sizes + integers("sizes", {2, 5}), {drawn("x", {7})}).values.size() == 5);
  CHECK_THROWS_AS(run_model<float>(sizes + integers("sizes", {2, 4}), {drawn("x", {7})}), Error);
  check_says("come to 6", [&] { run_model<float>(sizes + integers("sizes", {2, 4}), {seven}); });
  check_says("negative", [&] { run_model<float>(sizes + integers("sizes", {8, -1}), {seven}); });
  for (const Ints &list : {Ints{7}, Ints{2, 2, 3}})
    check_says("2 outputs", [&] { run_model<float>(sizes + integers("sizes", list), {seven}); });
  check_says("num_outputs", [&] {
    run_model<float>(node("Split", {"x"}, {"y", "z"}, integer_attribute("num_outputs", 3)), {seven},
                     {}, 18);
  });
}

TEST_CASE("a sum over a shape without axes, where that means no reduction") {
  const auto sums = [](const std::string &attributes) {
    return run_model<int64_t>(node("Shape", {"x"}, {"s"}) +
                                  node("ReduceSum", {"s"}, {"r"}, attributes) +
                                  node("Identity", {"r"}, {"y"}),
                              {drawn("x", {3, 5})});
  };
  CHECK(sums(integer_attribute("noop_with_empty_axes", 1)).values == Ints{3, 5});
  CHECK(sums("").values == Ints{8});
}

TEST_CASE("Clip: a NaN bounds nothing, and the upper bound wins") {
  const float nan = std::nanf("");
  const Floats x = {-3, 0, 5};
  for (bool known : {true, false}) {
    const auto clipped = [&](float least, float most) {
      Given low = floats("low", {}, {least}), high = floats("high", {}, {most});
      low.is_weight = high.is_weight = known;
      return run<float>(node("Clip", {"x", "low", "high"}, {"y"}),
                        {floats("x", {3}, x), low, high});
    };
    CHECK(clipped(nan, 1) == Floats{-3, 0, 1});
    CHECK(clipped(-1, nan) == Floats{-1, 0, 5});
    CHECK(clipped(nan, nan) == x);
    CHECK(clipped(2, -2) == Floats{-2, -2, -2});
    CHECK(clipped(-1, 1) == Floats{-1, 0, 1});
  }
}

TEST_CASE(
    "bytes that are made smaller with antialiasing are whole after each axis, the last first") {
  // Halved, linear: element i of three taps apart by 1 from 2 i + 0.5 has weights 1/8 3/8 3/8 1/8.
  const auto halved = [](const std::vector<double> &x) {
    std::vector<double> out;
    const auto at = [&](int64_t i) {
      return x[size_t(std::min<int64_t>(std::max<int64_t>(i, 0), int64_t(x.size()) - 1))];
    };
    for (int64_t i = 0; i < int64_t(x.size()) / 2; ++i)
      out.push_back(std::floor(
          (at(2 * i - 1) + 3 * at(2 * i) + 3 * at(2 * i + 1) + at(2 * i + 2)) / 8 + 0.5));
    return out;
  };
  for (int shift : {0, 128}) {
    std::vector<uint8_t> image;
    std::vector<double> rows; // of halved columns
    for (int r = 0; r < 4; ++r) {
      std::vector<double> row;
      for (int column = 0; column < 4; ++column) {
        const int value = (r * 67 + column * 101 + r * column * 31) % 256 - shift;
        row.push_back(value);
        image.push_back(uint8_t(value));
      }
      for (double one : halved(row))
        rows.push_back(one);
    }
    Floats want(4);
    for (size_t column = 0; column < 2; ++column) {
      const auto made =
          halved({rows[column], rows[2 + column], rows[4 + column], rows[6 + column]});
      for (size_t r = 0; r < 2; ++r)
        want[2 * r + column] = float(made[r]);
    }
    CHECK(run_model<float>(
              node("Resize", {"x", "", "", "sizes"}, {"r"},
                   text_attribute("mode", "linear") + integer_attribute("antialias", 1)) +
                  node("Cast", {"r"}, {"y"}, integer_attribute("to", kF32)) +
                  integers("sizes", {1, 1, 2, 2}),
              {{"x", shift ? kI8 : kU8, {1, 1, 4, 4}, raw(image)}}, {}, 18)
              .values == want);
  }
}

TEST_CASE(
    "LayerNormalization and RMSNormalization: a scale and a bias that stretch to the tensor") {
  // Rows of 4, in x [2, 3, 4], that have a mean of 0 and, with epsilon, a deviation of 1.
  const Ints dims = {2, 3, 4};
  Floats x;
  for (int row = 0; row < 6; ++row)
    for (float one : {1.0f, -1.0f, row % 2 ? 1.0f : -1.0f, row % 2 ? -1.0f : 1.0f})
      x.push_back(one);
  const double deviation = std::sqrt(1 + 1e-5);
  for (const char *op : {"LayerNormalization", "RMSNormalization"})
    for (int64_t axis : {-1, 1})
      for (const auto &[scale, bias] : std::vector<std::pair<Ints, Ints>>{
               {{1}, {4}}, {{4}, {1}}, {{3, 1}, {4}}, {{1, 4}, {3, 4}}, {{4}, {2, 1, 1}}, {{}, {}}})
        for (bool named : {false, true}) {
          std::vector<Given> given = {floats("x", dims, x), drawn("s", scale), drawn("b", bias)};
          const bool moves = op[0] == 'L';
          const Floats s = stretched(values_of(given[1]), scale, dims),
                       b = stretched(values_of(given[2]), bias, dims);
          std::vector<double> wanted;
          for (size_t i = 0; i < x.size(); ++i)
            wanted.push_back(double(x[i]) / deviation * double(s[i]) + (moves ? double(b[i]) : 0));
          for (Given &one : given)
            one.names.clear();
          if (named)
            for (Given &one : given)
              one = own_names(one);
          given.resize(moves ? 3 : 2);
          INFO(op << " " << axis << " " << scale.size() << " " << bias.size() << " " << named);
          check_close(run_model<float>(node(op,
                                            moves ? std::vector<std::string>{"x", "s", "b"}
                                                  : std::vector<std::string>{"x", "s"},
                                            {"y"}, integer_attribute("axis", axis)),
                                       given, {}, 23)
                          .values,
                      wanted, 1e-5);
        }
}
