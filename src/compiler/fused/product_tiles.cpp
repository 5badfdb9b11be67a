// The widths of tiles, and rows that a block holds; see products.h.
#include "compiler/fused/products.h"

namespace cugrt::codegen {

int64_t resident_blocks(const ProductForm &form) {
  constexpr int64_t kOfFloats = 4, kOfRings = 2;
  if (form.x == ir::DType::f64)
    return 1;
  if (ir::info(form.w).kind != ir::DTypeKind::block)
    return form.all_warps ? kOfRings : kOfFloats;
  const bool is_large = ir::info(form.w).elements_per_block > 32;
  const bool takes_over_128 = form.repacked && (form.x == ir::DType::f16 ? form.w == ir::DType::q6_k
                                                : form.x == ir::DType::bf16 ? is_large
                                                                            : form.most_rows > 1);
  return takes_over_128 ? 1 : 2;
}

int64_t count_tiles(std::span<const int64_t> parts, int64_t columns) {
  int64_t count = 0;
  for (const int64_t part : parts)
    count += (part + columns - 1) / columns;
  return count;
}

int64_t tile_columns(const TileRule &rule) {
  int64_t most = rule.step;
  while (most + rule.step <= rule.allowed && rule.has_room(most + rule.step))
    most += rule.step;
  const int64_t waves = (count_tiles(rule.columns, most) + rule.places - 1) / rule.places;
  int64_t columns = rule.step;
  while (columns < most && count_tiles(rule.columns, columns) > waves * rule.places)
    columns += rule.step;
  return columns;
}

/// Most bytes of normalised or rounded rows, in shared memory beside the tiles.
static constexpr int64_t kMostRowBytes = 24 << 10;
static constexpr uint32_t kMostRowThreads = 256;

bool holds_rows(ir::DType dtype, int64_t depth, int64_t most_rows) {
  return depth * ir::info(dtype).bytes_per_block % 16 == 0 &&
         depth * most_rows * ir::info(dtype).bytes_per_block <= kMostRowBytes;
}

std::string why_no_norm(ir::DType dtype, ir::DType norm, int64_t depth, int64_t most_rows) {
  const std::optional<RowForm> form = row_form(depth, uint32_t(ir::info(norm).bytes_per_block));
  if (!form || form->threads > kMostRowThreads)
    return "a block cannot hold a row of " + std::to_string(depth) + " elements in vectors";
  if (depth * most_rows * ir::info(dtype).bytes_per_block > kMostRowBytes)
    return std::to_string(most_rows) + " rows of " + std::to_string(depth) +
           " elements are more than a block has room for";
  return "";
}

} // namespace cugrt::codegen
