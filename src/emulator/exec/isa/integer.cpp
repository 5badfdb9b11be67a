// Integers, bits, moves, comparisons and f64 arithmetic: rows of UNARY to QUATERNARY and COMPARE.
#include "emulator/exec/isa/branch.h"
#include "emulator/exec/isa/numbers.h"

namespace cugrt::emulator::CUGRT_ISA {

namespace {

inline u32 truth(bool value) { return 0u - u32(value); }

inline s32 saturate_s32(s64 a) {
  return s32(a > INT32_MAX ? s64(INT32_MAX) : a < INT32_MIN ? s64(INT32_MIN) : a);
}

// Division by zero yields all ones, as the hardware does; PTX leaves it open.
template <class T> inline T divide(T a, T b) {
  if (b == 0)
    return T(~T(0));
  if (T(-1) < T(0) && b == T(-1))
    return T(u64(0) - u64(a));
  return T(a / b);
}
template <class T> inline T remainder(T a, T b) {
  if (b == 0)
    return a;
  if (T(-1) < T(0) && b == T(-1))
    return 0;
  return T(a % b);
}

/// The least or greatest of two pairs of 16 bits each; with Relu, no less than 0.
template <class T, bool Greatest, bool Relu> inline u32 choose_pair(u32 a, u32 b) {
  auto choose = [](T x, T y) {
    T chosen = (x < y) != Greatest ? x : y;
    return u32(u16(Relu && chosen < 0 ? T(0) : chosen));
  };
  return choose(T(a), T(b)) | choose(T(a >> 16), T(b >> 16)) << 16;
}

/// The place of the n-th bit of `mask` that is set, from `base` on upward or, with n < 0, downward;
/// all ones where there is none. With n = 0 it is `base` if that bit is set.
inline u32 find_nth_set(u32 mask, u32 base, s32 n) {
  u32 left = n < 0 ? 0u - u32(n) : n == 0 ? 1u : u32(n);
  u32 found = ~0u;
  for (u32 i = 0; i < 32; ++i) { // one loop of fixed length for all lanes
    u32 at = n < 0 ? base - i : base + i;
    bool counts = at < 32 && base < 32 && (mask >> (at & 31) & 1) && (n != 0 || i == 0);
    left -= counts;
    found = counts && left == 0 && found == ~0u ? at : found;
  }
  return found;
}

inline u32 funnel_left(u32 low, u32 high, u32 n) {
  return u32(((u64(high) << 32 | low) << n) >> 32);
}
inline u32 funnel_right(u32 low, u32 high, u32 n) { return u32((u64(high) << 32 | low) >> n); }

inline u32 lop3(u32 a, u32 b, u32 c, u32 table) {
  u32 r = 0;
  r |= (table & 1 ? ~0u : 0) & ~a & ~b & ~c;
  r |= (table & 2 ? ~0u : 0) & ~a & ~b & c;
  r |= (table & 4 ? ~0u : 0) & ~a & b & ~c;
  r |= (table & 8 ? ~0u : 0) & ~a & b & c;
  r |= (table & 16 ? ~0u : 0) & a & ~b & ~c;
  r |= (table & 32 ? ~0u : 0) & a & ~b & c;
  r |= (table & 64 ? ~0u : 0) & a & b & ~c;
  r |= (table & 128 ? ~0u : 0) & a & b & c;
  return r;
}

/// Four selectors of four bits: which byte of {b, a}, and whether to replicate its sign.
inline u32 permute_bytes(u32 a, u32 b, u32 selectors) {
  u64 bytes = u64(b) << 32 | a;
  u32 r = 0;
  for (u32 i = 0; i < 4; ++i) {
    u32 selector = selectors >> (4 * i) & 15;
    u32 byte = u32(bytes >> (8 * (selector & 7))) & 255;
    if (selector & 8)
      byte = byte & 128 ? 255 : 0;
    r |= byte << (8 * i);
  }
  return r;
}

/// The named modes; each row is the four selectors for c & 3 of 0 to 3.
inline u32 permute_mode(u32 a, u32 b, u32 c, u32 mode) {
  constexpr u32 kSelectors[6][4] = {
      {0x3210, 0x4321, 0x5432, 0x6543}, // f4e
      {0x5670, 0x6701, 0x7012, 0x0123}, // b4e
      {0x0000, 0x1111, 0x2222, 0x3333}, // rc8
      {0x3210, 0x3211, 0x3222, 0x3333}, // ecl
      {0x0000, 0x1110, 0x2210, 0x3210}, // ecr
      {0x1010, 0x3232, 0x1010, 0x3232}, // rc16
  };
  return permute_bytes(a, b, kSelectors[mode][c & 3]);
}

template <class T> inline T extract_field(T a, u32 b, u32 c) {
  constexpr u32 kBits = sizeof(T) * 8;
  constexpr bool kSigned = T(-1) < T(0);
  u32 position = b & 255, length = c & 255;
  if (length == 0)
    return 0;
  // Bits beyond the top are the sign bit of the field's highest bit that exists.
  u64 wide = u64(s64(a));
  if (!kSigned)
    wide = u64(a) & (~u64(0) >> (64 - kBits));
  u32 top = position + length - 1 < kBits - 1 ? position + length - 1 : kBits - 1;
  bool sign = kSigned && (wide >> top & 1);
  u64 value = position >= kBits ? 0 : (wide & (~u64(0) >> (64 - kBits))) >> position;
  u32 kept = position >= kBits ? 0 : kBits - position;
  kept = length < kept ? length : kept;
  u64 mask = kept >= 64 ? ~u64(0) : (u64(1) << kept) - 1;
  value &= mask;
  if (sign)
    value |= ~mask;
  return T(value);
}

template <class T> inline T insert_field(T a, T b, u32 c, u32 e) {
  constexpr u32 kBits = sizeof(T) * 8;
  u32 position = c & 255, length = e & 255;
  if (length == 0 || position >= kBits)
    return b;
  T mask = T(length >= kBits ? ~T(0) : (T(1) << length) - 1) << position;
  return T((b & ~mask) | ((a << position) & mask));
}

inline u32 find_bit(u32 a) { return a ? 31 - u32(__builtin_clz(a)) : ~0u; }
inline u32 find_bit64(u64 a) { return a ? 63 - u32(__builtin_clzll(a)) : ~0u; }

inline u32 reverse_bits(u32 a) {
  a = (a >> 1 & 0x55555555) | (a & 0x55555555) << 1;
  a = (a >> 2 & 0x33333333) | (a & 0x33333333) << 2;
  a = (a >> 4 & 0x0f0f0f0f) | (a & 0x0f0f0f0f) << 4;
  return __builtin_bswap32(a);
}

inline u32 bit_mask(u32 position, u32 length) {
  u64 mask = ((u64(1) << length) - 1) << position;
  return u32(mask);
}

template <class A, class B> inline u32 dot4(u32 a, u32 b, u32 c) {
  for (u32 i = 0; i < 4; ++i)
    c += u32(s32(A(a >> (8 * i))) * s32(B(b >> (8 * i))));
  return c;
}
template <class A, class B> inline u32 dot2(u32 a, u32 b, u32 c) {
  for (u32 i = 0; i < 2; ++i)
    c += u32(s32(A(a >> (16 * i))) * s32(B(b >> (8 * i))));
  return c;
}

inline u32 tf32_away(u32 a) {
  return (a & 0x7fffffff) > 0x7f800000    ? 0x7fffffff
         : (a & 0x7f800000) == 0x7f800000 ? a
                                          : (a + 0x1000) & 0xffffe000;
}
inline u32 tf32_even(u32 a) {
  return (a & 0x7fffffff) > 0x7f800000    ? 0x7fffffff
         : (a & 0x7f800000) == 0x7f800000 ? a
                                          : (a + 0xfff + (a >> 13 & 1)) & 0xffffe000;
}

#define UNARY(id, names, D, A, cls, ...)                                                           \
  template <bool Full> const Op *id(const Op *op, Warp &w) {                                       \
    return unary<Full, D, A>(op, w, [](A a) -> D { return D(__VA_ARGS__); });                      \
  }
#define BINARY(id, names, D, A, B, cls, ...)                                                       \
  template <bool Full> const Op *id(const Op *op, Warp &w) {                                       \
    return binary<Full, D, A, B>(op, w, [](A a, B b) -> D { return D(__VA_ARGS__); });             \
  }
#define TERNARY(id, names, D, A, B, C, cls, ...)                                                   \
  template <bool Full> const Op *id(const Op *op, Warp &w) {                                       \
    return ternary<Full, D, A, B, C>(op, w, [](A a, B b, C c) -> D { return D(__VA_ARGS__); });    \
  }
#define QUATERNARY(id, names, D, A, B, C, E, cls, ...)                                             \
  template <bool Full> const Op *id(const Op *op, Warp &w) {                                       \
    return quaternary<Full, D, A, B, C, E>(                                                        \
        op, w, [](A a, B b, C c, E e) -> D { return D(__VA_ARGS__); });                            \
  }
#define COMPARE(id, names, T, cls, ...)                                                            \
  template <bool Full> CUGRT_INLINE const Op *id(const Op *op, Warp &w) {                          \
    return binary<Full, u32, T, T>(op, w, [](T a, T b) { return truth(__VA_ARGS__); });            \
  }                                                                                                \
  template <bool Full> const Op *id##_branch(const Op *op, Warp &w) {                              \
    id<Full>(op, w);                                                                               \
    return branch_to_target<Full>(op, w, guard_lanes<Full>(op, w, op->d));                         \
  }
#include "emulator/exec/opcodes/opcodes.def"

} // namespace

void fill_integer(HandlerTable &table) {
#define UNARY(id, ...) table[size_t(OpId::id)] = {id<true>, id<false>};
#define BINARY UNARY
#define TERNARY UNARY
#define QUATERNARY UNARY
#define COMPARE UNARY
#include "emulator/exec/opcodes/opcodes.def"
}

void fill_integer_branches(HandlerTable &table) {
#define COMPARE(id, ...) table[size_t(OpId::id)] = {id##_branch<true>, id##_branch<false>};
#include "emulator/exec/opcodes/opcodes.def"
}

} // namespace cugrt::emulator::CUGRT_ISA
