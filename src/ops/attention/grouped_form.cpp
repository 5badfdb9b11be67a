// Rows, rings and chunks of attention over shared keys; see grouped_form.h.
#include "ops/attention/grouped_form.h"

#include "ops/emit/op_emitter.h"

#include <algorithm>
#include <bit>

namespace cugrt::codegen {

constexpr int64_t kTile = 16, kMostGroupedWidth = 256;
// Registers hold fewer rows of wider heads, and rings fewer warps.
constexpr int64_t kNarrowHead = 128, kRowsOfNarrow = 16, kRowsOfWide = 8;
// A block's ring: every architecture from sm_80 on gives a block so much; on sm_90 two are
// resident.
constexpr int64_t kGroupedRing = 96 << 10, kMostStages = 4, kResidentBlocks = 2;
constexpr int64_t kMostChunks = 64; // what joins them goes over all

/// Bytes of a warp's tile of keys and of its values, in the form that is multiplied.
static int64_t tile_bytes(int64_t width) {
  const int64_t chunks = width / 8;
  return 2 * kTile * 16 * (chunks % 8 == 0 ? chunks : chunks + 1);
}

/// A cache of the dtype that is computed, or of blocks whose rows begin at multiples of a copy.
static bool comes_in_copies(ir::DType cache, ir::DType dtype, int64_t width) {
  return cache == dtype || (cache == ir::DType::q8_0 && width % 64 == 0);
}

std::optional<GroupedForm> grouped_form(const GroupedCall &call, const KernelChoice &choice) {
  const int64_t group = call.heads / call.kv_heads;
  const int64_t most_rows = call.width > kNarrowHead ? kRowsOfWide : kRowsOfNarrow;
  if (!has_tensor_cores(call.dtype, choice.target) || call.has_mask ||
      !comes_in_copies(call.cache, call.dtype, call.width) || call.width % kTile != 0 ||
      call.width > kMostGroupedWidth || call.queries >= kManyQueries)
    return std::nullopt;
  GroupedForm form{};
  for (int64_t share = 2; share <= std::min(group, most_rows); ++share)
    form.share = group % share == 0 ? share : form.share;
  if (form.share == 0)
    return std::nullopt;
  form.queries = std::clamp<int64_t>(call.queries, 1, std::max<int64_t>(most_rows / form.share, 1));
  form.warps = call.width > kNarrowHead ? 2 : 4;
  const ir::DTypeInfo &info = ir::info(call.cache);
  const bool is_expanded = call.cache != call.dtype; // in a place beside the ring
  const int64_t tile = tile_bytes(call.width), own = is_expanded ? tile : 0,
                slot = is_expanded
                           ? 2 * kTile * call.width / info.elements_per_block * info.bytes_per_block
                           : tile;
  form.stages = std::min((kGroupedRing / form.warps - own) / slot, kMostStages);
  form.stage_bytes = form.warps * slot;
  form.shared_bytes = form.warps * own + form.stages * form.stage_bytes;

  // Heads and queries that meet one chunk are a unit. How many sequences there are changes no
  // sequence's chunks, unless these are many.
  const int64_t multiprocessors = choice.target.multiprocessors, heads = call.heads / form.share,
                units = heads * ((call.queries + form.queries - 1) / form.queries),
                few = kFewBlocksEach * multiprocessors / units;
  form.blocks = kResidentBlocks * multiprocessors;
  form.splits = 1;
  if ((choice.attention == "split" && call.sequences <= kMostCounters / units) ||
      (choice.attention == "auto" && call.sequences <= few && call.capacity >= kLongCache)) {
    const int64_t positions = call.window > 0
                                  ? std::min(call.capacity, call.window + call.queries + kTile)
                                  : call.capacity;
    const int64_t steps = std::min(positions / (form.warps * kTile) + 1, kMostChunks),
                  wanted = std::clamp<int64_t>(form.blocks / heads, 2, kMostChunks);
    form.splits = std::clamp<int64_t>(int64_t(std::bit_ceil(uint64_t(steps))), 2,
                                      int64_t(std::bit_floor(uint64_t(wanted))));
  }
  return form;
}

} // namespace cugrt::codegen
