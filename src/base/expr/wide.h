// Arithmetic of bounds, in 128 bits: everything beyond 64 bits is infinite, and stays so (private
// to the IR layer).
#pragma once

#include "base/expr/domain.h"

#include <algorithm>

namespace cugrt::ir {

__extension__ typedef __int128 Wide;
constexpr Wide kInfinity = Wide(1) << 100;

inline Wide clamp(Wide v) {
  if (v >= INT64_MAX)
    return kInfinity;
  return v <= INT64_MIN ? -kInfinity : v;
}
inline bool infinite(Wide v) { return v >= kInfinity || v <= -kInfinity; }

struct WideInterval {
  Wide lower, upper;
};

inline WideInterval widen(Interval i) { return {clamp(i.lower), clamp(i.upper)}; }
inline Interval narrow(WideInterval i) {
  auto bound = [](Wide v) {
    return v >= kInfinity ? INT64_MAX : v <= -kInfinity ? INT64_MIN : static_cast<int64_t>(v);
  };
  return {bound(i.lower), bound(i.upper)};
}

/// Multiplies numbers below 2^63 in size, or infinite ones.
inline Wide mul_bound(Wide a, Wide b) {
  if (a == 0 || b == 0)
    return 0;
  if (infinite(a) || infinite(b))
    return (a < 0) == (b < 0) ? kInfinity : -kInfinity;
  return clamp(a * b);
}

inline Wide div_bound(Wide a, Wide b, bool ceil) {
  if (infinite(a) && !infinite(b))
    return (a < 0) == (b < 0) ? kInfinity : -kInfinity;
  Wide q = a / b, r = a % b;
  if (r != 0 && !ceil && ((a < 0) != (b < 0)))
    --q;
  if (r != 0 && ceil && ((a < 0) == (b < 0)))
    ++q;
  return clamp(q);
}

inline WideInterval mul_interval(WideInterval a, WideInterval b) {
  WideInterval out{kInfinity, -kInfinity};
  for (Wide x : {a.lower, a.upper})
    for (Wide y : {b.lower, b.upper}) {
      const Wide v = mul_bound(x, y);
      out.lower = std::min(out.lower, v);
      out.upper = std::max(out.upper, v);
    }
  return out;
}

} // namespace cugrt::ir
