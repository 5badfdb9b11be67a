// Lookup in the generated table of kernel sources.
#include "kernels/builtin.h"

#include <algorithm>

namespace cugrt::kernels {

std::span<const BuiltinSource> builtin_sources() {
  return {detail::kSources, detail::kSourceCount};
}

std::optional<std::string_view> builtin_source(std::string_view name) {
  for (const BuiltinSource &source : builtin_sources())
    if (source.name == name)
      return source.text;
  return std::nullopt;
}

namespace {

/// As a string of C.
std::string quoted(std::string_view file) {
  std::string out = "\"";
  for (char c : file) {
    if (c == '"' || c == '\\')
      out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + '"';
}

} // namespace

std::string with_builtin_includes(std::string_view text, std::string_view file) {
  constexpr std::string_view kBegin = "#include \"builtin:", kEnd = "\"";
  std::string out;
  for (size_t line = 1; !text.empty(); ++line) {
    const std::string_view whole = text.substr(0, std::min(text.find('\n'), text.size() - 1) + 1);
    text.remove_prefix(whole.size());
    std::string_view name = whole;
    std::optional<std::string_view> source;
    if (name.starts_with(kBegin)) {
      name.remove_prefix(kBegin.size());
      source = builtin_source(name.substr(0, name.find(kEnd)));
    }
    if (!source) {
      out += whole;
      continue;
    }
    name = name.substr(0, name.find(kEnd));
    out += "#line 1 \"" + std::string(name) + "\"\n" + std::string(*source);
    out += "#line " + std::to_string(line + 1) + " " + quoted(file) + "\n";
  }
  return out;
}

} // namespace cugrt::kernels
