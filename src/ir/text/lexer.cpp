// The lexer: one pass over the bytes, no allocation.
#include "ir/text/lexer.h"

#include "ir/module/names.h"

#include <charconv>

namespace cugrt::ir {

SourceLocation Lexer::here(size_t offset) const {
  return {at_.line, static_cast<uint32_t>(offset - at_.line_begin + 1)};
}

void Lexer::skip_space() {
  while (at_.offset < text_.size()) {
    char c = text_[at_.offset];
    if (c == '\n') {
      ++at_.offset;
      at_.line_begin = at_.offset;
      ++at_.line;
      at_.line_has_token = false;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at_.offset;
    } else if (c == '/' && peek(1) == '/') {
      size_t end = text_.find('\n', at_.offset);
      at_.offset = end == std::string_view::npos ? text_.size() : end;
    } else {
      return;
    }
  }
}

Token Lexer::fail(Token token, size_t offset, const char *message) {
  if (reporting_)
    diagnostics_.error(here(offset), message);
  token.kind = TokenKind::invalid;
  return token;
}

Token Lexer::number(Token token) {
  const char *begin = text_.data() + at_.offset, *end = text_.data() + text_.size();
  size_t start = at_.offset, length = 0;
  bool hex = peek() == '0' && peek(1) == 'x', real = false;
  auto digits = [&] {
    while (is_digit(peek(length)))
      ++length;
  };
  if (hex) {
    length = 2;
    while (is_digit(peek(length)) || (peek(length) >= 'a' && peek(length) <= 'f') ||
           (peek(length) >= 'A' && peek(length) <= 'F'))
      ++length;
  } else {
    digits();
    if (peek(length) == '.' && is_digit(peek(length + 1))) {
      real = true;
      ++length;
      digits();
    }
    if (peek(length) == 'e' || peek(length) == 'E') {
      size_t sign = peek(length + 1) == '-' || peek(length + 1) == '+' ? 1 : 0;
      if (is_digit(peek(length + 1 + sign))) {
        real = true;
        length += 1 + sign;
        digits();
      }
    }
  }
  at_.offset += length;
  if (is_name_char(peek()))
    return fail(token, start, "a number ends in a letter or a point");
  token.text = text_.substr(start, length);
  end = begin + length;
  if (real) {
    token.kind = TokenKind::floating;
    auto [last, error] = std::from_chars(begin, end, token.real);
    if (error == std::errc() && last == end)
      return token;
    return fail(token, start, "this number does not fit into a 64-bit float");
  }
  token.kind = TokenKind::integer;
  auto [last, error] = std::from_chars(begin + (hex ? 2 : 0), end, token.magnitude, hex ? 16 : 10);
  if (error != std::errc() || last != end || token.magnitude > uint64_t(1) << 63)
    return fail(token, start, "this integer does not fit into 64 bits");
  return token;
}

Token Lexer::quoted(Token token, TokenKind kind) {
  size_t start = at_.offset++;
  size_t begin = at_.offset;
  for (; at_.offset < text_.size() && text_[at_.offset] != '\n'; ++at_.offset) {
    char c = text_[at_.offset];
    if (c == '"') {
      token.kind = kind;
      token.text = text_.substr(begin, at_.offset - begin);
      ++at_.offset;
      return token;
    }
    if (c == '\\' && peek(1) != '\n' && at_.offset + 1 < text_.size())
      ++at_.offset;
  }
  return fail(token, start, "this string is not closed on its line");
}

Token Lexer::raw(Token token) {
  size_t start = at_.offset, begin = start + 3;
  size_t end = text_.find("\"\"\"", begin);
  if (end == std::string_view::npos) {
    token = fail(token, start, "this \"\"\"string is not closed");
    at_.offset = text_.size();
    return token;
  }
  token.kind = TokenKind::raw;
  token.text = text_.substr(begin, end - begin);
  for (size_t i = begin; i < end; ++i)
    if (text_[i] == '\n') {
      ++at_.line;
      at_.line_begin = i + 1;
    }
  at_.offset = end + 3;
  return token;
}

Token Lexer::sigil(Token token, TokenKind kind) {
  size_t start = at_.offset++, begin = at_.offset;
  while (is_name_char(peek()))
    ++at_.offset;
  token.kind = kind;
  token.text = text_.substr(begin, at_.offset - begin);
  if (token.text.empty())
    return fail(token, start,
                kind == TokenKind::value ? "a name is needed after %" : "a name is needed after @");
  if (token.text.size() > kMaxNameBytes)
    return fail(token, start, "this name is longer than 256 bytes");
  return token;
}

Token Lexer::next() {
  skip_space();
  Token token;
  token.first_on_line = !at_.line_has_token;
  at_.line_has_token = true;
  size_t start = at_.offset;
  token.location = here(start);
  if (start >= text_.size())
    return token;
  char c = text_[start];
  if (c == '%')
    return sigil(token, TokenKind::value);
  if (c == '@')
    return sigil(token, TokenKind::global);
  if (c == 'x' && peek(1) == '"') {
    ++at_.offset;
    return quoted(token, TokenKind::hex);
  }
  if (c == '"')
    return peek(1) == '"' && peek(2) == '"' ? raw(token) : quoted(token, TokenKind::string);
  if (is_digit(c))
    return number(token);
  if (is_letter(c)) {
    while (is_name_char(peek()))
      ++at_.offset;
    token.kind = TokenKind::word;
    token.text = text_.substr(start, at_.offset - start);
    if (token.text.size() > kMaxNameBytes)
      return fail(token, start, "this name is longer than 256 bytes");
    return token;
  }
  static constexpr std::string_view kSigns[] = {"->", "==", "!=", "<=", ">=", "{", "}",
                                                "(",  ")",  "[",  "]",  "<",  ">", ",",
                                                ":",  "=",  "+",  "-",  "*",  "|", "?"};
  for (std::string_view sign : kSigns)
    if (text_.substr(start, sign.size()) == sign) {
      at_.offset += sign.size();
      token.kind = TokenKind::sign;
      token.text = sign;
      return token;
    }
  ++at_.offset;
  return fail(token, start, "this character has no meaning here");
}

// --- Strings -------------------------------------------------------------------------------------

static int hex_digit(char c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  if (c >= 'A' && c <= 'F')
    return c - 'A' + 10;
  return -1;
}

bool unescape(const Token &token, std::string &out, Diagnostics &diagnostics) {
  if (token.kind == TokenKind::raw) {
    out = token.text;
    return true;
  }
  out.clear();
  std::string_view text = token.text;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    char c = ++i < text.size() ? text[i] : '\0';
    int high = c == 'x' && i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
    if (c == 'n')
      out += '\n';
    else if (c == 'r')
      out += '\r';
    else if (c == 't')
      out += '\t';
    else if (c == '"' || c == '\\')
      out += c;
    else if (low >= 0) {
      out += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      SourceLocation location = token.location;
      location.column += static_cast<uint32_t>(i);
      diagnostics.error(location, "unknown escape; known are \\n \\r \\t \\\" \\\\ and \\xHH");
      return false;
    }
  }
  return true;
}

static bool fits_raw(std::string_view text) {
  if (text.find('\n') == std::string_view::npos || text.find("\"\"\"") != std::string_view::npos ||
      text.front() == '"' || text.back() == '"')
    return false;
  for (char c : text)
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
      return false;
  return true;
}

void append_quoted(std::string &out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  if (fits_raw(text)) {
    ((out += "\"\"\"") += text) += "\"\"\"";
    return;
  }
  out += '"';
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (byte < 0x20 || byte == 0x7f)
      ((out += "\\x") += kHex[byte >> 4]) += kHex[byte & 15];
    else
      out += c;
  }
  out += '"';
}

} // namespace cugrt::ir
