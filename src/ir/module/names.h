// Form of names in text, reserved words, and lists of names in messages.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace cugrt::ir {

inline constexpr size_t kMaxNameBytes = 256;

inline bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
/// Characters of names after @ and % (where a digit may come first), and of bare words after the
/// first.
inline bool is_name_char(char c) { return is_letter(c) || is_digit(c) || c == '.'; }

bool is_sigil_name(std::string_view name); // after @ or %
bool is_bare_name(std::string_view name);  // symbols, attributes, parameters of kernels
/// Words that mean something in expressions or operands, so that no symbol can have them.
bool is_reserved(std::string_view word);

/// The nearest legal value name: other characters become '_'; empty stays empty.
std::string to_sigil_name(std::string_view hint);
/// The nearest legal symbol name; never empty or reserved.
std::string to_symbol_name(std::string_view hint);

/// Joins the texts that `each` gives for the elements.
template <class List, class Each>
std::string joined(const List &list, Each each, std::string_view between = ", ") {
  std::string text;
  for (const auto &element : list)
    (text += text.empty() ? "" : between) += std::invoke(each, element);
  return text;
}

/// `base`, or `base` with the least number not tried before that is free, and takes it. `taken`
/// keeps for every name the next number to try for it (1 at first), so that many equal names do not
/// cost quadratic time.
std::string unique_name(std::unordered_map<std::string, uint32_t> &taken, const std::string &base,
                        std::string_view separator);

} // namespace cugrt::ir
