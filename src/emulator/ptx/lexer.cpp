// The PTX lexer. Integers wrap nowhere: a literal over 64 bits is an error.
#include "emulator/ptx/lexer.h"

#include <bit>
#include <cstdlib>
#include <string>

namespace cugrt::emulator::ptx {

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static bool is_word_start(char c) { return is_letter(c) || c == '_' || c == '$' || c == '%'; }
static bool is_word_part(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '$'; }

static int digit_value(char c) {
  if (is_digit(c))
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  if (c >= 'A' && c <= 'F')
    return c - 'A' + 10;
  return 99;
}

Status Lexer::error(const std::string &message) const {
  return Status::error(Code::parse_error, message).at("ptx line " + std::to_string(line_));
}

Token Lexer::take(TokenKind kind, size_t length) {
  Token token{kind, text_.substr(position_, length), line_};
  position_ += length;
  return token;
}

Status Lexer::skip_blank() {
  while (position_ < text_.size()) {
    char c = text_[position_];
    if (c == '\n') {
      ++line_;
      ++position_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
      ++position_;
    } else if (c == '/' && position_ + 1 < text_.size() && text_[position_ + 1] == '/') {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else if (c == '/' && position_ + 1 < text_.size() && text_[position_ + 1] == '*') {
      size_t close = text_.find("*/", position_ + 2);
      if (close == std::string_view::npos)
        return error("a comment that is never closed");
      for (; position_ < close + 2; ++position_)
        line_ += text_[position_] == '\n';
    } else if (c == '#' && (position_ == 0 || text_[position_ - 1] == '\n')) {
      position_ = std::min(text_.find('\n', position_), text_.size()); // a preprocessor's line
    } else {
      break;
    }
  }
  return {};
}

Result<Token> Lexer::hex_real(size_t digits, bool is_float) {
  uint64_t bits = 0;
  for (size_t i = 0; i < digits; ++i) {
    size_t at = position_ + 2 + i;
    int value = at < text_.size() ? digit_value(text_[at]) : 99;
    if (value >= 16)
      return error("expected " + std::to_string(digits) + " hexadecimal digits of a float literal");
    bits = bits << 4 | uint64_t(value);
  }
  Token token = take(TokenKind::real, 2 + digits);
  token.bits = bits;
  token.is_float = is_float;
  return token;
}

Result<Token> Lexer::number() {
  std::string_view rest = text_.substr(position_);
  if (rest.size() > 1 && rest[0] == '0' && (rest[1] == 'f' || rest[1] == 'F'))
    return hex_real(8, true);
  if (rest.size() > 1 && rest[0] == '0' && (rest[1] == 'd' || rest[1] == 'D'))
    return hex_real(16, false);
  size_t i = 0;
  while (i < rest.size() && is_digit(rest[i]))
    ++i;
  bool has_exponent = i < rest.size() && (rest[i] == 'e' || rest[i] == 'E');
  bool has_point = i + 1 < rest.size() && rest[i] == '.' && is_digit(rest[i + 1]);
  if (has_point || has_exponent) {
    constexpr size_t kMaxLiteral = 400;
    std::string copy(rest.substr(0, kMaxLiteral));
    char *end = nullptr;
    double value = std::strtod(copy.c_str(), &end);
    Token token = take(TokenKind::real, size_t(end - copy.c_str()));
    token.bits = std::bit_cast<uint64_t>(value);
    return token;
  }
  int base = 10;
  i = 0;
  if (rest[0] == '0' && rest.size() > 1) {
    if (rest[1] == 'x' || rest[1] == 'X')
      base = 16, i = 2;
    else if (rest[1] == 'b' || rest[1] == 'B')
      base = 2, i = 2;
    else if (is_digit(rest[1]))
      base = 8, i = 1;
  }
  size_t first = i;
  uint64_t value = 0;
  for (; i < rest.size() && digit_value(rest[i]) < base; ++i)
    if (__builtin_mul_overflow(value, uint64_t(base), &value) ||
        __builtin_add_overflow(value, uint64_t(digit_value(rest[i])), &value))
      return error("an integer literal over 64 bits");
  if (i == first)
    return error("an integer literal without digits");
  if (i < rest.size() && rest[i] == 'U')
    ++i;
  if (i < rest.size() && is_word_part(rest[i]))
    return error("a malformed number near '" + std::string(rest.substr(0, i + 1)) + "'");
  Token token = take(TokenKind::integer, i);
  token.bits = value;
  return token;
}

Result<Token> Lexer::next() {
  CUGRT_TRY(skip_blank());
  if (position_ >= text_.size())
    return Token{TokenKind::end, {}, line_};
  std::string_view rest = text_.substr(position_);
  char c = rest[0];
  size_t i = 1;
  if (is_word_start(c) && (c != '%' || (rest.size() > 1 && is_word_part(rest[1])))) {
    while (i < rest.size() && is_word_part(rest[i]))
      ++i;
    return take(TokenKind::word, i);
  }
  if (c == '.' && rest.size() > 1 && (is_word_part(rest[1]) || rest[1] == '$')) {
    while (i < rest.size() &&
           (is_word_part(rest[i]) || (rest[i] == ':' && rest.substr(i, 2) == "::") ||
            (rest[i] == ':' && rest[i - 1] == ':')))
      ++i;
    return take(TokenKind::dotted, i);
  }
  if (is_digit(c))
    return number();
  if (c == '"') {
    while (i < rest.size() && rest[i] != '"' && rest[i] != '\n')
      i += rest[i] == '\\' && i + 1 < rest.size() && rest[i + 1] != '\n' ? 2 : 1;
    if (i >= rest.size() || rest[i] != '"')
      return error("a string that is never closed");
    Token token = take(TokenKind::string, i + 1);
    token.text = token.text.substr(1, i - 1);
    return token;
  }
  constexpr std::string_view kPunctuation = "{}[]()<>,;:=+-*/!@|~&^?%.";
  if (kPunctuation.find(c) == std::string_view::npos)
    return error("unexpected character with code " + std::to_string(int(uint8_t(c))));
  return take(TokenKind::punct, 1);
}

} // namespace cugrt::emulator::ptx
