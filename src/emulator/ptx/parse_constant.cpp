// Constant expressions: integers of 64 bits with C's operators and precedence. Signed, unless a
// literal ends with U or does not fit, or a cast says so; % is unsigned, a shift counts modulo 64,
// and both sides of && and || and all of ?: are evaluated, as ptxas does it.
#include "emulator/ptx/parser_impl.h"

namespace cugrt::emulator::ptx {

namespace {

struct BinaryOperator {
  std::string_view text;
  int precedence; // higher binds more strongly
};

// Operators of two characters come first.
constexpr BinaryOperator kBinaryOperators[] = {
    {"<<", 8}, {">>", 8}, {"<=", 7}, {">=", 7}, {"==", 6}, {"!=", 6},
    {"&&", 2}, {"||", 1}, {"*", 10}, {"/", 10}, {"%", 10}, {"+", 9},
    {"-", 9},  {"<", 7},  {">", 7},  {"&", 5},  {"^", 4},  {"|", 3},
};

/// The operator that `text` begins with.
const BinaryOperator *find_operator(std::string_view text) {
  for (const BinaryOperator &row : kBinaryOperators)
    if (text.substr(0, row.text.size()) == row.text)
      return &row;
  return nullptr;
}

} // namespace

Result<int64_t> Parser::constant() {
  CUGRT_ASSIGN(Constant value, conditional(0));
  return int64_t(value.bits);
}

/// Whether the minus that stands here is a floating-point literal's.
Result<bool> Parser::is_negative_real() const {
  if (!token_.is('-'))
    return false;
  CUGRT_ASSIGN(Token next, peek());
  return next.kind == TokenKind::real;
}

Result<Parser::Constant> Parser::conditional(int depth) {
  if (depth > kMaxNesting)
    return error("a constant expression nested too deeply");
  CUGRT_ASSIGN(Constant value, binary(depth, 1));
  if (!token_.is('?'))
    return value;
  CUGRT_TRY(advance());
  CUGRT_ASSIGN(Constant yes, conditional(depth + 1));
  CUGRT_TRY(expect(':'));
  CUGRT_ASSIGN(Constant no, conditional(depth + 1));
  return Constant{value.bits ? yes.bits : no.bits, yes.is_unsigned || no.is_unsigned};
}

/// Operators of at least this precedence; those of one bind to the left.
Result<Parser::Constant> Parser::binary(int depth, int precedence) {
  CUGRT_ASSIGN(Constant left, unary(depth));
  while (token_.kind == TokenKind::punct) {
    const BinaryOperator *found = find_operator(
        std::string_view(module_.text).substr(size_t(token_.text.data() - module_.text.data())));
    if (!found || found->precedence < precedence)
      break;
    for (size_t i = 0; i < found->text.size(); ++i)
      CUGRT_TRY(advance());
    CUGRT_ASSIGN(Constant right, binary(depth, found->precedence + 1));
    CUGRT_ASSIGN(left, apply(found->text, left, right));
  }
  return left;
}

Result<Parser::Constant> Parser::apply(std::string_view op, Constant a, Constant b) const {
  bool is_unsigned = a.is_unsigned || b.is_unsigned;
  uint64_t x = a.bits, y = b.bits;
  auto value = [&](uint64_t bits) { return Constant{bits, is_unsigned}; };
  auto truth = [](bool holds) { return Constant{holds, false}; };
  bool less = is_unsigned ? x < y : int64_t(x) < int64_t(y);
  switch (op[0]) {
  case '*':
    return value(x * y);
  case '/':
    if (y == 0)
      return error("a constant division by zero");
    if (is_unsigned)
      return value(x / y);
    return value(y == UINT64_MAX ? -x : uint64_t(int64_t(x) / int64_t(y)));
  case '%':
    if (y == 0)
      return error("a constant division by zero");
    return Constant{x % y, true};
  case '+':
    return value(x + y);
  case '-':
    return value(x - y);
  case '^':
    return value(x ^ y);
  case '&':
    return op.size() == 2 ? truth(x && y) : value(x & y);
  case '|':
    return op.size() == 2 ? truth(x || y) : value(x | y);
  case '=':
    return truth(x == y);
  case '!':
    return truth(x != y);
  case '<':
    if (op == "<<")
      return Constant{x << (y & 63), a.is_unsigned};
    return truth(op == "<=" ? less || x == y : less);
  default:
    if (op == ">>")
      return Constant{a.is_unsigned ? x >> (y & 63) : uint64_t(int64_t(x) >> (y & 63)),
                      a.is_unsigned};
    return truth(op == ">=" ? !less : !less && x != y);
  }
}

Result<Parser::Constant> Parser::unary(int depth) {
  if (depth > kMaxNesting)
    return error("a constant expression nested too deeply");
  for (char op : {'-', '~', '!', '+'}) {
    if (!token_.is(op))
      continue;
    CUGRT_TRY(advance());
    CUGRT_ASSIGN(Constant value, unary(depth + 1));
    return op == '-'   ? Constant{-value.bits, value.is_unsigned}
           : op == '~' ? Constant{~value.bits, value.is_unsigned}
           : op == '!' ? Constant{!value.bits, false}
                       : value;
  }
  if (token_.is('(')) {
    CUGRT_TRY(advance());
    if (token_.is_dotted(".s64") || token_.is_dotted(".u64")) { // a cast
      bool is_unsigned = token_.is_dotted(".u64");
      CUGRT_TRY(advance());
      CUGRT_TRY(expect(')'));
      CUGRT_ASSIGN(Constant value, unary(depth + 1));
      return Constant{value.bits, is_unsigned};
    }
    CUGRT_ASSIGN(Constant value, conditional(depth + 1));
    CUGRT_TRY(expect(')'));
    return value;
  }
  if (token_.kind == TokenKind::word && token_.text == kWarpSize) {
    CUGRT_TRY(advance());
    return Constant{kWarpSizeValue, false};
  }
  CUGRT_ASSIGN(uint64_t value, expect_integer("an integer"));
  return Constant{value, value > uint64_t(INT64_MAX) || previous_.text.back() == 'U'};
}

} // namespace cugrt::emulator::ptx
