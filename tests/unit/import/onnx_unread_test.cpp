// Attributes and inputs that no handler of the importer reads: the node is refused by name, unless
// the op's document says that they change nothing.
#include "fronts/onnx/import.h"
#include "support/catch.h"
#include "support/onnx_bytes.h"

#include <cstring>

using namespace cugrt;
using namespace cugrt::test::onnx_bytes;

namespace {

/// x [1, 2, 8, 8] of floats, and some weights; the result is y.
std::string error_of(const std::string &nodes, uint64_t opset = 17, const std::string &more = "") {
  const auto constant = [](const std::string &name, const std::vector<uint64_t> &dims) {
    std::string tensor;
    uint64_t count = 4;
    for (uint64_t dim : dims)
      tensor += number(1, dim), count *= dim;
    return bytes(5, tensor + number(2, kF32) + bytes(8, name) + bytes(9, std::string(count, '\1')));
  };
  const std::string around = input("x", kF32, {"1", "2", "8", "8"}) + constant("w", {3, 2, 3, 3}) +
                             constant("two", {2}) + constant("eight", {8}) + integers("k", {2}) +
                             input("a", kF32, {"4", "4"}) + output("y", kF32, {});
  const auto imported = onnx::import_bytes(model(nodes + around, opset) + more, "", {});
  return imported.ok() ? "" : imported.status().message();
}

void check_says(const std::string &error, const std::string &part) {
  INFO(error);
  CHECK(error.find(part) != std::string::npos);
}

std::string microsoft(const std::string &attributes) {
  return attributes + bytes(7, "com.microsoft");
}
std::string number_attribute(const std::string &name, float value = 0.5f) {
  std::string four(4, '\0');
  std::memcpy(four.data(), &value, 4);
  return bytes(5, bytes(1, name) + varint(2 << 3 | 5) + four + number(20, 1));
}

} // namespace

TEST_CASE("an attribute or an input that nothing reads is an error with the node and its name") {
  check_says(error_of(node("Relu", {"x"}, {"y"}, number_attribute("slope"))),
             "1 node cannot be imported: Relu, 1 time ('y'): attribute 'slope' is not known here");
  check_says(error_of(node("Relu", {"x", "two"}, {"y"})), "input 1 ('two') is not known here");
  check_says(error_of(node("FastGelu", {"x"}, {"y"}, microsoft(number_attribute("slope")))),
             "com.microsoft.FastGelu, 1 time ('y'): attribute 'slope' is not known here");
  check_says(error_of(node("Conv", {"x", "w", "", "x"}, {"y"})), "input 3 ('x') is not known here");
  // What is computed while importing, and values that the device counts.
  check_says(error_of(node("Shape", {"x"}, {"s"}) +
                      node("Neg", {"s"}, {"y"}, integer_attribute("twice", 1))),
             "Neg, 1 time ('y'): attribute 'twice' is not known here");
  check_says(error_of(node("Shape", {"x"}, {"s"}) + node("Identity", {"s", "s"}, {"y"})),
             "input 1 ('s') is not known here");
  check_says(error_of(node("NonZero", {"x"}, {"h"}) +
                      node("Identity", {"h"}, {"y"}, integer_attribute("twice", 1))),
             "attribute 'twice' is not known here");
}

TEST_CASE("a call of a local function gives it only what it declares") {
  const std::string function =
      bytes(25, bytes(1, "F") + bytes(4, "a") + bytes(5, "b") + bytes(6, "declared") +
                    bytes(7, bytes(1, "a") + bytes(2, "b") + bytes(4, "Relu")) +
                    bytes(9, number(2, 17)) + bytes(10, "own"));
  const auto call = [&](const std::vector<std::string> &inputs, const std::string &attribute) {
    return error_of(node("F", inputs, {"y"}, integer_attribute(attribute, 1) + bytes(7, "own")), 17,
                    function);
  };
  CHECK(call({"x"}, "declared") == "");
  check_says(call({"x"}, "other"), "own.F, 1 time ('y'): attribute 'other' is not known here");
  check_says(call({"x", "two"}, "declared"), "input 1 ('two') is not known here");
}

TEST_CASE("what changes no result is taken: defaults, hints, and what belongs to other modes") {
  const auto one = integer_attribute;
  CHECK(error_of(node("Conv", {"x", "w"}, {"y"}, integers_attribute("kernel_shape", {3, 3}))) ==
        "");
  CHECK(error_of(node("Constant", {}, {"ratio"}, number_attribute("value_float")) +
                 node("Dropout", {"x", "ratio"}, {"y"}, one("seed", 7))) == "");
  CHECK(error_of(node("MaxPool", {"x"}, {"y"},
                      integers_attribute("kernel_shape", {2, 2}) + one("storage_order", 1))) == "");
  CHECK(error_of(node("BatchNormalization", {"x", "two", "two", "two", "two"}, {"y"},
                      number_attribute("momentum"))) == "");
  CHECK(error_of(node("LayerNormalization", {"x", "eight"}, {"y"}, one("stash_type", 1))) == "");
  CHECK(error_of(node("Cast", {"x"}, {"h"}, one("to", kF16) + one("saturate", 0)) +
                     node("Cast", {"h"}, {"y"}, one("to", kF32)),
                 19) == "");
  CHECK(error_of(node("TopK", {"x", "k"}, {"y", "i"}, one("sorted", 0))) == "");
  CHECK(error_of(node("Split", {"x"}, {"y", "z"}, one("axis", 1) + one("num_outputs", 2)), 18) ==
        "");
  CHECK(error_of(node("Gemm", {"a", "a", "a"}, {"y"}, number_attribute("beta", 0))) == "");
  CHECK(error_of(node("Pad", {"x", "pads", "", ""}, {"y"}, text_attribute("mode", "reflect")) +
                 integers("pads", {0, 0, 1, 1, 0, 0, 1, 1})) == "");
  CHECK(error_of(node("Pad", {"x", "pads", "fill"}, {"y"}, text_attribute("mode", "edge")) +
                 integers("pads", {0, 0, 1, 1, 0, 0, 1, 1}) + input("fill", kF32, {})) == "");
}

TEST_CASE("what would change results is refused, with the value that is taken") {
  const auto one = integer_attribute;
  check_says(error_of(node("Conv", {"x", "w"}, {"y"}, integers_attribute("kernel_shape", {3, 5}))),
             "attribute 'kernel_shape' is not what the weights have");
  check_says(error_of(node("LayerNormalization", {"x", "eight"}, {"y"}, one("stash_type", kF16))),
             "attribute 'stash_type' is 10, and only 1 is taken");
  check_says(error_of(node("BatchNormalization", {"x", "two", "two", "two", "two"}, {"y"},
                           one("spatial", 0)),
                      7),
             "attribute 'spatial' is 0, and only 1 is taken");
  check_says(error_of(node("Split", {"x"}, {"y", "z"}, one("axis", 1) + one("num_outputs", 3)), 18),
             "attribute 'num_outputs' is 3, and only 2 is taken");
  check_says(error_of(node("MultiHeadAttention", {"q", "q", "q", "", "", "", "", "", "", "q"},
                           {"y"}, microsoft(one("num_heads", 2))) +
                      input("q", kF32, {"1", "3", "8"})),
             "input 9 ('q') is not known here");
}
