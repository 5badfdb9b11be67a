// wmma.load, wmma.store and wmma.mma over the fragments of wmma.h. Products are summed as those of
// mma.sync are: in double, where they are exact, and rounded once.
#include "emulator/exec/units/wmma.h"

#include "emulator/exec/memory.h"
#include "emulator/exec/opcodes/handlers.h"
#include "emulator/exec/units/matrix_element.h"

#include <cstring>

namespace cugrt::emulator {

using namespace CUGRT_ISA; // the build without a suffix

TilePlace tile_place(const Tile &tile, uint32_t lane, uint32_t r, uint32_t e) {
  const u32 group = lane / 4, t = lane % 4, each = tile.per_register();
  const u32 deep = t * each + e;
  if (tile.matrix == TileMatrix::c) {
    const u32 i = r * each + e, column = 2 * t + i % 2;
    if (tile.shape.m == 8)
      return {group, 8 * (i / 2) + column};
    const u32 row = group + 8 * (i % 4 / 2), number = i / 4;
    return tile.shape.m == 16 ? TilePlace{row, 8 * number + column}
                              : TilePlace{16 * number + row, column};
  }
  r %= tile.distinct();
  if (tile.matrix == TileMatrix::b) {
    const u32 in_tile = tile.distinct() / (tile.shape.n / 8);
    return {deep + 4 * each * (r % in_tile), 8 * (r / in_tile) + group};
  }
  if (tile.shape.m == 8)
    return {group, deep + 4 * each * r};
  const u32 in_tile = tile.distinct() / (tile.shape.m / 16), within = r % in_tile;
  return {16 * (r / in_tile) + group + 8 * (within % 2), deep + 4 * each * (within / 2)};
}

void tile_addresses(const Op *op, const Warp &w, uint32_t r, uint32_t e, uint64_t *addresses) {
  const auto &access = *static_cast<const TileAccess *>(op->extra);
  const bool wide = op->flags & kFlagWide;
  for (u32 lane = 0; lane < kLanes; ++lane) {
    const TilePlace place = tile_place(access.tile, lane, r, e);
    const u64 stride = w.lane<u32>(access.stride_cell)[lane];
    const u64 index =
        access.by_column ? place.column * stride + place.row : place.row * stride + place.column;
    const u64 base = wide ? w.lane<u64>(op->a)[lane] : w.lane<u32>(op->a)[lane];
    const u64 address = base + index * access.tile.element_bytes;
    addresses[lane] = wide ? address : u32(address);
  }
}

namespace {

/// The PTX ISA asks for rows aligned to the fragment's bytes, the programming guide for strides of
/// 16 bytes: what breaks both faults.
bool check_alignment(const Op *op, Warp &w, const TileAccess &access) {
  const bool wide = op->flags & kFlagWide;
  const u32 alignment = std::min(16u, access.alignment());
  for (u32 lane = 0; lane < kLanes; ++lane) {
    const u64 base = wide ? w.lane<u64>(op->a)[lane] : w.lane<u32>(op->a)[lane];
    const u64 step = u64(w.lane<u32>(access.stride_cell)[lane]) * access.tile.element_bytes;
    if (!((base | step) % alignment))
      continue;
    raise_fault(w, op, FaultKind::misaligned_address, lane,
                "rows of a wmma matrix that are not aligned to " + std::to_string(alignment) +
                    " bytes");
    return false;
  }
  return true;
}

/// visit(register, lane, shift, place) of every element; false after raising a fault.
template <class Visit> bool for_each_element(const Op *op, Warp &w, Visit visit) {
  const auto &access = *static_cast<const TileAccess *>(op->extra);
  const u32 bytes = access.tile.element_bytes;
  for (u32 r = 0; r < access.tile.count; ++r)
    for (u32 e = 0; e < access.tile.per_register(); ++e) {
      u64 addresses[kLanes];
      std::byte *places[kLanes];
      tile_addresses(op, w, r, e, addresses);
      if (!translate(op, w, ptx::Space(op->space()), addresses, bytes, bytes, places))
        return false;
      for (u32 lane : lanes_of(w.mask))
        visit(r, lane, 8 * bytes * e, places[lane]);
    }
  return true;
}

template <u32 Bytes> const Op *load_tile(const Op *op, Warp &w) {
  const auto &access = *static_cast<const TileAccess *>(op->extra);
  if (!all_here(op, w) || !check_alignment(op, w, access))
    return w.stop;
  u32 words[8][kLanes] = {}; // the address may be a destination
  bool good = for_each_element(op, w, [&](u32 r, u32 lane, u32 shift, const std::byte *from) {
    u32 bits = 0;
    std::memcpy(&bits, from, Bytes);
    words[r][lane] |= bits << shift;
  });
  if (!good)
    return w.stop;
  for (u32 i = 0; i < access.tile.count; ++i)
    for (u32 lane : lanes_of(w.mask))
      w.lane<u32>(access.tile.cells[i])[lane] = words[i][lane];
  return op + 1;
}

template <u32 Bytes> const Op *store_tile(const Op *op, Warp &w) {
  const auto &access = *static_cast<const TileAccess *>(op->extra);
  if (!all_here(op, w) || !check_alignment(op, w, access))
    return w.stop;
  bool good = for_each_element(op, w, [&](u32 r, u32 lane, u32 shift, std::byte *to) {
    u32 bits = w.lane<u32>(access.tile.cells[r])[lane] >> shift;
    std::memcpy(to, &bits, Bytes);
  });
  return good ? op + 1 : w.stop;
}

constexpr u32 kMaxSide = 32, kMaxDepth = 16;

template <class T, class Sum, u32 Columns>
void take(const Warp &w, const Tile &tile, Sum (*out)[Columns]) {
  for (u32 r = 0; r < tile.distinct(); ++r)
    for (u32 lane = 0; lane < kLanes; ++lane)
      for (u32 e = 0; e < tile.per_register(); ++e) {
        const TilePlace at = tile_place(tile, lane, r, e);
        out[at.row][at.column] = element<T>(w.lane<u32>(tile.cells[r])[lane], e);
      }
}

template <class D, class Sum> u32 result_bits(Sum value, [[maybe_unused]] bool saturates) {
  if constexpr (std::is_same_v<D, f32>)
    return put<f32>(canonical(f32(value)));
  else if constexpr (std::is_same_v<D, f16>)
    return f16::store(odd_float(value)) & 0xffff;
  else
    return u32(saturates ? std::clamp<s64>(value, INT32_MIN, INT32_MAX) : value);
}

template <class A, class C, class D> const Op *multiply_tiles(const Op *op, Warp &w) {
  using Sum = typename Element<A>::Sum;
  if (!all_here(op, w))
    return w.stop;
  const auto &product = *static_cast<const TileProduct *>(op->extra);
  const TileShape &shape = product.a.shape;
  Sum a[kMaxSide][kMaxDepth], b[kMaxDepth][kMaxSide], c[kMaxSide][kMaxSide];
  take<A, Sum>(w, product.a, a);
  take<A, Sum>(w, product.b, b);
  take<C, Sum>(w, product.c, c);
  for (u32 row = 0; row < shape.m; ++row)
    for (u32 column = 0; column < shape.n; ++column) {
      Sum sum = 0;
      for (u32 k = 0; k < shape.k; ++k)
        sum += a[row][k] * b[k][column];
      c[row][column] += sum;
    }
  for (u32 r = 0; r < product.d.count; ++r)
    for (u32 lane = 0; lane < kLanes; ++lane) {
      u32 word = 0;
      for (u32 e = 0; e < product.d.per_register(); ++e) {
        const TilePlace at = tile_place(product.d, lane, r, e);
        word |= result_bits<D>(c[at.row][at.column], product.saturates) << (16 * e);
      }
      if (w.mask >> lane & 1)
        w.lane<u32>(product.d.cells[r])[lane] = word;
    }
  return op + 1;
}

} // namespace

void fill_tiles(HandlerTable &table) {
#define TILE(id, names, cls, cells, ...) table[size_t(OpId::id)] = {__VA_ARGS__, __VA_ARGS__};
#include "emulator/exec/opcodes/opcodes.def"
}

} // namespace cugrt::emulator
