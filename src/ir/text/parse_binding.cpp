// Parsing of bindings: one function for each kind, which fills in a draft that is then appended.
#include "ir/text/parser.h"

#include "ir/module/infer.h"
#include "ir/module/names.h"

namespace cugrt::ir {

void Parser::right_side(Draft &d) {
  struct Row {
    std::string_view word;
    BindingKind kind;
    void (Parser::*parse)(Draft &);
  };
  static constexpr Row kRows[] = {
#define CUGRT_BINDING(name, word, ...) {word, BindingKind::name, &Parser::parse_##name},
#include "ir/module/bindings.def"
#undef CUGRT_BINDING
  };
  if (token_.kind != TokenKind::word)
    fail_here(d.names.empty() ? "a binding, return or yield" : "an op or another binding");
  for (const Row &row : kRows)
    if (token_.text == row.word) {
      d.binding.kind = row.kind;
      advance();
      return (this->*row.parse)(d);
    }
  d.binding.kind = BindingKind::op;
  return parse_op(d);
}

// --- Values and operands -------------------------------------------------------------------------

ValueId Parser::value() {
  if (token_.kind != TokenKind::value)
    fail_here("a value");
  auto it = current_->values.find(token_.text);
  if (it == current_->values.end())
    fail(token_.location, "unknown value %" + std::string(token_.text));
  advance();
  return it->second;
}

void Parser::value_operand(Draft &d) {
  d.operands.push_back(Operand::of(value()));
  note_poison(d);
}

void Parser::note_poison(Draft &d) {
  for (const Operand &o : d.operands)
    if (o.kind == Operand::Kind::value && current_->poisoned[o.index])
      d.poisoned = true;
}

Operand Parser::operand() {
  if (token_.kind == TokenKind::value)
    return Operand::of(value());
  if (accept_word("none"))
    return {};
  bool real = token_.kind == TokenKind::floating || at_word("inf") || at_word("nan");
  if (at_sign("-")) { // of a float, or the beginning of an expression
    Lexer::Position position = lexer_.position();
    Token minus = token_;
    lexer_.report_errors(false);
    advance();
    real = token_.kind == TokenKind::floating || at_word("inf") || at_word("nan");
    lexer_.report_errors(true);
    lexer_.reset(position);
    token_ = minus;
  }
  if (real || at_string() || at_word("true") || at_word("false") ||
      (token_.kind == TokenKind::word && dtype_from_name(token_.text)))
    return current_->builder.literal(attribute_value());
  return Operand::of(expr());
}

std::vector<Operand> Parser::operands() {
  std::vector<Operand> all;
  expect_sign("(", "before operands");
  list(")", "operands", [&] { all.push_back(operand()); });
  return all;
}

/// Reads operands as operands() does; they may name functions, too.
std::vector<Operand> Parser::operands_or_functions() {
  std::vector<Operand> all;
  expect_sign("(", "before operands");
  list(")", "operands", [&] {
    all.push_back(token_.kind == TokenKind::global
                      ? Operand::of_function(global_use(function_names_, "function"))
                      : operand());
  });
  return all;
}

/// The type of operand i, none while it is unknown because of an earlier error.
const Type *Parser::operand_value_type(const Draft &d, size_t i) {
  if (d.poisoned || d.operands[i].kind != Operand::Kind::value)
    return nullptr;
  return &module_.types[current_function().value(d.operands[i].value()).type];
}

// --- Appending -----------------------------------------------------------------------------------

void Parser::declare(const Name &name, ValueId id, bool poisoned) {
  current_->poisoned.resize(current_function().values.size(), false);
  current_->poisoned[id.index] = poisoned;
  current_function().values[id.index].location = name.location;
  auto [it, added] = current_->values.emplace(name.text, id);
  if (added)
    return;
  SourceLocation first = current_function().value(it->second).location;
  it->second = id;
  report(name.location, "value %" + std::string(name.text) + " is already defined in line " +
                            std::to_string(first.line));
}

/// Declares the names after an error all the same, so that their uses are no errors.
void Parser::poison(const std::vector<Name> &names) {
  TypeId object = module_.types.simple(TypeKind::object);
  for (const Name &name : names)
    if (!current_->values.count(name.text)) {
      ValueId id = current_->builder.value(name.text, object, name.location);
      current_->poisoned.resize(id.index + 1, false);
      current_->poisoned[id.index] = true;
      current_->values.emplace(name.text, id);
    }
}

/// Its errors are no reason to skip text.
void Parser::finish(Draft &d) {
  if (d.poisoned) // types are unknown: whatever the number of names, no further error follows
    d.types.resize(d.names.size(), module_.types.simple(TypeKind::object));
  if (d.names.size() != d.types.size()) {
    report(d.binding.location, "this has " + std::to_string(d.types.size()) + " results, but " +
                                   std::to_string(d.names.size()) + " names stand before it");
    return poison(d.names);
  }
  std::vector<std::string> hints;
  for (const Name &name : d.names)
    hints.emplace_back(name.text);
  ValueId first = current_->builder.bind(std::move(d.binding), d.operands, d.exprs, d.attributes,
                                         hints, d.types);
  for (uint32_t i = 0; i < d.names.size(); ++i)
    declare(d.names[i], {first.index + i}, d.poisoned);
}

// --- Storage and kernels -------------------------------------------------------------------------

/// The number that a name with @ has among `names`.
uint32_t Parser::global_use(const std::unordered_map<std::string_view, uint32_t> &names,
                            const std::string &what) {
  if (token_.kind != TokenKind::global)
    fail_here("the name of a " + what);
  auto it = names.find(token_.text);
  if (it == names.end())
    fail(token_.location, "unknown " + what + " @" + std::string(token_.text));
  advance();
  return it->second;
}

void Parser::parse_launch(Draft &d) {
  d.binding.callee = global_use(kernel_names_, "kernel");
  d.operands = operands();
  d.attributes = attributes();
}

void Parser::parse_kill(Draft &d) { value_operand(d); }

void Parser::parse_read_symbol(Draft &d) {
  std::string_view name = token_.text;
  SourceLocation location = token_.location;
  if (token_.kind != TokenKind::word || is_reserved(name))
    fail_here("the name of the symbol to read");
  advance();
  Interval bounds;
  expect_sign("=", "after the symbol");
  value_operand(d);
  expect_sign("[", "and the number of the element");
  const int64_t element = integer("the number of the element");
  expect_sign("]", "after the element");
  expect_word("in", "and the bounds of the symbol");
  expect_sign("[", "before bounds");
  bounds.lower = integer("the lower bound");
  expect_sign(",", "between bounds");
  bounds.upper = integer("the upper bound");
  expect_sign("]", "after bounds");
  auto it = current_->symbols.find(name);
  if (it != current_->symbols.end() && current_->symbol_defined[it->second])
    fail(location, "symbol '" + std::string(name) + "' is already defined");
  if (it == current_->symbols.end()) {
    Symbol s;
    s.name = name;
    it = current_->symbols.emplace(name, current_->builder.symbol(std::move(s)).index).first;
    current_->symbol_defined.push_back(false);
  }
  current_->symbol_defined[it->second] = true;
  Symbol &s = current_function().symbols[it->second];
  s.source = SymbolSource::device;
  s.bounds = bounds;
  s.location = location;
  d.exprs = {module_.exprs.symbol({it->second}), module_.exprs.constant(element)};
}

void Parser::parse_alloc_storage(Draft &d) {
  const uint32_t in_scope = scope();
  expect_sign(",", "after the scope");
  const ExprId bytes = expr();
  d.exprs = {bytes};
  d.types = {module_.types.storage(in_scope, bytes)};
}

/// %base, offset : TYPE - where the type names no scope, it has the base's.
void Parser::parse_alloc_tensor(Draft &d) {
  value_operand(d);
  expect_sign(",", "and the byte offset");
  d.exprs = {expr()};
  expect_sign(":", "and the tensor's type");
  TypeId t = type();
  const Type *base = operand_value_type(d, 0);
  if (base && (base->kind == TypeKind::storage || base->kind == TypeKind::tensor) &&
      base->scope != 0 && module_.types[t].kind == TypeKind::tensor &&
      module_.types[t].scope == 0) {
    Type scoped = module_.types[t];
    scoped.scope = base->scope;
    t = module_.types.intern(std::move(scoped));
  }
  d.types = {t};
}

void Parser::parse_view(Draft &d) { parse_alloc_tensor(d); }

void Parser::parse_alloc(Draft &d) {
  expect_sign(":", "and the tensor's type");
  d.types = {type()};
}

// --- Values --------------------------------------------------------------------------------------

void Parser::parse_alias(Draft &d) {
  value_operand(d);
  d.types = {current_function().value(d.operands[0].value()).type};
}

void Parser::parse_tuple(Draft &d) {
  d.operands = operands();
  note_poison(d);
  std::vector<TypeId> fields;
  for (const Operand &o : d.operands) {
    if (o.kind == Operand::Kind::none)
      fail(d.binding.location, "a field of a tuple may not be absent");
    fields.push_back(operand_type(module_, current_function(), o));
  }
  TypeId t = module_.types.tuple(std::move(fields));
  if (module_.types.nesting(t) > kMaxNesting || module_.types.leaf_count(t) > kMaxOperands)
    fail(d.binding.location, "tuples nest at most " + std::to_string(kMaxNesting) +
                                 " deep and have at most " + std::to_string(kMaxOperands) +
                                 " parts");
  d.types = {t};
}

void Parser::parse_tuple_element(Draft &d) {
  SourceLocation location = token_.location;
  value_operand(d);
  expect_sign(",", "and the number of the field");
  const int64_t index = integer("the number of the field");
  d.exprs = {module_.exprs.constant(index)};
  const Type *t = operand_value_type(d, 0);
  if (!t)
    return;
  if (t->kind != TypeKind::tuple)
    fail(location, "get takes a tuple");
  if (index < 0 || static_cast<uint64_t>(index) >= t->fields.size())
    fail(location,
         "field " + std::to_string(index) + " of a tuple of " + std::to_string(t->fields.size()));
  d.types = {t->fields[static_cast<size_t>(index)]};
}

void Parser::parse_constant(Draft &d) {
  d.binding.callee = global_use(constant_names_, "constant");
  d.types = {module_.constants[d.binding.callee].type};
}

void Parser::parse_shape(Draft &d) {
  d.exprs = dims(kMaxRank, "dimensions");
  d.types = {module_.types.shape(d.exprs)};
}

void Parser::parse_literal(Draft &d) {
  SourceLocation location = token_.location;
  const Operand o = operand();
  if (o.kind != Operand::Kind::literal && o.kind != Operand::Kind::expr)
    fail(location, "a literal is a number, expression, string, dtype, true or false");
  d.operands = {o};
  d.types = {operand_type(module_, current_function(), o)};
}

void Parser::parse_match_shape(Draft &d) {
  value_operand(d);
  expect_sign(":", "and the type to match");
  SourceLocation location = token_.location;
  symbols_ = Symbols::match;
  const TypeId t = type();
  symbols_ = Symbols::body;
  const Type &matched = module_.types[t];
  if ((matched.kind != TypeKind::tensor && matched.kind != TypeKind::shape) || !matched.known_shape)
    fail(location, "match takes a tensor or shape type with dimensions");
  d.exprs = matched.dims;
  d.types = {t};
}

} // namespace cugrt::ir
