// Weights in the layouts that kernels read best: the first step of LiftTransformParams, which then
// lifts what makes them.
//
//   %t = transpose(%w)                    %y = matmul(%x, %w) {transpose_b = true}
//   %y = matmul(%x, %t)
//
//   %y = matmul(%x, %w)                   %t = transpose(%w)
//                                         %y = matmul(%x, %t) {transpose_b = true}
//
//   %y = matmul_blocks(%x, %w)            %p = repack_blocks(%w)
//                                         %y = matmul_blocks(%x, %p) {repacked = true}
#pragma once

#include "compiler/passes/pass.h"
#include "ir/module/module.h"

namespace cugrt::passes {

/// The first form wherever a weight is transposed, since both layouts are read alike. The others
/// where all that reads the weight are such products, or rows of it (embedding_blocks), so that it
/// stands in memory once: the second for f16 and bf16 where rows may be few, and for bytes on
/// tensor cores, the third where there is a kernel for it.
Result<ir::Module> lay_out_weights(const ir::Module &module, const PassContext &context);

} // namespace cugrt::passes
