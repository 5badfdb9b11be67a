// The effect on memory of each operation of opcodes.def, for the checks.
#pragma once

#include "emulator/exec/opcodes/handlers.h"
#include "emulator/exec/warps/warp.h"

namespace cugrt::emulator {

struct AccessRow {
  enum class Kind : uint8_t {
    none,
    load,
    store,
    atomic,
    matrix,
    matrix_store,
    async_copy,
    bulk_load,  // into shared memory
    bulk_store, // from it
    tile_load,
    tile_store
  };
  Kind kind = Kind::none;
  ptx::Space space = ptx::Space::none; // of atomics, matrices and tiles: see Op::space
  uint32_t bytes = 0, count = 1;       // of an element, or of a matrix's row
  bool is_signed = false;              // the element is extended to its register with its sign
  bool transposed = false;             // of matrices

  uint32_t total_bytes() const { return is_matrix() ? bytes : bytes * count; }
  bool is_plain() const { return kind == Kind::load || kind == Kind::store; }
  bool is_matrix() const { return kind == Kind::matrix || kind == Kind::matrix_store; }
};

const AccessRow &access_row(const Op *op);

/// The space that the operation names; none: its addresses are generic.
ptx::Space access_space(const Op *op);

/// The lanes of the path that execute the operation: those whose guard holds.
uint32_t executing_lanes(const Op *op, const Warp &w);

} // namespace cugrt::emulator
