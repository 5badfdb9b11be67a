// The scan for #include and its like.
//
// A directive is looked for at every '#', wherever that stands, so comments and literals need no
// lexing. Only a directive without a literal name, as '#include' followed by a macro, is taken for
// one only where a directive can stand: nothing but white space before it on its line, or the end
// of a comment. "// see #include above" is none.
#include "jit/include_scan.h"

#include <algorithm>
#include <cctype>

namespace cugrt::jit {

namespace {

constexpr std::string_view kBlank = " \t\v\f\r";

/// The text as the compiler sees it after joining lines that end with a backslash.
std::string without_splices(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    std::string_view rest = source.substr(i, 3);
    if (rest.starts_with("\\\n"))
      i += 1;
    else if (rest == "\\\r\n")
      i += 2;
    else
      text += source[i];
  }
  return text;
}

class Scanner {
public:
  explicit Scanner(std::string_view text) : text_(text) {}

  IncludeScan scan() {
    for (std::string_view mark : {"#", "%:", "\?\?="}) // the latter are other spellings of '#'
      for (size_t at = 0; (at = text_.find(mark, at)) != text_.npos; at += mark.size())
        read_directive(at, at + mark.size());
    for (std::string_view word : {"__has_include", "__has_embed"})
      for (size_t at = 0; (at = text_.find(word, at)) != text_.npos; at += word.size())
        read_question(at);
    return std::move(result_);
  }

private:
  void read_directive(size_t mark, size_t at) {
    at = skip_blank(at);
    std::string_view word = word_at(at);
    if (word != "include" && word != "include_next" && word != "import" && word != "embed")
      return;
    if (!read_name(skip_blank(at + word.size())) && may_begin_directive(mark))
      result_.computed = true;
  }

  /// __has_include (...); what asks whether there is such a question names nothing.
  void read_question(size_t at) {
    if (at && is_word(text_[at - 1]))
      return;
    size_t open = skip_blank(at + word_at(at).size());
    if (open < text_.size() && text_[open] == '(') {
      if (!read_name(skip_blank(open + 1)))
        result_.computed = true;
    } else if (!asks_for_definition(at)) {
      result_.computed = true;
    }
  }

  /// "name" or <name>, on one line.
  bool read_name(size_t at) {
    if (at >= text_.size() || (text_[at] != '"' && text_[at] != '<'))
      return false;
    size_t end = text_.find_first_of(text_[at] == '"' ? "\"\n" : ">\n", at + 1);
    if (end == text_.npos || text_[end] == '\n')
      return false;
    result_.names.emplace_back(text_.substr(at + 1, end - at - 1));
    return true;
  }

  bool may_begin_directive(size_t mark) const {
    size_t begin = mark ? text_.rfind('\n', mark - 1) : text_.npos;
    begin = begin == text_.npos ? 0 : begin + 1;
    std::string_view before = text_.substr(begin, mark - begin);
    return before.find_first_not_of(kBlank) == before.npos || before.find("*/") != before.npos;
  }

  bool asks_for_definition(size_t at) const {
    size_t last = at ? text_.find_last_not_of(" \t(", at - 1) : text_.npos;
    if (last == text_.npos)
      return false;
    size_t first = last + 1;
    while (first && is_word(text_[first - 1]))
      --first;
    std::string_view word = text_.substr(first, last + 1 - first);
    constexpr std::string_view kAsking[] = {"defined", "ifdef",    "ifndef",
                                            "elifdef", "elifndef", "undef"};
    return std::find(std::begin(kAsking), std::end(kAsking), word) != std::end(kAsking);
  }

  size_t skip_blank(size_t at) const {
    for (;;) {
      at = std::min(text_.find_first_not_of(kBlank, at), text_.size());
      if (text_.substr(at, 2) != "/*")
        return at;
      size_t end = text_.find("*/", at + 2);
      at = end == text_.npos ? text_.size() : end + 2;
    }
  }

  static bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

  std::string_view word_at(size_t at) const {
    size_t end = at;
    while (end < text_.size() && is_word(text_[end]))
      ++end;
    return text_.substr(at, end - at);
  }

  std::string_view text_;
  IncludeScan result_;
};

} // namespace

IncludeScan scan_includes(std::string_view source) {
  if (source.find('\\') == source.npos)
    return Scanner(source).scan();
  std::string text = without_splices(source);
  return Scanner(text).scan();
}

} // namespace cugrt::jit
