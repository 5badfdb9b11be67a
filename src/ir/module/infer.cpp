// Types of operands and calls.
#include "ir/module/infer.h"

#include <algorithm>

namespace cugrt::ir {

TypeId operand_type(Module &module, const Function &function, const Operand &operand) {
  switch (operand.kind) {
  case Operand::Kind::none:
    return {};
  case Operand::Kind::value:
    return function.value(operand.value()).type;
  case Operand::Kind::expr:
    return module.types.scalar(ScalarKind::integer, operand.expr());
  case Operand::Kind::function:
    return module.types.simple(TypeKind::object);
  case Operand::Kind::literal:
    break;
  }
  const AttributeValue &literal = module.literals[operand.index];
  if (std::holds_alternative<bool>(literal))
    return module.types.scalar(ScalarKind::boolean);
  if (const auto *integer = std::get_if<int64_t>(&literal))
    return module.types.scalar(ScalarKind::integer, module.exprs.constant(*integer));
  if (std::holds_alternative<double>(literal))
    return module.types.scalar(ScalarKind::floating);
  if (std::holds_alternative<std::string>(literal))
    return module.types.simple(TypeKind::string);
  if (std::holds_alternative<DTypeLiteral>(literal))
    return module.types.simple(TypeKind::dtype);
  return module.types.simple(TypeKind::object);
}

std::vector<ExprId> bind_callee_symbols(const Module &module, const Function &callee,
                                        std::span<const TypeId> argument_types) {
  std::vector<ExprId> bound(callee.symbols.size());
  size_t count = std::min(callee.params.size(), argument_types.size());
  for (size_t i = 0; i < count; ++i) {
    if (!argument_types[i].valid())
      continue;
    const Type &parameter = module.types[callee.value(callee.params[i].value).type];
    const Type &argument = module.types[argument_types[i]];
    if (parameter.kind != argument.kind || parameter.dims.size() != argument.dims.size() ||
        parameter.kind == TypeKind::storage)
      continue;
    for (size_t d = 0; d < parameter.dims.size(); ++d) {
      const ExprNode &dim = module.exprs[parameter.dims[d]];
      if (dim.kind == ExprKind::symbol && static_cast<uint64_t>(dim.value) < bound.size() &&
          !bound[static_cast<size_t>(dim.value)].valid())
        bound[static_cast<size_t>(dim.value)] = argument.dims[d];
    }
  }
  return bound;
}

static bool substitute_all(Module &module, std::vector<ExprId> &exprs,
                           std::span<const ExprId> replacement) {
  std::vector<SymbolId> symbols;
  for (ExprId &e : exprs) {
    symbols.clear();
    module.exprs.collect_symbols(e, symbols);
    for (SymbolId s : symbols)
      if (s.index >= replacement.size() || !replacement[s.index].valid())
        return false;
    if (!symbols.empty())
      e = module.exprs.substitute(e, replacement);
  }
  return true;
}

TypeId substitute_type(Module &module, TypeId id, std::span<const ExprId> replacement) {
  Type type = module.types[id];
  if (!substitute_all(module, type.dims, replacement) ||
      !substitute_all(module, type.strides, replacement))
    return {};
  for (TypeId &field : type.fields) {
    field = substitute_type(module, field, replacement);
    if (!field.valid())
      return {};
  }
  return module.types.intern(std::move(type));
}

TypeId carried_type(Module &module, TypeId initial) {
  if (!initial.valid())
    return module.types.simple(TypeKind::object);
  const Type &type = module.types[initial];
  return type.kind == TypeKind::scalar ? module.types.scalar(type.scalar) : initial;
}

} // namespace cugrt::ir
