// Options of the choice among kernels; see all_passes.h.
#include "compiler/passes/all_passes.h"

#include "ir/module/module.h"
#include "ops/emit/op_emitter.h"

namespace cugrt::passes {

static bool is_launch_of(const ir::Module &module, const std::string &entry) {
  for (const ir::Kernel &kernel : module.kernels)
    for (const ir::KernelVariant &variant : kernel.variants)
      if (variant.entry == entry)
        return true;
  return false;
}

static Status check_matmul(const ir::Module &module, const std::string &wanted, bool tf32) {
  Status refused; // for the first product
  for (const ir::Function &function : module.functions)
    for (const ir::Block &block : function.blocks)
      for (const ir::Binding &binding : block.bindings) {
        if (binding.kind != ir::BindingKind::op || ir::Op(binding.callee) != ir::Op::matmul)
          continue;
        const ir::ValueId left = function.operands_of(binding)[0].value();
        const ir::DType dtype = module.types[function.value(left).type].dtype;
        if (codegen::takes_matmul_variant(wanted, dtype, tf32))
          return {};
        if (refused.ok())
          refused = ir::located(Code::invalid_argument, function, binding.location,
                                "option codegen.matmul asks for " + wanted + ", which multiplies " +
                                    (wanted == "register_large" ? "f16, bf16 and f32"
                                                                : "f16 and bf16 on tensor cores") +
                                    ", but no product is of these; this one is of " +
                                    std::string(ir::info(dtype).name));
      }
  if (is_launch_of(module, "matmul_" + wanted))
    return {};
  return refused;
}

Result<codegen::KernelChoice> kernel_choice(const ir::Module &module, const PassContext &context) {
  codegen::KernelChoice choice;
  choice.target.multiprocessors = context.number("target.multiprocessors");
  choice.target.compute_capability = context.number("target.compute_capability");
  choice.target.cooperative_bodies = context.flag("target.cooperative_bodies");
  choice.matmul = context.choice("codegen.matmul");
  choice.attention = context.choice("codegen.attention");
  choice.tf32 = context.choice("mixed.dtype") == "tf32";
  CUGRT_TRY(check_matmul(module, choice.matmul, choice.tf32));
  return choice;
}

} // namespace cugrt::passes
