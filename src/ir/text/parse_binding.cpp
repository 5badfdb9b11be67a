// Parsing of bindings: one function for each kind, which fills in a draft that is then appended.
#include "ir/text/parser.h"

#include "ir/module/infer.h"
#include "ir/module/names.h"

namespace cugrt::ir {

bool Parser::right_side(Draft &d) {
  struct Row {
    std::string_view word;
    BindingKind kind;
    bool (Parser::*parse)(Draft &);
  };
  static constexpr Row kRows[] = {
#define CUGRT_BINDING(name, word, ...) {word, BindingKind::name, &Parser::parse_##name},
#include "ir/module/bindings.def"
#undef CUGRT_BINDING
  };
  if (token_.kind != TokenKind::word)
    return fail_here(d.names.empty() ? "a binding, return or yield" : "an op or another binding");
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

bool Parser::value(ValueId &out) {
  if (token_.kind != TokenKind::value)
    return fail_here("a value");
  auto it = current_->values.find(token_.text);
  if (it == current_->values.end())
    return fail(token_.location, "unknown value %" + std::string(token_.text));
  out = it->second;
  advance();
  return true;
}

bool Parser::value_operand(Draft &d) {
  ValueId v;
  if (!value(v))
    return false;
  d.operands.push_back(Operand::of(v));
  note_poison(d);
  return true;
}

void Parser::note_poison(Draft &d) {
  for (const Operand &o : d.operands)
    if (o.kind == Operand::Kind::value && current_->poisoned[o.index])
      d.poisoned = true;
}

bool Parser::operand(Operand &out) {
  if (token_.kind == TokenKind::value) {
    ValueId v;
    if (!value(v))
      return false;
    out = Operand::of(v);
    return true;
  }
  if (accept_word("none")) {
    out = {};
    return true;
  }
  AttributeValue literal;
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
  if (real || token_.kind == TokenKind::string || token_.kind == TokenKind::raw ||
      at_word("true") || at_word("false") ||
      (token_.kind == TokenKind::word && dtype_from_name(token_.text))) {
    if (!attribute_value(literal))
      return false;
    out = current_->builder.literal(std::move(literal));
    return true;
  }
  ExprId e;
  if (!expr(e))
    return false;
  out = Operand::of(e);
  return true;
}

bool Parser::operands(std::vector<Operand> &out) {
  return expect_sign("(", "before operands") && list(")", "operands", [&] {
           Operand o;
           return operand(o) && (out.push_back(o), true);
         });
}

/// As operands, where functions may be named too.
bool Parser::operands_or_functions(std::vector<Operand> &out) {
  return expect_sign("(", "before operands") && list(")", "operands", [&] {
           Operand o;
           if (token_.kind != TokenKind::global)
             return operand(o) && (out.push_back(o), true);
           uint32_t function = 0;
           return global_use(function_names_, "function", function) &&
                  (out.push_back(Operand::of_function(function)), true);
         });
}

/// The type of operand i, none while it is unknown because of an earlier error.
const Type *Parser::operand_value_type(const Draft &d, size_t i) {
  if (d.poisoned || d.operands[i].kind != Operand::Kind::value)
    return nullptr;
  return &module_.types[current_function().value(d.operands[i].value()).type];
}

// --- Appending -----------------------------------------------------------------------------------

bool Parser::declare(const Name &name, ValueId id, bool poisoned) {
  current_->poisoned.resize(current_function().values.size(), false);
  current_->poisoned[id.index] = poisoned;
  current_function().values[id.index].location = name.location;
  auto [it, added] = current_->values.emplace(name.text, id);
  if (added)
    return true;
  SourceLocation first = current_function().value(it->second).location;
  it->second = id;
  return fail(name.location, "value %" + std::string(name.text) + " is already defined in line " +
                                 std::to_string(first.line));
}

/// After an error the names exist all the same, so that their uses are no errors.
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

bool Parser::expect_result_count(const Draft &d, size_t count) {
  if (d.names.size() == count)
    return true;
  return fail(d.binding.location, "this has " + std::to_string(count) + " results, but " +
                                      std::to_string(d.names.size()) + " names stand before it");
}

bool Parser::finish(Draft &d) {
  if (d.poisoned) // types are unknown: whatever the number of names, no further error follows
    d.types.resize(d.names.size(), module_.types.simple(TypeKind::object));
  if (!expect_result_count(d, d.types.size()))
    return false;
  std::vector<std::string> hints;
  for (const Name &name : d.names)
    hints.emplace_back(name.text);
  ValueId first = current_->builder.bind(std::move(d.binding), d.operands, d.exprs, d.attributes,
                                         hints, d.types);
  bool ok = true;
  for (uint32_t i = 0; i < d.names.size(); ++i)
    ok = declare(d.names[i], {first.index + i}, d.poisoned) && ok;
  return ok;
}

// --- Storage and kernels -------------------------------------------------------------------------

/// The number that a name with @ has among `names`.
bool Parser::global_use(const std::unordered_map<std::string_view, uint32_t> &names,
                        const std::string &what, uint32_t &number) {
  if (token_.kind != TokenKind::global)
    return fail_here("the name of a " + what);
  auto it = names.find(token_.text);
  if (it == names.end())
    return fail(token_.location, "unknown " + what + " @" + std::string(token_.text));
  number = it->second;
  advance();
  return true;
}

bool Parser::parse_launch(Draft &d) {
  return global_use(kernel_names_, "kernel", d.binding.callee) && operands(d.operands) &&
         attributes(d.attributes);
}

bool Parser::parse_kill(Draft &d) { return value_operand(d); }

bool Parser::parse_read_symbol(Draft &d) {
  std::string_view name = token_.text;
  SourceLocation location = token_.location;
  if (token_.kind != TokenKind::word || is_reserved(name))
    return fail_here("the name of the symbol to read");
  advance();
  int64_t element = 0;
  Interval bounds;
  if (!expect_sign("=", "after the symbol") || !value_operand(d) ||
      !expect_sign("[", "and the number of the element") ||
      !integer(element, "the number of the element") || !expect_sign("]", "after the element") ||
      !expect_word("in", "and the bounds of the symbol") || !expect_sign("[", "before bounds") ||
      !integer(bounds.lower, "the lower bound") || !expect_sign(",", "between bounds") ||
      !integer(bounds.upper, "the upper bound") || !expect_sign("]", "after bounds"))
    return false;
  auto it = current_->symbols.find(name);
  if (it != current_->symbols.end() && current_->symbol_defined[it->second])
    return fail(location, "symbol '" + std::string(name) + "' is already defined");
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
  return true;
}

bool Parser::parse_alloc_storage(Draft &d) {
  uint32_t in_scope = 0;
  ExprId bytes;
  if (!scope(in_scope) || !expect_sign(",", "after the scope") || !expr(bytes))
    return false;
  d.exprs = {bytes};
  d.types = {module_.types.storage(in_scope, bytes)};
  return true;
}

/// %base, offset : TYPE - where the type names no scope, it has the base's.
bool Parser::parse_alloc_tensor(Draft &d) {
  ExprId offset;
  TypeId t;
  if (!value_operand(d) || !expect_sign(",", "and the byte offset") || !expr(offset) ||
      !expect_sign(":", "and the tensor's type") || !type(t))
    return false;
  d.exprs = {offset};
  const Type *base = operand_value_type(d, 0);
  if (base && (base->kind == TypeKind::storage || base->kind == TypeKind::tensor) &&
      base->scope != 0 && module_.types[t].kind == TypeKind::tensor &&
      module_.types[t].scope == 0) {
    Type scoped = module_.types[t];
    scoped.scope = base->scope;
    t = module_.types.intern(std::move(scoped));
  }
  d.types = {t};
  return true;
}

bool Parser::parse_view(Draft &d) { return parse_alloc_tensor(d); }

bool Parser::parse_alloc(Draft &d) {
  TypeId t;
  if (!expect_sign(":", "and the tensor's type") || !type(t))
    return false;
  d.types = {t};
  return true;
}

// --- Values --------------------------------------------------------------------------------------

bool Parser::parse_alias(Draft &d) {
  if (!value_operand(d))
    return false;
  d.types = {current_function().value(d.operands[0].value()).type};
  return true;
}

bool Parser::parse_tuple(Draft &d) {
  if (!operands(d.operands))
    return false;
  note_poison(d);
  std::vector<TypeId> fields;
  for (const Operand &o : d.operands) {
    if (o.kind == Operand::Kind::none)
      return fail(d.binding.location, "a field of a tuple may not be absent");
    fields.push_back(operand_type(module_, current_function(), o));
  }
  TypeId t = module_.types.tuple(std::move(fields));
  if (module_.types.nesting(t) > kMaxNesting || module_.types.leaf_count(t) > kMaxOperands)
    return fail(d.binding.location, "tuples nest at most " + std::to_string(kMaxNesting) +
                                        " deep and have at most " + std::to_string(kMaxOperands) +
                                        " parts");
  d.types = {t};
  return true;
}

bool Parser::parse_tuple_element(Draft &d) {
  int64_t index = 0;
  SourceLocation location = token_.location;
  if (!value_operand(d) || !expect_sign(",", "and the number of the field") ||
      !integer(index, "the number of the field"))
    return false;
  d.exprs = {module_.exprs.constant(index)};
  const Type *t = operand_value_type(d, 0);
  if (!t)
    return true;
  if (t->kind != TypeKind::tuple)
    return fail(location, "get takes a tuple");
  if (index < 0 || static_cast<uint64_t>(index) >= t->fields.size())
    return fail(location, "field " + std::to_string(index) + " of a tuple of " +
                              std::to_string(t->fields.size()));
  d.types = {t->fields[static_cast<size_t>(index)]};
  return true;
}

bool Parser::parse_constant(Draft &d) {
  if (!global_use(constant_names_, "constant", d.binding.callee))
    return false;
  d.types = {module_.constants[d.binding.callee].type};
  return true;
}

bool Parser::parse_shape(Draft &d) {
  if (!dims(d.exprs, kMaxRank, "dimensions"))
    return false;
  d.types = {module_.types.shape(d.exprs)};
  return true;
}

bool Parser::parse_literal(Draft &d) {
  SourceLocation location = token_.location;
  Operand o;
  if (!operand(o))
    return false;
  if (o.kind != Operand::Kind::literal && o.kind != Operand::Kind::expr)
    return fail(location, "a literal is a number, expression, string, dtype, true or false");
  d.operands = {o};
  d.types = {operand_type(module_, current_function(), o)};
  return true;
}

bool Parser::parse_match_shape(Draft &d) {
  if (!value_operand(d) || !expect_sign(":", "and the type to match"))
    return false;
  SourceLocation location = token_.location;
  symbols_ = Symbols::match;
  TypeId t;
  bool ok = type(t);
  symbols_ = Symbols::body;
  if (!ok)
    return false;
  const Type &matched = module_.types[t];
  if ((matched.kind != TypeKind::tensor && matched.kind != TypeKind::shape) || !matched.known_shape)
    return fail(location, "match takes a tensor or shape type with dimensions");
  d.exprs = matched.dims;
  d.types = {t};
  return true;
}

} // namespace cugrt::ir
