// Text that is a whole number and nothing else; addresses and masks as text.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

namespace cugrt {

/// The number that `text` is all of, in decimal digits, after a minus sign where Number has one;
/// none where it does not fit.
template <std::integral Number> std::optional<Number> whole_number(std::string_view text) {
  Number value = 0;
  const char *const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end ? std::optional(value) : std::nullopt;
}

/// "0x7f00", of at least so many digits.
inline std::string hex_digits(uint64_t value, int digits) {
  char text[20];
  std::snprintf(text, sizeof text, "0x%0*llx", digits, static_cast<unsigned long long>(value));
  return text;
}
inline std::string hex_text(uint64_t value) { return hex_digits(value, 1); }

} // namespace cugrt
