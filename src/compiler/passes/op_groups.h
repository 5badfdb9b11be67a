// Which ops may become one kernel: groups over the graph of a run of pure ops.
//
//   matmul ─┐
//           add ── relu ──
//   exp ────┘
//
// Each op looks at its immediate post-dominator, the nearest op that all paths from it lead to
// (add's is relu, matmul's and exp's is add). It joins that op's group, with all that lies between,
// when the patterns allow:
//
//   pattern                  joins                                          what may lie between
//   elementwise, broadcast   elementwise to reduction                       up to injective
//   injective                up to injective                                up to injective
//   out_fusable              elementwise, one such op a group               up to broadcast
//   reduction                elementwise, with GroupOptions::after_reductions
//
// The rules, and the order in which ops are tried, are those of TVM's pass FuseOps (0.27) without
// tuples: the same groups result, but for the last row, which merges whole groups of these, and for
// what is elementwise behind a reduction: for its sake that joins nothing injective.
#pragma once

#include "ir/module/module.h"
#include "ops/table/ops.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace cugrt::passes {

struct OpGraph {
  struct Node {
    ir::OpPattern pattern = ir::OpPattern::opaque;
    bool used_outside = false;       // of the graph: its result must exist, so it joins nothing
    std::vector<uint32_t> used_by{}; // later nodes, one entry a use, in order
  };
  std::vector<Node> nodes; // in program order
};

struct GroupOptions {
  uint32_t max_ops = 256;       // of a group
  bool after_reductions = true; // a reduction joins what is elementwise
};

/// For each node, the last node of its group. Only the result of that one is used outside.
std::vector<uint32_t> group_ops(const OpGraph &graph, const GroupOptions &options);

// Functions that stand for a group of ops which become one kernel: written by FuseOps, read by
// FuseKernels.
//
//   private func @fused_matmul_add_relu(%p0: tensor<[n, 64], f32>, %p1: .., %p2: ..)
//       -> (tensor<[n, 32], f32>) attributes {primitive = true} {
//     %matmul = matmul(%p0, %p1)
//     %add = add(%matmul, %p2)
//     %relu = relu(%add)
//     return %relu
//   }

/// The attribute that marks such a function.
inline constexpr std::string_view kPrimitive = "primitive";

/// Whether a function is marked, private, and has only ops, with shapes for reshapes, whose last
/// result it returns.
bool is_fused_group(const ir::Module &module, const ir::Function &function);

} // namespace cugrt::passes
