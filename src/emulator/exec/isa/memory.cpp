// Loads and stores. One warp access costs one range check when its lanes touch consecutive
// elements, when all touch the same one, or when they all lie in the allocation that the operation
// touched last; anything else goes through exec/memory.h, which also names faults.
#include "emulator/exec/memory.h"

#include "emulator/exec/isa/lanes.h"

#include <cstring>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace cugrt::emulator::CUGRT_ISA {

namespace {

constexpr ptx::Space kglobal = ptx::Space::global, kshared = ptx::Space::shared,
                     klocal = ptx::Space::local, kgeneric = ptx::Space::none;

/// Element slots of a vector access.
template <u32 N> struct Slots {
  u32 slot[4];
  explicit Slots(const Op *op) : slot{op->d, op->b, op->c, op->e} {}
};

template <class T> inline Lane<T> read_element(const std::byte *p) {
  T value;
  __builtin_memcpy(&value, p, sizeof(T));
  return put<T>(value);
}
template <class T> inline void write_element(std::byte *p, Lane<T> bits) {
  T value = T(bits);
  __builtin_memcpy(p, &value, sizeof(T));
}

/// How the active lanes' addresses relate.
struct Pattern {
  bool consecutive, uniform;
  u32 first, last; // active lanes
};

template <bool Full, class A> inline Pattern pattern(const Warp &w, const A *a, u32 bytes) {
  Pattern p;
  p.first = Full ? 0 : u32(__builtin_ctz(w.mask));
  p.last = Full ? kLanes - 1 : 31 - u32(__builtin_clz(w.mask));
  A base = a[p.first] - A(p.first) * bytes, same = a[p.first];
  A consecutive = 0, uniform = 0;
  for (u32 i = 0; i < kLanes; ++i) {
    A active = Full ? ~A(0) : A(s64(w.lanes[i]));
    consecutive |= (a[i] ^ (base + A(i) * bytes)) & active;
    uniform |= (a[i] ^ same) & active;
  }
  p.consecutive = consecutive == 0;
  p.uniform = uniform == 0;
  return p;
}

template <bool Full, class A>
inline void bounds(const Warp &w, const A *a, A &low, A &high, A &all_bits) {
  low = ~A(0), high = 0, all_bits = 0;
  for (u32 i = 0; i < kLanes; ++i) {
    A active = Full ? ~A(0) : A(s64(w.lanes[i]));
    A value = a[i] & active, missing = ~active;
    low = (value | missing) < low ? (value | missing) : low;
    high = value > high ? value : high;
    all_bits |= value;
  }
}

inline bool inside(const AddressRange &r, u64 begin, u64 bytes) {
  return begin >= r.begin && bytes <= r.bytes && begin - r.begin <= r.bytes - bytes;
}

// Lanes from and to consecutive elements at p (of lane 0; only active lanes are touched).
template <bool Full, class T, u32 N>
inline void load_consecutive(const Op *op, Warp &w, const std::byte *p) {
  Slots<N> slots(op);
  for (u32 n = 0; n < N; ++n) {
    auto *d = w.lane<Lane<T>>(slots.slot[n]);
    CUGRT_LANE_LOOP
    for (u32 i = 0; i < kLanes; ++i)
      if (Full || w.lanes[i])
        d[i] = read_element<T>(p + (i * N + n) * sizeof(T));
  }
}
template <bool Full, class T, u32 N>
inline void store_consecutive(const Op *op, Warp &w, std::byte *p) {
  Slots<N> slots(op);
  const Lane<T> *s[N];
  for (u32 n = 0; n < N; ++n)
    s[n] = w.lane<Lane<T>>(slots.slot[n]);
  CUGRT_LANE_LOOP
  for (u32 i = 0; i < kLanes; ++i)
    if (Full || w.lanes[i])
      for (u32 n = 0; n < N; ++n)
        write_element<T>(p + (i * N + n) * sizeof(T), s[n][i]);
}

template <bool Full, class T, u32 N>
inline void load_uniform(const Op *op, Warp &w, const std::byte *p) {
  Slots<N> slots(op);
  Lane<T> value[N];
  for (u32 n = 0; n < N; ++n)
    value[n] = read_element<T>(p + n * sizeof(T));
  for (u32 n = 0; n < N; ++n) {
    auto *d = w.lane<Lane<T>>(slots.slot[n]);
    for (u32 i = 0; i < kLanes; ++i)
      keep<Full>(w, d, i, value[n]);
  }
}

template <bool Full, class T, u32 N, class Where>
inline void load_each(const Op *op, Warp &w, Where where) {
  Slots<N> slots(op);
  Lane<T> value[N][kLanes]; // first all loads: a destination may be the address
  for (u32 i = 0; i < kLanes; ++i)
    if (Full || w.lanes[i])
      for (u32 n = 0; n < N; ++n)
        value[n][i] = read_element<T>(where(i) + n * sizeof(T));
  for (u32 n = 0; n < N; ++n) {
    auto *d = w.lane<Lane<T>>(slots.slot[n]);
    for (u32 i = 0; i < kLanes; ++i)
      if (Full || w.lanes[i])
        d[i] = value[n][i];
  }
}
template <bool Full, class T, u32 N, class Where>
inline void store_each(const Op *op, Warp &w, Where where) {
  Slots<N> slots(op);
  for (u32 i = 0; i < kLanes; ++i)
    if (Full || w.lanes[i])
      for (u32 n = 0; n < N; ++n)
        write_element<T>(where(i) + n * sizeof(T), w.lane<Lane<T>>(slots.slot[n])[i]);
}

/// 32-bit elements from anywhere, by the machine's own gather where it has one.
template <class A> inline void gather_words(u32 *d, const A *a, const std::byte *p) {
#if defined(__AVX512F__)
  for (u32 i = 0; i < kLanes; i += 8) {
    __m512i index =
        sizeof(A) == 8
            ? _mm512_loadu_si512(a + i)
            : _mm512_cvtepu32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(a + i)));
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(d + i), _mm512_i64gather_epi32(index, p, 1));
  }
#elif defined(__AVX2__)
  for (u32 i = 0; i < kLanes; i += 4) {
    __m256i index =
        sizeof(A) == 8
            ? _mm256_loadu_si256(reinterpret_cast<const __m256i *>(a + i))
            : _mm256_cvtepu32_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i *>(a + i)));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(d + i),
                     _mm256_i64gather_epi32(reinterpret_cast<const int *>(p), index, 1));
  }
#else
  for (u32 i = 0; i < kLanes; ++i)
    d[i] = read_element<u32>(p + a[i]);
#endif
}

/// Moves the elements once every address is known to be good; p is where address 0 would be.
template <bool Full, bool Store, class T, u32 N, class A>
inline const Op *move(const Op *op, Warp &w, const A *a, const Pattern &shape, std::byte *p) {
  if (shape.consecutive) {
    std::byte *first = p + a[shape.first] - shape.first * sizeof(T) * N;
    if constexpr (Store)
      store_consecutive<Full, T, N>(op, w, first);
    else
      load_consecutive<Full, T, N>(op, w, first);
  } else if (!Store && shape.uniform) {
    if constexpr (!Store)
      load_uniform<Full, T, N>(op, w, p + a[shape.first]);
  } else {
    auto where = [&](u32 i) { return p + a[i]; };
    if constexpr (Store)
      store_each<Full, T, N>(op, w, where);
    else if constexpr (Full && sizeof(T) == 4 && N == 1)
      gather_words(w.lane<u32>(op->d), a, p);
    else
      load_each<Full, T, N>(op, w, where);
  }
  return op + 1;
}

/// A copy of the element's extent for the check: [begin, begin + length).
template <bool Full, class A>
inline bool extent(const Warp &w, const A *a, const Pattern &shape, u64 offset, u32 bytes,
                   u64 &begin, u64 &length) {
  if (shape.consecutive || shape.uniform) {
    begin = u64(a[shape.first]) + offset;
    length = shape.uniform ? bytes : u64(shape.last - shape.first + 1) * bytes;
    return (begin & (bytes - 1)) == 0;
  }
  A low, high, all_bits;
  bounds<Full>(w, a, low, high, all_bits);
  begin = u64(low) + offset;
  length = u64(high) - u64(low) + bytes;
  // Lanes and offset may be misaligned in ways that cancel: the slow path decides then.
  return ((u64(all_bits) | offset) & (bytes - 1)) == 0;
}

template <bool Full, bool Store, class T, u32 N>
inline const Op *access_global(const Op *op, Warp &w) {
  constexpr u32 kBytes = sizeof(T) * N;
  const u64 *a = w.lane<u64>(op->a);
  Pattern shape = pattern<Full>(w, a, kBytes);
  u64 begin, length;
  bool aligned = extent<Full>(w, a, shape, u64(op->imm), kBytes, begin, length);
  if (!aligned || !inside(w.ranges[op->cache], begin, length)) [[unlikely]] {
    u64 addresses[kLanes];
    effective_addresses(op, w, addresses);
    if (!check_global(op, w, addresses, kBytes, kBytes))
      return w.stop;
  }
  return move<Full, Store, T, N>(op, w, a, shape,
                                 reinterpret_cast<std::byte *>(w.global_offset + u64(op->imm)));
}

template <bool Full, bool Store, class T, u32 N, class A>
inline const Op *access_window(const Op *op, Warp &w) {
  constexpr u32 kBytes = sizeof(T) * N;
  const A *a = w.lane<A>(op->a);
  Pattern shape = pattern<Full>(w, a, kBytes);
  u64 begin, length;
  bool aligned = extent<Full>(w, a, shape, u64(op->imm), kBytes, begin, length);
  if (!aligned || length > w.shared_bytes || begin > w.shared_bytes - length) [[unlikely]] {
    u64 addresses[kLanes];
    std::byte *places[kLanes];
    effective_addresses(op, w, addresses);
    if (!translate(op, w, kshared, addresses, kBytes, kBytes, places))
      return w.stop;
    auto where = [&](u32 i) { return places[i]; };
    if constexpr (Store)
      store_each<Full, T, N>(op, w, where);
    else
      load_each<Full, T, N>(op, w, where);
    return op + 1;
  }
  return move<Full, Store, T, N>(op, w, a, shape, w.shared + op->imm);
}

template <bool Full, bool Store, class T, u32 N>
inline const Op *access_other(const Op *op, Warp &w, ptx::Space space) {
  constexpr u32 kBytes = sizeof(T) * N;
  u64 addresses[kLanes];
  std::byte *places[kLanes];
  effective_addresses(op, w, addresses);
  if (!translate(op, w, space, addresses, kBytes, kBytes, places))
    return w.stop;
  auto where = [&](u32 i) { return places[i]; };
  if constexpr (Store)
    store_each<Full, T, N>(op, w, where);
  else
    load_each<Full, T, N>(op, w, where);
  return op + 1;
}

template <bool Full, bool Store, class T, u32 N>
inline const Op *access(const Op *op, Warp &w, ptx::Space space) {
  if (op->flags & kFlagVolatile) [[unlikely]] {
    if constexpr (Store)
      return store_ordered(op, w, space, sizeof(T), N);
    else
      return load_ordered(op, w, space, sizeof(T), T(-1) < T(0), N);
  }
  if (space == kglobal)
    return access_global<Full, Store, T, N>(op, w);
  if (space == kshared)
    return op->flags & kFlagWide ? access_window<Full, Store, T, N, u64>(op, w)
                                 : access_window<Full, Store, T, N, u32>(op, w);
  return access_other<Full, Store, T, N>(op, w, space);
}

#define LOAD(id, names, space, T, count, cls)                                                      \
  template <bool Full> const Op *id(const Op *op, Warp &w) {                                       \
    return access<Full, false, T, count>(op, w, k##space);                                         \
  }
#define STORE(id, names, space, T, count, cls)                                                     \
  template <bool Full> const Op *id(const Op *op, Warp &w) {                                       \
    return access<Full, true, T, count>(op, w, k##space);                                          \
  }
#include "emulator/decode/opcodes.def"

} // namespace

void fill_memory(HandlerTable &table) {
#define LOAD(id, ...) table[size_t(OpId::id)] = {id<true>, id<false>};
#define STORE LOAD
#include "emulator/decode/opcodes.def"
}

} // namespace cugrt::emulator::CUGRT_ISA
