// Numbers of few bits that stand for floats, what ONNX's and ONNX Runtime's ops on them share.
#pragma once

#include "fronts/onnx/call.h"

#include <algorithm>

namespace cugrt::onnx {

/// round(x / scale) + zero point, rounded half to even, limited to the dtype's range.
V quantize(Call &c, V x, V scale, V zero, DType to);
/// Sums of products of bytes as bytes: by one factor, a_scale * b_scale / scale, rounded, + zero
/// point.
V requantize(Call &c, V sums, V a_scale, V b_scale, V scale, V zero, DType to);
/// The scale or zero point of an axis, as it stretches over `x`; of blocks, repeated.
V along(Call &c, V q, V x, int64_t axis_number, int64_t block);
/// (x - zero point) * scale; the zero point may be absent.
V dequantize(Call &c, V x, V scale, V zero);
/// The product, i32, of bytes less their zero points.
V matmul_bytes(Call &c, V a, V b, V a_zero, V b_zero);

/// x as a narrow dtype that is not `none`, held as held_as says: integers keep their low bits, as
/// Cast's do; floats are rounded to the nearest, and beyond the largest they become that one where
/// the node's `saturate` says so, else infinity or NaN.
V narrowed(Call &c, V x, Narrow to);

/// A tensor of floats as u8: 0 is one of its numbers.
struct Bytes {
  V values, scale, zero;
};
Bytes dynamically_quantized(Call &c, V x);

/// Whether they are numbers of a window: from `least` on, and none so large that no image has it.
inline bool of_a_window(const Ints &list, int64_t least) {
  constexpr int64_t kMost = 1 << 24;
  return std::all_of(list.begin(), list.end(),
                     [least](int64_t n) { return n >= least && n <= kMost; });
}

/// The result of a DequantizeLinear as a constant [n, k] of a block format, where it is one of two
/// dimensions in blocks along k that a MatMul or a Gemm alone reads, perhaps transposed;
/// Call::matmul takes it as it is. Null: it is another one, or no format holds its numbers exactly.
EntryPtr blocks_for_product(Call &dequantize);
/// Whether a value is of a block format.
inline bool is_blocks(Call &c, V x) { return ir::info(c.dtype(x)).kind == ir::DTypeKind::block; }

} // namespace cugrt::onnx
