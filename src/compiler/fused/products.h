// Products that share few rows, as one launch: a norm before them, and behind each what can be
// computed from a tile of its columns. The kernel is generated from the parts of
// kernels/linear/products.cuh.
//
//   x --norm--> h --matmul--> q --rotary--> q'          part 0
//               h --matmul--> k --rotary--> cache       part 1
//               h --matmul--> v --> cache               part 2
//
//   x --norm--> h --matmul--> g --silu--> mul --> y     one part of two products
//               h --matmul--> u ----------^
//
//   x --norm--> add --norm--> h --matmul--> ..          a sum of rows before the norm
//   r ----------^ '--> r'
//
// Results are those of the ops one by one, bit for bit.
#pragma once

#include "base/type/dtype.h"
#include "compiler/fused/element_code.h"
#include "compiler/fused/fused_group.h"
#include "compiler/fused/kernel_parameters.h"
#include "compiler/fused/phase_table.h"
#include "ops/emit/kernel_table.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace cugrt::codegen {

// How wide the tiles of a kernel of products are: by how many of its blocks a device holds at once.

/// A form of product of a kernel.
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

/// The number of tiles of all parts.
int64_t count_tiles(std::span<const int64_t> parts, int64_t columns);

/// Few columns, so that all tiles are resident at once: each tile begins with a norm, and tiles
/// behind the first wave wait for it. If even the largest tiles are more, as few columns as need no
/// more waves than those.
int64_t tile_columns(const TileRule &rule);

/// The most rows that products share in one kernel.
inline constexpr int64_t kMostProductRows = 8;

struct RowNorm {
  ir::Op op;               // rms_norm, layer_norm
  ir::ValueId scale, bias; // invalid: none
  double epsilon;
};

/// The sum that a norm reads and computes on the way: residual + norm(x).
struct RowSum {
  RowNorm norm;
  ir::ValueId residual;
  ir::ValueId result; // allocated; invalid where nothing else reads it
};

/// Values are those of the function that is built; invalid ones are absent.
struct SharedProduct {
  ir::Op op; // matmul, of w [n, k]; or matmul_blocks
  bool repacked = false;
  ir::ValueId w, bias;
};

/// Rotary embedding of a product's heads.
struct HeadTurn {
  std::optional<RowNorm> norm; // of each head, before
  ir::ValueId positions, cosines, sines;
  int64_t width, turned; // of a head; even
  bool interleaved;
  double base, scale;
};

/// Rows go to a cache, as by kernels/attention/cache_write.cu; `each` of a sequence.
struct CacheAppend {
  ir::ValueId cache, sequences, positions, lengths;
  ir::ExprId each;
};

struct ProductPart {
  std::vector<SharedProduct> products; // of the same n; several where ops join them
  int64_t columns;                     // n
  /// Elementwise ops on them, in order, of the group; products are the values `leaves`.
  std::vector<uint32_t> ops, leaves;
  std::optional<HeadTurn> turn;
  std::optional<CacheAppend> append;
  ir::ValueId result; // allocated; invalid where rows are appended
  /// For write_heads, where products are none: their results, by heads of so many elements.
  ir::ValueId heads;
  int64_t head = 0;
};

struct ProductKernel {
  ir::ValueId x; // [.., k] of k elements
  std::optional<RowNorm> norm;
  std::optional<RowSum> sum; // before the norm
  std::vector<ProductPart> parts;
  FusedGroup group;          // of the parts' elementwise ops
  std::vector<ir::Op> named; // all ops, for the kernel's name and heading
  ir::ExprId rows;
  int64_t most_rows, depth; // rows at most; k
  ir::DType dtype;          // of the products and, but for wide norms and rounding, of x
  /// The norm is one of f32 whose result is rounded to `dtype`, with scale and bias of f32; x is of
  /// either.
  bool is_norm_wide = false;
  bool rounds_rows = false; // x is f32 and rounded to `dtype`; there is no norm
};

/// Why a norm, computed from elements of a dtype, of rows of `depth` elements cannot stand before
/// products; empty: it can.
std::string why_no_norm(ir::DType dtype, ir::DType norm, int64_t depth, int64_t most_rows);
/// Whether a block has room for rows that are rounded before products, and each begins with a
/// vector.
bool holds_rows(ir::DType dtype, int64_t depth, int64_t most_rows);

/// Appends the launch. Code::unsupported when no kernel can be made; nothing has been appended
/// then.
Status emit_products(KernelTable &table, ir::FunctionBuilder &builder, const ProductKernel &kernel);

/// A kernel of products as a phase of one that has many (persistent.h): its text, by tiles of
/// kStreamColumns, where rings serve all its products.
struct ProductPhase {
  std::string functions;    // of the device
  std::string declarations; // of the products' columns and tiles
  std::string kept;         // members of a union: what threads keep from before a tile's products
  std::string tile;         // the Tile `tile` (kernels/language/persistent.cuh); empty: no product
  std::string before;       // reads what the tile keeps, and says which Rows it wants
  std::string after;        // its products; gives whether all came that it asked for
  std::vector<KernelParameter> parameters;
  std::vector<std::string> described; // of these: those that `tile` reads
  std::vector<std::string> options;   // of a norm
  ElementParameters uses;
  int64_t slot_bytes = 0, products = 0, tiles = 0;
  bool has_numbers = false, has_repacked = false;
  bool is_scattered = false; // columns of a tile may be no two runs
};
/// Names of a phase's parameters: of its rows, of the tensor added to them, and, with a part's
/// number, of the words of its tiles that go to a cache.
inline constexpr std::string_view kPhaseRows = "from_x", kPhaseResidual = "residual",
                                  kPhaseTiles = "arrived";

/// Appends nothing but reads of symbols, and to the kernel's `units`. Code::unsupported when the
/// kernel cannot be a phase.
Result<ProductPhase> write_phase(KernelTable &table, ir::FunctionBuilder &builder,
                                 const ProductKernel &kernel, PhaseUnits &units);
/// The text behind the products of parts with whole heads, as a phase by tiles of a head.
Result<ProductPhase> write_heads(KernelTable &table, ir::FunctionBuilder &builder,
                                 const ProductKernel &kernel);

} // namespace cugrt::codegen
