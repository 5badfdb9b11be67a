// Fragments of wmma: how they lie in a warp's registers, and where their elements are in memory.
//
// PTX leaves that open. Here a fragment is made of the tiles of mma.sync, so that with one tile
// both are the same ("Matrix Fragments for mma"). Lane 4 * group + t, E elements of a register:
//
//     a     tiles of 16 rows (m8: the upper half of one); column 4 * E * (r / 2) + t * E + e
//     b     tiles of 8 columns; row 4 * E * r + t * E + e
//     c, d  tiles of 16 x 8 (m8: of 8 x 8); columns 2 * t and 2 * t + 1
//
// PTX gives f16 fragments of a and b eight registers whatever the shape; those beyond the elements
// hold copies of the others.
#pragma once

#include "emulator/exec/warps/warp.h"

#include <array>

namespace cugrt::emulator {

struct TileShape {
  uint32_t m = 0, n = 0, k = 0;
};

enum class TileMatrix : uint8_t { a, b, c };

/// A fragment: which matrix of which shape, and the cells of its registers.
struct Tile {
  TileMatrix matrix = TileMatrix::a;
  TileShape shape;
  uint32_t element_bytes = 2;
  uint32_t count = 0; // of registers
  uint32_t cells[8] = {};

  uint32_t rows() const { return matrix == TileMatrix::b ? shape.k : shape.m; }
  uint32_t columns() const { return matrix == TileMatrix::a ? shape.k : shape.n; }
  uint32_t per_register() const { return 4 / element_bytes; }
  /// Registers that hold elements of their own.
  uint32_t distinct() const { return rows() * columns() * element_bytes / (4 * kLanes); }
};

struct TilePlace {
  uint32_t row, column;
};
/// Element e of register r in a lane.
TilePlace tile_place(const Tile &tile, uint32_t lane, uint32_t r, uint32_t e);

/// wmma.load and wmma.store: a matrix in memory, its leading dimension `stride` elements apart.
struct TileAccess {
  Tile tile;
  bool by_column = false;
  uint32_t stride_cell = 0;
  uint32_t alignment() const { return 4 * tile.count; } // of every row, or column
};

/// wmma.mma: d = a * b + c.
struct TileProduct {
  Tile a, b, c, d;
  bool saturates = false;
};

/// Addresses of element (r, e) of every lane, as the operation's own address and stride say; in the
/// space of the operation.
void tile_addresses(const Op *op, const Warp &w, uint32_t r, uint32_t e, uint64_t *addresses);

/// visit(r, e, lane, address) of every element that `lanes` load or store, until it gives false.
template <class Visit>
void for_each_tile_access(const Op *op, const Warp &w, uint32_t lanes, Visit visit) {
  const Tile &tile = static_cast<const TileAccess *>(op->extra)->tile;
  uint64_t addresses[kLanes];
  for (uint32_t r = 0; r < tile.count; ++r)
    for (uint32_t e = 0; e < tile.per_register(); ++e) {
      tile_addresses(op, w, r, e, addresses);
      for (uint32_t i = 0; i < kLanes; ++i)
        if ((lanes >> i & 1) && !visit(r, e, i, addresses[i]))
          return;
    }
}

/// Register cells of mma, for decoder and handlers: d = a * b + c. As many of each as the shape
/// has.
struct MatrixSite {
  std::array<uint32_t, 8> d{}, a{}, b{}, c{};
  uint32_t d_count = 0, a_count = 0, b_count = 0, c_count = 0;
  bool saturates = false;
};

} // namespace cugrt::emulator
