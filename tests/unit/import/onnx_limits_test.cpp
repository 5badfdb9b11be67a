// What a small file may ask for is bounded: elements that fold, nodes and constants of what is
// written out, new starts, depth. Beyond it the model is refused in one sentence.
#include "fronts/onnx/import.h"
#include "ir/text/text.h"
#include "support/must.h"
#include "support/onnx_bytes.h"

#include <sys/resource.h>

using namespace cugrt;
using namespace cugrt::test::onnx_bytes;
using cugrt::test::must;

namespace {

Result<onnx::Imported> import_of(const std::string &graph, const std::string &functions = "") {
  return onnx::import_bytes(model(graph) + functions, "", {});
}
std::string error_of(const std::string &graph, const std::string &functions = "") {
  const auto imported = import_of(graph, functions);
  return imported.ok() ? "" : imported.status().message();
}
std::string text_of(const std::string &graph) {
  const auto imported = must(import_of(graph));
  return ir::print(imported.module);
}
bool holds(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

std::string name(const char *letter, size_t i) { return letter + std::to_string(i); }
/// y = relu(x), beside whatever else the graph has.
const std::string kRelu =
    node("Relu", {"x"}, {"y"}) + input("x", kF32, {"4"}) + output("y", kF32, {"4"});

std::string ints(const std::string &of, const std::vector<int64_t> &dims,
                 const std::vector<int64_t> &values) {
  std::string tensor;
  for (int64_t dim : dims)
    tensor += number(1, uint64_t(dim));
  const std::string raw(reinterpret_cast<const char *>(values.data()), values.size() * 8);
  return bytes(5, tensor + number(2, kI64) + bytes(8, of) + bytes(9, raw));
}
std::string floats(const std::string &of, const std::vector<float> &values) {
  const std::string raw(reinterpret_cast<const char *>(values.data()), values.size() * 4);
  return bytes(5, number(1, values.size()) + number(2, kF32) + bytes(8, of) + bytes(9, raw));
}

std::string function(const std::string &called, const std::string &nodes) {
  return bytes(25, bytes(1, called) + bytes(4, "a") + bytes(5, "b") + nodes +
                       bytes(9, number(2, 17)) + bytes(10, "local"));
}
std::string function_node(const std::string &op, const std::string &from, const std::string &to) {
  return bytes(7, bytes(1, from) + bytes(2, to) + bytes(4, op));
}
std::string local_call(const std::string &op, const std::string &from, const std::string &to) {
  return node(op, {from}, {to}, bytes(7, "local"));
}

/// A loop of `turns` over x, with more in its body and more results of its own.
std::string loop(uint64_t turns, const std::string &body_of) {
  const std::string body = input("i", kI64, {}) + input("c", 9, {}) + input("a", kF32, {"4"}) +
                           body_of + output("c", 9, {}) + output("b", kF32, {"4"});
  return ints("turns", {}, {int64_t(turns)}) +
         node("Loop", {"turns", "", "x"}, {"y"}, graph_attribute("body", body)) +
         input("x", kF32, {"4"}) + output("y", kF32, {"4"});
}

} // namespace

TEST_CASE("what folds has few elements, whatever its operands have") {
  const std::vector<int64_t> many(4096, 0);
  // 4096 rows of 4096 elements: the device gathers them.
  CHECK(holds(text_of(node("Gather", {"d", "ids"}, {"g"}, integer_attribute("axis", 0)) +
                      ints("d", {1, 4096}, many) + ints("ids", {4096}, many) +
                      output("g", kI64, {"4096", "4096"})),
              "gather("));
  CHECK(holds(text_of(node("Concat", {"d", "d"}, {"g"}, integer_attribute("axis", 0)) +
                      ints("d", {4096}, many) + output("g", kI64, {"8192"})),
              "concat("));
  CHECK(holds(text_of(node("Expand", {"d", "s"}, {"g"}) + ints("d", {1, 4096}, many) +
                      ints("s", {2}, {2, 4096}) + output("g", kI64, {"2", "4096"})),
              "broadcast_to("));
  // As many as fold are folded.
  CHECK_FALSE(holds(text_of(node("Expand", {"d", "s"}, {"g"}) + ints("d", {1}, {7}) +
                            ints("s", {1}, {8}) + output("g", kI64, {"8"})),
                    "broadcast_to("));
}

TEST_CASE("folding ends where a model's known elements are many") {
  std::string graph = kRelu + node("Range", {"zero", "end", "one"}, {"g0"}) +
                      ints("zero", {}, {0}) + ints("one", {}, {1}) + ints("end", {}, {4096});
  constexpr size_t kNodes = 600; // 4096 elements each
  for (size_t i = 0; i < kNodes; ++i)
    graph += node("Add", {name("g", i), "one"}, {name("g", i + 1)});
  graph += output(name("g", kNodes), kI64, {"4096"});
  CHECK(holds(text_of(graph), "add("));
}

TEST_CASE("constants that ops make are bounded all together") {
  std::string graph =
      kRelu + input("theta", kF32, {"1", "2", "3"}) + ints("size", {4}, {1, 1, 2000, 2000});
  for (size_t i = 0; i < 3; ++i)
    graph += node("AffineGrid", {"theta", "size"}, {name("g", i)});
  CHECK(holds(error_of(graph), "constants that follow from others have more than"));
}

TEST_CASE("the ops that a module's nodes become are bounded", "[long]") {
  std::string graph = kRelu + input("s", kF32, {"1", "64", "4"});
  for (size_t i = 0; i < 2000; ++i) // each of 64 steps
    graph += node("LinearAttention", {"s", "s", "s"}, {name("g", i)},
                  integer_attribute("q_num_heads", 1) + integer_attribute("kv_num_heads", 1) +
                      text_attribute("update_rule", "linear"));
  CHECK(holds(error_of(graph), "have more than 262144 values"));
}

TEST_CASE("a body's constants are the same in each turn") {
  const std::vector<float> many(5000, 1); // more than folds
  const auto imported = must(
      import_of(loop(64, floats("w", {1, 2, 3, 4}) + floats("large", many) +
                             node("Slice", {"large", "zero", "four"}, {"part"}) +
                             node("Add", {"a", "w"}, {"d"}) + node("Add", {"d", "part"}, {"b"})) +
                ints("zero", {1}, {0}) + ints("four", {1}, {4})));
  CHECK(imported.module.constants.size() <= 2);
  CHECK(imported.weights.size() == 1);
}

TEST_CASE("a body's names count in each turn, a function's in each call", "[long]") {
  std::string constants;
  for (size_t i = 0; i < 20000; ++i)
    constants += floats(name("w", i), {1});
  CHECK(holds(error_of(loop(64, constants + node("Add", {"a", "w0"}, {"b"}))),
              "names and attributes"));

  std::string joined; // one value, many times
  for (size_t i = 0; i < 2000; ++i)
    joined += bytes(1, "a");
  std::string calls = input("x", kF32, {"4"});
  for (size_t i = 0; i < 600; ++i)
    calls += local_call("F", i ? name("v", i) : "x", name("v", i + 1));
  CHECK(holds(error_of(calls + output("v600", kF32, {"4"}),
                       function("F", function_node("Relu", "a", "b") +
                                         bytes(7, joined + bytes(2, "t") + bytes(4, "Concat") +
                                                      integer_attribute("axis", 0)))),
              "names and attributes"));
}

TEST_CASE("functions and subgraphs in one another are bounded together") {
  // Each function's body is 20 branches deep, and its innermost one calls the next function.
  std::string functions;
  for (size_t f = 0; f < 30; ++f) {
    const std::string at = std::to_string(f);
    std::string inner = f == 29 ? node("Relu", {"a"}, {"r" + at})
                                : local_call("F" + std::to_string(f + 1), "a", "r" + at);
    std::string result = "r" + at;
    for (size_t deep = 0; deep < 20; ++deep) {
      const std::string branch = inner + output(result, kF32, {});
      const std::string other = "n" + result;
      const std::string no = node("Neg", {"a"}, {other}) + output(other, kF32, {});
      result = "o" + at + "_" + std::to_string(deep);
      inner = node("If", {"yes" + at}, {result},
                   graph_attribute("then_branch", branch) + graph_attribute("else_branch", no));
    }
    const std::string yes =
        bytes(2, "yes" + at) + bytes(4, "Constant") +
        bytes(5, bytes(1, "value") + bytes(5, number(2, 9) + bytes(9, std::string(1, '\1'))) +
                     number(20, 4));
    // A node is field 1 of a graph and field 7 of a function.
    const std::string branches = std::string(1, char(7 << 3 | 2)) + inner.substr(1);
    const std::string body = bytes(7, yes) + branches + function_node("Identity", result, "b");
    functions += function("F" + at, body);
  }
  CHECK(holds(
      error_of(local_call("F0", "x", "y") + input("x", kF32, {"4"}) + output("y", kF32, {"4"}),
               functions),
      "deep"));
}

TEST_CASE("starts that inputs ask for are bounded", "[long]") {
  // Each input must be known for itself, and is found out when the ones before it are.
  constexpr size_t kInputs = 1500;
  std::string graph = kRelu;
  for (size_t i = 0; i < kInputs; ++i)
    graph +=
        input(name("s", i), kI64, {"1"}) + node("Reshape", {"x", name("s", i)}, {name("r", i)});
  CHECK(holds(error_of(graph), "too many steps"));
}

TEST_CASE("many nodes of ops that are not there are told of up to a number") {
  std::string graph = kRelu;
  for (size_t i = 0; i < 1000; ++i)
    graph += node(name("Op", i), {"x"}, {name("g", i)});
  const std::string message = error_of(graph);
  CHECK(holds(message, "1000 nodes cannot be imported"));
  CHECK(holds(message, "and 900 other reasons"));
}

TEST_CASE("a product of integers that are scalars is refused") {
  CHECK(holds(error_of(node("MatMul", {"a", "b"}, {"y"}) + input("a", kI64, {"4", "4"}) +
                       input("b", kI64, {}) + output("y", kI64, {})),
              "fewer axes"));
}

TEST_CASE("more inputs than a module has parameters are refused") {
  std::string graph = kRelu;
  for (size_t i = 0; i < 5000; ++i)
    graph += input(name("s", i), kF32, {"n" + std::to_string(i)});
  CHECK(holds(error_of(graph), "more than 4096 inputs"));
}

TEST_CASE("a loop of no turn gives what it was given, and an input behind it is found") {
  // What decides the shape is the integers `s`, by way of the loop: a run gives them.
  const std::string body = input("i", kI64, {}) + input("c", 9, {}) + input("a", kI64, {"2"}) +
                           input("d", kI64, {"2"}) + output("c", 9, {}) + output("a", kI64, {"2"}) +
                           output("d", kI64, {"2"});
  CHECK(holds(
      text_of(ints("turns", {}, {0}) + ints("k", {2}, {2, 2}) +
              node("Loop", {"turns", "", "s", "k"}, {"t", "l"}, graph_attribute("body", body)) +
              node("Reshape", {"x", "t"}, {"y"}) + node("Reshape", {"x", "l"}, {"z"}) +
              input("x", kF32, {"4"}) + input("s", kI64, {"2"}) + output("y", kF32, {}) +
              output("z", kF32, {"2", "2"})),
      "%s: shape<["));
}

TEST_CASE("weights whose sizes attributes alone tell take no memory") {
  auto most_kilobytes = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const std::string weights = bytes(5, number(1, 4) + number(1, 1) + number(1, 16) + number(2, 2) +
                                           bytes(8, "w") + bytes(9, std::string(64, '\0')));
  const long before = most_kilobytes();
  for (const char *large : {"K", "N", "block_size"}) {
    std::string attributes = integer_attribute("bits", 4);
    for (const char *name : {"K", "N", "block_size"})
      attributes += integer_attribute(name, name == std::string(large) ? uint64_t(1) << 62
                                            : name == std::string("N") ? 4
                                                                       : 32);
    CHECK(error_of(
              node("MatMulNBits", {"x", "w", "s"}, {"y"}, attributes + bytes(7, "com.microsoft")) +
              input("x", kF32, {"1", "32"}) + weights + floats("s", {1, 1, 1, 1}) +
              output("y", kF32, {})) != "");
  }
  CHECK(most_kilobytes() - before < 100 << 10);
}

TEST_CASE("a model that is cut anywhere is refused") {
  const std::string whole = model(
      node("Add", {"x", "b"}, {"y"}) +
      bytes(5, number(1, 1) + number(2, kF32) + bytes(8, "b") + bytes(9, "\x01\x02\x03\x04")) +
      input("x", kF32, {"n"}) + bytes(12, bytes(1, "y")));
  REQUIRE(onnx::import_bytes(whole, "", {}).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    INFO(size);
    CHECK_FALSE(onnx::import_bytes(std::string_view(whole).substr(0, size), "", {}).ok());
  }
}
