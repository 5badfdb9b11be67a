// The parser's outline: tokens, attribute values, the module's items, recovery.
#include "ir/text/parser.h"

#include <algorithm>
#include <limits>

namespace cugrt::ir {

// Words that begin an item, when they stand at the very beginning of a line.
static constexpr std::string_view kItems[] = {"kernel", "constant", "func", "private"};

Parser::Parser(std::string_view text, Diagnostics &diagnostics)
    : text_(text), diagnostics_(diagnostics), lexer_(text, diagnostics) {}

// --- Tokens --------------------------------------------------------------------------------------

bool Parser::accept_sign(std::string_view sign) {
  if (!at_sign(sign))
    return false;
  advance();
  return true;
}

bool Parser::accept_word(std::string_view word) {
  if (!at_word(word))
    return false;
  advance();
  return true;
}

void Parser::expect_sign(std::string_view sign, const char *where) {
  if (!accept_sign(sign))
    fail_here("'" + std::string(sign) + "' " + where);
}

void Parser::expect_word(std::string_view word, const char *where) {
  if (!accept_word(word))
    fail_here("'" + std::string(word) + "' " + where);
}

void Parser::report(SourceLocation location, std::string message) {
  if (reports_)
    diagnostics_.error(location, std::move(message));
}

void Parser::fail(SourceLocation location, std::string message) {
  report(location, std::move(message));
  throw Failed();
}

void Parser::fail_here(std::string_view wanted) {
  report_here(wanted);
  throw Failed();
}

void Parser::report_here(std::string_view wanted) {
  if (token_.kind == TokenKind::invalid)
    return; // reported by the lexer
  std::string found;
  switch (token_.kind) {
  case TokenKind::end:
    found = "the end of the text";
    break;
  case TokenKind::string:
  case TokenKind::raw:
  case TokenKind::hex:
    found = "a string";
    break;
  case TokenKind::value:
    found = "'%" + std::string(token_.text) + "'";
    break;
  case TokenKind::global:
    found = "'@" + std::string(token_.text) + "'";
    break;
  default:
    found = "'" + std::string(token_.text) + "'";
  }
  report(token_.location, "expected " + std::string(wanted) + ", found " + found);
}

std::string_view Parser::take(TokenKind kind, const char *what) {
  if (token_.kind != kind)
    fail_here(what);
  const std::string_view text = token_.text;
  advance();
  return text;
}

std::string Parser::string(const char *what) {
  if (!at_string())
    fail_here(what);
  std::string text;
  if (!unescape(token_, text, diagnostics_))
    throw Failed();
  advance();
  return text;
}

int64_t Parser::integer(const char *what) {
  SourceLocation location = token_.location;
  bool negative = accept_sign("-");
  if (token_.kind != TokenKind::integer)
    fail_here(what);
  return magnitude(location, negative);
}

/// The integer behind a sign.
int64_t Parser::magnitude(SourceLocation location, bool negative) {
  uint64_t digits = token_.magnitude;
  advance();
  if (digits > uint64_t(INT64_MAX) + (negative ? 1 : 0))
    fail(location, "this integer does not fit into 64 bits");
  return static_cast<int64_t>(negative ? -digits : digits);
}

// --- Attribute values ----------------------------------------------------------------------------

AttributeValue Parser::number() {
  SourceLocation location = token_.location;
  bool negative = accept_sign("-");
  double real = token_.real;
  if (token_.kind == TokenKind::integer)
    return magnitude(location, negative);
  if (at_word("inf"))
    real = std::numeric_limits<double>::infinity();
  else if (at_word("nan"))
    real = std::numeric_limits<double>::quiet_NaN();
  else if (token_.kind != TokenKind::floating)
    fail_here("a number");
  advance();
  return negative ? -real : real;
}

AttributeValue Parser::attribute_list() {
  std::vector<AttributeValue> values;
  SourceLocation location = token_.location;
  list("]", "list elements",
       [&] { values.push_back(at_string() ? string("a string") : number()); });
  auto all = [&](auto test) { return std::all_of(values.begin(), values.end(), test); };
  auto is_int = [](const AttributeValue &v) { return std::holds_alternative<int64_t>(v); };
  auto is_string = [](const AttributeValue &v) { return std::holds_alternative<std::string>(v); };
  if (all(is_int)) {
    std::vector<int64_t> ints;
    for (const AttributeValue &v : values)
      ints.push_back(std::get<int64_t>(v));
    return ints;
  }
  if (all(is_string)) {
    std::vector<std::string> strings;
    for (AttributeValue &v : values)
      strings.push_back(std::move(std::get<std::string>(v)));
    return strings;
  }
  if (std::any_of(values.begin(), values.end(), is_string))
    fail(location, "a list holds numbers or strings, not both");
  std::vector<double> floats;
  for (const AttributeValue &v : values)
    floats.push_back(is_int(v) ? static_cast<double>(std::get<int64_t>(v)) : std::get<double>(v));
  return floats;
}

AttributeValue Parser::attribute_value() {
  if (accept_sign("["))
    return attribute_list();
  if (at_string())
    return string("a string");
  if (at_word("true") || at_word("false"))
    return take(TokenKind::word, "") == "true";
  if (token_.kind == TokenKind::word)
    if (auto dtype = dtype_from_name(token_.text)) {
      advance();
      return DTypeLiteral{*dtype};
    }
  if (token_.kind == TokenKind::integer || token_.kind == TokenKind::floating || at_sign("-") ||
      at_word("inf") || at_word("nan"))
    return number();
  fail_here("an attribute's value: a number, string, dtype, true, false or a list");
}

std::vector<Attribute> Parser::attributes() {
  std::vector<Attribute> all;
  if (accept_sign("{"))
    list("}", "attributes", [&] {
      Attribute a;
      a.name = take(TokenKind::word, "the name of an attribute");
      expect_sign("=", "after the name of an attribute");
      a.value = attribute_value();
      all.push_back(std::move(a));
    });
  return all;
}

// --- Items ---------------------------------------------------------------------------------------

void Parser::version() {
  SourceLocation location = token_.location;
  if (!accept_word("cugrt"))
    fail_here("'cugrt 1', the version of the text form, at the beginning");
  if (const int64_t version = integer("the version of the text form after 'cugrt'"); version != 1)
    fail(location, "version " + std::to_string(version) +
                       " of the text form is not known; this build reads version 1");
}

bool Parser::at_item() const {
  return token_.kind == TokenKind::word &&
         std::find(std::begin(kItems), std::end(kItems), token_.text) != std::end(kItems);
}

/// Skips to the next item: a word that begins one, first on its line, outside of braces or at its
/// very beginning.
void Parser::skip_item() {
  uint32_t depth = 0;
  for (; token_.kind != TokenKind::end; advance()) {
    if (at_item() && token_.first_on_line && (depth == 0 || token_.location.column == 1))
      return;
    if (at_sign("{"))
      ++depth;
    if (at_sign("}") && depth > 0)
      --depth;
  }
}

std::string_view Parser::global_name(std::unordered_map<std::string_view, uint32_t> &names,
                                     uint32_t number, const char *what) {
  if (token_.kind != TokenKind::global)
    fail_here("a name with @ for the " + std::string(what));
  const std::string_view name = token_.text;
  if (!names.emplace(name, number).second)
    fail(token_.location, std::string(what) + " @" + std::string(name) + " is already defined");
  advance();
  return name;
}

void Parser::item() {
  if (accept_word("kernel"))
    return kernel();
  if (accept_word("constant"))
    return constant();
  const bool is_private = accept_word("private");
  if (is_private)
    expect_word("func", "after 'private'");
  else if (!accept_word("func"))
    fail_here("kernel, constant, func or private func");
  function(is_private);
}

void Parser::items() {
  while (token_.kind != TokenKind::end) {
    nesting_ = 0;
    size_t start = lexer_.position().offset;
    try {
      item();
    } catch (const Failed &) {
      lexer_.report_errors(false);
      if (lexer_.position().offset == start)
        advance();
      skip_item();
      lexer_.report_errors(true);
    }
  }
}

Module Parser::run() {
  if (text_.size() > kMaxTextBytes) {
    report({}, "the text is longer than " + std::to_string(kMaxTextBytes >> 20) + " MiB");
    return {};
  }
  advance();
  try {
    version();
  } catch (const Failed &) {
    return {};
  }
  items();
  for (Pending &f : pending_)
    if (!f.failed)
      body(f);
  for (Pending &f : pending_)
    module_.functions.push_back(f.builder.finish(f.results, f.end_location));
  return std::move(module_);
}

Module parse(std::string_view text, Diagnostics &diagnostics) {
  // Bodies are read after all signatures: sort, so that reports come in the order of the text.
  Diagnostics unsorted;
  Module module = Parser(text, unsorted).run();
  std::vector<Diagnostic> list = unsorted.list();
  std::stable_sort(list.begin(), list.end(), [](const Diagnostic &a, const Diagnostic &b) {
    return a.location.line != b.location.line ? a.location.line < b.location.line
                                              : a.location.column < b.location.column;
  });
  for (Diagnostic &d : list)
    diagnostics.error(d.location, std::move(d.message));
  for (size_t i = list.size(); i < unsorted.count(); ++i)
    diagnostics.error({}, {});
  return module;
}

Result<Module> parse_and_verify(std::string_view text, std::string_view file) {
  Diagnostics diagnostics;
  Module module = parse(text, diagnostics);
  CUGRT_TRY(diagnostics.to_status(Code::parse_error, file, text));
  verify(module, diagnostics);
  CUGRT_TRY(diagnostics.to_status(Code::verify_error, file, text));
  return module;
}

} // namespace cugrt::ir
