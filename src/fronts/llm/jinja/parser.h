// Makes a tree of a template's tokens, by Jinja's grammar. One object parses one template:
// statements in statements.cpp, expressions in parser.cpp.
#pragma once

#include "fronts/llm/jinja/lexer.h"
#include "fronts/llm/jinja/tree.h"

#include <span>

namespace cugrt::llm::jinja {

/// Code::parse_error or Code::unsupported, with the line as its location and the construct named.
Result<Body> parse_template(std::string_view source);

class Parser {
public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  /// Statements up to a tag whose name is one of `ends` (its name is passed over), or to the
  /// template's end.
  Result<Body> body(std::span<const std::string_view> ends, std::string_view opener = {});

private:
  using Made = Result<ExpressionPtr>;
  using Operand = Made (Parser::*)();
  static constexpr uint32_t kMaxDepth = 64, kMaxTreeDepth = 400;

  // Tokens.
  const Token &now() const { return tokens_[at_]; }
  const Token &next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  bool is(Token::Kind kind) const { return now().kind == kind; }
  bool is_sign(TextView sign) const { return is(Token::Kind::sign) && now().text == sign; }
  bool is_name(TextView name) const { return is(Token::Kind::name) && now().text == name; }
  bool take_sign(TextView sign);
  bool take_name(TextView name);
  Status want_sign(TextView sign);
  Result<std::string> want_name(std::string_view what);
  Status want_tag_end();
  Status error(std::string message) const { return error(now().line, std::move(message)); }
  static Status error(uint32_t line, std::string message);
  Status unexpected(std::string_view wanted) const;
  Status enter(); // one level deeper

  // Statements.
  Result<Statement> tag();
  Result<Body> block(std::string_view end); // with the end of the tag before, and its own end tag
  Result<Statement> when();
  Result<Statement> loop();
  Result<Statement> set();
  Result<Statement> macro();
  Result<Statement> scope(bool has_values);
  Result<Statement> filtered();
  Result<std::vector<std::string>> targets();

  // Expressions, the loosest first.
  Made tuple(bool with_conditional);
  Made expression() { return nested(&Parser::conditional); }
  Made nested(Operand parse);
  Made conditional();
  Made either();
  Made both();
  Made negation();
  Made comparison();
  Made sum();
  Made concatenation();
  Made product();
  Made power();
  Made unary() { return unary_of(true); }
  Made unary_of(bool with_filters);
  Made primary();
  Made number();
  Made brackets();
  Made dict();
  Made postfix(ExpressionPtr of);
  Made subscript(ExpressionPtr of);
  Made filters(ExpressionPtr of);
  Made filter(ExpressionPtr of);
  Made test(ExpressionPtr of);
  Made binaries(Operand operand, std::span<const TextView> signs);
  Result<std::vector<Argument>> arguments();
  Made make(ExpressionKind kind, uint32_t line, std::vector<ExpressionPtr> operands,
            std::string name = {}, std::vector<Argument> arguments = {},
            std::vector<std::string> names = {}) const;
  Made constant(Value value);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  uint32_t depth_ = 0;
};

} // namespace cugrt::llm::jinja
