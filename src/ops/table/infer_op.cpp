// Result types of the tensor-level ops: checks that hold for all of them, and the table of rules.
// Symbolic dimensions are equal when they are the same expression (base/expr/expr.h says which
// are); what cannot be shown equal is an error here, never an assumption.
#include "ops/table/infer_op.h"

#include "base/check.h"
#include "ir/module/infer.h"
#include "ir/module/names.h"

#include <algorithm>

namespace cugrt::ir {

bool is_shape_operand(Op op, size_t i) {
  switch (op_info(op).shapes) {
  case OpShapes::none:
    return false;
  case OpShapes::second:
    return i == 1;
  case OpShapes::rest:
    return i > 0;
  case OpShapes::all:
    return true;
  }
  return false;
}

Status Inference::check_operands() const {
  const OpInfo &row = op_info(op);
  if (operands.size() < row.least_operands || operands.size() > row.most_operands) {
    std::string wanted = std::to_string(row.least_operands);
    if (row.most_operands != row.least_operands)
      wanted += " to " + std::to_string(row.most_operands);
    return wrong("takes " + wanted + " operands, not " + std::to_string(operands.size()));
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].valid()) {
      if (i >= 32 || !(row.absent_operands >> i & 1))
        return wrong(number(i) + " may not be absent");
      continue;
    }
    if (is_shape_operand(op, i)) {
      if (type(i).kind != TypeKind::shape || !type(i).known_shape)
        return wrong(number(i) + " is a shape of known dimensions");
      continue;
    }
    if (type(i).kind != TypeKind::tensor)
      return wrong(number(i) + " is not a tensor");
    if (!type(i).known_shape)
      return wrong("the shape of " + number(i) + " is unknown; give it one with match");
  }
  return {};
}

static bool fits(const AttributeValue &value, AttributeKind kind) {
  switch (kind) {
  case AttributeKind::boolean:
    return std::holds_alternative<bool>(value);
  case AttributeKind::integer:
    return std::holds_alternative<int64_t>(value);
  case AttributeKind::floating:
    return std::holds_alternative<double>(value) || std::holds_alternative<int64_t>(value);
  case AttributeKind::string:
    return std::holds_alternative<std::string>(value);
  case AttributeKind::dtype:
    return std::holds_alternative<DTypeLiteral>(value);
  case AttributeKind::integers:
    return std::holds_alternative<std::vector<int64_t>>(value);
  }
  return false;
}

static const char *kind_name(AttributeKind kind) {
  static constexpr const char *kNames[] = {"true or false", "an integer", "a float",
                                           "a string",      "a dtype",    "a list of integers"};
  return kNames[static_cast<size_t>(kind)];
}

/// "a", "b" or "c".
static std::string listed(std::string_view words) {
  std::string list = "\"" + std::string(words) + "\"";
  for (size_t at = list.rfind(' '), last = at; at != std::string::npos;
       at = list.rfind(' ', at - 1))
    list.replace(at, 1, at == last ? "\" or \"" : "\", \"");
  return list;
}

std::string Inference::known_names() const {
  const std::string names = joined(op_attributes(op), &OpAttribute::name);
  return names.empty() ? "it has none" : "it has " + names;
}

Status Inference::check_attributes() const {
  std::span<const OpAttribute> table = op_attributes(op);
  uint32_t seen = 0; // by row of the table
  for (const Attribute &a : attributes) {
    auto row = std::find_if(table.begin(), table.end(),
                            [&](const OpAttribute &t) { return t.name == a.name; });
    if (row == table.end())
      return wrong("has no attribute '" + a.name + "'; " + known_names());
    if (!fits(a.value, row->kind))
      return wrong("attribute '" + a.name + "' is " + kind_name(row->kind));
    if (!row->words.empty() && !word_number(row->words, std::get<std::string>(a.value)))
      return wrong("attribute '" + a.name + "' is " + listed(row->words));
    uint32_t bit = 1u << (row - table.begin());
    if (seen & bit)
      return wrong("attribute '" + a.name + "' is given twice");
    seen |= bit;
  }
  for (size_t i = 0; i < table.size(); ++i)
    if (table[i].required && !(seen >> i & 1))
      return wrong("needs attribute '" + std::string(table[i].name) + "'");
  return {};
}

/// Indexed by op.
constexpr Types (Inference::*kInferenceRules[])() const = {
#define rule(name) &Inference::name
#define CUGRT_OP(name, operands, results, RULE, ...) RULE,
#include "ops/table/ops.def"
};

Op meant_op(const Module &module, Op op, std::span<const TypeId> operands,
            std::vector<Attribute> &attributes) {
  const bool is_transposed = attributes.size() == 1 && attributes[0].name == "transpose_b" &&
                             attributes[0].value == AttributeValue(true);
  if (op != Op::matmul || !is_transposed || operands.size() < 2 || !operands[1].valid() ||
      module.types[operands[1]].kind != TypeKind::tensor ||
      info(module.types[operands[1]].dtype).kind != DTypeKind::block)
    return op;
  attributes.clear();
  return Op::matmul_blocks;
}

Result<std::vector<TypeId>> infer_op(Module &module, Op op, std::span<const TypeId> operands,
                                     std::span<const Attribute> attributes,
                                     const Function *function) {
  CUGRT_CHECK(static_cast<size_t>(op) < op_count());
  Inference inference{module, op, operands, attributes, function};
  CUGRT_TRY(inference.check_operands());
  CUGRT_TRY(inference.check_attributes());
  return (inference.*kInferenceRules[static_cast<size_t>(op)])();
}

} // namespace cugrt::ir
