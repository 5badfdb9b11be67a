// Results of a model whose size the data decides: one graph and no wait, whatever the count is.
#include "support/onnx_run.h"

#include <algorithm>

using namespace cugrt;
using namespace cugrt::test;
using namespace cugrt::test::onnx_bytes;
using namespace cugrt::test::onnx_run;

namespace {

using Ints = std::vector<int64_t>;

std::string initial(const std::string &name, const std::vector<float> &values, const Ints &dims) {
  std::string tensor;
  for (int64_t dim : dims)
    tensor += number(1, uint64_t(dim));
  return bytes(5, tensor + number(2, kF32) + bytes(8, name) + bytes(9, raw(values)));
}

/// A model in one session, whose results are tensors.
class Program {
public:
  explicit Program(const std::string &graph, const ImportOptions &options = {})
      : module_(load(graph, options)), executable_(emulated_runtime(), module_),
        session_(executable_, emulated_runtime(), module_.weights()),
        main_(executable_.function("main")) {}

  void run(const std::vector<Given> &given) {
    buffers_.clear();
    std::vector<Value> arguments;
    for (const Given &one : given) {
      if (main_.param(arguments.size()).kind == CUGRT_VALUE_INT) {
        arguments.push_back(Value(int64_t(one.bytes_of.at(0))));
        continue;
      }
      buffers_.push_back(upload(std::vector<char>(one.bytes_of.begin(), one.bytes_of.end())));
      arguments.push_back(buffers_.back().tensor(dtype_of(one.dtype), one.dims));
    }
    results_ = session_.run(main_, arguments);
  }

  template <class T> Ran<T> result(size_t index) {
    const cugrt_tensor y = session_.counted(emulated_runtime(), main_, results_, index);
    session_.synchronize();
    return {{y.dims, y.dims + y.rank}, download<T>(y.address, elements(y))};
  }

  /// Whether the host counts nothing, and all of a run is one graph.
  bool is_one_graph() const {
    const cugrt_counters counters = session_.counters();
    return text().find("cugrt.count") == std::string::npos && counters.regions_eager == 0 &&
           counters.eager_steps == 0 &&
           counters.regions_built + counters.regions_hit + counters.regions_patched ==
               counters.runs;
  }
  std::string text() const { return module_.print(); }
  const Module &module() const { return module_; }
  Function main() const { return main_; }
  Session &session() { return session_; }
  const std::vector<Value> &results() const { return results_; }

private:
  static Module load(const std::string &graph, const ImportOptions &options) {
    const TemporaryFolder folder;
    std::ofstream(folder.path + "/m.onnx", std::ios::binary) << model(graph);
    return Module::load(folder.path + "/m.onnx", options);
  }
  Module module_;
  Executable executable_;
  Session session_;
  Function main_;
  std::vector<Buffer> buffers_;
  std::vector<Value> results_;
};

/// Positions of what is not 0 in rows of so many columns: all rows, then all columns.
Ints positions(const std::vector<float> &x, int64_t columns, bool pairs) {
  Ints rows, at;
  for (size_t i = 0; i < x.size(); ++i)
    if (x[i] != 0)
      rows.push_back(int64_t(i) / columns), at.push_back(int64_t(i) % columns);
  Ints all;
  for (size_t i = 0; pairs && i < rows.size(); ++i)
    all.push_back(rows[i]), all.push_back(at[i]);
  if (!pairs) {
    all = rows;
    all.insert(all.end(), at.begin(), at.end());
  }
  return all;
}

/// Of so many elements about one in `every` is not 0.
std::vector<float> sparse(size_t count, uint32_t seed, uint32_t every) {
  std::vector<float> x = whole_numbers(count, seed);
  for (size_t i = 0; i < count; ++i)
    if ((i * 7 + seed) % every)
      x[i] = 0;
  return x;
}

} // namespace

TEST_CASE("NonZero as a result: no wait, one graph for every count, rows that lie close together") {
  Program program(node("NonZero", {"x"}, {"y"}) + input("x", kF32, {"h", "w"}) +
                  output("y", kI64, {}));
  REQUIRE(program.main().result_count() == 2);
  for (const auto &[h, w] : std::vector<std::pair<int64_t, int64_t>>{{2, 3}, {5, 4}, {1, 7}})
    for (const auto &x :
         {std::vector<float>(size_t(h * w), 0.0f), std::vector<float>(size_t(h * w), -2.0f),
          sparse(size_t(h * w), 3, 3), sparse(size_t(h * w), 1, uint32_t(h * w))}) {
      program.run({floats("x", {h, w}, x)});
      const Ints expected = positions(x, w, false);
      const auto y = program.result<int64_t>(0);
      CHECK(y.dims == Ints{2, int64_t(expected.size() / 2)});
      CHECK(y.values == expected);
    }
  CHECK(program.is_one_graph());
}

TEST_CASE("a session's graph is hit whatever the data count") {
  Program program(node("NonZero", {"x"}, {"p"}) + node("Transpose", {"p"}, {"y"}) +
                  input("x", kF32, {"4", "5"}) + output("y", kI64, {}));
  for (uint32_t every : {1u, 2u, 20u, 3u}) {
    const std::vector<float> x = sparse(20, every, every);
    program.run({floats("x", {4, 5}, x)});
    const auto y = program.result<int64_t>(0);
    const Ints expected = positions(x, 5, true);
    CHECK(y.dims == Ints{int64_t(expected.size() / 2), 2});
    CHECK(y.values == expected);
  }
  CHECK(program.session().counters().regions_built == 1);
  CHECK(program.session().counters().regions_hit == 3);
  CHECK(program.is_one_graph());
}

TEST_CASE("Compress as a result, along inner and outer axes, of f32 and f16") {
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  for (int64_t axis : {0, 1, 2})
    for (unsigned dtype : {kF32, kF16}) {
      INFO("axis " << axis << ", dtype " << dtype);
      Program program(
          node("Cast", {"x"}, {"h"}, integer_attribute("to", dtype)) +
          node("Compress", {"h", "c"}, {"k"}, integer_attribute("axis", uint64_t(axis))) +
          node("Cast", {"k"}, {"y"}, integer_attribute("to", kF32)) +
          input("x", kF32, {"2", "3", "2"}) + input("c", kBool, {axis == 1 ? "3" : "2"}) +
          output("y", kF32, {}) + output("k", dtype, {}));
      for (const std::string &kept : {std::string("\0\1\1", 3), std::string("\0\0\0", 3),
                                      std::string("\1\1\1", 3), std::string("\1\0\0", 3)}) {
        const std::string flags = kept.substr(0, axis == 1 ? 3 : 2);
        std::vector<float> expected;
        for (int64_t i = 0; i < 12; ++i)
          if (flags[size_t(axis == 0 ? i / 6 : axis == 1 ? i / 2 % 3 : i % 2)])
            expected.push_back(x[size_t(i)]);
        Ints dims = {2, 3, 2};
        dims[size_t(axis)] = std::count(flags.begin(), flags.end(), '\1');
        program.run({floats("x", {2, 3, 2}, x), {"c", kBool, {int64_t(flags.size())}, flags}});
        CHECK(program.result<float>(0).dims == dims);
        CHECK(program.result<float>(0).values == expected);
        CHECK(program.result<uint16_t>(1).dims == dims);
      }
      CHECK(program.is_one_graph());
      CHECK(program.main().result_count() == 3); // both have one count
    }
}

TEST_CASE("Unique as results: three of them have one count, and one has none") {
  for (bool sorted : {true, false}) {
    Program program(
        node("Unique", {"x"}, {"y", "at", "of", "n"}, integer_attribute("sorted", sorted)) +
        input("x", kF32, {"6"}) + output("y", kF32, {}) + output("at", kI64, {}) +
        output("of", kI64, {}) + output("n", kI64, {}));
    program.run({floats("x", {6}, {2, 1, 1, 3, 4, 3})});
    CHECK(program.result<float>(0).values ==
          (sorted ? std::vector<float>{1, 2, 3, 4} : std::vector<float>{2, 1, 3, 4}));
    CHECK(program.result<int64_t>(1).values == (sorted ? Ints{1, 0, 3, 4} : Ints{0, 1, 3, 4}));
    CHECK(program.result<int64_t>(2).values ==
          (sorted ? Ints{1, 0, 0, 2, 3, 2} : Ints{0, 1, 1, 2, 3, 2}));
    CHECK(program.result<int64_t>(3).values == (sorted ? Ints{2, 1, 2, 1} : Ints{1, 2, 2, 1}));
    program.run({floats("x", {6}, {7, 7, 7, 7, 7, 7})});
    CHECK(program.result<float>(0).values == std::vector<float>{7});
    CHECK(program.result<int64_t>(3).values == Ints{6});
    program.run({floats("x", {6}, {6, 5, 4, 3, 2, 1})});
    CHECK(program.result<float>(0).dims == Ints{6});
    CHECK(program.main().result_count() == 5);
    CHECK(program.is_one_graph());
  }
}

TEST_CASE("the boxes that NonMaxSuppression takes, gathered, as detectors end") {
  // selected[:, 2], and the rows of `table` that it names.
  const std::string graph =
      node("NonMaxSuppression", {"boxes", "scores", "most", "overlap", "least"}, {"s"}) +
      node("Gather", {"s", "two"}, {"column"}, integer_attribute("axis", 1)) +
      node("Squeeze", {"column", "axis"}, {"ids"}) + node("Gather", {"table", "ids"}, {"rows"}) +
      node("Unsqueeze", {"rows", "zero"}, {"y"}) + input("boxes", kF32, {"1", "3", "4"}) +
      input("scores", kF32, {"1", "2", "3"}) + integers("most", {3}) + integers("two", {2}) +
      integers("axis", {1}) + integers("zero", {0}) + initial("overlap", {0.5f}, {1}) +
      initial("least", {0.15f}, {1}) + initial("table", {10, 11, 20, 21, 30, 31}, {3, 2}) +
      output("s", kI64, {}) + output("y", kF32, {});
  Program program(graph);
  const Given boxes = floats("boxes", {1, 3, 4}, {0, 0, 1, 1, 0, 0.05f, 1, 1.05f, 0, 10, 1, 11});
  program.run({boxes, floats("scores", {1, 2, 3}, {0.9f, 0.75f, 0.6f, 0.1f, 0.95f, 0.2f})});
  CHECK(program.result<int64_t>(0).dims == Ints{4, 3});
  CHECK(program.result<int64_t>(0).values == Ints{0, 0, 0, 0, 0, 2, 0, 1, 1, 0, 1, 2});
  CHECK(program.result<float>(1).dims == Ints{1, 4, 2});
  CHECK(program.result<float>(1).values == std::vector<float>{10, 11, 30, 31, 20, 21, 30, 31});
  program.run({boxes, floats("scores", {1, 2, 3}, {0, 0, 0, 0, 0, 0})});
  CHECK(program.result<int64_t>(0).dims == Ints{0, 3});
  CHECK(program.result<float>(1).dims == Ints{1, 0, 2});
  program.run({boxes, floats("scores", {1, 2, 3}, {0, 0, 0, 0, 0, 0.5f})});
  CHECK(program.result<int64_t>(0).values == Ints{0, 1, 2});
  CHECK(program.result<float>(1).values == std::vector<float>{30, 31});
  CHECK(program.is_one_graph());
}

TEST_CASE("a mask as frameworks write it: x[x > 2] of a matrix") {
  Program program(node("Greater", {"x", "two"}, {"mask"}) + node("NonZero", {"mask"}, {"p"}) +
                  node("Transpose", {"p"}, {"ids"}) + node("GatherND", {"x", "ids"}, {"y"}) +
                  initial("two", {2}, {}) + input("x", kF32, {"n", "3"}) + output("y", kF32, {}));
  program.run({floats("x", {2, 3}, {1, 5, 2, 3, 0, 9})});
  CHECK(program.result<float>(0).values == std::vector<float>{5, 3, 9});
  program.run({floats("x", {1, 3}, {1, 0, 2})});
  CHECK(program.result<float>(0).dims == Ints{0});
  CHECK(program.is_one_graph());
}

TEST_CASE("what anything else reads is counted by the host, as a result too") {
  Program program(node("NonZero", {"x"}, {"p"}) + node("Transpose", {"p"}, {"t"}) +
                  node("Neg", {"t"}, {"y"}) + input("x", kF32, {"6"}) + output("y", kI64, {}) +
                  output("p", kI64, {}));
  CHECK(program.text().find("counted_dims") == std::string::npos);
  REQUIRE(program.main().result_count() == 2);
  program.run({floats("x", {6}, {0, 1, 0, 0, 2, 3})});
  CHECK(program.result<int64_t>(0).dims == Ints{3, 1});
  CHECK(program.result<int64_t>(0).values == Ints{-1, -4, -5});
  CHECK(program.result<int64_t>(1).values == Ints{1, 4, 5});
}

TEST_CASE("rows that are taken by position, shapes, branches and two counts are the host's") {
  const std::string first = node("NonZero", {"x"}, {"p"}), x = input("x", kF32, {"6"}),
                    y = output("y", kI64, {});
  const std::string branch = node("Identity", {"p"}, {"b"}) + output("b", kI64, {});
  for (const std::string &reader :
       {node("Shape", {"p"}, {"y"}),
        node("Gather", {"p", "at"}, {"y"}, integer_attribute("axis", 1)),
        node("Gather", {"p", "p"}, {"y"}),
        node("If", {"c"}, {"y"},
             graph_attribute("then_branch", branch) + graph_attribute("else_branch", branch))}) {
    Program program(first + reader + integers("at", {0}) + x + input("c", kBool, {}) + y);
    CHECK(program.text().find("counted_dims") == std::string::npos);
    CHECK(program.text().find("cugrt.count") != std::string::npos);
    INFO(program.text());
    program.run({floats("x", {6}, {0, 0, 0, 7, 0, 0}), {"c", kBool, {}, std::string("\1", 1)}});
    CHECK(program.result<int64_t>(0).values.size() ==
          (reader.find("Shape") == std::string::npos ? 1u : 2u));
  }
}

TEST_CASE(
    "a caller's buffers hold the largest result, and what is behind a smaller one is nothing") {
  Program program(node("NonZero", {"x"}, {"y"}) + input("x", kF32, {"2", "4"}) +
                  output("y", kI64, {}));
  Runtime &runtime = emulated_runtime();
  const Buffer x = upload(std::vector<float>{0, 0, 5, 0, 0, 6, 0, 7});
  Buffer room(runtime, 16 * 8), count(runtime, 8);
  fill(runtime, room.address(), 0xcd, 16 * 8);
  fill(runtime, count.address(), 0xcd, 8);
  const std::vector<Value> arguments = {x.tensor(CUGRT_F32, {2, 4})};
  std::vector<Value> results = {room.tensor(CUGRT_I64, {2, 8}), count.tensor(CUGRT_I64, {1})};
  program.session().run_into(program.main(), arguments, results);
  const cugrt_tensor y = program.session().counted(runtime, program.main(), results, 0);
  CHECK(y.address == room.address());
  CHECK(Ints(y.dims, y.dims + y.rank) == Ints{2, 3});
  CHECK(download<int64_t>(y.address, 6) == Ints{0, 1, 1, 2, 1, 3});
  CHECK(download<int64_t>(count.address(), 1) == Ints{3});
  results = {room.tensor(CUGRT_I64, {2, 3}), Value()}; // too small for what may come
  CHECK(error_of([&] { program.session().run_into(program.main(), arguments, results); }).code() ==
        CUGRT_INVALID_ARGUMENT);
}

TEST_CASE("the ABI tells which dimension of which result is counted, and by which") {
  Program program(node("Compress", {"x", "c"}, {"y"}, integer_attribute("axis", 1)) +
                  input("x", kF32, {"2", "n"}) + input("c", kBool, {"n"}) + output("y", kF32, {}));
  const cugrt_param_info y = program.main().result(0), count = program.main().result(1);
  CHECK((y.counted && y.counted_dim == 1 && y.counted_by == 1 && !y.is_count));
  CHECK(std::string(y.dim_names[1]) == "n");
  CHECK((count.is_count && !count.counted && count.dtype == CUGRT_I64));
  CHECK_FALSE(program.main().param(0).counted);
  CHECK(program.module().result_names() == std::vector<std::string>{"y"});
}

TEST_CASE("a pack keeps what is counted") {
  Program program(node("NonZero", {"x"}, {"y"}) + input("x", kF32, {"2", "4"}) +
                  output("y", kI64, {}));
  const TemporaryFolder folder;
  auto options = detail::sized<cugrt_pack_options>();
  const char *architecture = "compute_75";
  options.architectures = &architecture, options.architecture_count = 1;
  write_pack(emulated_runtime(), program.module(), options, folder.path + "/m.pack");
  const Pack pack = Pack::load(folder.path + "/m.pack");
  Executable executable(emulated_runtime(), pack);
  Session session(executable, emulated_runtime());
  const Function main = executable.function("main");
  const Buffer x = upload(std::vector<float>{0, 0, 5, 0, 0, 6, 0, 7});
  const auto results = session.run(main, {x.tensor(CUGRT_F32, {2, 4})});
  const cugrt_tensor y = session.counted(emulated_runtime(), main, results, 0);
  CHECK(Ints(y.dims, y.dims + y.rank) == Ints{2, 3});
  CHECK(download<int64_t>(y.address, 6) == Ints{0, 1, 1, 2, 1, 3});
}

TEST_CASE("a count that is not within its bound is an error, and not believed") {
  const Module module = Module::parse(R"(cugrt 1
func @main(%x: tensor<[4], f32>, %c: tensor<[1], i64>) -> (tensor<[4], f32>, tensor<[1], i64>)
    attributes {counted_dims = [0[0] = 1]} {
  %y = relu(%x)
  %n = neg(%c)
  return %y, %n
}
)");
  Executable executable(emulated_runtime(), module);
  Session session(executable, emulated_runtime());
  const Function main = executable.function("main");
  const Buffer x = upload(std::vector<float>{1, 2, 3, 4});
  for (int64_t count : {-4, 0, 1, -5}) { // negated by the module
    const Buffer given = upload(Ints{count});
    const auto results =
        session.run(main, {x.tensor(CUGRT_F32, {4}), given.tensor(CUGRT_I64, {1})});
    const auto ask = [&] { return session.counted(emulated_runtime(), main, results, 0); };
    if (count == 0 || count == -4)
      CHECK(ask().dims[0] == -count);
    else
      CHECK(mentions(error_of([&] { ask(); }), "result 1 counts " + std::to_string(-count)));
  }
}

TEST_CASE("constants whose size only the device knows are computed with the weights, and counted") {
  Program program(node("NonZero", {"k"}, {"y"}) + node("Add", {"x", "k"}, {"z"}) +
                  initial("k", {0, 2, 0, 3}, {4}) + input("x", kF32, {"4"}) +
                  output("y", kI64, {}) + output("z", kF32, {}));
  program.run({floats("x", {4}, {1, 1, 1, 1})});
  CHECK(program.result<int64_t>(0).dims == Ints{1, 2});
  CHECK(program.result<int64_t>(0).values == Ints{1, 3});
  CHECK(program.result<float>(1).values == std::vector<float>{1, 3, 1, 4});
}
