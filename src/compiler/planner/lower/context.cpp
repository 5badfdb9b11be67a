// Interning of what functions share: expressions, kernels, codes, constants.
#include "compiler/planner/lower/context.h"

#include <algorithm>

namespace cugrt::plan {

ExprCopier::ExprCopier(const ir::Module &module, ir::ExprPool &to)
    : from_(module.exprs), to_(to), copies_(module.exprs.size(), kNone) {
  size_t symbols = 0;
  for (const ir::Function &function : module.functions)
    symbols = std::max(symbols, function.symbols.size());
  for (uint32_t i = 0; i < symbols; ++i)
    identity_.push_back(to_.symbol({i}));
}

ExprId ExprCopier::operator()(ExprId expr) {
  if (!expr.valid())
    return expr;
  uint32_t &copy = copies_[expr.index];
  if (copy == kNone) {
    auto constant = from_.as_constant(expr);
    copy = (constant ? to_.constant(*constant) : from_.copy_to(to_, expr, identity_)).index;
  }
  return {copy};
}

std::vector<ExprId> ExprCopier::operator()(std::span<const ExprId> exprs) {
  std::vector<ExprId> copies;
  copies.reserve(exprs.size());
  for (ExprId expr : exprs)
    copies.push_back((*this)(expr));
  return copies;
}

ModuleContext::ModuleContext(const ir::Module &module, const PlannerOptions &options,
                             const PlanningChoices &choices, const ModuleStorage &storage,
                             Plan &plan, PlanReport *report)
    : module(module), options(options), choices(choices), storage(storage), plan(plan),
      report(report), copy(module, plan.exprs), kernels(module.kernels.size(), kNone),
      constants(module.constants.size(), kNone), tensor_of_type_(module.types.size(), kNone) {}

const TensorExprs &ModuleContext::tensor(ir::TypeId id) {
  uint32_t &index = tensor_of_type_[id.index];
  if (index != kNone)
    return tensors_[index];
  index = uint32_t(tensors_.size());
  ir::Type type = module.types[id];
  TensorExprs &out = tensors_.emplace_back();
  if (type.known_shape) {
    out.dims = type.dims = copy(type.dims);
    out.strides = type.strides = copy(type.strides);
    out.bytes = ir::tensor_bytes(plan.exprs, type);
  }
  return out;
}

const LaunchRules &ModuleContext::launch_rules(uint32_t ir_kernel,
                                               std::span<const ExprId> symbols) {
  uint64_t hash = ir_kernel;
  for (ExprId symbol : symbols) {
    hash = (hash ^ symbol.index) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  auto [known, end] = rules_of_hash_.equal_range(hash);
  for (; known != end; ++known)
    if (known->second->kernel == ir_kernel &&
        std::equal(symbols.begin(), symbols.end(), known->second->symbols.begin(),
                   known->second->symbols.end()))
      return *known->second;
  LaunchRules &out =
      launch_rules_.emplace_back(LaunchRules{ir_kernel, {symbols.begin(), symbols.end()}, {}});
  auto substituted = [&](ExprId expr) {
    return expr.valid() ? copy.substitute(expr, symbols) : expr;
  };
  for (const ir::KernelVariant &variant : module.kernels[ir_kernel].variants) {
    LaunchRule rule;
    rule.predicate = substituted(variant.predicate);
    for (size_t i = 0; i < 3; ++i) {
      rule.grid[i] = substituted(variant.grid[i]);
      rule.block[i] = substituted(variant.block[i]);
    }
    rule.shared_bytes = substituted(variant.shared_bytes);
    out.rules.push_back(rule);
    out.workspace_bytes.push_back(substituted(variant.workspace_bytes));
  }
  rules_of_hash_.emplace(hash, &out);
  return out;
}

uint32_t ModuleContext::code(const ir::Kernel &kernel) {
  auto [it, added] = codes_.try_emplace({kernel.code_kind, kernel.code, kernel.options},
                                        uint32_t(plan.codes.size()));
  if (added) {
    bool inline_text = kernel.code_kind == ir::CodeKind::source_text;
    plan.codes.push_back({kernel.code_kind, inline_text ? kernel.name : kernel.code,
                          inline_text ? kernel.code : std::string(), kernel.options});
  }
  return it->second;
}

uint32_t ModuleContext::kernel(uint32_t ir_kernel) {
  uint32_t &index = kernels[ir_kernel];
  if (index != kNone)
    return index;
  const ir::Kernel &kernel = module.kernels[ir_kernel];
  Kernel out;
  out.name = kernel.name;
  out.code = code(kernel);
  for (const ir::KernelParam &param : kernel.params)
    out.params.push_back({param.kind, param.access, param.dtype, param.over});
  for (const ir::KernelVariant &variant : kernel.variants) {
    out.entries.push_back(variant.entry.empty() ? kernel.entry : variant.entry);
    out.clusters.push_back(variant.cluster);
    out.cooperative.push_back(variant.cooperative);
    out.programmatic.push_back(variant.programmatic);
  }
  index = uint32_t(plan.kernels.size());
  plan.kernels.push_back(std::move(out));
  return index;
}

uint32_t ModuleContext::constant(uint32_t ir_constant) {
  uint32_t &index = constants[ir_constant];
  if (index == kNone) {
    index = uint32_t(plan.constants.size());
    const ir::Constant &constant = module.constants[ir_constant];
    plan.constants.push_back({constant.name, constant.bytes});
  }
  return index;
}

} // namespace cugrt::plan
