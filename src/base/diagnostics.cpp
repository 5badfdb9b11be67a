// Rendering of located diagnostics.
#include "base/diagnostics.h"

#include <algorithm>
#include <charconv>
#include <optional>

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

static std::optional<SourceLocation> parse_location(std::string_view text) {
  SourceLocation location;
  const char *const end = text.data() + text.size();
  auto [colon, line_error] = std::from_chars(text.data(), end, location.line);
  if (line_error != std::errc() || colon == end || *colon != ':' || !location.known())
    return std::nullopt;
  auto [rest, column_error] = std::from_chars(colon + 1, end, location.column);
  return column_error == std::errc() && rest == end && location.column != 0
             ? std::optional(location)
             : std::nullopt;
}

Status in_source(Status status, std::string_view file, std::string_view source) {
  if (status.ok())
    return status;
  const std::optional<SourceLocation> place = parse_location(status.location());
  if (!place)
    return std::move(status).in(file);
  std::string message = "error: " + status.message();
  if (const std::string_view line = line_at(source, place->line); !line.empty()) {
    message += "\n";
    append_excerpt(message, line, place->column);
    message.pop_back(); // a message ends without a line break
  }
  Status located = Status::error(status.code(), std::move(message))
                       .at(std::string(file) + ":" + status.location());
  return std::move(located).with_cuda_error(status.cuda_error());
}

Status Diagnostics::to_status(Code code, std::string_view file, std::string_view source) const {
  return empty() ? Status() : Status::error(code, render(file, source));
}

} // namespace cugrt
