// The passes' functions, one source file each; pipeline.cpp makes the table of them.
#pragma once

#include "compiler/passes/pass.h"
#include "ops/emit/kernel_table.h"

#include <functional>
#include <optional>

namespace cugrt::passes {

Result<ir::Module> pad_to_buckets(const ir::Module &module, const PassContext &context);
Result<ir::Module> fuse_attention(const ir::Module &module, const PassContext &context);
Result<ir::Module> join_products(const ir::Module &module, const PassContext &context);
Result<ir::Module> to_integer_products(const ir::Module &module, const PassContext &context);
Result<ir::Module> to_mixed_precision(const ir::Module &module, const PassContext &context);
Result<ir::Module> lay_out_images(const ir::Module &module, const PassContext &context);
Result<ir::Module> lift_transform_params(const ir::Module &module, const PassContext &context);
Result<ir::Module> fuse_ops_by_pattern(const ir::Module &module, const PassContext &context);
Result<ir::Module> fuse_ops(const ir::Module &module, const PassContext &context);
Result<ir::Module> fuse_kernels(const ir::Module &module, const PassContext &context);
Result<ir::Module> legalize_ops(const ir::Module &module, const PassContext &context);
Result<ir::Module> eliminate_dead_bindings(const ir::Module &module, const PassContext &context);
Result<ir::Module> inline_functions(const ir::Module &module, const PassContext &context);
Result<ir::Module> eliminate_dead_functions(const ir::Module &module, const PassContext &context);
Result<ir::Module> plan_memory(const ir::Module &module, const PassContext &context);
Result<ir::Module> rewrite_cuda_graph(const ir::Module &module, const PassContext &context);

// --- Steps that passes take first; the heads of their source files show what they change -------

/// The module with a slice a section in the place of each split of whole bytes and known shape.
Result<ir::Module> slice_splits(const ir::Module &module, const PassContext &context);
/// The module with sums of slices in place of sums of f32 over a second dimension of at most four,
/// behind the computation of each part; values that only the sums read stay, unread. Nothing if
/// there are no such sums.
Result<std::optional<ir::Module>> slice_sums(const ir::Module &module);
/// The module with reductions and norms of f16 and bf16 in the place of those between casts, where
/// nothing else reads what these give.
Result<ir::Module> narrow_reductions(const ir::Module &module);
/// The slices of the kernel that gives a slice's result; 0 where that does more.
using SlicesOfKernel = std::function<size_t(const ir::Function &, const ir::Binding &)>;
/// The module with a slice for each op that reads it, where it is a copy, no kernel does more, and
/// all of these ops compute what they read. Nothing if there are no such slices.
Result<std::optional<ir::Module>> spread_slices(const ir::Module &module,
                                                const SlicesOfKernel &slices_of_kernel);
/// The module with weights in the layouts that kernels read best.
Result<ir::Module> lay_out_weights(const ir::Module &module, const PassContext &context);

// --- What options say about the choice among kernels -------------------------------------------

/// For a pass that makes launches of the ops of `module`. Error invalid_argument, at the first
/// product, if codegen.matmul names a variant that no product of the module takes; launches count,
/// too.
Result<codegen::KernelChoice> kernel_choice(const ir::Module &module, const PassContext &context);

} // namespace cugrt::passes
