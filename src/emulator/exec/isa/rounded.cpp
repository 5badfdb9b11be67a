// Arithmetic under .rz, .rm and .rp: a source of its own, since -frounding-math makes the whole of
// one slow.
#include "emulator/exec/isa/numbers.h"
#include "emulator/exec/isa/rounding_mode.h"

namespace cugrt::emulator::CUGRT_ISA {

namespace {

inline f32 fused(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
inline f64 fused(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }

struct Modifiers {
  bool ftz, sat;
  explicit Modifiers(const Op *op) : ftz(op->flags & kFlagFtz), sat(op->flags & kFlagSat) {}
  f32 in(f32 a) const { return ftz ? flushed(a) : a; }
  f32 out(f32 r) const {
    r = ftz ? flushed(r) : r;
    return sat ? saturated(r) : canonical(r);
  }
  f64 in(f64 a) const { return a; }
  f64 out(f64 r) const { return r; }
};

#define ROUNDED_1(id, names, T, cls, ...)                                                          \
  template <bool Full> const Op *id(const Op *op, Warp &w) {                                       \
    RoundingScope scope(op->rounding());                                                           \
    return unary<Full, T, T>(op, w, [m = Modifiers(op)](T a) {                                     \
      a = m.in(a);                                                                                 \
      return m.out(__VA_ARGS__);                                                                   \
    });                                                                                            \
  }
#define ROUNDED_2(id, names, T, cls, ...)                                                          \
  template <bool Full> const Op *id(const Op *op, Warp &w) {                                       \
    RoundingScope scope(op->rounding());                                                           \
    return binary<Full, T, T, T>(op, w, [m = Modifiers(op)](T a, T b) {                            \
      a = m.in(a), b = m.in(b);                                                                    \
      return m.out(__VA_ARGS__);                                                                   \
    });                                                                                            \
  }
#define ROUNDED_3(id, names, T, cls, ...)                                                          \
  template <bool Full> const Op *id(const Op *op, Warp &w) {                                       \
    RoundingScope scope(op->rounding());                                                           \
    return ternary<Full, T, T, T, T>(op, w, [m = Modifiers(op)](T a, T b, T c) {                   \
      a = m.in(a), b = m.in(b), c = m.in(c);                                                       \
      return m.out(__VA_ARGS__);                                                                   \
    });                                                                                            \
  }
#define CONVERT_DIRECTED(id, names, D, A, cls)                                                     \
  template <bool Full> const Op *id(const Op *op, Warp &w) {                                       \
    RoundingScope scope(op->rounding());                                                           \
    return unary<Full, D, A>(op, w, [](A a) { return D(a); });                                     \
  }
#include "emulator/decode/opcodes.def"

} // namespace

void fill_rounded(HandlerTable &table) {
#define ROUNDED_1(id, ...) table[size_t(OpId::id)] = {id<true>, id<false>};
#define ROUNDED_2 ROUNDED_1
#define ROUNDED_3 ROUNDED_1
#define CONVERT_DIRECTED ROUNDED_1
#include "emulator/decode/opcodes.def"
}

} // namespace cugrt::emulator::CUGRT_ISA
