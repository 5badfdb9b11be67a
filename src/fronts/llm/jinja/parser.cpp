// Expressions of templates; see parser.h.
#include "fronts/llm/jinja/parser.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace cugrt::llm::jinja {

template <class... Pointers> static std::vector<ExpressionPtr> operands_of(Pointers... pointers) {
  std::vector<ExpressionPtr> list;
  (list.push_back(std::move(pointers)), ...);
  return list;
}

bool Parser::take_sign(TextView sign) {
  const bool found = is_sign(sign);
  at_ += found;
  return found;
}

bool Parser::take_name(TextView name) {
  const bool found = is_name(name);
  at_ += found;
  return found;
}

Status Parser::error(uint32_t line, std::string message) {
  return Status::error(Code::parse_error, std::move(message)).at(line_name(line));
}

Status Parser::unexpected(std::string_view wanted) const {
  const Token &token = now();
  const bool has_text = !token.text.empty() && token.kind != Token::Kind::data;
  const bool is_end = token.kind == Token::Kind::end || token.kind == Token::Kind::data;
  return error(std::string(wanted) + " must stand where " +
               (has_text ? "'" + utf8_of(token.text).substr(0, 40) + "' stands"
                : is_end ? "the template ends"
                         : "the tag ends"));
}

Status Parser::want_sign(TextView sign) {
  return take_sign(sign) ? Status() : unexpected("'" + utf8_of(sign) + "'");
}

Result<std::string> Parser::want_name(std::string_view what) {
  if (!is(Token::Kind::name))
    return unexpected(what);
  return utf8_of(tokens_[at_++].text);
}

Status Parser::enter() {
  return ++depth_ > kMaxDepth ? error("it is nested too deeply") : Status();
}

Parser::Made Parser::nested(Operand parse) {
  CUGRT_TRY(enter());
  CUGRT_ASSIGN(ExpressionPtr made, (this->*parse)());
  --depth_;
  return made;
}

Parser::Made Parser::make(ExpressionKind kind, uint32_t line, std::vector<ExpressionPtr> operands,
                          std::string name, std::vector<Argument> arguments,
                          std::vector<std::string> names) const {
  auto made = std::make_unique<Expression>();
  made->kind = kind;
  made->line = line;
  made->name = std::move(name);
  made->operands = std::move(operands);
  made->arguments = std::move(arguments);
  made->names = std::move(names);
  for (const ExpressionPtr &operand : made->operands)
    made->depth = std::max(made->depth, operand ? operand->depth + 1 : 1);
  for (const Argument &argument : made->arguments)
    made->depth = std::max(made->depth, argument.value->depth + 1);
  if (made->depth > kMaxTreeDepth)
    return error(line, "an expression is nested too deeply");
  return ExpressionPtr(std::move(made));
}

Parser::Made Parser::constant(Value value) {
  auto made = std::make_unique<Expression>();
  made->kind = ExpressionKind::constant;
  made->line = now().line;
  made->value = std::move(value);
  return ExpressionPtr(std::move(made));
}

/// One expression, or several with commas between them.
Parser::Made Parser::tuple(bool with_conditional) {
  const uint32_t line = now().line;
  std::vector<ExpressionPtr> list;
  bool is_tuple = false;
  while (!is(Token::Kind::tag_end) && !is(Token::Kind::print_end) && !is_sign(U")")) {
    CUGRT_ASSIGN(ExpressionPtr one,
                 nested(with_conditional ? &Parser::conditional : &Parser::either));
    list.push_back(std::move(one));
    if (!take_sign(U","))
      break;
    is_tuple = true;
  }
  if (list.empty() && !is_sign(U")"))
    return unexpected("an expression");
  if (!is_tuple && !list.empty())
    return std::move(list.front());
  return make(ExpressionKind::tuple, line, std::move(list));
}

Parser::Made Parser::conditional() {
  CUGRT_ASSIGN(ExpressionPtr left, either());
  while (is_name(U"if")) {
    const uint32_t line = tokens_[at_++].line;
    CUGRT_ASSIGN(ExpressionPtr condition, either());
    ExpressionPtr otherwise;
    if (take_name(U"else")) {
      CUGRT_ASSIGN(otherwise, nested(&Parser::conditional));
    }
    CUGRT_ASSIGN(left,
                 make(ExpressionKind::conditional, line,
                      operands_of(std::move(left), std::move(condition), std::move(otherwise))));
  }
  return left;
}

Parser::Made Parser::either() {
  CUGRT_ASSIGN(ExpressionPtr left, both());
  while (is_name(U"or")) {
    const uint32_t line = tokens_[at_++].line;
    CUGRT_ASSIGN(ExpressionPtr right, both());
    CUGRT_ASSIGN(
        left, make(ExpressionKind::either, line, operands_of(std::move(left), std::move(right))));
  }
  return left;
}

Parser::Made Parser::both() {
  CUGRT_ASSIGN(ExpressionPtr left, negation());
  while (is_name(U"and")) {
    const uint32_t line = tokens_[at_++].line;
    CUGRT_ASSIGN(ExpressionPtr right, negation());
    CUGRT_ASSIGN(left,
                 make(ExpressionKind::both, line, operands_of(std::move(left), std::move(right))));
  }
  return left;
}

Parser::Made Parser::negation() {
  if (!is_name(U"not"))
    return comparison();
  const uint32_t line = tokens_[at_++].line;
  CUGRT_ASSIGN(ExpressionPtr of, nested(&Parser::negation));
  return make(ExpressionKind::unary, line, operands_of(std::move(of)), "not");
}

Parser::Made Parser::comparison() {
  static constexpr std::array<TextView, 6> kSigns = {U"==", U"!=", U"<", U"<=", U">", U">="};
  const uint32_t line = now().line;
  std::vector<ExpressionPtr> operands;
  std::vector<std::string> names;
  CUGRT_ASSIGN(ExpressionPtr first, sum());
  operands.push_back(std::move(first));
  while (true) {
    if (is_name(U"not") && next().kind == Token::Kind::name && next().text == U"in") {
      at_ += 2;
      names.emplace_back("not in");
    } else if (take_name(U"in")) {
      names.emplace_back("in");
    } else if (is(Token::Kind::sign) && std::ranges::count(kSigns, TextView(now().text))) {
      names.push_back(utf8_of(tokens_[at_++].text));
    } else {
      break;
    }
    CUGRT_ASSIGN(ExpressionPtr operand, sum());
    operands.push_back(std::move(operand));
  }
  if (names.empty())
    return std::move(operands.front());
  return make(ExpressionKind::compare, line, std::move(operands), {}, {}, std::move(names));
}

Parser::Made Parser::binaries(Operand operand, std::span<const TextView> signs) {
  CUGRT_ASSIGN(ExpressionPtr left, (this->*operand)());
  while (is(Token::Kind::sign) && std::ranges::count(signs, TextView(now().text))) {
    const Token &sign = tokens_[at_++];
    CUGRT_ASSIGN(ExpressionPtr right, (this->*operand)());
    CUGRT_ASSIGN(left, make(ExpressionKind::binary, sign.line,
                            operands_of(std::move(left), std::move(right)), utf8_of(sign.text)));
  }
  return left;
}

Parser::Made Parser::sum() {
  static constexpr std::array<TextView, 2> kSigns = {U"+", U"-"};
  return binaries(&Parser::concatenation, kSigns);
}

Parser::Made Parser::concatenation() {
  const uint32_t line = now().line;
  CUGRT_ASSIGN(ExpressionPtr first, product());
  if (!is_sign(U"~"))
    return first;
  std::vector<ExpressionPtr> operands;
  operands.push_back(std::move(first));
  while (take_sign(U"~")) {
    CUGRT_ASSIGN(ExpressionPtr operand, product());
    operands.push_back(std::move(operand));
  }
  return make(ExpressionKind::concatenate, line, std::move(operands));
}

Parser::Made Parser::product() {
  static constexpr std::array<TextView, 4> kSigns = {U"*", U"/", U"//", U"%"};
  return binaries(&Parser::power, kSigns);
}

Parser::Made Parser::power() {
  static constexpr std::array<TextView, 1> kSigns = {U"**"};
  return binaries(&Parser::unary, kSigns);
}

Parser::Made Parser::unary_of(bool with_filters) {
  ExpressionPtr made;
  if (is_sign(U"-") || is_sign(U"+")) {
    CUGRT_TRY(enter());
    const Token &sign = tokens_[at_++];
    CUGRT_ASSIGN(ExpressionPtr of, unary_of(false));
    CUGRT_ASSIGN(made, make(ExpressionKind::unary, sign.line, operands_of(std::move(of)),
                            utf8_of(sign.text)));
    --depth_;
  } else {
    CUGRT_ASSIGN(made, primary());
  }
  CUGRT_ASSIGN(made, postfix(std::move(made)));
  if (with_filters)
    return filters(std::move(made));
  return made;
}

Parser::Made Parser::primary() {
  switch (now().kind) {
  case Token::Kind::name: {
    const std::string name = utf8_of(now().text);
    Made made = name == "true" || name == "True"     ? constant(true)
                : name == "false" || name == "False" ? constant(false)
                : name == "none" || name == "None"
                    ? constant(None{})
                    : make(ExpressionKind::name, now().line, {}, name);
    ++at_;
    return made;
  }
  case Token::Kind::text: {
    Text text;
    while (is(Token::Kind::text)) // one behind the other they are one
      text += tokens_[at_++].text;
    return constant(make_text(std::move(text)));
  }
  case Token::Kind::integer:
  case Token::Kind::real:
    return number();
  case Token::Kind::sign:
    return brackets();
  case Token::Kind::data:
  case Token::Kind::print_begin:
  case Token::Kind::print_end:
  case Token::Kind::tag_begin:
  case Token::Kind::tag_end:
  case Token::Kind::end:
    break;
  }
  return unexpected("an expression");
}

Parser::Made Parser::number() {
  const std::string digits = utf8_of(now().text);
  const char *const end = digits.data() + digits.size();
  if (is(Token::Kind::real)) {
    double value = 0;
    if (std::from_chars(digits.data(), end, value).ec != std::errc())
      return error("the number " + digits.substr(0, 40) + " is out of range");
    ++at_;
    return constant(value);
  }
  const char kind =
      digits.size() > 2 && digits[0] == '0' ? static_cast<char>(digits[1] | 0x20) : '0';
  const int base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
  int64_t value = 0;
  const auto [stop, status] =
      std::from_chars(digits.data() + (base == 10 ? 0 : 2), end, value, base);
  if (status != std::errc() || stop != end)
    return error("the number " + digits.substr(0, 40) + " is none, or beyond 64 bits");
  ++at_;
  return constant(value);
}

Parser::Made Parser::brackets() {
  const uint32_t line = now().line;
  if (take_sign(U"(")) {
    CUGRT_ASSIGN(ExpressionPtr made, tuple(true));
    CUGRT_TRY(want_sign(U")"));
    return made;
  }
  if (is_sign(U"{"))
    return dict();
  if (!take_sign(U"["))
    return unexpected("an expression");
  std::vector<ExpressionPtr> list;
  while (!is_sign(U"]")) {
    CUGRT_ASSIGN(ExpressionPtr one, expression());
    list.push_back(std::move(one));
    if (!take_sign(U","))
      break;
  }
  CUGRT_TRY(want_sign(U"]"));
  return make(ExpressionKind::list, line, std::move(list));
}

Parser::Made Parser::dict() {
  const uint32_t line = tokens_[at_++].line;
  std::vector<ExpressionPtr> list;
  while (!is_sign(U"}")) {
    CUGRT_ASSIGN(ExpressionPtr key, expression());
    CUGRT_TRY(want_sign(U":"));
    CUGRT_ASSIGN(ExpressionPtr value, expression());
    list.push_back(std::move(key));
    list.push_back(std::move(value));
    if (!take_sign(U","))
      break;
  }
  CUGRT_TRY(want_sign(U"}"));
  return make(ExpressionKind::dict, line, std::move(list));
}

Parser::Made Parser::postfix(ExpressionPtr of) {
  while (true) {
    const uint32_t line = now().line;
    if (is_sign(U"(")) {
      CUGRT_ASSIGN(std::vector<Argument> given, arguments());
      CUGRT_ASSIGN(
          of, make(ExpressionKind::call, line, operands_of(std::move(of)), {}, std::move(given)));
    } else if (take_sign(U".")) {
      if (is(Token::Kind::integer)) {
        CUGRT_ASSIGN(ExpressionPtr index, number());
        CUGRT_ASSIGN(
            of, make(ExpressionKind::item, line, operands_of(std::move(of), std::move(index))));
      } else {
        CUGRT_ASSIGN(std::string name, want_name("an attribute's name"));
        CUGRT_ASSIGN(
            of, make(ExpressionKind::attribute, line, operands_of(std::move(of)), std::move(name)));
      }
    } else if (take_sign(U"[")) {
      CUGRT_ASSIGN(of, subscript(std::move(of)));
    } else {
      return of;
    }
  }
}

/// Reads brackets behind a value: a key, or two or three limits with colons between.
Parser::Made Parser::subscript(ExpressionPtr of) {
  const uint32_t line = now().line;
  std::vector<ExpressionPtr> parts = operands_of(std::move(of));
  bool is_slice = false;
  ExpressionPtr part;
  while (!is_sign(U"]")) {
    if (take_sign(U":")) {
      is_slice = true;
      parts.push_back(std::move(part));
    } else if (part || parts.size() > 3) {
      return unexpected("']'");
    } else {
      CUGRT_ASSIGN(part, expression());
    }
  }
  ++at_;
  if (!is_slice && !part)
    return error(line, "the brackets hold no key");
  parts.push_back(std::move(part));
  if (is_slice)
    parts.resize(std::max<size_t>(parts.size(), 4));
  if (parts.size() > 4)
    return error(line, "a slice has at most three limits");
  return make(is_slice ? ExpressionKind::slice : ExpressionKind::item, line, std::move(parts));
}

Parser::Made Parser::filters(ExpressionPtr of) {
  while (true) {
    const uint32_t line = now().line;
    if (is_sign(U"|")) {
      CUGRT_ASSIGN(of, filter(std::move(of)));
    } else if (take_name(U"is")) {
      CUGRT_ASSIGN(of, test(std::move(of)));
    } else if (is_sign(U"(")) { // what a filter or a test gave
      CUGRT_ASSIGN(std::vector<Argument> given, arguments());
      CUGRT_ASSIGN(
          of, make(ExpressionKind::call, line, operands_of(std::move(of)), {}, std::move(given)));
    } else {
      return of;
    }
  }
}

Parser::Made Parser::filter(ExpressionPtr of) {
  const uint32_t line = tokens_[at_++].line;
  CUGRT_ASSIGN(std::string name, want_name("a filter's name"));
  std::vector<Argument> given;
  if (is_sign(U"(")) {
    CUGRT_ASSIGN(given, arguments());
  }
  std::vector<ExpressionPtr> operands;
  if (of)
    operands.push_back(std::move(of));
  return make(ExpressionKind::filter, line, std::move(operands), std::move(name), std::move(given));
}

/// Reads the test behind "is". One argument may stand without parentheses.
Parser::Made Parser::test(ExpressionPtr of) {
  const uint32_t line = now().line;
  const bool is_negated = take_name(U"not");
  std::string name;
  CUGRT_ASSIGN(name, want_name("a test's name"));
  const bool has_bracket = is_sign(U"[") || is_sign(U"{");
  const bool has_value = is(Token::Kind::text) || is(Token::Kind::integer) || is(Token::Kind::real);
  const bool has_name = is(Token::Kind::name) && !is_name(U"else") && !is_name(U"or") &&
                        !is_name(U"and") && !is_name(U"if");
  std::vector<Argument> given;
  if (is_sign(U"(")) {
    CUGRT_ASSIGN(given, arguments());
  } else if (is_name(U"is")) {
    return error("a test cannot follow a test with 'is'");
  } else if (has_bracket || has_value || has_name) {
    CUGRT_ASSIGN(ExpressionPtr argument, primary());
    CUGRT_ASSIGN(argument, postfix(std::move(argument)));
    given.push_back({{}, std::move(argument)});
  }
  CUGRT_ASSIGN(ExpressionPtr made, make(ExpressionKind::test, line, operands_of(std::move(of)),
                                        std::move(name), std::move(given)));
  if (!is_negated)
    return made;
  return make(ExpressionKind::unary, line, operands_of(std::move(made)), "not");
}

Result<std::vector<Argument>> Parser::arguments() {
  CUGRT_TRY(want_sign(U"("));
  std::vector<Argument> given;
  while (!is_sign(U")")) {
    Argument argument;
    if (take_sign(U"*")) {
      argument.name = "*";
    } else if (take_sign(U"**")) {
      argument.name = "**";
    } else if (is(Token::Kind::name) && next().kind == Token::Kind::sign && next().text == U"=") {
      argument.name = utf8_of(now().text);
      at_ += 2;
    } else if (!given.empty() && !given.back().name.empty() && given.back().name != "*") {
      return error("an argument without a name stands behind one with a name");
    }
    CUGRT_ASSIGN(argument.value, expression());
    given.push_back(std::move(argument));
    if (!take_sign(U","))
      break;
  }
  CUGRT_TRY(want_sign(U")"));
  return given;
}

} // namespace cugrt::llm::jinja
