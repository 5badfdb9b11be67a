// Tables of types and functions.
#include "ops/emit/element_ops.h"

#include "base/type/element.h"
#include "ops/emit/kernel_launch.h"

#include <charconv>
#include <cmath>
#include <cstring>

namespace cugrt::codegen {

/// The shortest text that reads back as the same float or double.
template <class T> static std::string number_text(T value, std::string_view suffix) {
  const std::string point(suffix);
  if (std::isnan(value))
    return "(0.0" + point + " / 0.0" + point + ")";
  if (std::isinf(value))
    return (value < 0 ? "(-1.0" : "(1.0") + point + " / 0.0" + point + ")";
  char text[64];
  const std::to_chars_result end = std::to_chars(text, text + sizeof text, value);
  std::string number(text, end.ptr);
  if (number.find_first_of(".e") == std::string::npos)
    number += ".0";
  return number + point;
}

static std::string integer_text(int64_t value) {
  if (value == INT64_MIN)
    return "(-9223372036854775807ll - 1)";
  const bool is_short = value >= -INT32_MAX && value <= INT32_MAX;
  return std::to_string(value) + (is_short ? "" : "ll");
}

std::string_view element_type(ir::DType dtype) {
  using enum ir::DType;
  static constexpr std::pair<ir::DType, std::string_view> kTypes[] = {{f16, "__half"},
                                                                      {bf16, "__nv_bfloat16"},
                                                                      {f32, "float"},
                                                                      {f64, "double"},
                                                                      {boolean, "bool"},
                                                                      {i8, "signed char"},
                                                                      {i16, "short"},
                                                                      {i32, "int"},
                                                                      {i64, "long long"},
                                                                      {u8, "unsigned char"},
                                                                      {u16, "unsigned short"},
                                                                      {u32, "unsigned int"},
                                                                      {u64, "unsigned long long"}};
  for (const auto &[known, type] : kTypes)
    if (known == dtype)
      return type;
  return {}; // blocks, and two in a byte
}

std::string element_literal(ir::DType dtype, double value) {
  const int64_t bits = element_bits(dtype, value);
  char bytes[sizeof bits];
  std::memcpy(bytes, &bits, sizeof bits);
  switch (ir::info(dtype).kind) {
  case ir::DTypeKind::floating:
    return dtype == ir::DType::f64
               ? number_text(value, "")
               : number_text(static_cast<float>(ir::float_at(dtype, bytes)), "f");
  case ir::DTypeKind::boolean:
    return bits ? "true" : "false";
  case ir::DTypeKind::signed_integer:
  case ir::DTypeKind::unsigned_integer:
  case ir::DTypeKind::block:
    break;
  }
  return integer_text(ir::integer_at(dtype, bytes));
}

std::string elementwise_function(ir::Op op, std::span<const ir::Attribute> attributes) {
  using enum ir::Op;
  if (op == gelu && ir::op_string(op, attributes, "approximate") == "tanh")
    return "gelu_tanh";
  return op == floor_mod ? "mod" : op == trunc_mod ? "fmod" : std::string(ir::op_info(op).name);
}

std::vector<std::string_view> elementwise_parameters(ir::Op op) {
  std::vector<std::string_view> names;
  if (is_elementwise_function(op))
    for (const ir::OpAttribute &attribute : ir::op_attributes(op))
      if (attribute.kind == ir::AttributeKind::floating)
        names.push_back(attribute.name);
  return names;
}

bool repeats_elements(ir::Op op, std::span<const ir::Attribute> attributes) {
  return op == ir::Op::pad && ir::op_string(op, attributes, "mode") != "constant";
}

} // namespace cugrt::codegen
