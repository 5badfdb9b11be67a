// Statements of templates; see parser.h.
#include "fronts/llm/jinja/parser.h"

#include <algorithm>
#include <array>

namespace cugrt::llm::jinja {

/// The tags that statements begin with, and those that are known and not taken.
constexpr std::string_view kForeignTags[] = {"include", "import", "from",       "extends", "block",
                                             "call",    "do",     "autoescape", "trans"};

Status Parser::want_tag_end() {
  if (!is(Token::Kind::tag_end))
    return unexpected("the tag's end");
  ++at_;
  return {};
}

Result<Body> Parser::body(std::span<const std::string_view> ends, std::string_view opener) {
  CUGRT_TRY(enter());
  const uint32_t begin = at_ > 0 ? tokens_[at_ - 1].line : 1;
  Body made;
  while (!is(Token::Kind::end)) {
    const Token &token = tokens_[at_++];
    if (token.kind == Token::Kind::data) {
      made.push_back({StatementKind::data, token.line, token.text});
    } else if (token.kind == Token::Kind::print_begin) {
      Statement print{StatementKind::print, token.line};
      CUGRT_ASSIGN(print.value, tuple(true));
      if (!is(Token::Kind::print_end))
        return unexpected("'}}'");
      ++at_;
      made.push_back(std::move(print));
    } else {
      if (is(Token::Kind::name) && std::ranges::count(ends, utf8_of(now().text))) {
        --depth_;
        return made;
      }
      CUGRT_ASSIGN(Statement statement, tag());
      made.push_back(std::move(statement));
    }
  }
  if (!ends.empty())
    return error(begin,
                 "the tag '" + std::string(opener) + "' has no '" + std::string(ends.back()) + "'");
  --depth_;
  return made;
}

/// Reads the body of a tag up to its end tag, whose name is `end`.
Result<Body> Parser::block(std::string_view end) {
  CUGRT_TRY(want_tag_end());
  const std::array ends = {end};
  CUGRT_ASSIGN(Body made, body(ends, end.substr(3)));
  ++at_;
  CUGRT_TRY(want_tag_end());
  return made;
}

Result<Statement> Parser::tag() {
  const uint32_t line = now().line;
  CUGRT_ASSIGN(const std::string name, want_name("a tag's name"));
  if (name == "if")
    return when();
  if (name == "for")
    return loop();
  if (name == "set")
    return set();
  if (name == "macro")
    return macro();
  if (name == "with" || name == "generation")
    return scope(name == "with");
  if (name == "filter")
    return filtered();
  if (name == "break" || name == "continue") {
    CUGRT_TRY(want_tag_end());
    return Statement{name == "break" ? StatementKind::leave : StatementKind::proceed, line};
  }
  const bool is_foreign = std::ranges::count(kForeignTags, name) > 0;
  return Status::error(is_foreign ? Code::unsupported : Code::parse_error,
                       "the tag '" + name.substr(0, 40) +
                           (is_foreign ? "' is not supported" : "' is not known here"))
      .at(line_name(line));
}

Result<Statement> Parser::when() {
  static constexpr std::array<std::string_view, 3> kEnds = {"elif", "else", "endif"};
  Statement made{StatementKind::when, now().line};
  bool has_else = false;
  while (true) {
    Branch branch;
    if (!has_else) {
      CUGRT_ASSIGN(branch.condition, tuple(false));
    }
    CUGRT_TRY(want_tag_end());
    CUGRT_ASSIGN(branch.body, body(std::span(kEnds).subspan(has_else ? 2 : 0), "if"));
    made.branches.push_back(std::move(branch));
    const Text name = tokens_[at_++].text;
    if (name == U"endif")
      break;
    has_else = name == U"else";
  }
  CUGRT_TRY(want_tag_end());
  return made;
}

/// Names with commas between, in parentheses or not.
Result<std::vector<std::string>> Parser::targets() {
  std::vector<std::string> names;
  const bool is_bracketed = take_sign(U"(");
  do {
    if (!names.empty() && !is(Token::Kind::name))
      break; // a comma in the end
    CUGRT_ASSIGN(std::string name, want_name("a variable's name"));
    names.push_back(std::move(name));
  } while (take_sign(U","));
  if (is_bracketed)
    CUGRT_TRY(want_sign(U")"));
  return names;
}

Result<Statement> Parser::loop() {
  static constexpr std::array<std::string_view, 2> kEnds = {"else", "endfor"};
  Statement made{StatementKind::loop, now().line};
  CUGRT_ASSIGN(made.targets, targets());
  if (!take_name(U"in"))
    return unexpected("'in'");
  CUGRT_ASSIGN(made.value, tuple(false));
  if (take_name(U"if")) {
    CUGRT_ASSIGN(made.condition, expression());
  }
  if (is_name(U"recursive"))
    return Status::error(Code::unsupported, "a loop that is 'recursive' is not supported")
        .at(line_name(now().line));
  CUGRT_TRY(want_tag_end());
  CUGRT_ASSIGN(made.body, body(kEnds, "for"));
  if (tokens_[at_++].text == U"else") {
    CUGRT_TRY(want_tag_end());
    CUGRT_ASSIGN(made.otherwise, body(std::span(kEnds).subspan(1), "for"));
    ++at_;
  }
  CUGRT_TRY(want_tag_end());
  return made;
}

Result<Statement> Parser::set() {
  Statement made{StatementKind::set, now().line};
  CUGRT_ASSIGN(made.targets, targets());
  if (made.targets.size() == 1 && take_sign(U".")) {
    CUGRT_ASSIGN(made.field, want_name("a field's name"));
  }
  if (take_sign(U"=")) {
    CUGRT_ASSIGN(made.value, tuple(true));
    CUGRT_TRY(want_tag_end());
    return made;
  }
  if (made.targets.size() > 1)
    return unexpected("'='");
  made.kind = StatementKind::capture;
  while (is_sign(U"|")) {
    CUGRT_ASSIGN(made.value, filter(std::move(made.value)));
  }
  CUGRT_ASSIGN(made.body, block("endset"));
  return made;
}

Result<Statement> Parser::macro() {
  Statement made{StatementKind::macro, now().line};
  CUGRT_ASSIGN(made.name, want_name("a macro's name"));
  CUGRT_TRY(want_sign(U"("));
  while (!is_sign(U")")) {
    Parameter parameter;
    CUGRT_ASSIGN(parameter.name, want_name("a parameter's name"));
    if (take_sign(U"=")) {
      CUGRT_ASSIGN(parameter.preset, expression());
    } else if (!made.parameters.empty() && made.parameters.back().preset) {
      return error("a parameter without a value stands behind one with a value");
    }
    made.parameters.push_back(std::move(parameter));
    if (!take_sign(U","))
      break;
  }
  CUGRT_TRY(want_sign(U")"));
  CUGRT_ASSIGN(made.body, block("endmacro"));
  return made;
}

/// {% with a = 1, b = 2 %}, and {% generation %}, which marks text that a model is trained on.
Result<Statement> Parser::scope(bool has_values) {
  Statement made{StatementKind::scope, now().line};
  while (has_values && !is(Token::Kind::tag_end)) {
    Parameter value;
    CUGRT_ASSIGN(value.name, want_name("a variable's name"));
    CUGRT_TRY(want_sign(U"="));
    CUGRT_ASSIGN(value.preset, expression());
    made.parameters.push_back(std::move(value));
    if (!take_sign(U","))
      break;
  }
  CUGRT_ASSIGN(made.body, block(has_values ? "endwith" : "endgeneration"));
  return made;
}

Result<Statement> Parser::filtered() {
  Statement made{StatementKind::filtered, now().line};
  --at_; // the name of the tag stands where '|' would
  do {
    CUGRT_ASSIGN(made.value, filter(std::move(made.value)));
  } while (is_sign(U"|"));
  CUGRT_ASSIGN(made.body, block("endfilter"));
  return made;
}

Result<Body> parse_template(std::string_view source) {
  CUGRT_ASSIGN(std::vector<Token> tokens, tokens_of(source));
  return Parser(std::move(tokens)).body({});
}

} // namespace cugrt::llm::jinja
