// Formats, rounding to odd and distances.
#include "number.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace cugrt::conformance {

namespace {

/// The host's rounding mode for a scope.
class Rounding {
public:
  explicit Rounding(int mode) { std::fesetround(mode); }
  ~Rounding() { std::fesetround(FE_TONEAREST); }
};

/// What an overflow gives: infinity, or the largest number where the mode points back.
Bits overflow(const Format &format, bool negative, int mode) {
  bool back = mode == FE_TOWARDZERO || mode == (negative ? FE_UPWARD : FE_DOWNWARD);
  return (negative ? format.sign() : 0) | (format.infinity() - (back ? 1 : 0));
}

} // namespace

Real decode(const Format &format, Bits v) {
  const int exponents = format.bits - 1 - format.mantissa, largest = (1 << exponents) - 1;
  Bits mantissa = v & ((Bits(1) << format.mantissa) - 1);
  int exponent = int(v >> format.mantissa) & largest;
  Real value;
  if (exponent == largest)
    value =
        mantissa ? std::numeric_limits<Real>::quiet_NaN() : std::numeric_limits<Real>::infinity();
  else
    value = std::ldexp(Real(exponent ? mantissa | Bits(1) << format.mantissa : mantissa),
                       std::max(exponent, 1) - format.bias - format.mantissa);
  return v & format.sign() ? -value : value;
}

Bits encode(const Format &format, Real value, int mode) {
  if (std::isnan(value))
    return format.sign() - 1;
  const bool negative = std::signbit(value);
  const Bits sign = negative ? format.sign() : 0;
  if (std::isinf(value))
    return sign | format.infinity();
  if (value == 0)
    return sign;
  const int exponent = std::max(std::ilogb(value), 1 - format.bias);
  if (exponent > format.bias)
    return overflow(format, negative, mode);
  // In units of the last place at this exponent.
  Bits units = Bits(std::fabs(integral(std::ldexp(value, format.mantissa - exponent), mode)));
  // A significand without its leading one is subnormal: its exponent field is 0. One that was
  // rounded up to the next power of two carries into the exponent by itself.
  Bits biased = Bits(exponent + format.bias);
  Bits bits = units >> format.mantissa
                  ? (biased << format.mantissa) + units - (Bits(1) << format.mantissa)
                  : units;
  return bits >= format.infinity() ? overflow(format, negative, mode) : sign | bits;
}

Real integral(Real value, int mode) {
  Rounding scope(mode);
  volatile Real in = value;
  volatile Real out = std::nearbyint(Real(in));
  return out;
}

Real odd(Operation operation, Real x, Real y) {
  volatile Real a = x, b = y, r = 0;
  bool inexact;
  {
    Rounding scope(FE_TOWARDZERO);
    std::feclearexcept(FE_ALL_EXCEPT);
    switch (operation) {
    case Operation::add:
      r = a + b;
      break;
    case Operation::multiply:
      r = a * b;
      break;
    case Operation::divide:
      r = a / b;
      break;
    case Operation::root:
      r = std::sqrt(Real(a));
      break;
    }
    inexact = std::fetestexcept(FE_INEXACT) != 0;
  }
  Real result = r;
  if (inexact && std::isfinite(result)) {
    unsigned char bytes[sizeof(Real)]; // the significand's last bit is the lowest bit of all
    std::memcpy(bytes, &result, sizeof bytes);
    bytes[0] |= 1;
    std::memcpy(&result, bytes, sizeof bytes);
  }
  return result;
}

Real sum(Real x, Real y, int mode) {
  Real s = odd(Operation::add, x, y);
  if (s == 0 && std::signbit(x) != std::signbit(y))
    return mode == FE_DOWNWARD ? -0.0L : 0.0L;
  return s;
}

Bits ulps_apart(const Format &format, Bits x, Bits y) {
  if (format.is_nan(x) || format.is_nan(y))
    return format.is_nan(x) && format.is_nan(y) ? 0 : ~Bits(0);
  auto ordered = [&](Bits v) {
    Wide magnitude = Wide(v & (format.sign() - 1));
    return v & format.sign() ? -magnitude : magnitude;
  };
  Wide distance = ordered(x) - ordered(y);
  return Bits(distance < 0 ? -distance : distance);
}

Wide integer(Bits v, int bits, bool is_signed) {
  if (bits < 64)
    v &= (Bits(1) << bits) - 1;
  bool negative = is_signed && (v >> (bits - 1) & 1);
  return Wide(v) - (negative ? Wide(1) << bits : 0);
}

Bits Random::operator()() {
  Bits z = state_ += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

} // namespace cugrt::conformance
