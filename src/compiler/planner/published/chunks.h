// Storage policy `slots`: the published StaticPlanBlockMemory, which pairs tensors with blocks of
// memory one after the other instead of packing them.
//
// Every unplanned allocation gets a token: its bytes at the symbols' upper bounds, dtype and scope.
// Aliases, tuples, reshapes, views and matches share it. Uses by kernels and externs in the
// allocating block count; every other use leaves the allocation unplanned. A walk in program order
// then hands out blocks: a token takes a free block of its scope and dtype, or a new one, and its
// block is free again after the use that brings its count to zero.
//
//   constant size   the smallest free block of [size, 16 size]; else the largest free one of at
//                   least size / 16, which grows to size; else a new one. Among equal blocks the
//                   oldest is taken, and the youngest is grown.
//   symbolic size   the oldest free block of the same symbolic size; else a new one
//   never used      a new one, which is not handed on
//
// A block freed in a branch or a loop stays there, since its allocation does not dominate what
// follows; published versions hand it on.
#pragma once

#include "base/status.h"
#include "ir/module/module.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cugrt::plan {

/// The free blocks of one function: rules of reuse by size.
class ChunkPool {
public:
  /// The largest factor between a request and the block that serves it.
  static constexpr int64_t kMatchRange = 16;

  /// A free block for a request of `bytes`, which is then no longer free; the caller grows it.
  /// `constant` is the value of `bytes` where it is one.
  std::optional<uint32_t> take(uint32_t scope, ir::DType dtype, ir::ExprId bytes,
                               std::optional<int64_t> constant);
  void give_back(uint32_t chunk, uint32_t scope, ir::DType dtype, ir::ExprId bytes,
                 std::optional<int64_t> constant);
  /// Takes a block out for good, if it is free.
  void withdraw(uint32_t chunk);

private:
  using Free = std::multimap<int64_t, uint32_t>; // chunks; those of equal keys oldest first
  struct Shelf {
    Free constant; // by bytes
    Free symbolic; // by the expression's number
  };
  struct Place {
    Free *free = nullptr; // null: in use
    Free::iterator entry;
  };
  uint32_t take(Free &free, Free::iterator entry);

  std::map<std::pair<uint32_t, ir::DType>, Shelf> shelves_; // by scope and dtype
  std::vector<Place> places_;                               // by chunk
};

inline constexpr uint32_t kNoChunk = UINT32_MAX;

/// A block of memory: one alloc_storage, just before its first tensor.
struct StorageChunk {
  uint32_t scope = 0; // of the module's TypePool
  ir::DType dtype = ir::DType::f32;
  ir::ExprId bytes;   // grown to the largest tensor
  uint32_t block = 0; // the function's block in which it is allocated
  ir::ValueId first_tensor;
};

/// One unplanned allocation: its chunk, or why it stays unplanned.
struct ChunkTensor {
  ir::ValueId tensor;
  uint32_t chunk = kNoChunk; // offset 0 of it
  std::string reason;        // why it stays unplanned
};

struct ChunkPlan {
  std::vector<ChunkTensor> tensors; // every alloc, in program order
  std::vector<StorageChunk> chunks; // in order of allocation
  const ChunkTensor *find(ir::ValueId tensor) const;
};

/// The boolean function attribute that gives allocations which stay unplanned and have symbolic
/// dimensions a block of their own, of the size at the symbols' upper bounds.
inline constexpr std::string_view kPlanDynamicResults = "plan_dynamic_results";

/// `pools` has the expressions and types of `function`'s module; sizes are added to it. Errors:
/// out_of_range for sizes that overflow, unsupported for tuples of very many parts.
Result<ChunkPlan> plan_chunks(ir::Module &pools, const ir::Function &function);

/// An upper bound for every value of the symbols that have bounds, as an expression of those that
/// have none; the expression itself where none is found.
ir::ExprId bounded_above(ir::ExprPool &exprs, ir::ExprId expr, const ir::Domain &domain);

} // namespace cugrt::plan
