// Parsing of bindings: one function for each kind, which fills in a draft that is then appended.
#include "ir/parser.h"

#include "ir/infer.h"
#include "ir/names.h"

namespace cugrt::ir {

bool Parser::right_side(Draft &d) {
  struct Row {
    std::string_view word;
    BindingKind kind;
    bool (Parser::*parse)(Draft &);
  };
  static constexpr Row kRows[] = {
      {"launch", BindingKind::launch, &Parser::launch},
      {"alloc_tensor", BindingKind::alloc_tensor, &Parser::alloc_tensor},
      {"kill", BindingKind::kill, &Parser::kill},
      {"alloc_storage", BindingKind::alloc_storage, &Parser::alloc_storage},
      {"alloc", BindingKind::alloc, &Parser::alloc},
      {"view", BindingKind::view, &Parser::view},
      {"call", BindingKind::call, &Parser::call},
      {"read", BindingKind::read_symbol, &Parser::read},
      {"host", BindingKind::host_call, &Parser::host_or_extern},
      {"extern", BindingKind::extern_call, &Parser::host_or_extern},
      {"alias", BindingKind::alias, &Parser::alias},
      {"tuple", BindingKind::tuple, &Parser::tuple},
      {"get", BindingKind::tuple_element, &Parser::get},
      {"constant", BindingKind::constant, &Parser::constant_use},
      {"shape", BindingKind::shape, &Parser::shape},
      {"literal", BindingKind::literal, &Parser::literal},
      {"match", BindingKind::match_shape, &Parser::match},
      {"if", BindingKind::if_, &Parser::if_},
      {"while", BindingKind::while_, &Parser::while_}};
  if (token_.kind != TokenKind::word)
    return fail_here(d.names.empty() ? "a binding, return or yield" : "an op or another binding");
  for (const Row &row : kRows)
    if (token_.text == row.word) {
      d.binding.kind = row.kind;
      advance();
      return (this->*row.parse)(d);
    }
  d.binding.kind = BindingKind::op;
  return op(d);
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
           auto it = function_names_.find(token_.text);
           if (it == function_names_.end())
             return fail(token_.location, "unknown function @" + std::string(token_.text));
           out.push_back(Operand::of_function(it->second));
           advance();
           return true;
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

bool Parser::launch(Draft &d) {
  if (token_.kind != TokenKind::global)
    return fail_here("the name of a kernel");
  auto it = kernel_names_.find(token_.text);
  if (it == kernel_names_.end())
    return fail(token_.location, "unknown kernel @" + std::string(token_.text));
  d.binding.callee = it->second;
  advance();
  return operands(d.operands) && attributes(d.attributes);
}

bool Parser::kill(Draft &d) { return value_operand(d); }

bool Parser::read(Draft &d) {
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

bool Parser::alloc_storage(Draft &d) {
  uint32_t in_scope = 0;
  ExprId bytes;
  if (!scope(in_scope) || !expect_sign(",", "after the scope") || !expr(bytes))
    return false;
  d.exprs = {bytes};
  d.types = {module_.types.storage(in_scope, bytes)};
  return true;
}

/// %base, offset : TYPE - where the type names no scope, it has the base's.
bool Parser::alloc_tensor(Draft &d) {
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

bool Parser::view(Draft &d) { return alloc_tensor(d); }

bool Parser::alloc(Draft &d) {
  TypeId t;
  if (!expect_sign(":", "and the tensor's type") || !type(t))
    return false;
  d.types = {t};
  return true;
}

// --- Values --------------------------------------------------------------------------------------

bool Parser::alias(Draft &d) {
  if (!value_operand(d))
    return false;
  d.types = {current_function().value(d.operands[0].value()).type};
  return true;
}

bool Parser::tuple(Draft &d) {
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

bool Parser::get(Draft &d) {
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

bool Parser::constant_use(Draft &d) {
  if (token_.kind != TokenKind::global)
    return fail_here("the name of a constant");
  auto it = constant_names_.find(token_.text);
  if (it == constant_names_.end())
    return fail(token_.location, "unknown constant @" + std::string(token_.text));
  d.binding.callee = it->second;
  d.types = {module_.constants[it->second].type};
  advance();
  return true;
}

bool Parser::shape(Draft &d) {
  if (!dims(d.exprs, kMaxRank, "dimensions"))
    return false;
  d.types = {module_.types.shape(d.exprs)};
  return true;
}

bool Parser::literal(Draft &d) {
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

bool Parser::match(Draft &d) {
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

// --- Calls ---------------------------------------------------------------------------------------

bool Parser::call(Draft &d) {
  if (token_.kind != TokenKind::global)
    return fail_here("the name of a function");
  auto it = function_names_.find(token_.text);
  if (it == function_names_.end())
    return fail(token_.location, "unknown function @" + std::string(token_.text));
  d.binding.callee = it->second;
  Pending &callee = pending_[it->second];
  advance();
  if (!operands(d.operands) || !attributes(d.attributes))
    return false;
  note_poison(d);
  d.poisoned = d.poisoned || callee.failed;
  if (d.poisoned)
    return true;
  std::vector<TypeId> arguments;
  for (const Operand &o : d.operands)
    arguments.push_back(operand_type(module_, current_function(), o));
  std::vector<ExprId> bound = bind_callee_symbols(module_, callee.builder.function(), arguments);
  for (TypeId declared : callee.builder.function().result_types) {
    TypeId t = substitute_type(module_, declared, bound);
    if (!t.valid())
      return fail(d.binding.location,
                  "the arguments do not determine a symbol of the result type " +
                      print_type(module_, &callee.builder.function(), declared) + " of @" +
                      callee.builder.function().name);
    d.types.push_back(t);
  }
  return true;
}

bool Parser::host_or_extern(Draft &d) {
  std::string_view key = token_.text;
  bool plain = token_.kind == TokenKind::string && key.find('\\') == std::string_view::npos;
  std::string name;
  if (!string(name, "the name of the function as a string"))
    return false;
  auto it = plain ? callee_names_.find(key) : callee_names_.end();
  if (it != callee_names_.end()) {
    d.binding.callee = it->second;
  } else {
    d.binding.callee = current_->builder.callee_name(name);
    if (plain)
      callee_names_.emplace(key, d.binding.callee);
  }
  return operands_or_functions(d.operands) && attributes(d.attributes) &&
         (!accept_sign(":") || type_list(d.types));
}

bool Parser::op(Draft &d) {
  SourceLocation location = token_.location;
  std::string name(token_.text);
  auto op = op_from_name(name);
  if (name == "return" || name == "yield")
    return fail(location, "return ends a function's body, yield a nested block");
  if (!op)
    return fail(location, "unknown op '" + name + "'");
  d.binding.callee = static_cast<uint32_t>(*op);
  advance();
  if (!operands(d.operands) || !attributes(d.attributes))
    return false;
  note_poison(d);
  if (d.poisoned)
    return true;
  std::vector<TypeId> types;
  for (size_t i = 0; i < d.operands.size(); ++i) {
    Operand::Kind kind = d.operands[i].kind;
    if (kind != Operand::Kind::value && kind != Operand::Kind::none)
      return fail(location, "operand " + std::to_string(i + 1) + " of " + name +
                                " is no value; ops take values and none");
    types.push_back(operand_type(module_, current_function(), d.operands[i]));
  }
  auto inferred = infer_op(module_, *op, types, d.attributes, &current_function());
  if (!inferred.ok())
    return fail(location, name + ": " + inferred.status().message());
  d.types = std::move(*inferred);
  return true;
}

// --- Control flow --------------------------------------------------------------------------------

bool Parser::captures(Draft &d) {
  if (!accept_word("using"))
    return true;
  return expect_sign("(", "before captures") && list(")", "captures", [&] {
           ValueId v;
           return value(v) && (d.operands.push_back(Operand::of(v)), true);
         });
}

/// A block with its parameters declared; "{" has not been taken.
uint32_t Parser::nested_block(std::span<const TypeId> types, const std::vector<Name> &names,
                              bool poisoned) {
  std::vector<std::string> hints;
  for (const Name &name : names)
    hints.emplace_back(name.text);
  uint32_t number = current_->builder.begin_block(types, hints);
  current_->poisoned.resize(current_function().values.size(), false);
  for (uint32_t i = 0; i < names.size(); ++i) {
    current_->poisoned[current_->builder.block_param(number, i).index] = poisoned;
    ValueId id = current_->builder.block_param(number, i);
    current_function().values[id.index].location = names[i].location;
    current_->values[names[i].text] = id;
  }
  std::vector<Operand> results;
  SourceLocation end;
  {
    Nest nest(*this);
    if (!nest.ok()) {
      skip_statement(lexer_.position().offset);
    } else if (expect_sign("{", "and a block")) {
      block(BlockEnd::nested, results, end);
    }
  }
  current_->builder.end_block(results, end);
  return number;
}

bool Parser::if_(Draft &d) {
  Operand condition;
  if (!operand(condition))
    return false;
  d.operands.push_back(condition);
  if (!captures(d) || (accept_sign("->") && !type_list(d.types)))
    return false;
  uint32_t first = nested_block({}, {}, false);
  if (d.types.empty() && !at_word("else")) { // nothing to yield: an empty else
    current_->builder.begin_block();
    current_->builder.end_block({}, token_.location);
  } else {
    bool has_else = expect_word("else", "and the other block");
    if (!has_else) {
      current_->builder.begin_block();
      current_->builder.end_block({});
      return false;
    }
    nested_block({}, {}, false);
  }
  d.binding.blocks = {first, 2};
  return true;
}

bool Parser::carried(Draft &d, std::vector<Name> &names, std::vector<TypeId> &types) {
  return expect_sign("(", "before carried values") && list(")", "carried values", [&] {
           Name name{token_.text, token_.location};
           if (token_.kind != TokenKind::value)
             return fail_here("a carried value's name with %");
           if (current_->values.count(name.text))
             return fail(name.location, "value %" + std::string(name.text) + " is already defined");
           for (const Name &other : names)
             if (other.text == name.text)
               return fail(name.location,
                           "value %" + std::string(name.text) + " is already defined");
           advance();
           TypeId written;
           if (accept_sign(":") && !type(written))
             return false;
           Operand initial;
           if (!expect_sign("=", "and the initial value") || !operand(initial))
             return false;
           d.operands.push_back(initial);
           names.push_back(name);
           if (!written.valid())
             written = carried_type(module_, operand_type(module_, current_function(), initial));
           types.push_back(written);
           return true;
         });
}

/// (%a, %b): the carried values' names in the body; left out, they are the condition's again.
bool Parser::body_names(size_t count, std::vector<Name> &names) {
  SourceLocation location = token_.location;
  if (!accept_sign("("))
    return true;
  names.clear();
  if (!list(")", "names", [&] {
        Name name{token_.text, token_.location};
        if (token_.kind != TokenKind::value)
          return fail_here("a carried value's name with %");
        if (current_->values.count(name.text))
          return fail(name.location, "value %" + std::string(name.text) + " is already defined");
        names.push_back(name);
        advance();
        return true;
      }))
    return false;
  return names.size() == count ||
         fail(location, "the body has " + std::to_string(names.size()) + " names for " +
                            std::to_string(count) + " carried values");
}

bool Parser::while_(Draft &d) {
  std::vector<Name> names;
  std::vector<TypeId> types;
  if (!carried(d, names, types))
    return false;
  d.binding.carried_count = static_cast<uint32_t>(d.operands.size());
  if (!captures(d))
    return false;
  note_poison(d);
  bool poisoned = d.poisoned;
  uint32_t first = nested_block(types, names, poisoned);
  if (!expect_word("do", "and the loop's body") || !body_names(types.size(), names)) {
    current_->builder.begin_block();
    current_->builder.end_block({});
    return false;
  }
  nested_block(types, names, poisoned);
  d.poisoned = poisoned;
  d.binding.blocks = {first, 2};
  d.types = types;
  return true;
}

} // namespace cugrt::ir
