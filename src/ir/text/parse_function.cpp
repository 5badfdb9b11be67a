// Parsing of functions: signatures in the first sweep, bodies in the second.
#include "ir/text/parser.h"

#include <algorithm>

namespace cugrt::ir {

// --- Signatures ----------------------------------------------------------------------------------

void Parser::function(bool is_private) {
  SourceLocation location = token_.location;
  auto number = static_cast<uint32_t>(pending_.size());
  const std::string_view name = global_name(function_names_, number, "function");
  Pending &f = pending_.emplace_back(FunctionBuilder(module_, std::string(name)));
  f.builder.function().is_private = is_private;
  f.builder.function().location = location;
  f.failed = true;
  current_ = &f;
  signature(f);
  skip_body();
  f.failed = false;
}

void Parser::signature(Pending &f) {
  symbols_ = Symbols::signature;
  if (accept_sign("<"))
    symbol_order(f);
  expect_sign("(", "before the parameters");
  list(")", "parameters", [&] { param(f); });
  symbols_ = Symbols::body;
  if (accept_sign("->"))
    f.builder.function().result_types = type_list();
  if (accept_word("attributes")) {
    expect_sign("{", "after 'attributes'");
    list("}", "attributes", [&] { function_attribute(f); });
  }
  f.body = lexer_.position();
  if (!at_sign("{"))
    fail_here("'{' and the function's body");
}

/// <n, m>: the order of symbols where the text does not give it, written by the printer.
void Parser::symbol_order(Pending &f) {
  list(">", "symbols", [&] {
    if (token_.kind == TokenKind::word && f.symbols.count(token_.text))
      fail(token_.location, "symbol '" + std::string(token_.text) + "' is already listed");
    symbol();
  });
}

void Parser::param(Pending &f) {
  const SourceLocation at = token_.location;
  const std::string_view name = take(TokenKind::value, "a parameter's name with %");
  expect_sign(":", "after the parameter's name");
  Access access = Access::in;
  for (auto [word, a] : {std::pair{"in", Access::in}, std::pair{"out", Access::out},
                         std::pair{"inout", Access::inout}})
    if (accept_word(word)) {
      access = a;
      break;
    }
  const TypeId t = type();
  SourceLocation location = token_.location;
  const int64_t alignment = accept_word("align") ? integer("an alignment in bytes") : 0;
  if (alignment < 0 || alignment > (1 << 30) || (alignment & (alignment - 1)) != 0)
    fail(location, "an alignment is a power of two, at most 2^30");
  if (f.values.count(name))
    fail(at, "value %" + std::string(name) + " is already defined");
  ValueId id = f.builder.param(std::string(name), t, access, static_cast<uint32_t>(alignment), at);
  f.values.emplace(name, id);
  f.poisoned.resize(id.index + 1, false);
}

void Parser::function_attribute(Pending &f) {
  SourceLocation location = token_.location;
  Attribute a;
  a.name = take(TokenKind::word, "the name of an attribute");
  expect_sign("=", "after the name of an attribute");
  if (a.name == "num_inputs") {
    const int64_t count = integer("a number of parameters");
    if (count < 0 || count > int64_t(f.builder.function().params.size()))
      fail(location, "num_inputs is from 0 to the number of parameters");
    f.builder.function().num_inputs = static_cast<uint32_t>(count);
    return;
  }
  if (a.name == "lower_bounds")
    return bounds(f, Bound::Kind::lower);
  if (a.name == "upper_bounds")
    return bounds(f, Bound::Kind::upper);
  if (a.name == "constraints")
    return skip_constraints(f);
  if (a.name == "counted_dims") {
    expect_sign("[", "before counted dimensions");
    return list("]", "counted dimensions", [&] { counted_dim(f); });
  }
  if (a.name == "buckets")
    return buckets(f);
  if (a.name == "bucket_symbols")
    return bucket_symbols(f);
  if (a.name == "capture_symbols") {
    expect_sign("[", "before symbols");
    return list("]", "symbols", [&] {
      f.bounds.push_back({{}, token_.location, Bound::Kind::capture, 0});
      f.bounds.back().symbol = take(TokenKind::word, "a symbol");
    });
  }
  for (const Attribute &other : f.builder.function().extra_attributes)
    if (other.name == a.name)
      fail(location, "attribute '" + a.name + "' is given twice");
  a.value = attribute_value();
  f.builder.function().extra_attributes.push_back(std::move(a));
}

void Parser::bounds(Pending &f, Bound::Kind kind) {
  expect_sign("{", "before bounds");
  list("}", "bounds", [&] {
    Bound b{{}, token_.location, kind, 0};
    b.symbol = take(TokenKind::word, "a symbol");
    expect_sign("=", "after the symbol");
    b.value = integer("an integer bound");
    for (const Bound &other : f.bounds)
      if (other.kind == kind && other.symbol == b.symbol)
        fail(b.location, "symbol " + std::string(b.symbol) + " has two " +
                             (kind == Bound::Kind::lower ? "lower" : "upper") + " bounds");
    f.bounds.push_back(b);
  });
}

/// They may name symbols that only the body defines.
void Parser::skip_constraints(Pending &f) {
  expect_sign("[", "before constraints");
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
  expect_sign("]", "after constraints");
}

/// SUM <= INT
void Parser::constraint(Pending &f) {
  Constraint c;
  c.location = token_.location;
  c.expr = sum();
  expect_sign("<=", "after the sum that a constraint limits");
  c.most = integer("an integer limit");
  f.builder.function().constraints.push_back(c);
}

/// RESULT[DIM] = COUNT
void Parser::counted_dim(Pending &f) {
  auto number = [&](const char *what) {
    const SourceLocation location = token_.location;
    const int64_t value = integer(what);
    if (value < 0 || value >= int64_t(kMaxOperands))
      fail(location,
           std::string(what) + " is a number from 0 to " + std::to_string(kMaxOperands - 1));
    return static_cast<uint32_t>(value);
  };
  CountedDim c;
  c.result = number("a result");
  expect_sign("[", "before the counted dimension");
  c.dim = number("a dimension");
  expect_sign("]", "after the counted dimension");
  expect_sign("=", "before the result that counts");
  c.count = number("a result");
  f.builder.function().counted_dims.push_back(c);
}

void Parser::buckets(Pending &f) {
  expect_sign("{", "before buckets");
  list("}", "buckets", [&] {
    BucketAttribute b{{}, {}, token_.location, {}};
    b.symbol = take(TokenKind::word, "a symbol");
    expect_sign("=", "after the symbol");
    expect_sign("[", "before the buckets");
    list("]", "buckets", [&] { b.values.push_back(integer("the size of a bucket")); });
    f.buckets.push_back(std::move(b));
  });
}

/// Defines the symbols on the left.
void Parser::bucket_symbols(Pending &f) {
  expect_sign("{", "before symbols");
  list("}", "symbols", [&] {
    BucketAttribute b{token_.text, {}, token_.location, {}};
    symbols_ = Symbols::signature;
    symbol();
    symbols_ = Symbols::body;
    expect_sign("=", "after the symbol");
    b.of = take(TokenKind::word, "the symbol that has the buckets");
    const uint32_t number = f.symbols.at(b.symbol);
    if (f.symbol_defined[number])
      fail(b.location, "symbol '" + std::string(b.symbol) + "' is defined twice");
    f.symbol_defined[number] = true;
    f.buckets.push_back(std::move(b));
  });
}

/// Steps over "{ ... }". A body whose "}" is missing ends before the next item.
void Parser::skip_body() {
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
    try {
      list("]", "constraints", [&] { constraint(f); });
    } catch (const Failed &) { // the text behind it is not read
    }
  }
  f.values = {};
  f.symbols = {};
}

/// Bounds name symbols, some of which only the body defines. Rules of ops use them: bounds of
/// parameters' symbols from the body's beginning, those of a match's symbols from there on. All
/// errors are reported after the body.
void Parser::apply_bounds(Pending &f, bool all) {
  for (const Bound &b : f.bounds) {
    if (!f.symbols.count(b.symbol)) {
      if (all)
        report(b.location, "unknown symbol '" + std::string(b.symbol) + "'");
    } else if (!apply_bound(f, b) && all) {
      report(b.location,
             "symbol '" + std::string(b.symbol) + "' is read from the device; " +
                 (b.kind == Bound::Kind::capture ? "no key holds it" : "its bounds stand there"));
    }
  }
}

/// Applies a bound to a known symbol. False if that has bounds of its own.
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

/// Its errors are reported after the body.
void Parser::learn(const Saved &at) {
  const Saved here{lexer_.position(), token_};
  const Symbols symbols = symbols_;
  lexer_.report_errors(false);
  reports_ = false;
  lexer_.reset(at.position);
  token_ = at.token;
  symbols_ = Symbols::body;
  try {
    constraint(*current_);
  } catch (const Failed &) {
  }
  symbols_ = symbols;
  token_ = here.token;
  lexer_.reset(here.position);
  reports_ = true;
  lexer_.report_errors(true);
}

/// Call after the bounds. Without an upper bound, the last bucket is the bound; a bucket's own
/// bounds follow from its symbol's.
void Parser::apply_buckets(Pending &f, bool all) {
  std::vector<Symbol> &symbols = f.builder.function().symbols;
  for (const BucketAttribute &b : f.buckets) {
    for (std::string_view name : {b.symbol, b.of})
      if (all && !name.empty() && !f.symbols.count(name))
        report(b.location, "unknown symbol '" + std::string(name) + "'");
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

/// The results of a block, behind "return" or "yield", and "}".
void Parser::block_results(std::vector<Operand> &results) {
  if (!at_sign("}"))
    do {
      results.push_back(operand());
      if (results.size() > kMaxOperands)
        fail(token_.location, "more than " + std::to_string(kMaxOperands) + " results");
    } while (accept_sign(","));
  if (!accept_sign("}"))
    fail_here("'}' after the results of the block");
}

/// Statements up to return or yield and "}"; goes on after errors, so that one run reports all.
void Parser::block(BlockEnd end, std::vector<Operand> &results, SourceLocation &end_location) {
  const char *last = end == BlockEnd::body ? "return" : "yield";
  for (;;) {
    end_location = token_.location;
    if (token_.kind == TokenKind::end ||
        (at_item() && token_.first_on_line && token_.location.column == 1))
      return report_here("'}' at the end of the block");
    if (at_sign("}")) {
      report_here("'" + std::string(last) + "' before the end of the block");
      return advance();
    }
    size_t start = lexer_.position().offset;
    const bool ends = accept_word(last);
    try {
      if (ends)
        return block_results(results);
      statement();
    } catch (const Failed &) {
      symbols_ = Symbols::body;
      skip_statement(start);
      if (ends && (accept_sign("}") || token_.kind == TokenKind::end))
        return;
    }
  }
}

/// Skips to the next possible statement: a value or a word at the beginning of a line, or the end
/// of the block.
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

void Parser::statement() {
  Draft d;
  d.binding.location = token_.location;
  if (token_.kind == TokenKind::value)
    do {
      const SourceLocation location = token_.location;
      if (d.names.size() == kMaxOperands && token_.kind == TokenKind::value)
        fail(location, "more than " + std::to_string(kMaxOperands) + " results");
      d.names.push_back({take(TokenKind::value, "a value's name with %"), location});
    } while (accept_sign(","));
  try {
    if (!d.names.empty())
      expect_sign("=", "after the names of the results");
    right_side(d);
  } catch (const Failed &) {
    poison(d.names);
    throw;
  }
  finish(d);
}

} // namespace cugrt::ir
