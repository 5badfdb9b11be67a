// Loads and stores.
//
// One warp access costs one classification of its addresses and one range check. Addresses are
//
//     uniform       all lanes at one element
//     consecutive   lane i at element i
//     halves        each half of the warp uniform or consecutive: blocks that are 16 threads wide
//     scattered     anything else
//
// The check is of the whole extent, from the lowest to the highest address, against the allocation
// that the operation touched last; what it does not settle goes through exec/memory.h, which also
// names faults. Accesses through one unchanged register at several offsets are classified once: the
// first leaves the shape in the warp (decode/passes/address_groups.cpp).
#include "emulator/exec/memory.h"

#include "emulator/exec/isa/vectors.h"

namespace cugrt::emulator::CUGRT_ISA {

namespace {

constexpr ptx::Space kglobal = ptx::Space::global, kshared = ptx::Space::shared,
                     klocal = ptx::Space::local, kgeneric = ptx::Space::none;
constexpr u32 kHalf = kLanes / 2;

/// Element cells of a vector access.
template <u32 N> struct Cells {
  u32 cell[4];
  explicit Cells(const Op *op) : cell{op->d, op->b, op->c, op->e} {}
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

template <bool Full, class A> inline void scattered(const Warp &w, const A *a, AddressShape &s) {
  A low = ~A(0), high = 0, bits = 0;
  for (u32 i = 0; i < kLanes; ++i) {
    A active = Full ? ~A(0) : A(s64(w.lanes[i]));
    A value = a[i] & active, missing = ~active;
    low = (value | missing) < low ? (value | missing) : low;
    high = value > high ? value : high;
    bits |= value;
  }
  s.kind = AddressKind::scattered;
  s.low = low;
  s.high = high;
  s.bits = bits;
}

/// The shape of the active lanes' addresses for accesses of Bytes.
template <bool Full, u32 Bytes, class A>
CUGRT_INLINE void classify(const Warp &w, const A *a, AddressShape &s) {
  const u32 idle = Full ? 0 : ~w.mask;
  const u32 first = Full ? 0 : u32(__builtin_ctz(w.mask));
  const u32 last = Full ? kLanes - 1 : 31 - u32(__builtin_clz(w.mask));
  const A lane0 = a[first] - A(first) * Bytes; // may be below 0: then it wraps
  s.first = s.low = a[first];
  s.bits = a[first];
  const u32 consecutive = equal_lanes<Bytes>(a, lane0) | idle;
  if (consecutive == ~0u) {
    s.kind = AddressKind::consecutive;
    s.first = u64(a[first]) - u64(first) * Bytes; // places wrap at 64 bits
    s.second = s.first + kHalf * Bytes;
    s.lower_runs = s.upper_runs = true;
    s.high = a[last];
    return;
  }
  const u32 uniform = equal_lanes<0>(a, a[first]) | idle;
  if (uniform == ~0u) {
    s.kind = AddressKind::uniform;
    s.second = a[first];
    s.lower_runs = s.upper_runs = false;
    s.high = a[first];
    return;
  }
  constexpr u32 kLower = 0xffff, kUpper = ~kLower;
  bool lower_runs = (consecutive & kLower) == kLower;
  if (Full && (lower_runs || (uniform & kLower) == kLower)) {
    bool upper_runs = (equal_lanes<Bytes>(a, A(a[kHalf] - A(kHalf) * Bytes)) & kUpper) == kUpper;
    if (upper_runs || (equal_lanes<0>(a, a[kHalf]) & kUpper) == kUpper) {
      s.kind = AddressKind::halves;
      s.lower_runs = lower_runs;
      s.upper_runs = upper_runs;
      s.second = a[kHalf];
      s.bits = u64(a[0]) | a[kHalf];
      u64 lower_end = u64(a[0]) + (lower_runs ? (kHalf - 1) * Bytes : 0);
      u64 upper_end = u64(a[kHalf]) + (upper_runs ? (kHalf - 1) * Bytes : 0);
      s.low = s.first < s.second ? s.first : s.second;
      s.high = lower_end > upper_end ? lower_end : upper_end;
      return;
    }
  }
  scattered<Full>(w, a, s);
}

// Lanes from and to consecutive elements at p (of lane 0; only active lanes are touched).
template <bool Full, class T, u32 N>
CUGRT_INLINE void load_consecutive(const Op *op, Warp &w, const std::byte *p) {
  Cells<N> cells(op);
  for (u32 n = 0; n < N; ++n) {
    auto *d = w.lane<Lane<T>>(cells.cell[n]);
    CUGRT_LANE_LOOP
    for (u32 i = 0; i < kLanes; ++i)
      if (Full || w.lanes[i])
        d[i] = read_element<T>(p + (i * N + n) * sizeof(T));
  }
}
template <bool Full, class T, u32 N>
CUGRT_INLINE void store_consecutive(const Op *op, Warp &w, std::byte *p) {
  Cells<N> cells(op);
  const Lane<T> *s[N];
  for (u32 n = 0; n < N; ++n)
    s[n] = w.lane<Lane<T>>(cells.cell[n]);
  CUGRT_LANE_LOOP
  for (u32 i = 0; i < kLanes; ++i)
    if (Full || w.lanes[i])
      for (u32 n = 0; n < N; ++n)
        write_element<T>(p + (i * N + n) * sizeof(T), s[n][i]);
}

template <bool Full, class T, u32 N>
CUGRT_INLINE void load_uniform(const Op *op, Warp &w, const std::byte *p) {
  Cells<N> cells(op);
  Lane<T> value[N];
  for (u32 n = 0; n < N; ++n)
    value[n] = read_element<T>(p + n * sizeof(T));
  for (u32 n = 0; n < N; ++n) {
    auto *d = w.lane<Lane<T>>(cells.cell[n]);
    for (u32 i = 0; i < kLanes; ++i)
      keep<Full>(w, d, i, value[n]);
  }
}

/// One half of a warp, from lane `begin` on, at p.
template <class T, u32 N>
CUGRT_INLINE void load_half(const Cells<N> &cells, Warp &w, u32 begin, const std::byte *p,
                            bool runs) {
  for (u32 n = 0; n < N; ++n) {
    auto *d = w.lane<Lane<T>>(cells.cell[n]) + begin;
    if (runs) {
      CUGRT_LANE_LOOP
      for (u32 i = 0; i < kHalf; ++i)
        d[i] = read_element<T>(p + (i * N + n) * sizeof(T));
    } else {
      Lane<T> value = read_element<T>(p + n * sizeof(T));
      for (u32 i = 0; i < kHalf; ++i)
        d[i] = value;
    }
  }
}
template <class T, u32 N>
CUGRT_INLINE void store_half(const Cells<N> &cells, Warp &w, u32 begin, std::byte *p) {
  CUGRT_LANE_LOOP
  for (u32 i = 0; i < kHalf; ++i)
    for (u32 n = 0; n < N; ++n)
      write_element<T>(p + (i * N + n) * sizeof(T), w.lane<Lane<T>>(cells.cell[n])[begin + i]);
}

template <bool Full, class T, u32 N, class Where>
inline void load_each(const Op *op, Warp &w, Where where) {
  Cells<N> cells(op);
  Lane<T> value[N][kLanes]; // first all loads: a destination may be the address
  for (u32 i = 0; i < kLanes; ++i)
    if (Full || w.lanes[i])
      for (u32 n = 0; n < N; ++n)
        value[n][i] = read_element<T>(where(i) + n * sizeof(T));
  for (u32 n = 0; n < N; ++n) {
    auto *d = w.lane<Lane<T>>(cells.cell[n]);
    for (u32 i = 0; i < kLanes; ++i)
      if (Full || w.lanes[i])
        d[i] = value[n][i];
  }
}
template <bool Full, class T, u32 N, class Where>
inline void store_each(const Op *op, Warp &w, Where where) {
  Cells<N> cells(op);
  for (u32 i = 0; i < kLanes; ++i)
    if (Full || w.lanes[i])
      for (u32 n = 0; n < N; ++n)
        write_element<T>(where(i) + n * sizeof(T), w.lane<Lane<T>>(cells.cell[n])[i]);
}

template <bool Full, class T, u32 N, class Where>
CUGRT_INLINE void load_scattered(const Op *op, Warp &w, Where where) {
  // A 32-bit address register may be a destination: a lane's address is read before it is written.
  if constexpr (Full && sizeof(T) == 4 && N == 1) {
    gather_words(w.lane<u32>(op->d), where);
  } else if constexpr (Full && sizeof(T) == 4 && N == 4) {
    u32 *const d[4] = {w.lane<u32>(op->d), w.lane<u32>(op->b), w.lane<u32>(op->c),
                       w.lane<u32>(op->e)};
    gather_quads(d, where);
  } else {
    load_each<Full, T, N>(op, w, where);
  }
}

/// Moves the elements once every address is known to be good. `zero` is where address 0 would be: a
/// number, since no object needs to be there.
template <bool Full, bool Store, class T, u32 N, class A>
CUGRT_INLINE const Op *move(const Op *op, Warp &w, const A *a, const AddressShape &s, u64 zero) {
  auto place = [zero](u64 address) { return reinterpret_cast<std::byte *>(zero + address); };
  auto where = [&](u32 i) { return place(a[i]); };
  if constexpr (Full && !Store && sizeof(T) == 4 && N == 1) {
    if (s.kind != AddressKind::scattered) { // without branches on what the halves are
      u64 first = s.first, second = s.second;
      u32 *d = w.lane<u32>(op->d);
      bool lower_runs = s.lower_runs, upper_runs = s.upper_runs;
      load_or_spread(d, place(first), lower_runs);
      load_or_spread(d + kHalf, place(second), upper_runs);
      return op + 1;
    }
  }
  if constexpr (Full && !Store && sizeof(T) == 4 && N == 4) {
    if (s.kind != AddressKind::scattered) {
      u64 first = s.first, second = s.second;
      bool lower_runs = s.lower_runs, upper_runs = s.upper_runs;
      u32 *const lower[4] = {w.lane<u32>(op->d), w.lane<u32>(op->b), w.lane<u32>(op->c),
                             w.lane<u32>(op->e)};
      u32 *const upper[4] = {lower[0] + kHalf, lower[1] + kHalf, lower[2] + kHalf,
                             lower[3] + kHalf};
      load_or_spread_quads(lower, place(first), lower_runs);
      load_or_spread_quads(upper, place(second), upper_runs);
      return op + 1;
    }
  }
  switch (s.kind) {
  case AddressKind::consecutive:
    if constexpr (Store)
      store_consecutive<Full, T, N>(op, w, place(s.first));
    else
      load_consecutive<Full, T, N>(op, w, place(s.first));
    return op + 1;
  case AddressKind::uniform:
    if constexpr (Store)
      store_each<Full, T, N>(op, w, where);
    else
      load_uniform<Full, T, N>(op, w, place(s.first));
    return op + 1;
  case AddressKind::halves:
    if constexpr (Full && !Store) {
      Cells<N> cells(op);
      u64 first = s.first, second = s.second;
      bool lower_runs = s.lower_runs, upper_runs = s.upper_runs;
      load_half<T, N>(cells, w, 0, place(first), lower_runs);
      load_half<T, N>(cells, w, kHalf, place(second), upper_runs);
      return op + 1;
    } else if constexpr (Full) {
      if (s.lower_runs && s.upper_runs) {
        Cells<N> cells(op);
        store_half<T, N>(cells, w, 0, place(s.first));
        store_half<T, N>(cells, w, kHalf, place(s.second));
        return op + 1;
      }
    }
    [[fallthrough]];
  case AddressKind::scattered:
    if constexpr (Store)
      store_each<Full, T, N>(op, w, where);
    else
      load_scattered<Full, T, N>(op, w, where);
    return op + 1;
  }
  return op + 1;
}

/// The shape of an access: of its group where that is known, otherwise classified.
template <bool Full, u32 Bytes, class A>
CUGRT_INLINE const AddressShape &shape_of(const Op *op, Warp &w, const A *a) {
  AddressShape &s = w.shapes[op->flags & kShapeMask];
  if (!(Full && (op->flags & kFlagKnownShape)))
    classify<Full, Bytes>(w, a, s);
  return s;
}

inline bool inside(const AddressRange &r, u64 begin, u64 bytes) {
  return begin >= r.begin && bytes <= r.bytes && begin - r.begin <= r.bytes - bytes;
}

template <bool Full, bool Store, class T, u32 N>
const Op *access_checked(const Op *op, Warp &w, ptx::Space space) {
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
CUGRT_INLINE const Op *access_global(const Op *op, Warp &w) {
  constexpr u32 kBytes = sizeof(T) * N;
  const u64 *a = w.lane<u64>(op->a);
  const AddressShape &s = shape_of<Full, kBytes>(op, w, a);
  const u64 offset = u64(op->imm);
  // Lanes and offset may be misaligned in ways that cancel: the slow path decides then.
  if (((s.bits | offset) & (kBytes - 1)) ||
      !inside(w.ranges[op->cache], s.low + offset, s.high - s.low + kBytes)) [[unlikely]]
    return access_checked<Full, Store, T, N>(op, w, kglobal);
  // The bytes behind are mostly the next warp's; a hint, which cannot be wrong.
  if constexpr (Full && !Store && N == 1) {
    const auto *behind = reinterpret_cast<const char *>(w.global_offset + offset + s.high + kBytes);
    __builtin_prefetch(behind);
    __builtin_prefetch(behind + 64);
  }
  return move<Full, Store, T, N>(op, w, a, s, w.global_offset + offset);
}

template <bool Full, bool Store, class T, u32 N, class A>
CUGRT_INLINE const Op *access_window(const Op *op, Warp &w) {
  constexpr u32 kBytes = sizeof(T) * N;
  const A *a = w.lane<A>(op->a);
  const AddressShape &s = shape_of<Full, kBytes>(op, w, a);
  const u64 offset = u64(op->imm), begin = s.low + offset, length = s.high - s.low + kBytes;
  if (((s.bits | offset) & (kBytes - 1)) || length > w.shared_bytes ||
      begin > w.shared_bytes - length) [[unlikely]]
    return access_checked<Full, Store, T, N>(op, w, kshared);
  return move<Full, Store, T, N>(op, w, a, s, reinterpret_cast<u64>(w.shared) + offset);
}

template <bool Full, bool Store, class T, u32 N>
CUGRT_INLINE const Op *access(const Op *op, Warp &w, ptx::Space space) {
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
  return access_checked<Full, Store, T, N>(op, w, space);
}

#define LOAD(id, names, space, T, count, cls)                                                      \
  template <bool Full> const Op *id(const Op *op, Warp &w) {                                       \
    return access<Full, false, T, count>(op, w, k##space);                                         \
  }
#define STORE(id, names, space, T, count, cls)                                                     \
  template <bool Full> const Op *id(const Op *op, Warp &w) {                                       \
    return access<Full, true, T, count>(op, w, k##space);                                          \
  }
#include "emulator/exec/opcodes/opcodes.def"

} // namespace

void fill_memory(HandlerTable &table) {
#define LOAD(id, ...) table[size_t(OpId::id)] = {id<true>, id<false>};
#define STORE LOAD
#include "emulator/exec/opcodes/opcodes.def"
}

} // namespace cugrt::emulator::CUGRT_ISA
