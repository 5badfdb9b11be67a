// Undefined bytes in the fragments of wmma; see init_check.h.
#include "emulator/exec/init_check.h"

#include "emulator/exec/access_rows.h"
#include "emulator/exec/block.h"
#include "emulator/exec/wmma.h"

namespace cugrt::emulator {

namespace {

uint64_t element_bits(const Tile &tile, uint32_t e) {
  return (~uint64_t(0) >> (64 - 8 * tile.element_bytes)) << (8 * tile.element_bytes * e);
}

} // namespace

void InitCheck::tile_load(Warp &w, const Op *op, uint32_t lanes) {
  const auto &access = *static_cast<const TileAccess *>(op->extra);
  check_addresses(w, op, lanes, op->a);
  use_slot(w, op, lanes, access.stride_slot, "an address is computed from");
  const Tile &tile = access.tile;
  for (uint32_t r = 0; r < tile.count; ++r) {
    Taint &out = result(tile.slots[r], lanes).taint;
    for (uint32_t e = 0; e < tile.per_register(); ++e) {
      uint64_t addresses[kLanes];
      tile_addresses(op, w, r, e, addresses);
      for (uint32_t i = 0; i < kLanes; ++i) {
        if (!(lanes >> i & 1))
          continue;
        ptx::Space space = resolve(access_space(op), addresses[i]);
        Loaded what = loaded(w, i, space, addresses[i], tile.element_bytes);
        if (!what.undefined)
          continue;
        if (!(out.lanes >> i & 1))
          out.bits[i] = 0;
        out.lanes |= 1u << i;
        out.computed |= uint32_t(what.computed) << i;
        out.bits[i] |= element_bits(tile, e);
        out.origin[i] =
            new_origin(w, op, space, addresses[i] + uint32_t(__builtin_ctz(what.undefined)));
      }
    }
  }
}

void InitCheck::tile_store(Warp &w, const Op *op, uint32_t lanes) {
  const auto &access = *static_cast<const TileAccess *>(op->extra);
  check_addresses(w, op, lanes, op->a);
  use_slot(w, op, lanes, access.stride_slot, "an address is computed from");
  const Tile &tile = access.tile;
  for (uint32_t r = 0; r < tile.count; ++r) {
    const Taint *values = taint(w.current, tile.slots[r]);
    for (uint32_t e = 0; e < tile.per_register(); ++e) {
      uint64_t addresses[kLanes];
      tile_addresses(op, w, r, e, addresses);
      for (uint32_t i = 0; i < kLanes; ++i) {
        if (!(lanes >> i & 1))
          continue;
        ptx::Space space = resolve(access_space(op), addresses[i]);
        Loaded what;
        if (values && values->lanes >> i & 1 && values->bits[i] & element_bits(tile, e)) {
          what.undefined = (1u << tile.element_bytes) - 1;
          what.computed = values->computed >> i & 1;
        }
        if (what.computed && space == ptx::Space::global) {
          use(w, op, i, values->origin[i],
              "a value that is stored to global memory is computed from");
          what = {};
        }
        stored(w, i, space, addresses[i], tile.element_bytes, what);
      }
    }
  }
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
      const Taint *from = taint(w.current, tile->slots[r]);
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
    Result &out = result(product.d.slots[r], lanes);
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
