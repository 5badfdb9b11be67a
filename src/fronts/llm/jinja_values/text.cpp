// Marked text; see text.h.
#include "fronts/llm/jinja_values/text.h"

#include "base/json.h"
#include "fronts/llm/tokenizer/unicode.h"

namespace cugrt::llm::jinja {

Text text_of(std::string_view utf8, bool trusted) {
  Text text;
  text.reserve(utf8.size());
  for (size_t at = 0; at < utf8.size();) {
    const Decoded next = decode_utf8(utf8, at);
    text += trusted ? next.code : next.code | kUntrusted;
    at += next.bytes;
  }
  return text;
}

std::string utf8_of(TextView text) {
  std::string utf8;
  utf8.reserve(text.size());
  for (char32_t c : text)
    append_utf8(utf8, code_of(c));
  return utf8;
}

bool is_space(char32_t c) {
  const char32_t code = code_of(c);
  return class_of(code) == CharClass::space || (code >= 0x1c && code <= 0x1f);
}

bool is_name(char32_t c) {
  const char32_t code = code_of(c);
  return (code >= '0' && code <= '9') || (code >= 'a' && code <= 'z') ||
         (code >= 'A' && code <= 'Z') || code == '_' || (code >= 0x80 && !is_space(code));
}

TextView strip(TextView text, Side side, const Text *chars) {
  const auto goes = [&](char32_t c) { return chars ? chars->find(c) != chars->npos : is_space(c); };
  while (side != Side::right && !text.empty() && goes(text.front()))
    text.remove_prefix(1);
  while (side != Side::left && !text.empty() && goes(text.back()))
    text.remove_suffix(1);
  return text;
}

} // namespace cugrt::llm::jinja
