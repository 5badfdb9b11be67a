// f32 arithmetic to nearest even, with .ftz and .sat; f32 comparisons.
#include "emulator/exec/isa/branch.h"
#include "emulator/exec/isa/numbers.h"

namespace cugrt::emulator::CUGRT_ISA {

namespace {

inline u32 truth(bool value) { return 0u - u32(value); }

/// Neither .ftz nor .sat is there.
inline bool plain(const Op *op) { return !(op->flags & (kFlagFtz | kFlagSat)); }

#define F32_1(id, names, cls, ...)                                                                 \
  template <bool Full> const Op *id(const Op *op, Warp &w) {                                       \
    if (plain(op))                                                                                 \
      return unary<Full, f32, f32>(op, w, [](f32 a) { return canonical(__VA_ARGS__); });           \
    return unary<Full, f32, f32>(op, w, [m = Modifiers(op)](f32 a) {                               \
      a = m.in(a);                                                                                 \
      return m.out(__VA_ARGS__);                                                                   \
    });                                                                                            \
  }
#define F32_2(id, names, cls, ...)                                                                 \
  template <bool Full> const Op *id(const Op *op, Warp &w) {                                       \
    if (plain(op))                                                                                 \
      return binary<Full, f32, f32, f32>(op, w,                                                    \
                                         [](f32 a, f32 b) { return canonical(__VA_ARGS__); });     \
    return binary<Full, f32, f32, f32>(op, w, [m = Modifiers(op)](f32 a, f32 b) {                  \
      a = m.in(a), b = m.in(b);                                                                    \
      return m.out(__VA_ARGS__);                                                                   \
    });                                                                                            \
  }
#define F32_3(id, names, cls, ...)                                                                 \
  template <bool Full> const Op *id(const Op *op, Warp &w) {                                       \
    if (plain(op))                                                                                 \
      return ternary<Full, f32, f32, f32, f32>(                                                    \
          op, w, [](f32 a, f32 b, f32 c) { return canonical(__VA_ARGS__); });                      \
    return ternary<Full, f32, f32, f32, f32>(op, w, [m = Modifiers(op)](f32 a, f32 b, f32 c) {     \
      a = m.in(a), b = m.in(b), c = m.in(c);                                                       \
      return m.out(__VA_ARGS__);                                                                   \
    });                                                                                            \
  }
#define COMPARE_F32(id, names, cls, ...)                                                           \
  template <bool Full> CUGRT_INLINE const Op *id(const Op *op, Warp &w) {                          \
    if (plain(op))                                                                                 \
      return binary<Full, u32, f32, f32>(op, w, [](f32 a, f32 b) { return truth(__VA_ARGS__); });  \
    return binary<Full, u32, f32, f32>(op, w, [](f32 a, f32 b) {                                   \
      a = flushed(a), b = flushed(b);                                                              \
      return truth(__VA_ARGS__);                                                                   \
    });                                                                                            \
  }                                                                                                \
  template <bool Full> const Op *id##_branch(const Op *op, Warp &w) {                              \
    id<Full>(op, w);                                                                               \
    return branch_to_target<Full>(op, w, guard_lanes<Full>(op, w, op->d));                         \
  }
#include "emulator/exec/opcodes/opcodes.def"

} // namespace

void fill_float(HandlerTable &table) {
#define F32_1(id, ...) table[size_t(OpId::id)] = {id<true>, id<false>};
#define F32_2 F32_1
#define F32_3 F32_1
#define COMPARE_F32 F32_1
#include "emulator/exec/opcodes/opcodes.def"
}

void fill_float_branches(HandlerTable &table) {
#define COMPARE_F32(id, ...) table[size_t(OpId::id)] = {id##_branch<true>, id##_branch<false>};
#include "emulator/exec/opcodes/opcodes.def"
}

} // namespace cugrt::emulator::CUGRT_ISA
