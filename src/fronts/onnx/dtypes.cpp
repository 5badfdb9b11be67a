// Which inputs of a node have one dtype, and which are indices: the type constraints of ONNX's
// operator documents, for the ops whose handlers would cast or compute in one of two dtypes.
#include "fronts/onnx/call.h"

#include <algorithm>

namespace cugrt::onnx {

namespace {

/// Inputs by bits: those of type T of the op's document, those of type Tind.
struct Constraint {
  std::string_view op;
  uint32_t alike, indices = 0;
};
constexpr uint32_t kAll = UINT32_MAX;
constexpr Constraint kConstraints[] = {
    {"Add", kAll},
    {"And", kAll},
    {"BitwiseAnd", kAll},
    {"BitwiseOr", kAll},
    {"BitwiseXor", kAll},
    {"Clip", kAll},
    {"Concat", kAll},
    {"Conv", kAll},
    {"ConvTranspose", kAll},
    {"Div", kAll},
    {"Einsum", kAll},
    {"Equal", kAll},
    {"Gather", 0, 0b10},
    {"GatherElements", 0, 0b10},
    {"GatherND", 0, 0b10},
    {"Gemm", kAll},
    {"Greater", kAll},
    {"GreaterOrEqual", kAll},
    {"GRU", 0b101111}, // but for the lengths
    {"InstanceNormalization", kAll},
    {"Less", kAll},
    {"LessOrEqual", kAll},
    {"LSTM", 0b11101111},
    {"MatMul", kAll},
    {"Max", kAll},
    {"Mean", kAll},
    {"Min", kAll},
    {"Mod", kAll},
    {"Mul", kAll},
    {"Or", kAll},
    {"PRelu", kAll},
    {"RNN", 0b101111},
    {"ScatterElements", 0b101, 0b010},
    {"ScatterND", 0b101, 0b010},
    {"Sub", kAll},
    {"Sum", kAll},
    {"Where", 0b110},
    {"Xor", kAll},
};

} // namespace

void check_dtypes(Call &c) {
  check_narrow(c);
  if (!c.node.domain.empty() && c.node.domain != "ai.onnx")
    return;
  const auto *rule = std::find_if(std::begin(kConstraints), std::end(kConstraints),
                                  [&](const Constraint &one) { return one.op == c.node.op; });
  if (rule == std::end(kConstraints))
    return;
  std::optional<DType> first;
  for (size_t i = 0; i < c.input_count(); ++i) {
    const EntryPtr entry = c.entry(i);
    const std::optional<DType> dtype = entry ? c.w.entry_dtype(*entry) : std::nullopt;
    if (!dtype || ir::info(*dtype).kind == ir::DTypeKind::block) // of what is floats in the file
      continue;
    const auto has = [&](uint32_t bits) { return bits == kAll || (i < 32 && (bits >> i & 1)); };
    if (has(rule->indices) && *dtype != DType::i32 && *dtype != DType::i64)
      return c.w.fail(Code::parse_error, "its indices have dtype " +
                                             std::string(ir::info(*dtype).name) +
                                             ", i32 or i64 is wanted");
    if (!has(rule->alike))
      continue;
    if (first && *first != *dtype)
      return c.w.fail(Code::parse_error, "its inputs have dtypes " +
                                             std::string(ir::info(*first).name) + " and " +
                                             std::string(ir::info(*dtype).name));
    first = dtype;
  }
}

} // namespace cugrt::onnx
