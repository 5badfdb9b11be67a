// Printing of bindings and blocks.
#include "ir/text/printer.h"

#include "ir/module/op.h"
#include "ir/text/lexer.h"

namespace cugrt::ir {

void Printer::value(ValueId id) {
  *this << "%"
        << (function_ && id.index < function_->values.size() ? function_->values[id.index].name
                                                             : "?");
}

void Printer::operand(const Operand &o) {
  switch (o.kind) {
  case Operand::Kind::none:
    *this << "none";
    return;
  case Operand::Kind::value:
    value(o.value());
    return;
  case Operand::Kind::expr:
    expr(o.expr());
    return;
  case Operand::Kind::literal:
    append_attribute_value(out_, module_.literals[o.index]);
    return;
  case Operand::Kind::function:
    *this << "@" << module_.functions[o.index].name;
    return;
  }
}

void Printer::operands(std::span<const Operand> list) {
  *this << "(";
  for (size_t i = 0; i < list.size(); ++i) {
    *this << (i ? ", " : "");
    operand(list[i]);
  }
  *this << ")";
}

void Printer::attributes(std::span<const Attribute> list) {
  if (list.empty())
    return;
  *this << " {";
  for (size_t i = 0; i < list.size(); ++i) {
    *this << (i ? ", " : "") << list[i].name << " = ";
    append_attribute_value(out_, list[i].value);
  }
  *this << "}";
}

void Printer::right_side(const Binding &b) {
  std::span<const Operand> list = function_->operands_of(b);
  std::span<const ExprId> numbers = function_->exprs_of(b);
  std::string_view word = binding_info(b.kind).word;
  auto result_type = [&] { return function_->value(b.result()).type; };
  auto typed = [&] {
    *this << " : ";
    type(result_type());
  };
  switch (b.kind) {
  case BindingKind::alloc_storage:
    *this << word << " \"" << module_.types.scope_name(module_.types[result_type()].scope)
          << "\", ";
    return expr(numbers[0]);
  case BindingKind::alloc_tensor:
  case BindingKind::view:
    *this << word << " ";
    operand(list[0]);
    *this << ", ";
    expr(numbers[0]);
    return typed();
  case BindingKind::alloc:
    *this << word;
    return typed();
  case BindingKind::kill:
  case BindingKind::alias:
  case BindingKind::literal:
    *this << word << " ";
    return operand(list[0]);
  case BindingKind::launch:
    *this << word << " @" << module_.kernels[b.callee].name;
    operands(list);
    return attributes(function_->attributes_of(b));
  case BindingKind::call:
    *this << word << " @" << module_.functions[b.callee].name;
    operands(list);
    return attributes(function_->attributes_of(b));
  case BindingKind::host_call:
  case BindingKind::extern_call: {
    *this << word << " ";
    append_quoted(out_, module_.callee_names[b.callee]);
    operands(list);
    attributes(function_->attributes_of(b));
    if (b.result_count == 1)
      return typed();
    std::vector<TypeId> result_types;
    for (uint32_t i = 0; i < b.result_count; ++i)
      result_types.push_back(function_->value(b.result(i)).type);
    *this << (result_types.empty() ? "" : " : ");
    return result_types.empty() ? void() : types(result_types);
  }
  case BindingKind::tuple:
    *this << word;
    return operands(list);
  case BindingKind::tuple_element:
    *this << word << " ";
    operand(list[0]);
    *this << ", ";
    return expr(numbers[0]);
  case BindingKind::constant:
    *this << word << " @" << module_.constants[b.callee].name;
    return;
  case BindingKind::shape:
    *this << word << " ";
    return exprs(numbers);
  case BindingKind::match_shape:
    *this << word << " ";
    operand(list[0]);
    place_ = Place::defines_bare;
    typed();
    place_ = Place::uses;
    return;
  case BindingKind::read_symbol: {
    const ExprNode &symbol = module_.exprs[numbers[0]];
    Interval bounds = function_->symbols[static_cast<size_t>(symbol.value)].bounds;
    *this << word << " ";
    place_ = Place::defines_bare;
    place(function_->symbols[static_cast<size_t>(symbol.value)].location);
    expr(numbers[0]);
    place_ = Place::uses;
    *this << " = ";
    operand(list[0]);
    *this << "[";
    expr(numbers[1]);
    *this << "] in [" << bounds.lower << ", " << bounds.upper << "]";
    return;
  }
  case BindingKind::op:
    *this << op_info(op_of(b)).name;
    operands(list);
    return attributes(function_->attributes_of(b));
  case BindingKind::if_:
  case BindingKind::while_:
    return; // binding() prints them
  }
}

void Printer::binding(const Binding &b, uint32_t levels, bool elide_blocks) {
  indent(levels);
  place(b.location);
  for (uint32_t i = 0; i < b.result_count; ++i) {
    *this << (i ? ", " : "");
    place(function_->value(b.result(i)).location);
    value(b.result(i));
  }
  *this << (b.result_count ? " = " : "");
  if (b.kind == BindingKind::if_)
    if_(b, levels, elide_blocks);
  else if (b.kind == BindingKind::while_)
    while_(b, levels, elide_blocks);
  else
    right_side(b);
  *this << "\n";
}

// --- Control flow --------------------------------------------------------------------------------

void Printer::captures(std::span<const Operand> list) {
  if (list.empty())
    return;
  *this << " using ";
  operands(list);
}

void Printer::nested(uint32_t number, uint32_t levels, bool elide) {
  if (elide) {
    *this << " { ... }";
    return;
  }
  *this << " {\n";
  block(function_->blocks[number], levels + 1, "yield");
  indent(levels);
  *this << "}";
}

void Printer::if_(const Binding &b, uint32_t levels, bool elide_blocks) {
  std::span<const Operand> list = function_->operands_of(b);
  *this << "if ";
  operand(list[0]);
  captures(list.subspan(1));
  if (b.result_count) {
    std::vector<TypeId> result_types;
    for (uint32_t i = 0; i < b.result_count; ++i)
      result_types.push_back(function_->value(b.result(i)).type);
    *this << " -> ";
    types(result_types);
  }
  nested(b.blocks.begin, levels, elide_blocks);
  *this << " else";
  nested(b.blocks.begin + 1, levels, elide_blocks);
}

/// Whether the parser gives a carried value this type by itself (carried_type of
/// ir/module/infer.h).
bool Printer::carried_as_default(const Type &type, const Operand &initial) const {
  auto scalar = [&](ScalarKind kind) {
    return type.kind == TypeKind::scalar && type.scalar == kind && type.dims.empty();
  };
  switch (initial.kind) {
  case Operand::Kind::none:
  case Operand::Kind::function:
    return type.kind == TypeKind::object;
  case Operand::Kind::expr:
    return scalar(ScalarKind::integer);
  case Operand::Kind::value: {
    const Type &t = module_.types[function_->value(initial.value()).type];
    return t.kind == TypeKind::scalar ? scalar(t.scalar) : t == type;
  }
  case Operand::Kind::literal:
    break;
  }
  const AttributeValue &literal = module_.literals[initial.index];
  if (std::holds_alternative<bool>(literal))
    return scalar(ScalarKind::boolean);
  if (std::holds_alternative<double>(literal))
    return scalar(ScalarKind::floating);
  if (std::holds_alternative<std::string>(literal))
    return type.kind == TypeKind::string;
  return type.kind == TypeKind::dtype && std::holds_alternative<DTypeLiteral>(literal);
}

void Printer::while_(const Binding &b, uint32_t levels, bool elide_blocks) {
  std::span<const Operand> list = function_->operands_of(b);
  const Block &condition = function_->blocks[b.blocks.begin];
  const Block &body = function_->blocks[b.blocks.begin + 1];
  *this << "while (";
  for (uint32_t i = 0; i < b.carried_count; ++i) {
    ValueId param{condition.first_param + i};
    *this << (i ? ", " : "");
    place(function_->value(param).location);
    value(param);
    TypeId id = function_->value(param).type;
    if (!carried_as_default(module_.types[id], list[i])) {
      *this << " : ";
      type(id);
    }
    *this << " = ";
    operand(list[i]);
  }
  *this << ")";
  captures(list.subspan(b.carried_count));
  nested(b.blocks.begin, levels, elide_blocks);
  *this << " do";
  for (uint32_t i = 0; i < body.param_count; ++i) {
    *this << (i ? ", " : " (");
    place(function_->value({body.first_param + i}).location);
    value({body.first_param + i});
  }
  *this << (body.param_count ? ")" : "");
  nested(b.blocks.begin + 1, levels, elide_blocks);
}

void Printer::block(const Block &b, uint32_t levels, const char *last) {
  for (const Binding &inner : b.bindings)
    binding(inner, levels, false);
  indent(levels);
  place(b.end_location);
  *this << last;
  std::span<const Operand> results = function_->results_of(b);
  for (size_t i = 0; i < results.size(); ++i) {
    *this << (i ? ", " : " ");
    operand(results[i]);
  }
  *this << "\n";
}

} // namespace cugrt::ir
