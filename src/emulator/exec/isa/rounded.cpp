// Arithmetic under .rz, .rm and .rp: a source of its own, since -frounding-math makes the whole of
// one slow.
#include "emulator/exec/isa/numbers.h"
#include "emulator/exec/isa/rounding_mode.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace cugrt::emulator::CUGRT_ISA {

namespace {

#if defined(__AVX512F__)
/// d = a * b + c in the rounding of the instruction itself: what expf does, without touching the
/// host's mode.
template <bool Full, int Mode> inline const Op *fused_embedded(const Op *op, Warp &w) {
  const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(0x7fffffff));
  const u32 mask = Full ? ~0u : w.mask;
  for (u32 i = 0; i < kLanes; i += 16) {
    __m512 a = _mm512_loadu_ps(w.lane<f32>(op->a) + i), b = _mm512_loadu_ps(w.lane<f32>(op->b) + i);
    __m512 c = _mm512_loadu_ps(w.lane<f32>(op->c) + i);
    __m512 r = _mm512_fmadd_round_ps(a, b, c, Mode | _MM_FROUND_NO_EXC);
    r = _mm512_mask_mov_ps(r, _mm512_cmp_ps_mask(r, r, _CMP_UNORD_Q), nan);
    _mm512_mask_storeu_ps(w.lane<f32>(op->d) + i, __mmask16(mask >> i), r);
  }
  return op + 1;
}
#endif

inline f32 fused(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
inline f64 fused(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }

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
#include "emulator/exec/opcodes/opcodes.def"

#if defined(__AVX512F__)
template <bool Full> const Op *fma_f32_embedded(const Op *op, Warp &w) {
  if (op->flags & (kFlagFtz | kFlagSat))
    return fma_f32_rounded<Full>(op, w);
  switch (op->rounding()) {
  case Rounding::zero:
    return fused_embedded<Full, _MM_FROUND_TO_ZERO>(op, w);
  case Rounding::down:
    return fused_embedded<Full, _MM_FROUND_TO_NEG_INF>(op, w);
  case Rounding::up:
    return fused_embedded<Full, _MM_FROUND_TO_POS_INF>(op, w);
  default:
    return fma_f32_rounded<Full>(op, w);
  }
}
#endif

} // namespace

void fill_rounded(HandlerTable &table) {
#define ROUNDED_1(id, ...) table[size_t(OpId::id)] = {id<true>, id<false>};
#define ROUNDED_2 ROUNDED_1
#define ROUNDED_3 ROUNDED_1
#define CONVERT_DIRECTED ROUNDED_1
#include "emulator/exec/opcodes/opcodes.def"
#if defined(__AVX512F__)
  table[size_t(OpId::fma_f32_rounded)] = {fma_f32_embedded<true>, fma_f32_embedded<false>};
#endif
}

} // namespace cugrt::emulator::CUGRT_ISA
