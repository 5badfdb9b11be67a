// What models are refused for: the sentence has the input, the dimension and both numbers, and
// dtypes by their names.
#include "fronts/onnx/import.h"
#include "support/catch.h"
#include "support/onnx_bytes.h"

using namespace cugrt;
using namespace cugrt::test::onnx_bytes;

namespace {

std::string error_of(const std::string &graph) {
  auto imported = onnx::import_bytes(model(graph, 21), "", {});
  return imported.ok() ? "" : imported.status().message();
}

bool has(const std::string &text, const std::string &part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("dimensions that cannot agree are told with the input and both numbers") {
  const std::string y = output("y", kF32, {});
  CHECK(error_of(node("Add", {"a", "b"}, {"y"}) + input("a", kF32, {"2", "3"}) +
                 input("b", kF32, {"2", "4"}) + y) ==
        "1 node cannot be imported: Add, 1 time ('y'): input 0 has 3 in dimension 1, where 4 is "
        "wanted");
  CHECK(has(error_of(node("Concat", {"a", "b"}, {"y"}, integer_attribute("axis", 0)) +
                     input("a", kF32, {"5", "3"}) + input("b", kF32, {"5", "7"}) + y),
            "input 1 has 7 in dimension 1, where 3 is wanted"));
  CHECK(has(error_of(node("Concat", {"a", "b"}, {"y"}, integer_attribute("axis", 0)) +
                     input("a", kF32, {"600", "n"}) + input("b", kF32, {"5", "700"}) + y),
            "input 0 has 1 to 512 in dimension 1, where 700 is wanted"));
  CHECK(has(error_of(node("Concat", {"a", "b"}, {"y"}, integer_attribute("axis", 0)) +
                     node("Add", {"y", "c"}, {"z"}) + input("a", kF32, {"5"}) +
                     input("b", kF32, {"6"}) + input("c", kF32, {"12"}) + output("z", kF32, {})),
            "input 0 has 11 in dimension 0, where 12 is wanted"));
  CHECK(has(error_of(node("MatMul", {"a", "b"}, {"y"}) + input("a", kF32, {"2", "3"}) +
                     input("b", kF32, {"4", "5"}) + y),
            "input 0 has 3 in dimension 1, where 4 is wanted"));
}

TEST_CASE("dtypes are told by their names") {
  auto tensor = [](const std::string &name, unsigned dtype, const std::string &raw_bytes) {
    return bytes(5, number(1, 2) + number(2, dtype) + bytes(8, name) + bytes(9, raw_bytes));
  };
  const std::string y = output("y", kF32, {}), x = input("x", kF32, {"2"});
  const std::string two(2, '\0');
  CHECK(error_of(node("DequantizeLinear", {"w", "x"}, {"y"}) + tensor("w", 18, two) + x + y) ==
        "tensor 'w' has FLOAT8E4M3FNUZ elements, which are not taken");
  CHECK(has(error_of(node("Relu", {"x"}, {"y"}) + tensor("w", 99, two) + x + y),
            "tensor 'w' has dtype 99 elements"));
  CHECK(has(error_of(node("Relu", {"x"}, {"y"}) + input("x", 22, {"2"}) + y),
            "input 'x' has dtype INT4, which no input has here"));
  CHECK(has(error_of(node("Cast", {"x"}, {"y"}, integer_attribute("to", 20)) + x + y),
            "a cast to FLOAT8E5M2FNUZ"));
  CHECK(has(
      error_of(node("Cast", {"x"}, {"y"}, integer_attribute("to", 17)) + x + output("y", 17, {})),
      "result 'y': a result of dtype FLOAT8E4M3FN"));
  CHECK(has(error_of(node("Concat", {"w", "w"}, {"c"}, integer_attribute("axis", 0)) +
                     node("DequantizeLinear", {"c", "x"}, {"y"}) + tensor("w", 22, two.substr(1)) +
                     x + y),
            "Concat, 1 time ('c'): its input 0 has dtype INT4, which the op does not take"));
  CHECK(has(error_of(node("Relu", {"x"}, {"y"}) + tensor("w", 22, two) + x + y),
            "tensor 'w' has 2 bytes, its shape asks for 1"));
}
