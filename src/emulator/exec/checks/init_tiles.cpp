// Undefined bytes in the fragments of wmma; see init_check.h.
#include "emulator/exec/checks/init_check.h"

#include "emulator/exec/checks/access_rows.h"
#include "emulator/exec/memory.h"
#include "emulator/exec/units/wmma.h"

namespace cugrt::emulator {

static uint64_t element_bits(const Tile &tile, uint32_t e) {
  return (~uint64_t(0) >> (64 - 8 * tile.element_bytes)) << (8 * tile.element_bytes * e);
}

void InitCheck::tile_load(Warp &w, const Op *op, uint32_t lanes) {
  const auto &access = *static_cast<const TileAccess *>(op->extra);
  check_addresses(w, op, lanes, op->a);
  use_cell(w, op, lanes, access.stride_cell, "an address is computed from");
  const Tile &tile = access.tile;
  for (uint32_t r = 0; r < tile.count; ++r)
    result(tile.cells[r], lanes);
  for_each_tile_access(op, w, lanes, [&](uint32_t r, uint32_t e, uint32_t lane, uint64_t address) {
    const ptx::Space space = resolve(access_space(op), address);
    const Loaded what = loaded(w, lane, space, address, tile.element_bytes);
    if (!what.undefined)
      return true;
    results_[r].taint.add(
        lane, element_bits(tile, e),
        new_origin(w, op, space, address + uint32_t(__builtin_ctz(what.undefined))), what.computed);
    return true;
  });
}

void InitCheck::tile_store(Warp &w, const Op *op, uint32_t lanes) {
  const auto &access = *static_cast<const TileAccess *>(op->extra);
  check_addresses(w, op, lanes, op->a);
  use_cell(w, op, lanes, access.stride_cell, "an address is computed from");
  const Tile &tile = access.tile;
  for_each_tile_access(op, w, lanes, [&](uint32_t r, uint32_t e, uint32_t lane, uint64_t address) {
    const ptx::Space space = resolve(access_space(op), address);
    const Taint *values = taint(w.current, tile.cells[r]);
    Loaded what;
    if (values && values->lanes >> lane & 1 && values->bits[lane] & element_bits(tile, e)) {
      what.undefined = (1u << tile.element_bytes) - 1;
      what.computed = values->computed >> lane & 1;
    }
    if (what.computed && space == ptx::Space::global) {
      use(w, op, lane, values->origin[lane],
          "a value that is stored to global memory is computed from");
      what = {};
    }
    stored(w, lane, space, address, tile.element_bytes, what);
    return true;
  });
}

/// A row of d depends on a row of a, a column on a column of b, an element on that of c.
void InitCheck::tile_product(Warp &w, const Op *op, uint32_t lanes) {
  const auto &product = *static_cast<const TileProduct *>(op->extra);
  struct Source {
    const Taint *taint = nullptr;
    uint32_t lane = 0;
  };
  Source rows[32], columns[32], cells[32][32];
  for (const Tile *tile : {&product.a, &product.b, &product.c})
    for (uint32_t r = 0; r < tile->count; ++r) {
      const Taint *from = taint(w.current, tile->cells[r]);
      for (uint32_t lane = 0; from && lane < kLanes; ++lane)
        for (uint32_t e = 0; e < tile->per_register(); ++e) {
          if (!(from->lanes >> lane & 1) || !(from->bits[lane] & element_bits(*tile, e)))
            continue;
          const TilePlace at = tile_place(*tile, lane, r, e);
          (tile == &product.a   ? rows[at.row]
           : tile == &product.b ? columns[at.column]
                                : cells[at.row][at.column]) = {from, lane};
        }
    }
  for (uint32_t r = 0; r < product.d.count; ++r) {
    Result &out = result(product.d.cells[r], lanes);
    for (uint32_t lane = 0; lane < kLanes; ++lane)
      for (uint32_t e = 0; (lanes >> lane & 1) && e < product.d.per_register(); ++e) {
        const TilePlace at = tile_place(product.d, lane, r, e);
        for (const Source &s : {rows[at.row], columns[at.column], cells[at.row][at.column]})
          if (s.taint)
            spread(out, lane, element_bits(product.d, e), *s.taint, s.lane, true);
      }
  }
}

} // namespace cugrt::emulator
