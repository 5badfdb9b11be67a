// Parsing of expressions and types.
#include "ir/text/parser.h"

#include "ir/module/names.h"

namespace cugrt::ir {

// A module names a handful of storage scopes; every look-up may then be a scan.
static constexpr size_t kMaxScopes = 64;

// --- Expressions ---------------------------------------------------------------------------------

bool Parser::make(ExprKind kind, ExprId a, ExprId b, ExprId c, SourceLocation location,
                  ExprId &out) {
  out = module_.exprs.make(kind, a, b, c);
  if (module_.exprs.depth(out) <= ExprPool::kMaxDepth)
    return true;
  return fail(location, "this expression is more than " + std::to_string(ExprPool::kMaxDepth) +
                            " operators deep");
}

bool Parser::expr(ExprId &out) {
  if (!sum(out))
    return false;
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
    ExprId right;
    return sum(right) &&
           make(c.kind, c.swapped ? right : out, c.swapped ? out : right, {}, location, out);
  }
  return true;
}

bool Parser::sum(ExprId &out) {
  if (!product(out))
    return false;
  while (at_sign("+") || at_sign("-")) {
    SourceLocation location = token_.location;
    ExprKind kind = at_sign("+") ? ExprKind::add : ExprKind::sub;
    advance();
    ExprId right;
    if (!product(right) || !make(kind, out, right, {}, location, out))
      return false;
  }
  return true;
}

bool Parser::product(ExprId &out) {
  if (!unary(out))
    return false;
  while (at_sign("*")) {
    SourceLocation location = token_.location;
    advance();
    ExprId right;
    if (!unary(right) || !make(ExprKind::mul, out, right, {}, location, out))
      return false;
  }
  return true;
}

bool Parser::unary(ExprId &out) {
  if (!at_sign("-"))
    return primary(out);
  SourceLocation location = token_.location;
  advance();
  if (token_.kind == TokenKind::integer) { // so that the least integer can be written
    uint64_t magnitude = token_.magnitude;
    advance();
    out = module_.exprs.constant(static_cast<int64_t>(-magnitude));
    return true;
  }
  return primary(out) && make(ExprKind::mul, out, module_.exprs.constant(-1), {}, location, out);
}

bool Parser::operator_call(ExprKind kind, ExprId &out) {
  Nest nest(*this);
  SourceLocation location = token_.location;
  advance();
  ExprId a, b, c;
  return nest.ok() && expect_sign("(", "after the operator") && expr(a) &&
         expect_sign(",", "between operands") && expr(b) &&
         (kind != ExprKind::select || (expect_sign(",", "between operands") && expr(c))) &&
         expect_sign(")", "after the operands") && make(kind, a, b, c, location, out);
}

bool Parser::primary(ExprId &out) {
  if (token_.kind == TokenKind::integer) {
    if (token_.magnitude > uint64_t(INT64_MAX))
      return fail(token_.location, "this integer does not fit into 64 bits");
    out = module_.exprs.constant(static_cast<int64_t>(token_.magnitude));
    advance();
    return true;
  }
  if (at_sign("(")) {
    Nest nest(*this);
    advance();
    return nest.ok() && expr(out) && expect_sign(")", "after the expression");
  }
  if (token_.kind != TokenKind::word)
    return fail_here("an expression");
  static constexpr std::pair<std::string_view, ExprKind> kOperators[] = {
      {"floordiv", ExprKind::floordiv}, {"ceildiv", ExprKind::ceildiv},
      {"mod", ExprKind::mod},           {"min", ExprKind::min},
      {"max", ExprKind::max},           {"select", ExprKind::select}};
  for (const auto &[word, kind] : kOperators)
    if (token_.text == word)
      return operator_call(kind, out);
  return symbol(out);
}

bool Parser::symbol(ExprId &out) {
  std::string_view name = token_.text;
  SourceLocation location = token_.location;
  if (is_reserved(name))
    return fail_here("a symbol");
  advance();
  auto &names = symbols_ == Symbols::kernel ? kernel_symbols_ : current_->symbols;
  auto it = names.find(name);
  if (it == names.end()) {
    if (symbols_ != Symbols::signature && symbols_ != Symbols::match)
      return fail(location, "unknown symbol '" + std::string(name) + "'");
    Symbol s;
    s.name = name;
    s.location = location;
    SymbolId id = current_->builder.symbol(std::move(s));
    current_->symbol_defined.push_back(false);
    it = names.emplace(name, id.index).first;
    symbol_is_known(name);
  }
  out = module_.exprs.symbol({it->second});
  return true;
}

/// Dimensions, "[" included. In signatures and match a bare symbol is defined by standing here.
bool Parser::dims(std::vector<ExprId> &out, size_t limit, const char *what) {
  if (!expect_sign("[", "before dimensions"))
    return false;
  return list("]", what, [&] {
    SourceLocation location = token_.location;
    Symbols outer = symbols_;
    bool word = token_.kind == TokenKind::word;
    if (outer == Symbols::match && word && !current_->symbols.count(token_.text) &&
        !is_reserved(token_.text)) {
      // Only a bare symbol is defined here: look one token ahead.
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
    ExprId e;
    bool ok = expr(e);
    symbols_ = outer;
    if (!ok)
      return false;
    if (out.size() == limit)
      return fail(location, "more than " + std::to_string(limit) + " " + what);
    if (auto constant = module_.exprs.as_constant(e); constant && *constant < 0)
      return fail(location, "dimension " + std::to_string(*constant) + " is negative");
    if (const ExprNode &n = module_.exprs[e];
        n.kind == ExprKind::symbol && (outer == Symbols::signature || outer == Symbols::match)) {
      auto number = static_cast<size_t>(n.value);
      if (outer == Symbols::match && !current_->symbol_defined[number])
        current_function().symbols[number].source = SymbolSource::match;
      current_->symbol_defined[number] = true;
    }
    out.push_back(e);
    return true;
  });
}

// --- Types ---------------------------------------------------------------------------------------

bool Parser::scope(uint32_t &out) {
  SourceLocation location = token_.location;
  std::string name;
  if (!string(name, "the name of a storage scope"))
    return false;
  if (!is_sigil_name(name))
    return fail(location, "a scope's name consists of letters, digits, '_' and '.'");
  out = module_.types.scope(name);
  return module_.types.scope_count() <= kMaxScopes ||
         fail(location, "more than " + std::to_string(kMaxScopes) + " storage scopes");
}

bool Parser::tensor_type(TypeId &out) {
  Type t;
  t.kind = TypeKind::tensor;
  if (!expect_sign("<", "after 'tensor'"))
    return false;
  if (accept_sign("?"))
    t.known_shape = false;
  else if (!dims(t.dims, kMaxRank, "dimensions"))
    return false;
  if (!expect_sign(",", "after the dimensions"))
    return false;
  auto dtype = token_.kind == TokenKind::word ? dtype_from_name(token_.text) : std::nullopt;
  if (!dtype)
    return fail_here("a dtype");
  t.dtype = *dtype;
  advance();
  while (accept_sign(",")) {
    SourceLocation location = token_.location;
    if (accept_word("strides")) {
      Symbols outer = symbols_;
      if (outer == Symbols::match)
        symbols_ = Symbols::body; // strides define nothing
      bool ok = t.strides.empty() && dims(t.strides, kMaxRank, "strides");
      symbols_ = outer;
      if (!ok)
        return false;
      if (t.strides.size() != t.dims.size() || t.strides.empty())
        return fail(location, "one stride is needed for each dimension");
    } else if (accept_word("scope")) {
      if (!scope(t.scope))
        return false;
    } else {
      return fail_here("'strides' or 'scope'");
    }
  }
  out = module_.types.intern(std::move(t));
  return expect_sign(">", "after the tensor type");
}

/// int, int<e>; float and bool take no argument.
bool Parser::optional_argument_type(std::string_view word, TypeId &out) {
  if (word != "int") {
    out = module_.types.scalar(word == "float" ? ScalarKind::floating : ScalarKind::boolean);
    return true;
  }
  ExprId value;
  if (accept_sign("<")) {
    if (!sum(value) || !expect_sign(">", "after the integer's expression"))
      return false;
    const ExprNode &n = module_.exprs[value];
    if (n.kind == ExprKind::symbol && symbols_ == Symbols::signature)
      current_->symbol_defined[static_cast<size_t>(n.value)] = true;
  }
  out = module_.types.scalar(ScalarKind::integer, value);
  return true;
}

bool Parser::type(TypeId &out) {
  if (token_.kind != TokenKind::word)
    return fail_here("a type");
  std::string_view word = token_.text;
  SourceLocation location = token_.location;
  if (word == "tensor")
    return advance(), tensor_type(out);
  if (word == "int" || word == "float" || word == "bool")
    return advance(), optional_argument_type(word, out);
  if (word == "shape") {
    advance();
    Type t;
    t.kind = TypeKind::shape;
    if (!expect_sign("<", "after 'shape'"))
      return false;
    t.known_shape = !accept_sign("?");
    if (t.known_shape && !dims(t.dims, kMaxRank, "dimensions"))
      return false;
    out = module_.types.intern(std::move(t));
    return expect_sign(">", "after the shape type");
  }
  if (word == "storage") {
    advance();
    uint32_t in_scope = 0;
    ExprId bytes;
    if (!expect_sign("<", "after 'storage'") || !scope(in_scope) ||
        !expect_sign(",", "after the scope") || !sum(bytes))
      return false;
    out = module_.types.storage(in_scope, bytes);
    return expect_sign(">", "after the storage type");
  }
  if (word == "tuple") {
    Nest nest(*this);
    advance();
    std::vector<TypeId> fields;
    if (!nest.ok() || !expect_sign("<", "after 'tuple'") || !list(">", "fields", [&] {
          TypeId field;
          return type(field) && (fields.push_back(field), true);
        }))
      return false;
    out = module_.types.tuple(std::move(fields));
    return module_.types.leaf_count(out) <= kMaxOperands ||
           fail(location, "this tuple has more than " + std::to_string(kMaxOperands) + " parts");
  }
  static constexpr std::pair<std::string_view, TypeKind> kSimple[] = {
      {"string", TypeKind::string}, {"dtype", TypeKind::dtype}, {"object", TypeKind::object}};
  for (const auto &[name, kind] : kSimple)
    if (word == name) {
      advance();
      out = module_.types.simple(kind);
      return true;
    }
  return fail_here("a type");
}

bool Parser::type_list(std::vector<TypeId> &out) {
  auto one = [&] {
    TypeId t;
    return type(t) && (out.push_back(t), true);
  };
  if (accept_sign("("))
    return list(")", "types", one);
  return one();
}

} // namespace cugrt::ir
