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
#pragma once

#include "ir/module/module.h"

#include <string_view>

namespace cugrt::passes {

/// The attribute that marks such a function.
inline constexpr std::string_view kPrimitive = "primitive";

/// Whether a function is marked, private, and nothing but ops, with shapes that reshapes take,
/// whose last result is what it returns.
bool is_fused_group(const ir::Module &module, const ir::Function &function);

} // namespace cugrt::passes
