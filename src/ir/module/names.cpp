// Names and reserved words of the text form.
#include "ir/module/names.h"

#include "base/type/dtype.h"

#include <algorithm>

namespace cugrt::ir {

static constexpr std::string_view kReserved[] = {
    "floordiv", "ceildiv", "mod",     "min",   "max",   "select", "true",  "false",
    "none",     "inf",     "nan",     "int",   "float", "string", "dtype", "object",
    "tensor",   "shape",   "storage", "tuple", "align", "in",     "out",   "inout",
    "if",       "else",    "while",   "using", "do"};

bool is_sigil_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::all_of(name.begin(), name.end(), is_name_char);
}

bool is_bare_name(std::string_view name) { return is_sigil_name(name) && is_letter(name[0]); }

bool is_reserved(std::string_view word) {
  return std::find(std::begin(kReserved), std::end(kReserved), word) != std::end(kReserved) ||
         dtype_from_name(word);
}

std::string to_sigil_name(std::string_view hint) {
  std::string name(hint.substr(0, kMaxNameBytes - 16)); // room for a suffix
  for (char &c : name)
    if (!is_name_char(c))
      c = '_';
  return name;
}

std::string to_symbol_name(std::string_view hint) {
  std::string name = to_sigil_name(hint);
  if (name.empty() || !is_letter(name[0]) || is_reserved(name))
    name = "s_" + name;
  return name;
}

std::string unique_name(std::unordered_map<std::string, uint32_t> &taken, const std::string &base,
                        std::string_view separator) {
  const auto [known, free] = taken.try_emplace(base, 1);
  if (free)
    return base;
  uint32_t &next = known->second;
  for (;;) {
    std::string name = base + std::string(separator) + std::to_string(next++);
    if (taken.try_emplace(name, 1).second)
      return name;
  }
}

} // namespace cugrt::ir
