// PTX text to tokens, one at a time. Tokens are views into the text, which must outlive them.
#pragma once

#include "base/status.h"

#include <cstdint>
#include <string_view>

namespace cugrt::emulator::ptx {

enum class TokenKind : uint8_t {
  end,
  word,    // name, label, opcode, %register
  dotted,  // .directive or .modifier, the dot included; "::" may join parts
  integer, // bits: the value
  real,    // bits: of the double, or of the float with is_float
  string,  // text: between the quotes
  punct,   // text: one character
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;
  uint32_t line = 0;
  uint64_t bits = 0;
  bool is_float = false; // 0fXXXXXXXX: 32 bits rather than 64

  bool is(char c) const { return kind == TokenKind::punct && text[0] == c; }
  bool is_dotted(std::string_view name) const { return kind == TokenKind::dotted && text == name; }
};

class Lexer {
public:
  explicit Lexer(std::string_view text) : text_(text) {}
  /// The next token, or a parse_error that names the line.
  Result<Token> next();

private:
  Status skip_blank();
  Result<Token> number();
  Result<Token> hex_real(size_t digits, bool is_float);
  Token take(TokenKind kind, size_t length);
  Status error(const std::string &message) const;

  std::string_view text_;
  size_t position_ = 0;
  uint32_t line_ = 1;
};

} // namespace cugrt::emulator::ptx
