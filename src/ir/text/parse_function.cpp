// Parsing of functions: signatures in the first sweep, bodies in the second.
#include "ir/text/parser.h"

#include <algorithm>

namespace cugrt::ir {

// --- Signatures ----------------------------------------------------------------------------------

bool Parser::function(bool is_private) {
  SourceLocation location = token_.location;
  std::string_view name;
  auto number = static_cast<uint32_t>(pending_.size());
  if (!global_name(name, function_names_, number, "function"))
    return false;
  Pending &f = pending_.emplace_back(FunctionBuilder(module_, std::string(name)));
  f.builder.function().is_private = is_private;
  f.builder.function().location = location;
  f.failed = true;
  current_ = &f;
  if (!signature(f) || !skip_body())
    return false;
  f.failed = false;
  return true;
}

bool Parser::signature(Pending &f) {
  symbols_ = Symbols::signature;
  if (accept_sign("<") && !symbol_order(f))
    return false;
  if (!expect_sign("(", "before the parameters") ||
      !list(")", "parameters", [&] { return param(f); }))
    return false;
  symbols_ = Symbols::body;
  if (accept_sign("->") && !type_list(f.builder.function().result_types))
    return false;
  if (accept_word("attributes") && !function_attributes(f))
    return false;
  f.body = lexer_.position();
  return at_sign("{") || fail_here("'{' and the function's body");
}

/// <n, m>: the order of symbols where the text does not give it, written by the printer.
bool Parser::symbol_order(Pending &f) {
  return list(">", "symbols", [&] {
    ExprId ignored;
    SourceLocation location = token_.location;
    if (token_.kind != TokenKind::word)
      return fail_here("a symbol");
    if (f.symbols.count(token_.text))
      return fail(location, "symbol '" + std::string(token_.text) + "' is already listed");
    return symbol(ignored);
  });
}

bool Parser::param(Pending &f) {
  Name name{token_.text, token_.location};
  if (token_.kind != TokenKind::value)
    return fail_here("a parameter's name with %");
  advance();
  if (!expect_sign(":", "after the parameter's name"))
    return false;
  Access access = Access::in;
  for (auto [word, a] : {std::pair{"in", Access::in}, std::pair{"out", Access::out},
                         std::pair{"inout", Access::inout}})
    if (accept_word(word)) {
      access = a;
      break;
    }
  TypeId t;
  if (!type(t))
    return false;
  int64_t alignment = 0;
  SourceLocation location = token_.location;
  if (accept_word("align") && !integer(alignment, "an alignment in bytes"))
    return false;
  if (alignment < 0 || alignment > (1 << 30) || (alignment & (alignment - 1)) != 0)
    return fail(location, "an alignment is a power of two, at most 2^30");
  if (f.values.count(name.text))
    return fail(name.location, "value %" + std::string(name.text) + " is already defined");
  ValueId id = f.builder.param(std::string(name.text), t, access, static_cast<uint32_t>(alignment),
                               name.location);
  f.values.emplace(name.text, id);
  f.poisoned.resize(id.index + 1, false);
  return true;
}

bool Parser::function_attributes(Pending &f) {
  return expect_sign("{", "after 'attributes'") &&
         list("}", "attributes", [&] { return function_attribute(f); });
}

bool Parser::function_attribute(Pending &f) {
  SourceLocation location = token_.location;
  Attribute a;
  if (!bare_name(a.name, "the name of an attribute") ||
      !expect_sign("=", "after the name of an attribute"))
    return false;
  if (a.name == "num_inputs") {
    int64_t count = 0;
    if (!integer(count, "a number of parameters"))
      return false;
    if (count < 0 || count > int64_t(f.builder.function().params.size()))
      return fail(location, "num_inputs is from 0 to the number of parameters");
    f.builder.function().num_inputs = static_cast<uint32_t>(count);
    return true;
  }
  if (a.name == "lower_bounds")
    return bounds(f, Bound::Kind::lower);
  if (a.name == "upper_bounds")
    return bounds(f, Bound::Kind::upper);
  if (a.name == "constraints")
    return skip_constraints(f);
  if (a.name == "counted_dims")
    return expect_sign("[", "before counted dimensions") &&
           list("]", "counted dimensions", [&] { return counted_dim(f); });
  if (a.name == "buckets")
    return buckets(f);
  if (a.name == "bucket_symbols")
    return bucket_symbols(f);
  if (a.name == "capture_symbols")
    return expect_sign("[", "before symbols") && list("]", "symbols", [&] {
             if (token_.kind != TokenKind::word)
               return fail_here("a symbol");
             f.bounds.push_back({token_.text, token_.location, Bound::Kind::capture, 0});
             advance();
             return true;
           });
  for (const Attribute &other : f.builder.function().extra_attributes)
    if (other.name == a.name)
      return fail(location, "attribute '" + a.name + "' is given twice");
  if (!attribute_value(a.value))
    return false;
  f.builder.function().extra_attributes.push_back(std::move(a));
  return true;
}

bool Parser::bounds(Pending &f, Bound::Kind kind) {
  return expect_sign("{", "before bounds") && list("}", "bounds", [&] {
           Bound b{token_.text, token_.location, kind, 0};
           if (token_.kind != TokenKind::word)
             return fail_here("a symbol");
           advance();
           if (!expect_sign("=", "after the symbol") || !integer(b.value, "an integer bound"))
             return false;
           for (const Bound &other : f.bounds)
             if (other.kind == kind && other.symbol == b.symbol)
               return fail(b.location, "symbol " + std::string(b.symbol) + " has two " +
                                           (kind == Bound::Kind::lower ? "lower" : "upper") +
                                           " bounds");
           f.bounds.push_back(b);
           return true;
         });
}

/// They may name symbols that only the body defines.
bool Parser::skip_constraints(Pending &f) {
  if (!expect_sign("[", "before constraints"))
    return false;
  f.constraints.push_back({lexer_.position(), token_});
  lexer_.report_errors(false);
  bool begins = true;
  while (!at_sign("]") && !at_sign("{") && !at_sign("}") && token_.kind != TokenKind::end) {
    if (begins)
      f.known.push_back({{lexer_.position(), token_}, {}, 0});
    if (token_.kind == TokenKind::word)
      f.known.back().words.push_back(token_.text);
    begins = at_sign(",");
    advance();
  }
  lexer_.report_errors(true);
  return expect_sign("]", "after constraints");
}

/// SUM <= INT
bool Parser::constraint(Pending &f) {
  Constraint c;
  c.location = token_.location;
  if (!sum(c.expr) || !expect_sign("<=", "after the sum that a constraint limits") ||
      !integer(c.most, "an integer limit"))
    return false;
  f.builder.function().constraints.push_back(c);
  return true;
}

/// RESULT[DIM] = COUNT
bool Parser::counted_dim(Pending &f) {
  auto number = [&](uint32_t &out, const char *what) {
    int64_t value = 0;
    const SourceLocation location = token_.location;
    if (!integer(value, what))
      return false;
    if (value < 0 || value >= int64_t(kMaxOperands))
      return fail(location,
                  std::string(what) + " is a number from 0 to " + std::to_string(kMaxOperands - 1));
    out = static_cast<uint32_t>(value);
    return true;
  };
  CountedDim &c = f.builder.function().counted_dims.emplace_back();
  return number(c.result, "a result") && expect_sign("[", "before the counted dimension") &&
         number(c.dim, "a dimension") && expect_sign("]", "after the counted dimension") &&
         expect_sign("=", "before the result that counts") && number(c.count, "a result");
}

bool Parser::buckets(Pending &f) {
  return expect_sign("{", "before buckets") && list("}", "buckets", [&] {
           BucketAttribute b{token_.text, {}, token_.location, {}};
           if (token_.kind != TokenKind::word)
             return fail_here("a symbol");
           advance();
           if (!expect_sign("=", "after the symbol") || !expect_sign("[", "before the buckets") ||
               !list("]", "buckets",
                     [&] { return integer(b.values.emplace_back(), "the size of a bucket"); }))
             return false;
           f.buckets.push_back(std::move(b));
           return true;
         });
}

/// Defines the symbols on the left.
bool Parser::bucket_symbols(Pending &f) {
  return expect_sign("{", "before symbols") && list("}", "symbols", [&] {
           BucketAttribute b{token_.text, {}, token_.location, {}};
           ExprId ignored;
           symbols_ = Symbols::signature;
           bool ok = token_.kind == TokenKind::word ? symbol(ignored) : fail_here("a symbol");
           symbols_ = Symbols::body;
           if (!ok || !expect_sign("=", "after the symbol"))
             return false;
           b.of = token_.text;
           if (token_.kind != TokenKind::word)
             return fail_here("the symbol that has the buckets");
           advance();
           const uint32_t number = f.symbols.at(b.symbol);
           if (f.symbol_defined[number])
             return fail(b.location, "symbol '" + std::string(b.symbol) + "' is defined twice");
           f.symbol_defined[number] = true;
           f.buckets.push_back(std::move(b));
           return true;
         });
}

/// Steps over "{ ... }". A body whose "}" is missing ends before the next item.
bool Parser::skip_body() {
  lexer_.report_errors(false);
  uint32_t depth = 0;
  do {
    if (at_sign("{"))
      ++depth;
    if (at_sign("}"))
      --depth;
    advance();
    if (at_item() && token_.first_on_line && token_.location.column == 1)
      break;
  } while (depth > 0 && token_.kind != TokenKind::end);
  lexer_.report_errors(true);
  return true;
}

// --- Bodies --------------------------------------------------------------------------------------

void Parser::body(Pending &f) {
  current_ = &f;
  symbols_ = Symbols::body;
  nesting_ = 0;
  apply_bounds(f, false);
  apply_buckets(f, false);
  wait_for_symbols(f);
  lexer_.reset(f.body);
  advance();
  block(BlockEnd::body, f.results, f.end_location);
  f.bounds_of = {}, f.known_by = {};
  apply_bounds(f, true);
  apply_buckets(f, true);
  f.builder.function().constraints.clear();
  for (const Saved &saved : f.constraints) {
    lexer_.reset(saved.position);
    token_ = saved.token;
    list("]", "constraints", [&] { return constraint(f); });
  }
  f.values = {};
  f.symbols = {};
}

/// Bounds name symbols, some of which only the body defines. The rules of ops ask for them: those
/// of parameters are known before the body, those of a match from there on, and all errors are told
/// after it.
void Parser::apply_bounds(Pending &f, bool all) {
  for (const Bound &b : f.bounds) {
    if (!f.symbols.count(b.symbol)) {
      if (all)
        fail(b.location, "unknown symbol '" + std::string(b.symbol) + "'");
    } else if (!apply_bound(f, b) && all) {
      fail(b.location,
           "symbol '" + std::string(b.symbol) + "' is read from the device; " +
               (b.kind == Bound::Kind::capture ? "no key holds it" : "its bounds stand there"));
    }
  }
}

/// Of a symbol that is known. False where that has bounds of its own.
bool Parser::apply_bound(Pending &f, const Bound &b) {
  Symbol &s = f.builder.function().symbols[f.symbols.at(b.symbol)];
  if (s.source == SymbolSource::device)
    return false;
  if (b.kind == Bound::Kind::lower)
    s.bounds.lower = b.value;
  else if (b.kind == Bound::Kind::upper)
    s.bounds.upper = b.value;
  else
    s.capturable = true;
  return true;
}

/// Constraints likewise: each is known from the definition of its last symbol on.
void Parser::wait_for_symbols(Pending &f) {
  for (size_t i = 0; i < f.bounds.size(); ++i)
    if (!f.symbols.count(f.bounds[i].symbol))
      f.bounds_of[f.bounds[i].symbol].push_back(i);
  for (size_t i = 0; i < f.known.size(); ++i) {
    for (std::string_view word : f.known[i].words)
      if (!f.symbols.count(word)) {
        f.known_by[word].push_back(i);
        ++f.known[i].undefined;
      }
    if (f.known[i].undefined == 0)
      learn(f.known[i].at);
  }
}

void Parser::symbol_is_known(std::string_view name) {
  if (const auto found = current_->bounds_of.find(name); found != current_->bounds_of.end())
    for (size_t i : found->second)
      apply_bound(*current_, current_->bounds[i]);
  if (const auto found = current_->known_by.find(name); found != current_->known_by.end())
    for (size_t i : found->second)
      if (--current_->known[i].undefined == 0)
        learn(current_->known[i].at);
}

/// What is wrong with it is told after the body.
void Parser::learn(const Saved &at) {
  const Saved here{lexer_.position(), token_};
  const Symbols symbols = symbols_;
  lexer_.report_errors(false);
  reports_ = false;
  lexer_.reset(at.position);
  token_ = at.token;
  symbols_ = Symbols::body;
  constraint(*current_);
  symbols_ = symbols;
  token_ = here.token;
  lexer_.reset(here.position);
  reports_ = true;
  lexer_.report_errors(true);
}

/// After the bounds. Without an upper bound the last bucket is it; a bucket's own bounds follow
/// from those of its symbol.
void Parser::apply_buckets(Pending &f, bool all) {
  std::vector<Symbol> &symbols = f.builder.function().symbols;
  for (const BucketAttribute &b : f.buckets) {
    for (std::string_view name : {b.symbol, b.of})
      if (all && !name.empty() && !f.symbols.count(name))
        fail(b.location, "unknown symbol '" + std::string(name) + "'");
    if (!f.symbols.count(b.symbol) || !b.of.empty())
      continue;
    Symbol &s = symbols[f.symbols.at(b.symbol)];
    s.buckets = b.values;
    if (!s.buckets.empty() && s.bounds.upper == INT64_MAX)
      s.bounds.upper = s.buckets.back();
  }
  for (const BucketAttribute &b : f.buckets) {
    if (b.of.empty() || !f.symbols.count(b.of))
      continue;
    Symbol &s = symbols[f.symbols.at(b.symbol)];
    const Symbol &of = symbols[f.symbols.at(b.of)];
    s.source = SymbolSource::bucket;
    s.bucket_of = f.symbols.at(b.of);
    s.bounds = bucket_bounds(of);
  }
}

/// Statements up to return or yield and "}"; goes on after errors, so that one run reports all.
void Parser::block(BlockEnd end, std::vector<Operand> &results, SourceLocation &end_location) {
  const char *last = end == BlockEnd::body ? "return" : "yield";
  for (;;) {
    end_location = token_.location;
    if (token_.kind == TokenKind::end ||
        (at_item() && token_.first_on_line && token_.location.column == 1)) {
      fail_here("'}' at the end of the block");
      return;
    }
    if (at_sign("}")) {
      fail_here("'" + std::string(last) + "' before the end of the block");
      advance();
      return;
    }
    size_t start = lexer_.position().offset;
    if (accept_word(last)) {
      bool ok = at_sign("}") || [&] {
        do {
          Operand o;
          if (!operand(o))
            return false;
          results.push_back(o);
          if (results.size() > kMaxOperands)
            return fail(token_.location, "more than " + std::to_string(kMaxOperands) + " results");
        } while (accept_sign(","));
        return true;
      }();
      if (ok && accept_sign("}"))
        return;
      if (ok)
        fail_here("'}' after the results of the block");
      skip_statement(start);
      if (accept_sign("}") || token_.kind == TokenKind::end)
        return;
      continue;
    }
    if (!statement())
      skip_statement(start);
  }
}

/// To what may be the next statement: a value or a word at the beginning of a line, or the end of
/// the block.
void Parser::skip_statement(size_t start) {
  static constexpr std::string_view kStarts[] = {"launch", "kill", "read",  "call",   "host",
                                                 "extern", "if",   "while", "return", "yield"};
  if (lexer_.position().offset == start)
    advance(); // always onward
  uint32_t depth = 0;
  lexer_.report_errors(false);
  for (; token_.kind != TokenKind::end; advance()) {
    if (at_item() && token_.first_on_line && token_.location.column == 1)
      break;
    if (at_sign("}") && depth-- == 0)
      break;
    if (at_sign("{"))
      ++depth;
    bool starts =
        token_.kind == TokenKind::value ||
        (token_.kind == TokenKind::word &&
         std::find(std::begin(kStarts), std::end(kStarts), token_.text) != std::end(kStarts));
    if (depth == 0 && token_.first_on_line && starts)
      break;
  }
  lexer_.report_errors(true);
}

bool Parser::statement() {
  Draft d;
  d.binding.location = token_.location;
  if (token_.kind == TokenKind::value) {
    do {
      if (token_.kind != TokenKind::value)
        return fail_here("a value's name with %");
      if (d.names.size() == kMaxOperands)
        return fail(token_.location, "more than " + std::to_string(kMaxOperands) + " results");
      d.names.push_back({token_.text, token_.location});
      advance();
    } while (accept_sign(","));
    if (!expect_sign("=", "after the names of the results")) {
      poison(d.names);
      return false;
    }
  }
  bool read = right_side(d);
  if (!read || !finish(d))
    poison(d.names);
  return read; // what finish() reports is no reason to skip anything
}

} // namespace cugrt::ir
