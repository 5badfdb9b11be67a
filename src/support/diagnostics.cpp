// Rendering of located diagnostics.
#include "support/diagnostics.h"

namespace cugrt {

void Diagnostics::error(SourceLocation location, std::string message) {
  ++count_;
  if (list_.size() < kLimit)
    list_.push_back({location, std::move(message)});
}

// Source lines longer than this are cut around the column: a hostile file may be one long line.
static constexpr size_t kShownColumns = 160;

static std::string_view line_at(std::string_view source, uint32_t line) {
  size_t begin = 0;
  for (uint32_t i = 1; i < line; ++i) {
    begin = source.find('\n', begin);
    if (begin == std::string_view::npos)
      return {};
    ++begin;
  }
  return source.substr(begin, source.find('\n', begin) - begin);
}

static void append_excerpt(std::string &text, std::string_view line, uint32_t column) {
  size_t at = std::min<size_t>(column - 1, line.size());
  size_t begin = at > kShownColumns / 2 ? at - kShownColumns / 2 : 0;
  std::string shown(line.substr(begin, kShownColumns));
  for (char &c : shown)
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f)
      c = c == '\t' ? ' ' : '?';
  text += "  " + shown + "\n  " + std::string(at - begin, ' ') + "^\n";
}

std::string Diagnostics::render(std::string_view file, std::string_view source) const {
  std::string text;
  for (const Diagnostic &d : list_) {
    text += std::string(file) + ":";
    if (d.location.known())
      text += std::to_string(d.location.line) + ":" + std::to_string(d.location.column) + ":";
    text += " error: " + d.message + "\n";
    if (d.location.known())
      append_excerpt(text, line_at(source, d.location.line), d.location.column);
  }
  if (count_ > list_.size())
    text += std::to_string(count_ - list_.size()) + " more errors not shown\n";
  return text;
}

Status Diagnostics::to_status(Code code, std::string_view file, std::string_view source) const {
  return empty() ? Status() : Status::error(code, render(file, source));
}

} // namespace cugrt
