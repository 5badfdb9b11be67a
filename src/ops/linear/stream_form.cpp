// How much of a ring a block has; see stream_form.h.
#include "ops/linear/stream_form.h"

#include "ops/emit/op_emitter.h"

#include <algorithm>

namespace cugrt::codegen {

constexpr int64_t kWarps = 8, kMostSlots = 4;

/// Elements of a row of w in a slot; of numbers 128 bytes of them.
static int64_t slot_elements(ir::DType format) {
  const ir::DTypeInfo &info = ir::info(format);
  return info.kind != ir::DTypeKind::block ? 128 / info.bytes_per_block
         : info.elements_per_block == 32   ? 128
                                           : 256;
}
/// Between rows of x in a slot.
static int64_t padding(ir::DType format) {
  return ir::info(format).kind == ir::DTypeKind::block ? 64 : 16;
}
static int64_t row_bytes(ir::DType format, int64_t elements) {
  const ir::DTypeInfo &info = ir::info(format);
  return elements / info.elements_per_block * info.bytes_per_block;
}

bool has_rings(ir::DType dtype, const Target &target) {
  return (ir::is_half(dtype) || dtype == ir::DType::f32) &&
         target.compute_capability >= kTensorCoresSince;
}

bool streams_blocks(ir::DType dtype, ir::DType format, int64_t n, int64_t k) {
  const bool has_high_bits = format == ir::DType::q5_0 || format == ir::DType::q5_1;
  const int64_t multiple = has_high_bits ? slot_elements(format) // else copies are not aligned
                                         : ir::info(format).elements_per_block;
  if (!(ir::is_half(dtype) || dtype == ir::DType::f32) || n <= 0 || n % kStreamColumns != 0 ||
      k <= 0 || k % multiple != 0)
    return false;
  return n < (int64_t(1) << 32) / row_bytes(format, k); // offsets have 32 bits
}

int64_t stream_rows(ir::DType dtype, int64_t rows) {
  return ir::is_half(dtype) && rows > 1 ? kMostStreamRows : rows;
}

int64_t stream_slot_bytes(ir::DType dtype, ir::DType format, int64_t rows) {
  const int64_t elements = slot_elements(format);
  // With several rows of f32, most of a slot with blocks would be x.
  const bool is_mostly_x =
      dtype == ir::DType::f32 && ir::info(format).kind == ir::DTypeKind::block && rows > 1;
  const int64_t of_row = elements * ir::info(dtype).bytes_per_block + padding(format);
  return kWarps *
         (kStreamColumns * row_bytes(format, elements) + (is_mostly_x ? 0 : rows * of_row));
}

StreamRing stream_ring(int64_t slot_bytes, int64_t beside, int64_t most_blocks,
                       const Target &target) {
  // Bytes of a block's sums, and of the driver.
  constexpr int64_t kSums = 9 << 10, kOfDriver = 1 << 10;
  auto slots = [&](int64_t blocks) {
    const int64_t room =
        shared_bytes_of_multiprocessor(target) / blocks - kSums - kOfDriver - beside;
    return std::clamp<int64_t>(room / slot_bytes, 1, kMostSlots);
  };
  const int64_t blocks = most_blocks > 1 && slots(2) > 1 ? 2 : 1;
  return {blocks, slots(blocks)};
}

} // namespace cugrt::codegen
