// Results whose size the data decides, from a model's bytes to results; the same session at counts
// that differ.
#include "support/onnx_run.h"

#include <algorithm>

using namespace cugrt;
using namespace cugrt::test;
using namespace cugrt::test::onnx_bytes;
using namespace cugrt::test::onnx_run;

namespace {

using Ints = std::vector<int64_t>;

Given bools(const std::string &name, Ints dims, const std::string &values) {
  return {name, kBool, std::move(dims), values};
}

} // namespace

TEST_CASE("NonZero gives the positions of what is not 0, in order, also none and also all") {
  for (const std::vector<float> &x :
       {std::vector<float>{0, 1, 0, -2, 0, 3}, std::vector<float>{0, 0, 0, 0, 0, 0},
        std::vector<float>{1, 2, 3, 4, 5, 6}}) {
    Ints rows, columns;
    for (size_t i = 0; i < x.size(); ++i)
      if (x[i] != 0)
        rows.push_back(int64_t(i / 3)), columns.push_back(int64_t(i % 3));
    Ints expected = rows;
    expected.insert(expected.end(), columns.begin(), columns.end());
    const auto y = run_model<int64_t>(node("NonZero", {"x"}, {"y"}), {floats("x", {2, 3}, x)});
    CHECK(y.dims == Ints{2, int64_t(rows.size())});
    CHECK(y.values == expected);
  }
}

TEST_CASE("what follows a size that the data decides has it, too") {
  // y = relu(x[x > 0]) + 1, of a length that varies.
  Given x = floats("x", {5}, {3, -1, 0.5f, -2, 7});
  x.names = {"n"};
  const auto y =
      run_model<float>(node("Greater", {"x", "zero"}, {"c"}) + node("Compress", {"x", "c"}, {"p"}) +
                           node("Relu", {"p"}, {"r"}) + node("Add", {"r", "one"}, {"y"}),
                       {x, weight(floats("zero", {}, {0})), weight(floats("one", {}, {1}))});
  CHECK(y.dims == Ints{3});
  CHECK(y.values == std::vector<float>{4, 1.5f, 8});
}

TEST_CASE("Compress along an axis, by a condition that is shorter than it") {
  const auto y = run_model<float>(
      node("Compress", {"x", "c"}, {"y"}, integer_attribute("axis", 1)),
      {floats("x", {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}), bools("c", {3}, std::string("\0\1\1", 3))});
  CHECK(y.dims == Ints{2, 2});
  CHECK(y.values == std::vector<float>{2, 3, 6, 7});
}

TEST_CASE("one session takes counts in turn: graphs of other sizes, and one that comes back") {
  const TemporaryFolder folder;
  std::ofstream(folder.path + "/m.onnx", std::ios::binary)
      << model(node("NonZero", {"x"}, {"p"}) + node("Neg", {"p"}, {"y"}) + input("x", kF32, {"6"}) +
               output("y", kI64, {}));
  Runtime &runtime = emulated_runtime();
  const Module module = Module::load(folder.path + "/m.onnx");
  Executable executable(runtime, module);
  Session session(executable, runtime, module.weights());
  for (unsigned bits : {0b101101u, 0u, 0b111111u, 0b101101u}) {
    std::vector<float> x;
    Ints expected;
    for (int64_t i = 0; i < 6; ++i) {
      x.push_back(bits >> i & 1 ? 2.0f : 0.0f);
      if (bits >> i & 1)
        expected.push_back(-i);
    }
    const Buffer buffer = upload(x);
    const auto results = session.run(executable.function("main"), {buffer.tensor(CUGRT_F32, {6})});
    session.synchronize();
    const cugrt_tensor &y = results.at(0).as.tensor;
    CHECK(Ints(y.dims, y.dims + y.rank) == Ints{1, int64_t(expected.size())});
    CHECK(download<int64_t>(y.address, expected.size()) == expected);
  }
  CHECK(session.counters().regions_eager == 0);
}

TEST_CASE("Unique: values, where they first were, which of them each is, and how often") {
  const std::vector<float> x = {2, 1, 1, 3, 4, 3};
  const auto result = [&](bool sorted, size_t i) {
    std::vector<std::string> outputs(4);
    outputs[i] = "y";
    const std::string unique =
        node("Unique", {"x"}, outputs, integer_attribute("sorted", sorted ? 1 : 0));
    if (i == 0) {
      Ints values;
      for (float one : run<float>(unique, {floats("x", {6}, x)}))
        values.push_back(int64_t(one));
      return values;
    }
    return run<int64_t>(unique, {floats("x", {6}, x)});
  };
  CHECK(result(true, 0) == Ints{1, 2, 3, 4});
  CHECK(result(true, 1) == Ints{1, 0, 3, 4});
  CHECK(result(true, 2) == Ints{1, 0, 0, 2, 3, 2});
  CHECK(result(true, 3) == Ints{2, 1, 2, 1});
  CHECK(result(false, 0) == Ints{2, 1, 3, 4});
  CHECK(result(false, 1) == Ints{0, 1, 3, 4});
  CHECK(result(false, 2) == Ints{0, 1, 1, 2, 3, 2});
  CHECK(result(false, 3) == Ints{1, 2, 2, 1});
}

TEST_CASE("Unique along an axis compares whole rows") {
  const auto x = floats("x", {4, 3}, {1, 0, 0, 1, 0, 0, 2, 3, 4, 0, 9, 9});
  const auto rows =
      run_model<float>(node("Unique", {"x"}, {"y"}, integer_attribute("axis", 0)), {x});
  CHECK(rows.dims == Ints{3, 3});
  CHECK(rows.values == std::vector<float>{0, 9, 9, 1, 0, 0, 2, 3, 4});
  CHECK(run<int64_t>(node("Unique", {"x"}, {"", "", "y"}, integer_attribute("axis", 0)), {x}) ==
        Ints{1, 1, 2, 0});
}

TEST_CASE("NonMaxSuppression takes the best boxes, and away what they overlap") {
  // Three boxes of side 1 that overlap by 0.9 and not at all, two classes, two images.
  const std::vector<float> boxes = {0, 0,     1, 1,     0, 0.05f, 1, 1.05f, 0, 10, 1, 11,
                                    1, 1.05f, 0, 0.05f, 0, 0,     1, 1,     0, 20, 1, 21};
  const std::vector<float> scores = {0.9f, 0.75f, 0.6f, 0.1f, 0.95f, 0.2f,
                                     0.5f, 0.5f,  0.3f, 0,    0,     0};
  const auto run_nms = [&](int64_t most, float least) {
    return run_model<int64_t>(
        node("NonMaxSuppression", {"boxes", "scores", "most", "overlap", "least"}, {"y"}),
        {floats("boxes", {2, 3, 4}, boxes), floats("scores", {2, 2, 3}, scores),
         weight({"most", kI64, {1}, raw(Ints{most})}), weight(floats("overlap", {1}, {0.5f})),
         weight(floats("least", {1}, {least}))});
  };
  const auto y = run_nms(3, 0.15f);
  CHECK(y.dims == Ints{6, 3});
  // Of equal scores the first box.
  CHECK(y.values == Ints{0, 0, 0, 0, 0, 2, 0, 1, 1, 0, 1, 2, 1, 0, 0, 1, 0, 2});
  CHECK(run_nms(1, 0.55f).values == Ints{0, 0, 0, 0, 1, 1});
  CHECK(run_nms(0, 0).dims == Ints{0, 3});
  CHECK(run_nms(5, 2).dims == Ints{0, 3});
}
