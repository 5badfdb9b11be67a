// The table of passes, and the pipeline from a module as written to one that can be planned.
#include "compiler/passes/all_passes.h"

#include "ir/module/names.h"

namespace cugrt::passes {

constexpr Pass kPasses[] = {
    {"PadToBuckets",
     "let functions whose symbols have buckets run at the least bucket that holds the value",
     pad_to_buckets},
    {"FuseAttention", "make products with a softmax and masks between them the op attention",
     fuse_attention},
    {"JoinProducts", "make products of one tensor that attention reads one product", join_products},
    {"ToIntegerProducts",
     "make products of dequantised numbers those of their bytes, and scale the sums",
     to_integer_products},
    {"ToMixedPrecision",
     "compute f32 ops in f16 or bf16 where that is safe, as option mixed.dtype says",
     to_mixed_precision},
    {"LayOutImages",
     "put images of f16, bf16 and bytes between convolutions into the layout with channels last",
     lay_out_images},
    {"LiftTransformParams",
     "put what depends on weights alone into functions that are run once, when a session is opened",
     lift_transform_params},
    {"FuseOpsByPattern",
     "make products that share few rows one launch, with norms before and what follows behind them",
     fuse_ops_by_pattern},
    {"FuseOps", "make ops that can be one kernel a private function, and call it", fuse_ops},
    {"FuseKernels", "turn calls of fused ops into launches of generated kernels", fuse_kernels},
    {"LegalizeOps", "turn tensor-level ops into launches of kernels, and reshapes into views",
     legalize_ops},
    {"EliminateDeadBindings", "remove bindings whose results nothing uses",
     eliminate_dead_bindings},
    {"InlineFunctions", "put callees' bindings in the place of calls, up to 65,536 steps a caller",
     inline_functions},
    {"EliminateDeadFunctions", "remove private functions that nothing calls",
     eliminate_dead_functions},
    {"PlanMemory", "put allocations into planned storage, sized at the symbols' upper bounds",
     plan_memory},
    {"RewriteCudaGraph",
     "lift static regions into functions that run as one graph, and share storage among functions",
     rewrite_cuda_graph},
};

std::span<const Pass> all_passes() { return kPasses; }

const Pass *find_pass(std::string_view name) {
  for (const Pass &pass : kPasses)
    if (pass.name == name)
      return &pass;
  return nullptr;
}

Result<const Pass *> require_pass(std::string_view name) {
  if (const Pass *pass = find_pass(name))
    return pass;
  return Status::error(Code::not_found, "there is no pass '" + std::string(name) +
                                            "'; the passes are " +
                                            ir::joined(kPasses, &Pass::name));
}

std::span<const Pass *const> default_pipeline() {
  static const std::vector<const Pass *> pipeline = {
      find_pass("PadToBuckets"),
      find_pass("FuseAttention"),
      find_pass("ToIntegerProducts"),
      // Unused bindings would keep others in f32, and apart.
      find_pass("EliminateDeadBindings"),
      find_pass("JoinProducts"),
      find_pass("ToMixedPrecision"), // off unless asked for
      find_pass("EliminateDeadBindings"),
      find_pass("LayOutImages"),
      find_pass("EliminateDeadBindings"),
      find_pass("LiftTransformParams"),
      find_pass("FuseOpsByPattern"),
      find_pass("FuseOps"),
      find_pass("FuseKernels"),
      // No tensor-level ops beyond this point.
      find_pass("LegalizeOps"),
      find_pass("EliminateDeadBindings"),
      // Callees' tensors are packed with their callers'.
      find_pass("InlineFunctions"),
      find_pass("EliminateDeadFunctions"),
      find_pass("PlanMemory"),
  };
  return pipeline;
}

Result<ir::Module> run_passes(ir::Module module, std::span<const Pass *const> pipeline,
                              const PassContext &context) {
  for (const Pass *pass : pipeline) {
    Result<ir::Module> next = pass->run(module, context);
    if (!next.ok())
      return next.take_status().in(pass->name);
    module = std::move(next).value();
  }
  return module;
}

} // namespace cugrt::passes
