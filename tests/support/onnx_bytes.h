// ONNX files written by hand, message by message; field numbers are those of onnx.proto.
#pragma once

#include <cctype>
#include <cstdint>
#include <string>
#include <vector>

namespace cugrt::test::onnx_bytes {

constexpr unsigned kF32 = 1, kI64 = 7, kF16 = 10; // ONNX's numbers of dtypes

inline std::string varint(uint64_t value) {
  std::string out;
  for (; value > 127; value >>= 7)
    out += char(value | 128);
  return out + char(value);
}
inline std::string number(unsigned field, uint64_t value) {
  return varint(field << 3) + varint(value);
}
inline std::string bytes(unsigned field, const std::string &value) {
  return varint(field << 3 | 2) + varint(value.size()) + value;
}
inline std::string node(const std::string &op, const std::vector<std::string> &inputs,
                        const std::vector<std::string> &outputs,
                        const std::string &attributes = "") {
  std::string out;
  for (const std::string &one : inputs)
    out += bytes(1, one);
  for (const std::string &one : outputs)
    out += bytes(2, one);
  return bytes(1, out + bytes(4, op) + attributes);
}
inline std::string integer_attribute(const std::string &name, uint64_t value) {
  return bytes(5, bytes(1, name) + number(3, value) + number(20, 2));
}
inline std::string graph_attribute(const std::string &name, const std::string &graph) {
  return bytes(5, bytes(1, name) + bytes(6, graph) + number(20, 5));
}
/// A dimension that is all digits is a number.
inline std::string value(unsigned field, const std::string &name, unsigned dtype,
                         const std::vector<std::string> &dims) {
  std::string shape;
  for (const std::string &dim : dims)
    shape += bytes(1, !dim.empty() && std::isdigit(static_cast<unsigned char>(dim[0]))
                          ? number(1, std::stoul(dim))
                      : dim.empty() ? ""
                                    : bytes(2, dim));
  return bytes(field, bytes(1, name) + bytes(2, bytes(1, number(1, dtype) + bytes(2, shape))));
}
inline std::string input(const std::string &name, unsigned dtype,
                         const std::vector<std::string> &dims) {
  return value(11, name, dtype, dims);
}
inline std::string output(const std::string &name, unsigned dtype,
                          const std::vector<std::string> &dims) {
  return value(12, name, dtype, dims);
}
inline std::string integers(const std::string &name, const std::vector<int64_t> &list) {
  std::string raw(reinterpret_cast<const char *>(list.data()), list.size() * 8);
  return bytes(5, number(1, list.size()) + number(2, 7) + bytes(8, name) + bytes(9, raw));
}
inline std::string model(const std::string &graph, uint64_t opset = 17, uint64_t ir = 8) {
  return number(1, ir) + bytes(8, number(2, opset)) + bytes(7, graph);
}

inline std::string integers_attribute(const std::string &name, const std::vector<int64_t> &list) {
  std::string values;
  for (int64_t one : list)
    values += number(8, uint64_t(one));
  return bytes(5, bytes(1, name) + values + number(20, 7));
}
inline std::string text_attribute(const std::string &name, const std::string &text) {
  return bytes(5, bytes(1, name) + bytes(4, text) + number(20, 3));
}

} // namespace cugrt::test::onnx_bytes
