// The passes' functions, one source file each; pipeline.cpp makes the table of them.
#pragma once

#include "compiler/passes/pass.h"

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

} // namespace cugrt::passes
