// f16 and bf16 arithmetic, plain and packed. a and b are doubles made of 16-bit values, so that
// sums and products are exact or rounded to odd before the one rounding that counts.
#include "emulator/exec/isa/numbers.h"

namespace cugrt::emulator::CUGRT_ISA {

namespace {

inline u32 truth(bool value) { return 0u - u32(value); }

/// Subnormals of T to zeros of their sign.
template <class T> CUGRT_INLINE u32 flushed_half(u32 bits) {
  return (bits & T::kExponent) == 0 ? bits & 0x8000 : bits;
}

template <class T> CUGRT_INLINE f64 operand(const Op *op, u32 bits) {
  return T::load(op->flags & kFlagFtz ? flushed_half<T>(bits) : bits);
}

template <class T> CUGRT_INLINE u32 finish(const Op *op, f64 value) {
  f32 r = odd_float(value);
  if (op->flags & kFlagRelu)
    r = positive(r);
  if (op->flags & kFlagSat)
    r = saturated(r);
  u32 bits = T::store(r);
  return op->flags & kFlagFtz ? flushed_half<T>(bits) : bits;
}

/// Applies f to the low and, when packed, to the high halves.
template <bool Packed, class F> inline u32 halves(F f) {
  u32 low = f(0u);
  if constexpr (Packed)
    return low | f(16u) << 16;
  return low;
}

#define HALF_1(id, names, T, packed, cls, ...)                                                     \
  template <bool Full> const Op *id(const Op *op, Warp &w) {                                       \
    return unary<Full, u32, u32>(op, w, [op](u32 x) {                                              \
      return halves<packed>([&](u32 shift) {                                                       \
        f64 a = operand<T>(op, x >> shift);                                                        \
        return finish<T>(op, __VA_ARGS__);                                                         \
      });                                                                                          \
    });                                                                                            \
  }
#define HALF_2(id, names, T, packed, cls, ...)                                                     \
  template <bool Full> const Op *id(const Op *op, Warp &w) {                                       \
    return binary<Full, u32, u32, u32>(op, w, [op](u32 x, u32 y) {                                 \
      return halves<packed>([&](u32 shift) {                                                       \
        f64 a = operand<T>(op, x >> shift), b = operand<T>(op, y >> shift);                        \
        return finish<T>(op, __VA_ARGS__);                                                         \
      });                                                                                          \
    });                                                                                            \
  }
#define HALF_3(id, names, T, packed, cls, ...)                                                     \
  template <bool Full> const Op *id(const Op *op, Warp &w) {                                       \
    return ternary<Full, u32, u32, u32, u32>(op, w, [op](u32 x, u32 y, u32 z) {                    \
      return halves<packed>([&](u32 shift) {                                                       \
        f64 a = operand<T>(op, x >> shift), b = operand<T>(op, y >> shift),                        \
            c = operand<T>(op, z >> shift);                                                        \
        return finish<T>(op, __VA_ARGS__);                                                         \
      });                                                                                          \
    });                                                                                            \
  }
#define COMPARE_HALF(id, names, T, cls, ...)                                                       \
  template <bool Full> const Op *id(const Op *op, Warp &w) {                                       \
    return binary<Full, u32, u32, u32>(op, w, [op](u32 x, u32 y) {                                 \
      f32 a = f32(operand<T>(op, x)), b = f32(operand<T>(op, y));                                  \
      return truth(__VA_ARGS__);                                                                   \
    });                                                                                            \
  }
#include "emulator/exec/opcodes/opcodes.def"

} // namespace

void fill_half(HandlerTable &table) {
#define HALF_1(id, ...) table[size_t(OpId::id)] = {id<true>, id<false>};
#define HALF_2 HALF_1
#define HALF_3 HALF_1
#define COMPARE_HALF HALF_1
#include "emulator/exec/opcodes/opcodes.def"
}

} // namespace cugrt::emulator::CUGRT_ISA
