// Text that is a whole number and nothing else.
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
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

} // namespace cugrt
