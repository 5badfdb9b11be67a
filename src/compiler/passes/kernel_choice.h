// What options of passes say about the choice among kernels.
#pragma once

#include "compiler/passes/pass.h"
#include "ops/emit/kernel_table.h"

namespace cugrt::passes {

/// For a pass that makes launches of what `module` holds. Error invalid_argument, at the first
/// product, when codegen.matmul names a variant that no product of the module takes; one that is a
/// launch already counts.
Result<codegen::KernelChoice> kernel_choice(const ir::Module &module, const PassContext &context);

} // namespace cugrt::passes
