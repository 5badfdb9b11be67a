// JSON by RFC 8259; see json.h. Nothing recurses: skip() counts what it has opened.
#include "base/json.h"

#include "base/whole_number.h"

#include <algorithm>

namespace cugrt {

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_utf8(std::string &to, char32_t code) {
  if (code < 0x80) {
    to += char(code);
    return;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr unsigned kFirst[] = {0, 0xc0, 0xe0, 0xf0};
  to += char(kFirst[more] | code >> (6 * more));
  for (int i = more - 1; i >= 0; --i)
    to += char(0x80 | (code >> (6 * i) & 0x3f));
}

// The Unicode Standard, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF.
Utf8Sequence first_utf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80)
    return {1, true, false};
  if (first < 0xc2 || first > 0xf4)
    return {1, false, false};
  const size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size())
      return {i, false, true};
    const unsigned low = i > 1 ? 0x80 : first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned high = i > 1 ? 0xbf : first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (byte(i) < low || byte(i) > high)
      return {i, false, false};
  }
  return {length, true, false};
}

// --- Reading -------------------------------------------------------------------------------------

Status JsonReader::error(std::string_view what) const {
  return Status::error(Code::parse_error,
                       "at byte " + std::to_string(token_) + ": " + std::string(what));
}

char JsonReader::peek() {
  while (at_ < text_.size() &&
         std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
    ++at_;
  token_ = at_;
  return at_ < text_.size() ? text_[at_] : '\0';
}

Status JsonReader::wrong(std::string_view wanted) {
  return error(at_ == text_.size() ? "the text ends where " + std::string(wanted) + " must stand"
                                   : std::string(wanted) + " must stand here");
}

Result<JsonReader::Kind> JsonReader::kind() {
  switch (const char c = peek()) {
  case '{':
    return Kind::object;
  case '[':
    return Kind::list;
  case '"':
    return Kind::text;
  case 't':
  case 'f':
    return Kind::boolean;
  case 'n':
    return Kind::null;
  default:
    if (c == '-' || is_digit(c))
      return Kind::number;
    return wrong("a value");
  }
}

Status JsonReader::begin(char begin, char end) {
  if (peek() != begin)
    return wrong(begin == '{' ? "an object" : "a list");
  if (open_.size() == max_depth_)
    return error("it is nested too deeply");
  ++at_;
  open_.push_back({end});
  return {};
}

Status JsonReader::begin_object() { return begin('{', '}'); }
Status JsonReader::begin_list() { return begin('[', ']'); }

/// Skips the comma, or the end of the open value.
Result<bool> JsonReader::next() {
  Open &open = open_.back();
  const char c = peek();
  if (c == open.end) {
    ++at_;
    open_.pop_back();
    return false;
  }
  if (!open.empty) {
    if (c != ',')
      return wrong(open.end == '}' ? "',' or '}'" : "',' or ']'");
    ++at_;
  }
  open.empty = false;
  return true;
}

Result<bool> JsonReader::next_element() { return next(); }

Result<bool> JsonReader::next_member(std::string &name) {
  CUGRT_ASSIGN(const bool more, next());
  if (!more)
    return false;
  if (peek() != '"')
    return wrong("a name");
  CUGRT_TRY(text(name));
  if (!open_.back().names.insert(name).second)
    return error("the name '" + name + "' stands twice");
  if (peek() != ':')
    return wrong("':'");
  ++at_;
  return true;
}

Status JsonReader::text(std::string &value) {
  if (peek() != '"')
    return wrong("text");
  const size_t begin = token_;
  value.clear();
  for (++at_; at_ < text_.size() && text_[at_] != '"';) {
    token_ = at_;
    if (text_[at_] == '\\') {
      CUGRT_TRY(escape(value));
      continue;
    }
    const Utf8Sequence next = first_utf8(text_.substr(at_));
    if (!next.is_whole || static_cast<uint8_t>(text_[at_]) < 0x20)
      return error(next.is_whole ? "a control character must be escaped" : "it is no UTF-8");
    value.append(text_, at_, next.bytes);
    at_ += next.bytes;
  }
  token_ = begin;
  if (at_ == text_.size())
    return error("the text has no end");
  ++at_;
  return {};
}

Result<uint32_t> JsonReader::four_digits() {
  uint32_t code = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    const int digit = is_digit(c)            ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0)
      return error("\\u wants four hexadecimal digits");
    code = code << 4 | uint32_t(digit);
  }
  return code;
}

Status JsonReader::escape(std::string &value) {
  constexpr std::string_view kNames = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
  const char c = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
  at_ += 2;
  if (const size_t i = c ? kNames.find(c) : kNames.npos; i != kNames.npos) {
    value += kMeanings[i];
    return {};
  }
  if (c != 'u')
    return error("no such escape");
  CUGRT_ASSIGN(uint32_t code, four_digits());
  if (code >= 0xd800 && code < 0xe000) { // two halves of a character beyond U+FFFF
    uint32_t low = 0;
    if (code < 0xdc00 && text_.substr(at_, 2) == "\\u") {
      at_ += 2;
      CUGRT_ASSIGN(low, four_digits());
    }
    if (low < 0xdc00 || low >= 0xe000)
      return error("half a surrogate pair");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  append_utf8(value, code);
  return {};
}

Status JsonReader::number(std::string_view &digits) {
  peek();
  size_t end = at_;
  auto take = [&](std::string_view characters) {
    return end < text_.size() && characters.find(text_[end]) != characters.npos && ++end;
  };
  auto take_digits = [&] {
    const size_t begin = end;
    while (end < text_.size() && is_digit(text_[end]))
      ++end;
    return end != begin;
  };
  take("-");
  if (!take("0") && !take_digits())
    return wrong("a number");
  if (take(".") && !take_digits())
    return error("a digit must follow the point");
  if (take("eE") && (take("+-"), !take_digits()))
    return error("an exponent needs a digit");
  digits = text_.substr(at_, end - at_);
  at_ = end;
  return {};
}

Status JsonReader::size(uint64_t &value) {
  std::string_view digits;
  CUGRT_TRY(number(digits));
  const auto whole = whole_number<uint64_t>(digits);
  if (!whole)
    return error(std::string(digits.substr(0, 40)) + " is not a size");
  value = *whole;
  return {};
}

Status JsonReader::boolean(bool &value) {
  value = peek() == 't';
  return word(value ? "true" : "false");
}

Status JsonReader::word(std::string_view word) {
  if (text_.substr(at_, word.size()) != word)
    return wrong("a value");
  at_ += word.size();
  return {};
}

Status JsonReader::skip() {
  const size_t outside = open_.size();
  std::string text_value;
  std::string_view digits;
  do {
    if (open_.size() > outside) {
      const bool is_object = open_.back().end == '}';
      CUGRT_ASSIGN(const bool more, is_object ? next_member(text_value) : next());
      if (!more)
        continue;
    }
    CUGRT_ASSIGN(const Kind kind, this->kind());
    Status status = kind == Kind::object    ? begin_object()
                    : kind == Kind::list    ? begin_list()
                    : kind == Kind::text    ? text(text_value)
                    : kind == Kind::number  ? number(digits)
                    : kind == Kind::boolean ? word(text_[at_] == 't' ? "true" : "false")
                                            : word("null");
    CUGRT_TRY(std::move(status));
  } while (open_.size() > outside);
  return {};
}

Status JsonReader::finish() {
  peek();
  return at_ == text_.size() ? Status() : error("something stands behind its end");
}

// --- Writing -------------------------------------------------------------------------------------

void JsonWriter::separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (filled_.empty())
    return;
  out_ += filled_.back() ? ",\n" : "\n";
  filled_.back() = true;
  out_.append(2 * filled_.size(), ' ');
}

JsonWriter &JsonWriter::begin(char c) {
  separate();
  out_ += c;
  filled_.push_back(false);
  return *this;
}

JsonWriter &JsonWriter::end(char c) {
  const bool filled = filled_.back();
  filled_.pop_back();
  if (filled)
    out_ += "\n" + std::string(2 * filled_.size(), ' ');
  out_ += c;
  return *this;
}

JsonWriter &JsonWriter::plain(std::string_view value) {
  separate();
  out_ += value;
  return *this;
}

JsonWriter &JsonWriter::key(std::string_view name) {
  separate();
  quote(name);
  out_ += ": ";
  after_key_ = true;
  return *this;
}

JsonWriter &JsonWriter::text(std::string_view value) {
  separate();
  quote(value);
  return *this;
}

void JsonWriter::quote(std::string_view value) {
  constexpr std::string_view kDigits = "0123456789abcdef", kEscaped = "\"\\\b\f\n\r\t",
                             kNames = "\"\\bfnrt";
  out_ += '"';
  for (size_t i = 0; i < value.size();) {
    const Utf8Sequence next = first_utf8(value.substr(i));
    const auto c = static_cast<uint8_t>(value[i]);
    if (const size_t name = kEscaped.find(value[i]); name != kEscaped.npos)
      (out_ += '\\') += kNames[name];
    else if (c < 0x20)
      (out_ += c < 0x10 ? "\\u000" : "\\u001") += kDigits[c & 15];
    else if (!next.is_whole)
      out_ += "\xef\xbf\xbd"; // U+FFFD
    else
      out_.append(value, i, next.bytes);
    i += next.is_whole ? next.bytes : 1;
  }
  out_ += '"';
}

} // namespace cugrt
