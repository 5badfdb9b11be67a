// Products of many rows by tiles, of which those beyond whole waves are cut along k, so that their
// wave is full, too: TilePlace of kernels/shared/join_splits.cuh.
#pragma once

#include "ops/emit/op_emitter.h"

#include <array>
#include <optional>
#include <string>

namespace cugrt::codegen {

/// A form of tiles for products of one size.
struct TileForm {
  std::string entry, option; // the option says `places`
  int64_t rows = 0, columns = 0, warps = 0, shared_bytes = 0;
  int64_t places = 0;    // blocks that the device holds at once
  int64_t parts = 0;     // that a tile is cut into at most
  int64_t room = places; // for sums of so many parts
};

/// Up to so many rows the first takes fewer instructions than the second.
inline constexpr int64_t kMostRowsOfSmallTiles = 64;
typedef std::array<TileForm, 2> TileForms;

/// Parts of `depth` elements of k with `least` each: the last block adds the sums of all, so
/// smaller parts would take longer for sums than for products.
int64_t parts_of_tile(int64_t depth, int64_t least, int64_t most);

/// How many blocks with so many bytes of dynamic shared memory the device holds, `most` a
/// multiprocessor by registers.
int64_t places_of_tiles(int64_t shared_bytes, int64_t most, const Target &target);

/// kernels/shared/number_tile.cuh, for x of `dtype` and `depth` elements of k.
TileForms register_tiles(const std::string &entry, ir::DType dtype, int64_t depth,
                         const Target &target);

/// Likewise for x [m, k] of f32 times numbers [n, k]; the launch has more than eight rows, up to a
/// limit.
struct NumberTiles {
  TileForms forms;
  int64_t n;
  ir::Interval rows;
};
std::optional<NumberTiles> number_tiles(OpEmitter &op, ir::DType dtype, ir::ExprId m, ir::ExprId n,
                                        ir::ExprId k);

/// Leaves so much room that sums of parts take at most twice what x and y of the most rows do, of
/// `dtype` and so many elements together a row.
void bound_sums(TileForms &forms, ir::DType dtype, int64_t elements, const ir::Interval &rows);

/// COPY_BYTES: bytes, up to 16, that rows of both factors are known to be multiples of, or may be.
int64_t copied_bytes(OpEmitter &op, ir::DType dtype, ir::ExprId k, ir::ExprId n);

/// Sums of the tiles that are cut, as many as there can be, and a counter for each of them.
void add_parts(OpEmitter &op, KernelLaunch &launch, const TileForms &forms, int64_t n,
               const ir::Interval &rows);

/// The variants for `rows`, of more rows than those before them, and their options.
void add_tiles(KernelLaunch &launch, const TileForms &forms, int64_t n, ir::ExprId rows,
               const ir::Interval &range);

} // namespace cugrt::codegen
