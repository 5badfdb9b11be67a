// Small modules for tests of the planner, built without the parser.
#pragma once

#include "ir/module/builder.h"

#include <string>
#include <vector>

namespace cugrt::test {

/// Kernels named after their accesses: "io" takes an input and an output, "iio" two inputs, "b" one
/// buffer that it updates in place; the output of "iiO" may be written over either input.
class PlanModule {
public:
  ir::Module module;

  uint32_t kernel(const std::string &accesses, ir::ExprId workspace = {}) {
    for (uint32_t k = 0; k < module.kernels.size(); ++k)
      if (module.kernels[k].name == accesses && !workspace.valid())
        return k;
    ir::Kernel kernel;
    kernel.name = accesses;
    kernel.entry = accesses;
    kernel.code_kind = ir::CodeKind::source_text;
    kernel.code = "// " + accesses;
    for (size_t i = 0; i < accesses.size(); ++i) {
      ir::KernelParam param;
      param.name = "p" + std::to_string(i);
      param.access = accesses[i] == 'i'                         ? ir::Access::in
                     : accesses[i] == 'o' || accesses[i] == 'O' ? ir::Access::out
                                                                : ir::Access::inout;
      param.any_dtype = true;
      for (uint32_t read = 0; accesses[i] == 'O' && read < accesses.size(); ++read)
        if (accesses[read] == 'i')
          param.over.push_back(read);
      kernel.params.push_back(param);
    }
    ir::KernelVariant variant;
    variant.grid = variant.block = {constant(1), constant(1), constant(1)};
    variant.workspace_bytes = workspace;
    kernel.variants.push_back(variant);
    module.kernels.push_back(kernel);
    return uint32_t(module.kernels.size() - 1);
  }

  ir::ExprId constant(int64_t n) { return module.exprs.constant(n); }
  ir::TypeId floats(std::vector<ir::ExprId> dims) {
    return module.types.tensor(ir::DType::f32, std::move(dims));
  }
  ir::TypeId floats(int64_t n) { return floats(std::vector{constant(n)}); }

  void launch(ir::FunctionBuilder &b, const std::string &accesses,
              const std::vector<ir::ValueId> &values) {
    std::vector<ir::Operand> operands;
    for (ir::ValueId value : values)
      operands.push_back(ir::Operand::of(value));
    b.launch(kernel(accesses), operands);
  }

  /// A tensor of `n` floats in a storage of its own.
  ir::ValueId planned(ir::FunctionBuilder &b, const std::string &name, int64_t n) {
    ir::ValueId storage = b.alloc_storage("s_" + name, "global", constant(4 * n));
    return b.alloc_tensor(name, storage, constant(0), floats(n));
  }

  uint32_t call(ir::FunctionBuilder &b, uint32_t callee, const std::vector<ir::ValueId> &values,
                const std::vector<std::string> &names = {}) {
    ir::Binding binding{};
    binding.kind = ir::BindingKind::call;
    binding.callee = callee;
    std::vector<ir::Operand> operands;
    for (ir::ValueId value : values)
      operands.push_back(ir::Operand::of(value));
    std::vector<ir::TypeId> types = module.functions[callee].result_types;
    return b.bind(binding, operands, {}, {}, names, types).index;
  }

  ir::ValueId simple(ir::FunctionBuilder &b, ir::BindingKind kind, const std::string &name,
                     const std::vector<ir::ValueId> &values, std::vector<ir::TypeId> types,
                     uint32_t callee = UINT32_MAX, std::vector<ir::ExprId> exprs = {}) {
    ir::Binding binding{};
    binding.kind = kind;
    binding.callee = callee;
    std::vector<ir::Operand> operands;
    for (ir::ValueId value : values)
      operands.push_back(ir::Operand::of(value));
    return b.bind(binding, operands, exprs, {}, std::vector<std::string>{name}, types);
  }

  uint32_t finish(ir::FunctionBuilder &b, const std::vector<ir::ValueId> &results = {}) {
    std::vector<ir::Operand> operands;
    for (ir::ValueId value : results) {
      operands.push_back(ir::Operand::of(value));
      b.function().result_types.push_back(b.function().value(value).type);
    }
    module.functions.push_back(b.finish(operands));
    return uint32_t(module.functions.size() - 1);
  }
};

} // namespace cugrt::test
