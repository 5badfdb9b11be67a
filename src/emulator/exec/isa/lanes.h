// Loops over the 32 lanes of a warp. Included only by the sources that are built once for each
// instruction set, all in namespace CUGRT_ISA so that no two builds of one function can be merged;
// for the same reason nothing here calls an inline function of the standard library that might be
// emitted out of line.
#pragma once

#include "emulator/exec/opcodes/handlers.h"
#include "emulator/exec/warps/warp.h"

#ifndef CUGRT_ISA
#define CUGRT_ISA baseline
#endif

// Inlines the parts of a handler, so that its constants reach the loops.
#define CUGRT_INLINE inline __attribute__((always_inline))

#if defined(__clang__)
#define CUGRT_LANE_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define CUGRT_LANE_LOOP _Pragma("GCC ivdep")
#endif

namespace cugrt::emulator::CUGRT_ISA {

using f32 = float;
using f64 = double;
__extension__ using u128 = unsigned __int128;
__extension__ using s128 = __int128;
static_assert(sizeof(float) == 4 && sizeof(double) == 8);

// The lane that holds a T, and the ways in and out. Small types are extended to the whole lane.
template <class T> struct LaneOf { using type = u32; };
template <> struct LaneOf<u64> { using type = u64; };
template <> struct LaneOf<s64> { using type = u64; };
template <> struct LaneOf<f64> { using type = u64; };
template <class T> using Lane = typename LaneOf<T>::type;

template <class T> inline T get(Lane<T> bits) { return T(bits); }
template <> inline f32 get<f32>(u32 bits) { return __builtin_bit_cast(f32, bits); }
template <> inline f64 get<f64>(u64 bits) { return __builtin_bit_cast(f64, bits); }

template <class T> inline Lane<T> put(T value) { return Lane<T>(value); }
template <> inline u32 put<f32>(f32 value) { return __builtin_bit_cast(u32, value); }
template <> inline u64 put<f64>(f64 value) { return __builtin_bit_cast(u64, value); }

template <bool Full, class D> CUGRT_INLINE void keep(const Warp &w, D *d, u32 i, D value) {
  if constexpr (Full)
    d[i] = value;
  else
    d[i] = w.lanes[i] ? value : d[i];
}

// Cells of one operation are the same or disjoint: no lane depends on another.
template <bool Full, class D, class A, class F>
CUGRT_INLINE const Op *unary(const Op *op, Warp &w, F f) {
  auto *d = w.lane<Lane<D>>(op->d);
  const auto *a = w.lane<Lane<A>>(op->a);
  CUGRT_LANE_LOOP
  for (u32 i = 0; i < kLanes; ++i)
    keep<Full>(w, d, i, put<D>(f(get<A>(a[i]))));
  return op + 1;
}

template <bool Full, class D, class A, class B, class F>
CUGRT_INLINE const Op *binary(const Op *op, Warp &w, F f) {
  auto *d = w.lane<Lane<D>>(op->d);
  const auto *a = w.lane<Lane<A>>(op->a);
  const auto *b = w.lane<Lane<B>>(op->b);
  CUGRT_LANE_LOOP
  for (u32 i = 0; i < kLanes; ++i)
    keep<Full>(w, d, i, put<D>(f(get<A>(a[i]), get<B>(b[i]))));
  return op + 1;
}

template <bool Full, class D, class A, class B, class C, class F>
CUGRT_INLINE const Op *ternary(const Op *op, Warp &w, F f) {
  auto *d = w.lane<Lane<D>>(op->d);
  const auto *a = w.lane<Lane<A>>(op->a);
  const auto *b = w.lane<Lane<B>>(op->b);
  const auto *c = w.lane<Lane<C>>(op->c);
  CUGRT_LANE_LOOP
  for (u32 i = 0; i < kLanes; ++i)
    keep<Full>(w, d, i, put<D>(f(get<A>(a[i]), get<B>(b[i]), get<C>(c[i]))));
  return op + 1;
}

template <bool Full, class D, class A, class B, class C, class E, class F>
CUGRT_INLINE const Op *quaternary(const Op *op, Warp &w, F f) {
  auto *d = w.lane<Lane<D>>(op->d);
  const auto *a = w.lane<Lane<A>>(op->a);
  const auto *b = w.lane<Lane<B>>(op->b);
  const auto *c = w.lane<Lane<C>>(op->c);
  const auto *e = w.lane<Lane<E>>(op->e);
  CUGRT_LANE_LOOP
  for (u32 i = 0; i < kLanes; ++i)
    keep<Full>(w, d, i, put<D>(f(get<A>(a[i]), get<B>(b[i]), get<C>(c[i]), get<E>(e[i]))));
  return op + 1;
}

void fill_integer(HandlerTable &table);
void fill_float(HandlerTable &table);
void fill_rounded(HandlerTable &table);
void fill_convert(HandlerTable &table);
void fill_half(HandlerTable &table);
void fill_memory(HandlerTable &table);
void fill_lanewise(HandlerTable &table);
void fill_integer_branches(HandlerTable &table);
void fill_float_branches(HandlerTable &table);

} // namespace cugrt::emulator::CUGRT_ISA
