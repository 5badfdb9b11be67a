// Parsing of expressions and types.
#include "ir/text/parser.h"

#include "ir/module/names.h"

namespace cugrt::ir {

// A module names a handful of storage scopes; every look-up may then be a scan.
static constexpr size_t kMaxScopes = 64;

// --- Expressions ---------------------------------------------------------------------------------

ExprId Parser::make(ExprKind kind, ExprId a, ExprId b, ExprId c, SourceLocation location) {
  const ExprId made = module_.exprs.make(kind, a, b, c);
  if (module_.exprs.depth(made) > ExprPool::kMaxDepth)
    fail(location,
         "this expression is more than " + std::to_string(ExprPool::kMaxDepth) + " operators deep");
  return made;
}

ExprId Parser::expr() {
  const ExprId left = sum();
  struct Comparison {
    std::string_view sign;
    ExprKind kind;
    bool swapped;
  };
  static constexpr Comparison kComparisons[] = {
      {"==", ExprKind::eq, false}, {"!=", ExprKind::ne, false}, {"<=", ExprKind::le, false},
      {">=", ExprKind::le, true},  {"<", ExprKind::lt, false},  {">", ExprKind::lt, true}};
  for (const Comparison &c : kComparisons) {
    SourceLocation location = token_.location;
    if (!accept_sign(c.sign))
      continue;
    const ExprId right = sum();
    return c.swapped ? make(c.kind, right, left, {}, location)
                     : make(c.kind, left, right, {}, location);
  }
  return left;
}

ExprId Parser::sum() {
  ExprId all = product();
  while (at_sign("+") || at_sign("-")) {
    SourceLocation location = token_.location;
    ExprKind kind = at_sign("+") ? ExprKind::add : ExprKind::sub;
    advance();
    all = make(kind, all, product(), {}, location);
  }
  return all;
}

ExprId Parser::product() {
  ExprId all = unary();
  for (SourceLocation location = token_.location; accept_sign("*"); location = token_.location)
    all = make(ExprKind::mul, all, unary(), {}, location);
  return all;
}

ExprId Parser::unary() {
  SourceLocation location = token_.location;
  if (!accept_sign("-"))
    return primary();
  if (token_.kind == TokenKind::integer) { // so that the least integer can be written
    uint64_t magnitude = token_.magnitude;
    advance();
    return module_.exprs.constant(static_cast<int64_t>(-magnitude));
  }
  const ExprId operand = primary();
  return make(ExprKind::mul, operand, module_.exprs.constant(-1), {}, location);
}

ExprId Parser::operator_call(ExprKind kind) {
  SourceLocation location = token_.location;
  advance();
  Nest nest(*this);
  ExprId operands[3];
  for (int i = 0; i < (kind == ExprKind::select ? 3 : 2); ++i) {
    i == 0 ? expect_sign("(", "after the operator") : expect_sign(",", "between operands");
    operands[i] = expr();
  }
  expect_sign(")", "after the operands");
  return make(kind, operands[0], operands[1], operands[2], location);
}

ExprId Parser::primary() {
  if (token_.kind == TokenKind::integer) {
    if (token_.magnitude > uint64_t(INT64_MAX))
      fail(token_.location, "this integer does not fit into 64 bits");
    const auto number = static_cast<int64_t>(token_.magnitude);
    advance();
    return module_.exprs.constant(number);
  }
  if (accept_sign("(")) {
    Nest nest(*this);
    const ExprId inner = expr();
    expect_sign(")", "after the expression");
    return inner;
  }
  if (token_.kind != TokenKind::word)
    fail_here("an expression");
  static constexpr std::pair<std::string_view, ExprKind> kOperators[] = {
      {"floordiv", ExprKind::floordiv}, {"ceildiv", ExprKind::ceildiv},
      {"mod", ExprKind::mod},           {"min", ExprKind::min},
      {"max", ExprKind::max},           {"select", ExprKind::select}};
  for (const auto &[word, kind] : kOperators)
    if (token_.text == word)
      return operator_call(kind);
  return symbol();
}

ExprId Parser::symbol() {
  std::string_view name = token_.text;
  SourceLocation location = token_.location;
  if (token_.kind != TokenKind::word || is_reserved(name))
    fail_here("a symbol");
  advance();
  auto &names = symbols_ == Symbols::kernel ? kernel_symbols_ : current_->symbols;
  auto it = names.find(name);
  if (it == names.end()) {
    if (symbols_ != Symbols::signature && symbols_ != Symbols::match)
      fail(location, "unknown symbol '" + std::string(name) + "'");
    Symbol s;
    s.name = name;
    s.location = location;
    SymbolId id = current_->builder.symbol(std::move(s));
    current_->symbol_defined.push_back(false);
    it = names.emplace(name, id.index).first;
    symbol_is_known(name);
  }
  return module_.exprs.symbol({it->second});
}

/// Dimensions, "[" included. A bare symbol in signatures and match is defined here.
std::vector<ExprId> Parser::dims(size_t limit, const char *what) {
  std::vector<ExprId> all;
  expect_sign("[", "before dimensions");
  list("]", what, [&] {
    SourceLocation location = token_.location;
    Symbols outer = symbols_;
    bool word = token_.kind == TokenKind::word;
    if (outer == Symbols::match && word && !current_->symbols.count(token_.text) &&
        !is_reserved(token_.text)) {
      // Looks one token ahead, since only a bare symbol is defined here.
      Lexer::Position position = lexer_.position();
      Token token = token_;
      lexer_.report_errors(false);
      advance();
      bool bare = at_sign(",") || at_sign("]");
      lexer_.report_errors(true);
      lexer_.reset(position);
      token_ = token;
      symbols_ = bare ? Symbols::match : Symbols::body;
    } else if (outer == Symbols::match) {
      symbols_ = Symbols::body;
    }
    const ExprId e = expr();
    symbols_ = outer;
    if (all.size() == limit)
      fail(location, "more than " + std::to_string(limit) + " " + what);
    if (auto constant = module_.exprs.as_constant(e); constant && *constant < 0)
      fail(location, "dimension " + std::to_string(*constant) + " is negative");
    if (const ExprNode &n = module_.exprs[e];
        n.kind == ExprKind::symbol && (outer == Symbols::signature || outer == Symbols::match)) {
      auto number = static_cast<size_t>(n.value);
      if (outer == Symbols::match && !current_->symbol_defined[number])
        current_function().symbols[number].source = SymbolSource::match;
      current_->symbol_defined[number] = true;
    }
    all.push_back(e);
  });
  return all;
}

// --- Types ---------------------------------------------------------------------------------------

uint32_t Parser::scope() {
  SourceLocation location = token_.location;
  const std::string name = string("the name of a storage scope");
  if (!is_sigil_name(name))
    fail(location, "a scope's name consists of letters, digits, '_' and '.'");
  const uint32_t number = module_.types.scope(name);
  if (module_.types.scope_count() > kMaxScopes)
    fail(location, "more than " + std::to_string(kMaxScopes) + " storage scopes");
  return number;
}

DType Parser::dtype() {
  auto dtype = token_.kind == TokenKind::word ? dtype_from_name(token_.text) : std::nullopt;
  if (!dtype)
    fail_here("a dtype");
  advance();
  return *dtype;
}

TypeId Parser::tensor_type() {
  Type t;
  t.kind = TypeKind::tensor;
  expect_sign("<", "after 'tensor'");
  t.known_shape = !accept_sign("?");
  if (t.known_shape)
    t.dims = dims(kMaxRank, "dimensions");
  expect_sign(",", "after the dimensions");
  t.dtype = dtype();
  while (accept_sign(",")) {
    SourceLocation location = token_.location;
    if (accept_word("strides")) {
      Symbols outer = symbols_;
      if (outer == Symbols::match)
        symbols_ = Symbols::body; // strides define nothing
      const bool again = !t.strides.empty();
      t.strides = dims(kMaxRank, "strides");
      symbols_ = outer;
      if (again || t.strides.size() != t.dims.size() || t.strides.empty())
        fail(location, "one stride is needed for each dimension");
    } else if (accept_word("scope")) {
      t.scope = scope();
    } else {
      fail_here("'strides' or 'scope'");
    }
  }
  expect_sign(">", "after the tensor type");
  return module_.types.intern(std::move(t));
}

/// int, int<e>; float and bool take no argument.
TypeId Parser::optional_argument_type(std::string_view word) {
  if (word != "int")
    return module_.types.scalar(word == "float" ? ScalarKind::floating : ScalarKind::boolean);
  ExprId value;
  if (accept_sign("<")) {
    value = sum();
    expect_sign(">", "after the integer's expression");
    const ExprNode &n = module_.exprs[value];
    if (n.kind == ExprKind::symbol && symbols_ == Symbols::signature)
      current_->symbol_defined[static_cast<size_t>(n.value)] = true;
  }
  return module_.types.scalar(ScalarKind::integer, value);
}

TypeId Parser::type() {
  if (token_.kind != TokenKind::word)
    fail_here("a type");
  std::string_view word = token_.text;
  SourceLocation location = token_.location;
  if (word == "tensor")
    return advance(), tensor_type();
  if (word == "int" || word == "float" || word == "bool")
    return advance(), optional_argument_type(word);
  if (word == "shape") {
    advance();
    Type t;
    t.kind = TypeKind::shape;
    expect_sign("<", "after 'shape'");
    t.known_shape = !accept_sign("?");
    if (t.known_shape)
      t.dims = dims(kMaxRank, "dimensions");
    expect_sign(">", "after the shape type");
    return module_.types.intern(std::move(t));
  }
  if (word == "storage") {
    advance();
    expect_sign("<", "after 'storage'");
    const uint32_t in_scope = scope();
    expect_sign(",", "after the scope");
    const ExprId bytes = sum();
    expect_sign(">", "after the storage type");
    return module_.types.storage(in_scope, bytes);
  }
  if (word == "tuple") {
    advance();
    Nest nest(*this);
    std::vector<TypeId> fields;
    expect_sign("<", "after 'tuple'");
    list(">", "fields", [&] { fields.push_back(type()); });
    const TypeId tuple = module_.types.tuple(std::move(fields));
    if (module_.types.leaf_count(tuple) > kMaxOperands)
      fail(location, "this tuple has more than " + std::to_string(kMaxOperands) + " parts");
    return tuple;
  }
  static constexpr std::pair<std::string_view, TypeKind> kSimple[] = {
      {"string", TypeKind::string}, {"dtype", TypeKind::dtype}, {"object", TypeKind::object}};
  for (const auto &[name, kind] : kSimple)
    if (word == name) {
      advance();
      return module_.types.simple(kind);
    }
  fail_here("a type");
}

std::vector<TypeId> Parser::type_list() {
  if (!accept_sign("("))
    return {type()};
  std::vector<TypeId> all;
  list(")", "types", [&] { all.push_back(type()); });
  return all;
}

} // namespace cugrt::ir
