// mma, ldmatrix, stmatrix, movmatrix: a warp's matrices, spread over its lanes as the PTX ISA says
// ("Matrix Fragments for mma").
//
// Lane 4 * group + t holds, with E elements in a register (2 of 16 bits, 4 of 8, 1 of tf32):
//
//     a, register r, element e    row group + 8 * (r odd), column t * E + e + 4 * E * (r / 2)
//     b, register r, element e    row t * E + e + 4 * E * r, column group
//     c and d, element i          row group + 8 * (i / 2), column 2 * t + i % 2
//
// Products are summed in double, where they are exact, and rounded once: how hardware rounds in
// between is not documented.
#include "emulator/exec/units/wmma.h"

#include "emulator/exec/memory.h"
#include "emulator/exec/opcodes/handlers.h"
#include "emulator/exec/units/matrix_element.h"

#include <algorithm>
#include <cstring>

namespace cugrt::emulator {

using namespace CUGRT_ISA; // the build without a suffix

namespace {

constexpr u32 kRows = 16, kColumns = 8, kMaxDepth = 32;

/// Elements of a register in all lanes, by place in the register: a loop over lanes, which becomes
/// vector instructions.
template <class T> struct Elements {
  static constexpr u32 kEach = 32 / Element<T>::kBits;
  typename Element<T>::Sum value[kEach][kLanes];
  Elements(const Warp &w, u32 cell) {
    const u32 *words = w.lane<u32>(cell);
    for (u32 e = 0; e < kEach; ++e)
      for (u32 lane = 0; lane < kLanes; ++lane)
        value[e][lane] = element<T>(words[lane], e);
  }
};

template <class T, u32 Depth, class Sum>
void take_a(const Warp &w, const MatrixSite &site, Sum (&a)[kRows][kMaxDepth]) {
  constexpr u32 kEach = Elements<T>::kEach;
  for (u32 r = 0; r < kRows * Depth / kLanes / kEach; ++r) {
    const Elements<T> from(w, site.a[r]);
    for (u32 lane = 0; lane < kLanes; ++lane)
      for (u32 e = 0; e < kEach; ++e)
        a[lane / 4 + 8 * (r & 1)][lane % 4 * kEach + e + 4 * kEach * (r / 2)] = from.value[e][lane];
  }
}
template <class T, u32 Depth, class Sum>
void take_b(const Warp &w, const MatrixSite &site, Sum (&b)[kMaxDepth][kColumns]) {
  constexpr u32 kEach = Elements<T>::kEach;
  for (u32 r = 0; r < kColumns * Depth / kLanes / kEach; ++r) {
    const Elements<T> from(w, site.b[r]);
    for (u32 lane = 0; lane < kLanes; ++lane)
      for (u32 e = 0; e < kEach; ++e)
        b[lane % 4 * kEach + e + 4 * kEach * r][lane / 4] = from.value[e][lane];
  }
}

// c and d: f32 and s32 an element a register, f16 two.
f64 accumulator(const Warp &w, const MatrixSite &site, u32 lane, u32 i, f32) {
  return float_of(w.lane<u32>(site.c[i])[lane]);
}
s64 accumulator(const Warp &w, const MatrixSite &site, u32 lane, u32 i, s32) {
  return s32(w.lane<u32>(site.c[i])[lane]);
}
f64 accumulator(const Warp &w, const MatrixSite &site, u32 lane, u32 i, f16) {
  return f16::load(w.lane<u32>(site.c[i / 2])[lane] >> (16 * (i & 1)));
}
void put_result(Warp &w, const MatrixSite &site, u32 lane, u32 i, f64 value, f32) {
  w.lane<u32>(site.d[i])[lane] = put<f32>(canonical(f32(value)));
}
void put_result(Warp &w, const MatrixSite &site, u32 lane, u32 i, s64 value, s32) {
  if (site.saturates)
    value = std::clamp<s64>(value, INT32_MIN, INT32_MAX);
  w.lane<u32>(site.d[i])[lane] = u32(value);
}
void put_result(Warp &w, const MatrixSite &site, u32 lane, u32 i, f64 value, f16) {
  u32 bits = f16::store(odd_float(value)), &word = w.lane<u32>(site.d[i / 2])[lane];
  word = i & 1 ? (word & 0xffff) | bits << 16 : bits;
}

template <class A, class B, u32 Depth, class D> const Op *mma(const Op *op, Warp &w) {
  using Sum = typename Element<A>::Sum;
  if (!all_here(op, w))
    return w.stop;
  const auto &site = *static_cast<const MatrixSite *>(op->extra);
  Sum a[kRows][kMaxDepth], b[kMaxDepth][kColumns], sums[kRows][kColumns], result[kLanes][4];
  take_a<A, Depth>(w, site, a);
  take_b<B, Depth>(w, site, b);
  for (u32 row = 0; row < kRows; ++row) {
    Sum sum[kColumns] = {};
    for (u32 k = 0; k < Depth; ++k)
#pragma GCC unroll 8
      for (u32 column = 0; column < kColumns; ++column)
        sum[column] += a[row][k] * b[k][column];
    std::copy(sum, sum + kColumns, sums[row]);
  }
  for (u32 lane = 0; lane < kLanes; ++lane)
    for (u32 i = 0; i < 4; ++i)
      result[lane][i] =
          sums[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2] + accumulator(w, site, lane, i, D());
  for (u32 lane = 0; lane < kLanes; ++lane) // a destination may be a source
    for (u32 i = 0; i < 4 && (w.mask >> lane & 1); ++i)
      put_result(w, site, lane, i, result[lane][i], D());
  return op + 1;
}

/// Lanes 8 * m and on hold the addresses of the rows of matrix m. False: the path stops.
bool rows_of_matrices(const Op *op, Warp &w, u32 count, std::byte **rows) {
  if (!all_here(op, w))
    return false;
  const u32 mask = w.mask, named = u32((u64(1) << (8 * count)) - 1);
  w.mask = mask & named;
  bool good = w.mask == named && translate_own(op, w, ptx::Space(op->space()), 16, rows);
  bool missing = w.mask != named;
  w.mask = mask;
  if (missing)
    raise_fault(w, op, FaultKind::illegal_instruction, u32(__builtin_ctz(mask)),
                "a matrix without the lanes that hold its rows");
  return good;
}

/// A lane gets two neighbouring elements of each matrix, of a row or, transposed, of a column.
template <u32 Count, bool Transposed> const Op *load_matrix(const Op *op, Warp &w) {
  std::byte *rows[kLanes];
  if (!rows_of_matrices(op, w, Count, rows))
    return w.stop;
  const u32 mask = w.mask;
  const u32 cells[] = {op->d, op->b, op->c, op->e};
  u32 result[Count][kLanes];
  for (u32 m = 0; m < Count; ++m)
    for (u32 lane = 0; lane < kLanes; ++lane) {
      u16 pair[2];
      for (u32 e = 0; e < 2; ++e) {
        u32 row = Transposed ? 2 * (lane % 4) + e : lane / 4;
        u32 column = Transposed ? lane / 4 : 2 * (lane % 4) + e;
        std::memcpy(&pair[e], rows[8 * m + row] + 2 * column, 2);
      }
      result[m][lane] = pair[0] | u32(pair[1]) << 16;
    }
  for (u32 m = 0; m < Count; ++m)
    for (u32 lane : lanes_of(mask))
      w.lane<u32>(cells[m])[lane] = result[m][lane];
  return op + 1;
}

/// The other way round; lanes that have left the path store nothing.
template <u32 Count, bool Transposed> const Op *store_matrix(const Op *op, Warp &w) {
  std::byte *rows[kLanes];
  if (!rows_of_matrices(op, w, Count, rows))
    return w.stop;
  const u32 cells[] = {op->d, op->b, op->c, op->e};
  for (u32 m = 0; m < Count; ++m)
    for (u32 lane = 0; lane < kLanes; ++lane)
      for (u32 e = 0; e < 2 && (w.mask >> lane & 1); ++e) {
        u32 row = Transposed ? 2 * (lane % 4) + e : lane / 4;
        u32 column = Transposed ? lane / 4 : 2 * (lane % 4) + e;
        u16 element = u16(w.lane<u32>(cells[m])[lane] >> (16 * e));
        std::memcpy(rows[8 * m + row] + 2 * column, &element, 2);
      }
  return op + 1;
}

/// Element e of a lane is that of row lane / 4 and column 2 * (lane % 4) + e; rows become columns.
const Op *transpose_matrix(const Op *op, Warp &w) {
  if (!all_here(op, w))
    return w.stop;
  u32 result[kLanes];
  const u32 *from = w.lane<u32>(op->a);
  for (u32 lane = 0; lane < kLanes; ++lane) {
    const u32 row = lane / 4;
    result[lane] = 0;
    for (u32 e = 0; e < 2; ++e)
      result[lane] |= (from[4 * (2 * (lane % 4) + e) + row / 2] >> (16 * (row & 1)) & 0xffff)
                      << (16 * e);
  }
  for (u32 lane : lanes_of(w.mask))
    w.lane<u32>(op->d)[lane] = result[lane];
  return op + 1;
}

} // namespace

void fill_matrix(HandlerTable &table) {
#define MATRIX(id, names, cls, cells, ...) table[size_t(OpId::id)] = {__VA_ARGS__, __VA_ARGS__};
#include "emulator/exec/opcodes/opcodes.def"
}

} // namespace cugrt::emulator
