// Tokens of the IR's text form, one at a time: the text is never held twice.
//
// The lexer can be put back to an earlier position, so that the parser may skip function bodies and
// come back to them when all signatures are known.
#pragma once

#include "base/diagnostics.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace cugrt::ir {

enum class TokenKind : uint8_t {
  end,
  word,     // bare name or keyword: text
  value,    // %name: text without %
  global,   // @name: text without @
  integer,  // magnitude
  floating, // real
  string,   // text: what stands between the quotes, escapes not yet resolved
  raw,      // """...""": text, taken literally
  hex,      // x"...": text: the digits
  sign,     // punctuation: text
  invalid,  // already reported
};

struct Token {
  TokenKind kind = TokenKind::end;
  bool first_on_line = false;
  SourceLocation location;
  std::string_view text;
  uint64_t magnitude = 0;
  double real = 0;
};

class Lexer {
public:
  struct Position {
    size_t offset = 0, line_begin = 0;
    uint32_t line = 1;
    bool line_has_token = false;
  };

  Lexer(std::string_view text, Diagnostics &diagnostics) : text_(text), diagnostics_(diagnostics) {}

  Token next();
  Position position() const { return at_; }
  void reset(Position position) { at_ = position; }
  /// Turn off while skipping text that will be read again, which then reports its errors.
  void report_errors(bool on) { reporting_ = on; }

private:
  SourceLocation here(size_t offset) const;
  void skip_space();
  Token fail(Token token, size_t offset, const char *message);
  Token number(Token token);
  Token quoted(Token token, TokenKind kind);
  Token raw(Token token);
  Token sigil(Token token, TokenKind kind);
  char peek(size_t ahead = 0) const {
    return at_.offset + ahead < text_.size() ? text_[at_.offset + ahead] : '\0';
  }

  std::string_view text_;
  Diagnostics &diagnostics_;
  Position at_;
  bool reporting_ = true;
};

/// Resolves the escapes of a string token: \n \r \t \" \\ \xHH. Reports and returns false on
/// others.
bool unescape(const Token &token, std::string &out, Diagnostics &diagnostics);
/// Appends "..." with escapes, or """...""" where text of several lines allows it.
void append_quoted(std::string &out, std::string_view text);

} // namespace cugrt::ir
