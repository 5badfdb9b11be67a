// What models are refused for: the sentence has the input, the dimension and both numbers, and
// dtypes by their names.
#include "fronts/onnx/import.h"
#include "support/catch.h"
#include "support/onnx_bytes.h"

#include <cmath>

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

TEST_CASE("numbers that no window, axis or slice has are told") {
  const std::string x = input("x", kF32, {"1", "3", "8", "8"}), y = output("y", kF32, {}),
                    w = input("w", kF32, {"3", "3", "3", "3"}),
                    begin = "1 node cannot be imported: ";
  for (const char *op : {"Conv", "ConvTranspose"}) {
    auto of = [&](const std::string &attribute) {
      return error_of(node(op, {"x", "w"}, {"y"}, attribute) + x + w + y);
    };
    const std::string who = begin + op + ", 1 time ('y'): ";
    CHECK(of(text_attribute("auto_pad", "SAME")) ==
          who + "attribute 'auto_pad' is 'SAME', none of NOTSET, VALID, SAME_UPPER and SAME_LOWER");
    CHECK(of(integers_attribute("kernel_shape", {3})) ==
          who + "attribute 'kernel_shape' is not what the weights have");
  }
  const std::string window = "strides, pads, dilations or a kernel that no window has";
  CHECK(has(error_of(node("ConvTranspose", {"x", "w"}, {"y"},
                          integers_attribute("output_shape", {0, 4})) +
                     x + w + y),
            window));
  CHECK(has(error_of(node("MaxPool", {"x"}, {"y"},
                          integers_attribute("kernel_shape", {2, 2}) +
                              text_attribute("auto_pad", "same_upper")) +
                     x + y),
            "attribute 'auto_pad' is 'same_upper'"));
  for (const auto &attribute :
       {integers_attribute("kernel_shape", {0, 2}),
        integers_attribute("kernel_shape", {2, 2}) + integers_attribute("strides", {-1, 1}),
        integers_attribute("kernel_shape", {2, 2}) + integers_attribute("pads", {0, -1, 0, 0})})
    CHECK(error_of(node("MaxUnpool", {"x", "i"}, {"y"}, attribute) + x +
                   input("i", kI64, {"1", "3", "8", "8"}) + y) ==
          begin + "MaxUnpool, 1 time ('y'): strides, pads or a kernel that no window has");
  for (int64_t n : {INT64_MAX, INT64_MIN, int64_t(1) << 40})
    CHECK(error_of(node("Pad", {"x", "p"}, {"y"}, text_attribute("mode", "wrap")) +
                   integers("p", {0, 0, 0, 0, 0, 0, 0, n}) + x + y) ==
          begin + "Pad, 1 time ('y'): a padding of " + std::to_string(n));
  CHECK(has(error_of(node("AffineGrid", {"t", "s"}, {"y"}) + input("t", kF32, {"1", "2", "3"}) +
                     integers("s", {1, 1, 4, (int64_t(1) << 62) + 1}) + y),
            "a grid of no place, or of so many"));
  for (const std::vector<int64_t> &axes : {std::vector<int64_t>{1, 1}, {0, -6}, {-1, 5}})
    CHECK(error_of(node("Unsqueeze", {"x", "a"}, {"y"}) + integers("a", axes) + x + y) ==
          begin + "Unsqueeze, 1 time ('y'): an axis is given twice");
  CHECK(error_of(node("Slice", {"x", "s", "e", "a", "t"}, {"y"}) + integers("s", {0}) +
                 integers("e", {4}) + integers("a", {2}) + integers("t", {1, 1}) + x + y) ==
        begin + "Slice, 1 time ('y'): starts, ends, axes and steps have different lengths");
}

TEST_CASE("a slice begins at the first element, however far before it is asked to") {
  for (int64_t from : {INT64_MIN, INT64_MIN + 1, int64_t(-9), int64_t(0)})
    CHECK(error_of(node("Slice", {"x", "s", "e", "a"}, {"y"}) + integers("s", {from}) +
                   integers("e", {INT64_MAX}) + integers("a", {1}) + input("x", kF32, {"2", "9"}) +
                   node("Add", {"y", "z"}, {"sum"}) + input("z", kF32, {"2", "9"}) +
                   output("sum", kF32, {"2", "9"})) == "");
}

TEST_CASE("an image's symbol is at least what a window of any op takes") {
  const std::string x = input("x", kF32, {"1", "1", "n", "8"}), y = output("y", kF32, {}),
                    w = input("w", kF32, {"1", "1", "5", "3"}),
                    bytes_x = input("x", 2, {"1", "1", "n", "8"}),
                    bytes_w = input("w", 2, {"1", "1", "5", "3"});
  const std::string windows = integers_attribute("kernel_shape", {5, 3}),
                    pads = integers_attribute("pads", {1, 0, 1, 0});
  struct Row {
    std::string graph;
    int64_t least;
  };
  const Row rows[] = {
      {node("Conv", {"x", "w"}, {"y"}) + x + w + y, 5},
      {node("Conv", {"x", "w"}, {"y"}, pads) + x + w + y, 3},
      {node("ConvInteger", {"x", "w"}, {"y"}) + bytes_x + bytes_w + output("y", 6, {}), 5},
      {node("MaxPool", {"x"}, {"y"}, windows) + x + y, 5},
      {node("AveragePool", {"x"}, {"y"}, windows + pads) + x + y, 3},
      {node("LpPool", {"x"}, {"y"}, windows) + x + y, 5},
      {node("MaxPool", {"x"}, {"y"}, windows + integer_attribute("ceil_mode", 1)) + x + y, 0}};
  for (const Row &row : rows) {
    onnx::Options options;
    options.bounds["n"] = {0, 9};
    const auto imported = onnx::import_bytes(model(row.graph, 21), "", options);
    REQUIRE((imported.ok() ? "" : imported.status().message()) == "");
    const auto &symbols = imported->module.functions[0].symbols;
    REQUIRE(symbols.size() == 1);
    CHECK(symbols[0].bounds.lower == row.least);
  }
}

TEST_CASE("bytes of a bool that are not 0 are 1") {
  const std::string w = bytes(5, number(1, 4) + number(2, 9) + bytes(8, "w") +
                                     bytes(9, std::string("\x02\xff\x00\x01", 4)));
  const auto imported =
      onnx::import_bytes(model(node("Where", {"w", "x", "z"}, {"y"}) + w + input("x", kF32, {"4"}) +
                                   input("z", kF32, {"4"}) + output("y", kF32, {"4"}),
                               21),
                         "", {});
  REQUIRE(imported.ok());
  REQUIRE(imported->module.constants.size() == 1);
  CHECK(imported->module.constants[0].bytes == std::string("\1\1\0\1", 4));
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

TEST_CASE("scales and zero points that quantise nothing are told with the node's name") {
  constexpr unsigned kI8 = 3, kU8 = 2, kF16 = 10;
  auto tensor = [](const std::string &name, unsigned dtype, const std::vector<int64_t> &dims,
                   const std::string &raw_bytes) {
    std::string sizes;
    for (int64_t dim : dims)
      sizes += number(1, uint64_t(dim));
    return bytes(5, sizes + number(2, dtype) + bytes(8, name) + bytes(9, raw_bytes));
  };
  auto floats = [](const std::vector<float> &values) {
    return std::string(reinterpret_cast<const char *>(values.data()), values.size() * 4);
  };
  const std::string q = tensor("q", kI8, {2, 3}, "abcdef"), x = input("x", kF32, {"2", "3"}),
                    y = output("y", kF32, {}), begin = "1 node cannot be imported: ";
  auto dequantised = [&](const std::string &scale, const std::string &zero = "",
                         const std::string &attributes = "") {
    return error_of(node("DequantizeLinear",
                         zero.empty() ? std::vector<std::string>{"q", "s"}
                                      : std::vector<std::string>{"q", "s", "z"},
                         {"d"}, attributes) +
                    node("Add", {"d", "x"}, {"y"}) + q + x + y + scale + zero);
  };
  auto scale = [&](const std::vector<float> &values) {
    return tensor("s", kF32, {int64_t(values.size())}, floats(values));
  };
  const std::string dequantise = begin + "DequantizeLinear, 1 time ('d'): ";
  CHECK(dequantised(scale({0})) ==
        dequantise + "element 0 of its scale is 0, and a scale is above 0");
  CHECK(dequantised(scale({1, -2, 3})) ==
        dequantise + "element 1 of its scale is negative, and a scale is above 0");
  CHECK(dequantised(scale({1, 2, std::nanf("")})) ==
        dequantise + "element 2 of its scale is NaN, and a scale is above 0");
  CHECK(dequantised(tensor("s", kF16, {}, std::string("\0\x80", 2))) ==
        dequantise + "element 0 of its scale is 0, and a scale is above 0");
  CHECK(dequantised(scale({1, 2, 3}), tensor("z", kU8, {3}, "abc")) ==
        dequantise + "its zero point has dtype u8, its input i8");
  CHECK(dequantised(scale({1}), tensor("z", 22, {1}, "a")) ==
        dequantise + "its zero point has dtype INT4, its input i8");
  CHECK(dequantised(scale({1, 2, 3}), tensor("z", kI8, {2}, "ab")) ==
        dequantise + "its zero point has the shape [2], its scale [3]");
  CHECK(dequantised(scale({1, 2, 3}), "", integer_attribute("axis", 2)) ==
        dequantise + "axis 2 is outside of rank 2");
  CHECK(dequantised(scale({1, 2})) ==
        dequantise + "input 1 has 2 in dimension 0, where 3 is wanted");
  CHECK(dequantised(tensor("s", kF32, {2, 1}, floats({1, 2}))) ==
        dequantise + "scales or zero points of shape [2, 1] where there are no blocks");
  auto in_blocks = [&](const std::vector<int64_t> &dims, int64_t block) {
    const std::vector<float> ones(size_t(dims[0] * (dims.size() > 1 ? dims[1] : 1)), 1);
    return dequantised(tensor("s", kF32, dims, floats(ones)), "",
                       integer_attribute("block_size", uint64_t(block)));
  };
  for (const auto &[dims, text] :
       {std::pair(std::vector<int64_t>{2, 3}, "[2, 3]"),
        std::pair(std::vector<int64_t>{1, 2}, "[1, 2]"), std::pair(std::vector<int64_t>{4}, "[4]")})
    CHECK(in_blocks(dims, 2) == dequantise + "scales or zero points of shape " + text +
                                    " where its blocks ask for [2, 2]");
  CHECK(in_blocks({2, 2}, 2).empty());
  CHECK(in_blocks({2, 1}, INT64_MAX).empty());
  CHECK(in_blocks({2, 1}, -2) == dequantise + "blocks of -2 elements");
  CHECK(error_of(node("DequantizeLinear", {"x", "s"}, {"y"}) + x + y + scale({1})) ==
        begin + "DequantizeLinear, 1 time ('y'): quantised values of dtype f32");
  auto quantised = [&](const std::string &given, const std::string &attributes = "") {
    return error_of(node("QuantizeLinear", {"x", "s", "z"}, {"y"}, attributes) + x +
                    output("y", kU8, {}) + given);
  };
  const std::string quantise = begin + "QuantizeLinear, 1 time ('y'): ";
  CHECK(quantised(scale({-1}) + tensor("z", kU8, {1}, "a")) ==
        quantise + "element 0 of its scale is negative, and a scale is above 0");
  CHECK(quantised(scale({1}) + tensor("z", kU8, {3}, "abc")) ==
        quantise + "its zero point has the shape [3], its scale [1]");
  CHECK(
      quantised(scale({1}) + tensor("z", kI8, {1}, "a"), integer_attribute("output_dtype", kU8)) ==
      quantise + "its zero point has dtype i8, its result u8");
  CHECK(error_of(node("DequantizeLinear", {"q", "s"}, {"y"}) + tensor("q", 22, {3}, "abc") +
                 scale({1}) + y) == "tensor 'q' has 3 bytes, its shape asks for 2");
}
