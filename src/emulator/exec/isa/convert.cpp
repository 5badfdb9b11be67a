// cvt between all number types. Floats reach integers through a rounding to an integral value of
// their own type and a clamp; everything reaches f16 and bf16 with one rounding.
#include "emulator/exec/isa/numbers.h"
#include "emulator/exec/isa/vectors.h"

namespace cugrt::emulator::CUGRT_ISA {

namespace {

template <class T> inline constexpr bool kIsHalf = false;
template <> inline constexpr bool kIsHalf<f16> = true;
template <> inline constexpr bool kIsHalf<bf16> = true;
template <class T> inline constexpr bool kIsReal = kIsHalf<T>;
template <> inline constexpr bool kIsReal<f32> = true;
template <> inline constexpr bool kIsReal<f64> = true;
template <class T, class U> inline constexpr bool kSame = false;
template <class T> inline constexpr bool kSame<T, T> = true;

/// The C++ type that holds a T while it is converted.
template <class T> struct HeldAs { using type = T; };
template <> struct HeldAs<f16> { using type = f32; };
template <> struct HeldAs<bf16> { using type = f32; };
template <class T> using Held = typename HeldAs<T>::type;

template <class T> CUGRT_INLINE Held<T> take(Lane<T> bits) {
  if constexpr (kIsHalf<T>)
    return T::load(bits);
  else
    return get<T>(bits);
}

CUGRT_INLINE f32 integral(f32 a, Rounding mode) {
  return mode == Rounding::nearest ? __builtin_nearbyintf(a)
         : mode == Rounding::zero  ? __builtin_truncf(a)
         : mode == Rounding::down  ? __builtin_floorf(a)
                                   : __builtin_ceilf(a);
}
CUGRT_INLINE f64 integral(f64 a, Rounding mode) {
  return mode == Rounding::nearest ? __builtin_nearbyint(a)
         : mode == Rounding::zero  ? __builtin_trunc(a)
         : mode == Rounding::down  ? __builtin_floor(a)
                                   : __builtin_ceil(a);
}

template <class D> inline constexpr bool kSigned = D(-1) < D(0);
template <class D>
inline constexpr D kHighest = kSigned<D> ? D(~(u64(1) << 63) >> (64 - 8 * sizeof(D))) : D(~D(0));
template <class D> inline constexpr D kLowest = kSigned<D> ? D(~kHighest<D>) : D(0);

/// cvt: of NaN "zero if source is not .f64 and destination is not .s64 nor .u64. Otherwise
/// 1 << (BitWidth(dst) - 1)".
template <class D, class F>
inline constexpr D kOfNaN = kSame<F, f64> || sizeof(D) == 8 ? D(u64(1) << (8 * sizeof(D) - 1))
                                                            : D(0);

/// Converts an integral value; out of range clamps.
template <class D, class F> CUGRT_INLINE D clamp_to(F a) {
  constexpr F kAbove = F(kHighest<D> / 2 + 1) * 2; // a power of two: exact
  constexpr F kBelow = F(kLowest<D>);
  D inside = a > kBelow && a < kAbove ? D(a) : kOfNaN<D, F>;
  D high = a >= kAbove ? kHighest<D> : inside;
  return a <= kBelow ? kLowest<D> : high;
}

/// A double that rounds to f16 and bf16 as the integer itself does: bits that do not fit are joined
/// into the last one that does.
template <class A> CUGRT_INLINE f64 sticky(A a) {
  if constexpr (sizeof(A) < 8) {
    return f64(a);
  } else {
    bool negative = kSigned<A> && a < A(0);
    u64 m = negative ? u64(0) - u64(a) : u64(a);
    if (m >> 53)
      m = (m >> 11 | u64((m & 2047) != 0)) << 11;
    return negative ? -f64(m) : f64(m);
  }
}

/// Rounded to f16 or bf16: to nearest, and from there by one step where that went the wrong way.
/// The value may be rounded to odd: it lies on the same side of every half.
template <class D> CUGRT_INLINE u32 store_rounded(f32 value, Rounding mode) {
  const u32 half = D::store(value);
  const f32 back = D::load(half);
  const bool negative = half & 0x8000;
  const u32 larger = half + 1, smaller = half - 1; // in magnitude
  const u32 above = negative ? smaller : larger, below = negative ? larger : smaller;
  switch (mode) {
  case Rounding::zero:
    return (negative ? back < value : back > value) ? smaller : half;
  case Rounding::up:
    return back < value ? above : half;
  case Rounding::down:
    return back > value ? below : half;
  default:
    return half;
  }
}

/// The direction of a conversion that does not round to an integer first.
CUGRT_INLINE Rounding direction(uint16_t flags) {
  return flags & kFlagIntegral ? Rounding::nearest : Rounding(flags >> kRoundingShift & 3);
}

template <class A> CUGRT_INLINE A clamp_integer(A a, s64 low, u64 high) {
  if (kSigned<A> && s64(a) < low)
    return A(low);
  if (!(kSigned<A> && s64(a) < 0) && u64(a) > high)
    return A(high);
  return a;
}

template <class D, class A> CUGRT_INLINE Lane<D> from_integer(A a, uint16_t flags) {
  if constexpr (kIsHalf<D>) {
    return store_rounded<D>(odd_float(sticky(a)), direction(flags));
  } else if constexpr (kIsReal<D>) {
    return put<D>(D(a));
  } else {
    if (flags & kFlagSat) {
      s64 low = kSigned<A> ? s64(kLowest<D>) : 0;
      return put<D>(D(clamp_integer(a, low, u64(kHighest<D>))));
    }
    return put<D>(D(a));
  }
}

template <class D, class F> CUGRT_INLINE Lane<D> from_real(F a, uint16_t flags) {
  bool ftz = flags & kFlagFtz, sat = flags & kFlagSat;
  if constexpr (kSame<F, f32>)
    a = ftz ? flushed(a) : a;
  if constexpr (!kIsReal<D>) {
    return put<D>(clamp_to<D>(integral(a, Rounding(flags >> kRoundingShift & 3))));
  } else {
    if (flags & kFlagIntegral)
      a = integral(a, Rounding(flags >> kRoundingShift & 3));
    if constexpr (kIsHalf<D>) {
      f32 r = kSame<F, f64> ? odd_float(a) : f32(a);
      if (flags & kFlagRelu)
        r = r > 0.0f || r != r ? r : 0.0f;
      return store_rounded<D>(sat ? saturated(r) : r, direction(flags));
    } else if constexpr (kSame<D, f32>) {
      f32 r = f32(a);
      r = ftz ? flushed(r) : r;
      return put<f32>(sat ? saturated(r) : canonical(r));
    } else {
      f64 r = f64(a);
      if (sat)
        r = r > 0.0 ? (r < 1.0 ? r : 1.0) : 0.0;
      return put<f64>(r);
    }
  }
}

template <bool Full, class D, class A>
CUGRT_INLINE const Op *convert_by(const Op *op, Warp &w, uint16_t flags) {
  auto *d = w.lane<Lane<D>>(op->d);
  const auto *a = w.lane<Lane<A>>(op->a);
  CUGRT_LANE_LOOP
  for (u32 i = 0; i < kLanes; ++i) {
    if constexpr (!kIsReal<A>)
      keep<Full>(w, d, i, from_integer<D, A>(get<A>(a[i]), flags));
    else
      keep<Full>(w, d, i, from_real<D, Held<A>>(take<A>(a[i]), flags));
  }
  return op + 1;
}

/// The flags that occur most are constants, so that the loops are simple.
template <bool Full, class D, class A> CUGRT_INLINE const Op *convert(const Op *op, Warp &w) {
  constexpr uint16_t kTruncate = uint16_t(Rounding::zero) << kRoundingShift | kFlagIntegral;
  if constexpr (Full && kHasHalves && kSame<D, f32> && kSame<A, f16>) {
    if (op->flags == 0) {
      widen_halves(w.lane<u32>(op->d), w.lane<u32>(op->a));
      return op + 1;
    }
  }
  if (op->flags == 0)
    return convert_by<Full, D, A>(op, w, 0);
  if constexpr (kIsReal<A> && kSame<D, f32>) {
    if (op->flags == kFlagSat)
      return convert_by<Full, D, A>(op, w, kFlagSat);
  } else if constexpr (kSame<A, f32> && !kIsReal<D>) {
    if (op->flags == kTruncate)
      return convert_by<Full, D, A>(op, w, kTruncate);
  }
  return convert_by<Full, D, A>(op, w, op->flags);
}

#define CONVERT(id, names, D, A, cls)                                                              \
  template <bool Full> const Op *id(const Op *op, Warp &w) { return convert<Full, D, A>(op, w); }
// cvt.rn.f16x2.f32 d, a, b: a becomes the upper half.
#define CONVERT_PACKED(id, names, D, cls)                                                          \
  template <bool Full> const Op *id(const Op *op, Warp &w) {                                       \
    bool relu = op->flags & kFlagRelu;                                                             \
    Rounding mode = op->rounding();                                                                \
    return binary<Full, u32, f32, f32>(op, w, [relu, mode](f32 a, f32 b) {                         \
      a = relu && !(a > 0.0f) && a == a ? 0.0f : a;                                                \
      b = relu && !(b > 0.0f) && b == b ? 0.0f : b;                                                \
      return store_rounded<D>(a, mode) << 16 | store_rounded<D>(b, mode);                          \
    });                                                                                            \
  }
#include "emulator/exec/opcodes/opcodes.def"

} // namespace

void fill_convert(HandlerTable &table) {
#define CONVERT(id, ...) table[size_t(OpId::id)] = {id<true>, id<false>};
#define CONVERT_PACKED CONVERT
#include "emulator/exec/opcodes/opcodes.def"
}

} // namespace cugrt::emulator::CUGRT_ISA
