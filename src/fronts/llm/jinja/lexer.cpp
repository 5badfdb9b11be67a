// Tokens of templates; see lexer.h.
#include "fronts/llm/jinja/lexer.h"

#include "fronts/llm/tokenizer/unicode.h"

#include <array>

namespace cugrt::llm::jinja {

namespace {

/// Ends of lines become "\n", and one at the template's end goes.
Text source_of(std::string_view utf8) {
  Text text = text_of(utf8), lines;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n')
      continue;
    lines += text[i] == '\r' ? U'\n' : text[i];
  }
  if (!lines.empty() && lines.back() == '\n')
    lines.pop_back();
  return lines;
}

class Lexer {
public:
  explicit Lexer(std::string_view source) : source_(source_of(source)) {}
  Result<std::vector<Token>> run();

private:
  using Kind = Token::Kind;

  Status error(std::string message) const {
    return Status::error(Code::parse_error, std::move(message)).at(line_name(line_));
  }
  bool is_at(TextView text) const { return TextView(source_).substr(at_).starts_with(text); }
  void advance(size_t count);
  void skip_spaces();
  void add(Kind kind, Text text) { tokens_.push_back({kind, line_, std::move(text)}); }
  void add_data(size_t end, char32_t sign, bool is_print);
  char32_t open_tag(size_t begin, bool is_print);
  bool close(TextView mark, bool trims);
  bool is_raw(size_t at, TextView word) const;
  Status raw();
  Status comment();
  Status inside(TextView mark, Kind end);
  Status text_token();
  Result<char32_t> hexadecimal(size_t digits);
  Status escape(Text &text);
  Status number_or_name();

  Text source_;
  size_t at_ = 0;
  uint32_t line_ = 1;
  bool line_begins_ = true; // a line's beginning stands right before what comes next
  std::vector<Token> tokens_;
};

void Lexer::advance(size_t count) {
  for (; count > 0; --count)
    line_ += source_[at_++] == '\n';
}

void Lexer::skip_spaces() {
  while (at_ < source_.size() && is_space(source_[at_]))
    advance(1);
}

/// The text up to `end`, where a tag of this sign begins, less the spaces that belong to the tag.
void Lexer::add_data(size_t end, char32_t sign, bool is_print) {
  TextView data = TextView(source_).substr(at_, end - at_);
  if (sign == '-') {
    data = strip(data, Side::right);
  } else if (sign != '+' && !is_print) {
    const size_t line_end = data.rfind(U'\n');
    const size_t begin = line_end == data.npos ? 0 : line_end + 1;
    if ((begin > 0 || line_begins_) && strip(data.substr(begin), Side::left).empty())
      data = data.substr(0, begin);
  }
  if (!data.empty())
    add(Kind::data, Text(data));
  advance(end - at_);
}

/// Goes behind a tag's first characters; gives its sign.
char32_t Lexer::open_tag(size_t begin, bool is_print) {
  const char32_t next = begin + 2 < source_.size() ? source_[begin + 2] : U' ';
  const char32_t sign = next == '-' || next == '+' ? next : U' ';
  add_data(begin, sign, is_print);
  advance(sign == ' ' ? 2 : 3);
  return sign;
}

/// Whether a tag ends here with `mark`; then what goes with its end is passed over.
bool Lexer::close(TextView mark, bool trims) {
  const size_t before = at_;
  const bool has_sign = is_at(U"-") || (trims && is_at(U"+"));
  if (TextView(source_).substr(at_ + has_sign).starts_with(mark)) {
    const char32_t sign = has_sign ? source_[at_] : U' ';
    advance(mark.size() + has_sign);
    if (sign == '-')
      skip_spaces();
    else if (sign == ' ' && trims && is_at(U"\n"))
      advance(1);
  }
  if (at_ != before)
    line_begins_ = source_[at_ - 1] == '\n';
  return at_ != before;
}

/// Whether the tag that begins at `at` has this word alone.
bool Lexer::is_raw(size_t at, TextView word) const {
  TextView rest = TextView(source_).substr(at + 2);
  if (rest.starts_with(U'-') || rest.starts_with(U'+'))
    rest.remove_prefix(1);
  rest = strip(rest, Side::left);
  if (!rest.starts_with(word))
    return false;
  rest = strip(rest.substr(word.size()), Side::left);
  return rest.starts_with(U"%}") || rest.starts_with(U"-%}") ||
         (word.size() > 3 && rest.starts_with(U"+%}"));
}

/// {% raw %}: up to {% endraw %} all is text.
Status Lexer::raw() {
  skip_spaces();
  advance(3);
  skip_spaces();
  const bool strips = is_at(U"-");
  advance(strips ? 3 : 2);
  if (strips)
    skip_spaces();
  line_begins_ = source_[at_ - 1] == '\n';
  size_t end = source_.find(U"{%", at_);
  while (end != source_.npos && !is_raw(end, U"endraw"))
    end = source_.find(U"{%", end + 2);
  if (end == source_.npos)
    return error("the tag 'raw' has no 'endraw'");
  open_tag(end, false);
  skip_spaces();
  advance(6);
  skip_spaces();
  close(U"%}", true);
  return {};
}

Status Lexer::comment() {
  while (at_ < source_.size()) {
    if (close(U"#}", true))
      return {};
    advance(1);
  }
  return error("a comment has no end '#}'");
}

Result<char32_t> Lexer::hexadecimal(size_t digits) {
  char32_t code = 0;
  for (size_t i = 0; i < digits; ++i) {
    const char32_t c = at_ < source_.size() ? source_[at_] : U' ';
    const bool is_digit = c >= '0' && c <= '9', is_letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'f';
    if (!is_digit && !is_letter)
      return error("an escape in a text lacks a hexadecimal digit");
    code = code << 4 | (is_digit ? c - '0' : (c | 0x20) - 'a' + 10);
    advance(1);
  }
  if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
    return error("an escape in a text stands for no character");
  return code;
}

/// A backslash and what follows, as in Python; an unknown escape stays as it is.
Status Lexer::escape(Text &text) {
  constexpr TextView kNames = U"\\'\"abfnrtv", kMeanings = U"\\'\"\a\b\f\n\r\t\v";
  advance(1);
  if (at_ == source_.size())
    return error("a text has no end");
  const char32_t c = source_[at_];
  if (const size_t i = kNames.find(c); i != kNames.npos) {
    text += kMeanings[i];
    advance(1);
  } else if (c == '\n') {
    advance(1);
  } else if (c >= '0' && c <= '7') {
    char32_t code = 0;
    for (int i = 0; i < 3 && at_ < source_.size() && source_[at_] >= '0' && source_[at_] <= '7';
         ++i) {
      code = code << 3 | (source_[at_] - '0');
      advance(1);
    }
    text += code;
  } else if (c == 'x' || c == 'u' || c == 'U') {
    advance(1);
    CUGRT_ASSIGN(const char32_t code, hexadecimal(c == 'x' ? 2 : c == 'u' ? 4 : 8));
    text += code;
  } else if (c == 'N') {
    return error("the escape \\N in a text is not supported");
  } else {
    text += U'\\';
  }
  return {};
}

Status Lexer::text_token() {
  const uint32_t line = line_;
  const char32_t quote = source_[at_];
  Text text;
  for (advance(1); at_ < source_.size() && source_[at_] != quote;) {
    if (source_[at_] == '\\') {
      CUGRT_TRY(escape(text));
    } else {
      text += source_[at_];
      advance(1);
    }
  }
  if (at_ == source_.size())
    return Status::error(Code::parse_error, "a text has no end").at(line_name(line));
  advance(1);
  tokens_.push_back({Kind::text, line, std::move(text)});
  return {};
}

Status Lexer::number_or_name() {
  const auto at = [&](size_t i) { return i < source_.size() ? source_[i] : U' '; };
  const auto is_digit = [&](size_t i) { return at(i) >= '0' && at(i) <= '9'; };
  size_t end = at_;
  const auto digits = [&] {
    while (is_digit(end) || (at(end) == '_' && is_digit(end + 1)))
      ++end;
  };
  Kind kind = Kind::name;
  if (is_digit(at_)) {
    kind = Kind::integer;
    if (at(at_) == '0' && (at(at_ + 1) | 0x20) >= 'a' && is_name(at(at_ + 2)))
      while (is_name(at(end)))
        ++end;
    else
      digits();
    if (at(end) == '.' && is_digit(end + 1) && (at_ == 0 || at(at_ - 1) != '.')) {
      kind = Kind::real;
      ++end;
      digits();
    }
    const bool has_sign = at(end + 1) == '+' || at(end + 1) == '-';
    if ((at(end) | 0x20) == 'e' && is_digit(end + 1 + has_sign)) {
      kind = Kind::real;
      end += 1 + has_sign;
      digits();
    }
  } else {
    while (is_name(at(end)))
      ++end;
  }
  Text text = source_.substr(at_, end - at_);
  if (kind != Kind::name)
    std::erase(text, U'_');
  add(kind, std::move(text));
  advance(end - at_);
  return {};
}

/// The tokens of a tag, up to its end.
Status Lexer::inside(TextView mark, Kind end) {
  static constexpr std::array<TextView, 27> kSigns = {
      U"**", U"//", U"==", U"!=", U">=", U"<=", U"+", U"-", U"/", U"*", U"%", U"~", U"[", U"]",
      U"(",  U")",  U"{",  U"}",  U">",  U"<",  U"=", U".", U":", U"|", U",", U";", U"!"};
  const uint32_t line = line_;
  Text open; // the brackets that are to be closed
  while (skip_spaces(), at_ < source_.size()) {
    const uint32_t end_line = line_;
    if (open.empty() && close(mark, end == Kind::tag_end)) {
      tokens_.push_back({end, end_line, {}});
      return {};
    }
    const char32_t c = source_[at_];
    if (is_name(c)) {
      CUGRT_TRY(number_or_name());
      continue;
    }
    if (c == '\'' || c == '"') {
      CUGRT_TRY(text_token());
      continue;
    }
    TextView sign;
    for (TextView one : kSigns)
      if (sign.empty() && is_at(one))
        sign = one;
    if (sign.empty() || sign == U"!")
      return error("the character '" + utf8_of(Text(1, c)) + "' cannot stand in a tag");
    if (sign == U"(" || sign == U"[" || sign == U"{")
      open += sign == U"(" ? U')' : sign == U"[" ? U']' : U'}';
    if (sign == U")" || sign == U"]" || sign == U"}") {
      if (open.empty() || open.back() != sign.front())
        return error("an unexpected '" + utf8_of(sign) + "'");
      open.pop_back();
    }
    add(Kind::sign, Text(sign));
    advance(sign.size());
  }
  return Status::error(Code::parse_error, "a tag has no end '" + utf8_of(mark) + "'")
      .at(line_name(line));
}

Result<std::vector<Token>> Lexer::run() {
  while (true) {
    size_t begin = source_.find(U'{', at_);
    const auto opens = [&](char32_t c) { return c == '{' || c == '%' || c == '#'; };
    while (begin != source_.npos && (begin + 1 == source_.size() || !opens(source_[begin + 1])))
      begin = source_.find(U'{', begin + 1);
    if (begin == source_.npos)
      break;
    const char32_t kind = source_[begin + 1];
    const bool is_raw_tag = kind == '%' && is_raw(begin, U"raw");
    open_tag(begin, kind == '{');
    if (is_raw_tag) {
      CUGRT_TRY(raw());
    } else if (kind == '#') {
      CUGRT_TRY(comment());
    } else {
      add(kind == '{' ? Kind::print_begin : Kind::tag_begin, {});
      CUGRT_TRY(inside(kind == '{' ? U"}}" : U"%}", kind == '{' ? Kind::print_end : Kind::tag_end));
    }
  }
  if (at_ < source_.size())
    add(Kind::data, source_.substr(at_));
  add(Kind::end, {});
  return std::move(tokens_);
}

} // namespace

std::string line_name(uint32_t line) { return "chat template line " + std::to_string(line); }

Result<std::vector<Token>> tokens_of(std::string_view source) {
  if (source.size() > kMaxTemplateBytes)
    return Status::error(Code::out_of_range,
                         "the chat template has " + std::to_string(source.size()) +
                             " bytes; at most " + std::to_string(kMaxTemplateBytes) + " are read");
  if (const auto at = find_invalid_utf8(source))
    return Status::error(Code::parse_error,
                         "the chat template is not UTF-8 from byte " + std::to_string(*at) + " on");
  return Lexer(source).run();
}

} // namespace cugrt::llm::jinja
