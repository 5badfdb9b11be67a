// How wide the tiles of a kernel of products are: by how many of its blocks a device holds at once.
#pragma once

#include "base/type/dtype.h"

#include <cstdint>
#include <functional>
#include <span>

namespace cugrt::codegen {

/// A form of product of a kernel (products.h).
struct ProductForm {
  ir::DType x, w;
  int64_t most_rows;
  bool repacked;  // w is repacked blocks
  bool all_warps; // of a block compute it together
};

/// Blocks of 256 threads that a multiprocessor's 64 K registers hold, by what NVRTC takes for the
/// form on sm_90: bench/sass holds it.
int64_t resident_blocks(const ProductForm &form);

struct TileRule {
  std::span<const int64_t> columns; // of each part; a part has tiles of its own
  int64_t step;                     // tiles have a multiple of it
  int64_t allowed;                  // columns of a tile, but for a step
  int64_t places;                   // blocks that the device holds at once
  std::function<bool(int64_t columns)> has_room;
};

/// Of all parts.
int64_t count_tiles(std::span<const int64_t> parts, int64_t columns);

/// As few columns as let all tiles be resident at once: each tile begins with a norm, and what is
/// behind the first wave waits for it. Where tiles as large as they may be are still more, as few
/// as need no more waves than those.
int64_t tile_columns(const TileRule &rule);

} // namespace cugrt::codegen
