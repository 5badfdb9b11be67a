// f16 and bf16 arithmetic, plain and packed. a and b are doubles made of 16-bit values, so that
// sums and products are exact or rounded to odd before the one rounding that counts.
#include "emulator/exec/isa/numbers.h"

namespace cugrt::emulator::CUGRT_ISA {

namespace {

inline u32 truth(bool value) { return 0u - u32(value); }

template <class T> inline u32 finish(const Op *op, f64 value) {
  f32 r = odd_float(value);
  if (op->flags & kFlagRelu)
    r = r > 0.0f || r != r ? r : 0.0f;
  if (op->flags & kFlagSat)
    r = saturated(r);
  return T::store(r);
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
        f64 a = T::load(x >> shift);                                                               \
        return finish<T>(op, __VA_ARGS__);                                                         \
      });                                                                                          \
    });                                                                                            \
  }
#define HALF_2(id, names, T, packed, cls, ...)                                                     \
  template <bool Full> const Op *id(const Op *op, Warp &w) {                                       \
    return binary<Full, u32, u32, u32>(op, w, [op](u32 x, u32 y) {                                 \
      return halves<packed>([&](u32 shift) {                                                       \
        f64 a = T::load(x >> shift), b = T::load(y >> shift);                                      \
        return finish<T>(op, __VA_ARGS__);                                                         \
      });                                                                                          \
    });                                                                                            \
  }
#define HALF_3(id, names, T, packed, cls, ...)                                                     \
  template <bool Full> const Op *id(const Op *op, Warp &w) {                                       \
    return ternary<Full, u32, u32, u32, u32>(op, w, [op](u32 x, u32 y, u32 z) {                    \
      return halves<packed>([&](u32 shift) {                                                       \
        f64 a = T::load(x >> shift), b = T::load(y >> shift), c = T::load(z >> shift);             \
        return finish<T>(op, __VA_ARGS__);                                                         \
      });                                                                                          \
    });                                                                                            \
  }
#define COMPARE_HALF(id, names, T, cls, ...)                                                       \
  template <bool Full> const Op *id(const Op *op, Warp &w) {                                       \
    return binary<Full, u32, u32, u32>(op, w, [](u32 x, u32 y) {                                   \
      f32 a = T::load(x), b = T::load(y);                                                          \
      return truth(__VA_ARGS__);                                                                   \
    });                                                                                            \
  }
#include "emulator/decode/opcodes.def"

} // namespace

void fill_half(HandlerTable &table) {
#define HALF_1(id, ...) table[size_t(OpId::id)] = {id<true>, id<false>};
#define HALF_2 HALF_1
#define HALF_3 HALF_1
#define COMPARE_HALF HALF_1
#include "emulator/decode/opcodes.def"
}

} // namespace cugrt::emulator::CUGRT_ISA
