// Reading of lists; see tool.h.

#include "tool.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace tool {

std::vector<std::string> split_at_commas(const std::string &text) {
  std::vector<std::string> pieces;
  for (size_t at = 0; at <= text.size();) {
    size_t comma = std::min(text.find(',', at), text.size());
    pieces.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return pieces;
}

int64_t parse_symbol_value(const std::string &text, const char *takes, const std::string &setting) {
  char *end = nullptr;
  errno = 0;
  long long number = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end || errno)
    throw UserError(std::string(takes) + ", not '" + setting + "'");
  return number;
}

} // namespace tool
