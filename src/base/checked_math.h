// Overflow-checked 64-bit arithmetic. Every size that follows input goes through here.
#pragma once

#include <cstdint>
#include <optional>

namespace cugrt {

inline std::optional<int64_t> checked_add(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_add_overflow(a, b, &r) ? std::nullopt : std::optional(r);
}

inline std::optional<int64_t> checked_sub(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_sub_overflow(a, b, &r) ? std::nullopt : std::optional(r);
}

inline std::optional<int64_t> checked_mul(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_mul_overflow(a, b, &r) ? std::nullopt : std::optional(r);
}

/// Rounds toward minus infinity, as the IR's floordiv does. Empty for b == 0 and INT64_MIN / -1.
inline std::optional<int64_t> checked_floordiv(int64_t a, int64_t b) {
  if (b == 0 || (a == INT64_MIN && b == -1))
    return std::nullopt;
  int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}

/// Rounds toward plus infinity. Empty for b == 0 and INT64_MIN / -1.
inline std::optional<int64_t> checked_ceildiv(int64_t a, int64_t b) {
  if (b == 0 || (a == INT64_MIN && b == -1))
    return std::nullopt;
  int64_t q = a / b;
  return (a % b != 0 && ((a < 0) == (b < 0))) ? q + 1 : q;
}

/// The remainder that goes with floordiv: same sign as b. Empty for b == 0.
inline std::optional<int64_t> checked_mod(int64_t a, int64_t b) {
  if (b == 0)
    return std::nullopt;
  if (b == -1)
    return 0;
  int64_t r = a % b;
  return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r;
}

/// The least multiple of `alignment` (a power of two) that is at least `value` (not negative).
inline std::optional<int64_t> checked_align(int64_t value, int64_t alignment) {
  auto sum = checked_add(value, alignment - 1);
  return sum ? std::optional(*sum & ~(alignment - 1)) : std::nullopt;
}

} // namespace cugrt
