// The walk over a function's bindings; see padding_effects.h. The rule of each op is in
// padding_rules.cpp.
#include "compiler/passes/padding_effects.h"

#include "ir/module/located.h"
#include "compiler/passes/padding_walk.h"

#include <algorithm>

namespace cugrt::passes {

Status FunctionPadding::block(uint32_t number) {
  for (const ir::Binding &b : function_.blocks[number].bindings)
    CUGRT_TRY(binding(b));
  return {};
}

/// Results of bindings that no rule below covers stay as every value begins: their padding is
/// unknown.
Status FunctionPadding::binding(const ir::Binding &b) {
  for (uint32_t i = b.blocks.begin; i < b.blocks.end(); ++i)
    CUGRT_TRY(block(i));
  operands_ = function_.operands_of(b);
  if (b.kind == ir::BindingKind::op)
    return op(b);
  if (b.kind == ir::BindingKind::call)
    return call(b);
  if (b.kind == ir::BindingKind::launch)
    for (size_t i = 0; i < operands_.size(); ++i)
      if (has(i) && ir::writes(module_.kernels[b.callee].params[i].access))
        values_[operands_[i].value().index] = {0, ~Symbols(0)};
  if (b.kind == ir::BindingKind::match_shape)
    match(b);
  if (b.kind == ir::BindingKind::alias || b.kind == ir::BindingKind::match_shape)
    for (uint32_t i = 0; i < b.result_count; ++i)
      values_[b.result(i).index] = padding(operands_[0]);
  return {};
}

/// Symbols that are defined here are as padded as the dimension that they name.
void FunctionPadding::match(const ir::Binding &b) {
  if (!has(0) || b.result_count != 1)
    return;
  std::span<const ExprId> from = dims(0), to = type(b.result()).dims;
  for (size_t i = 0; i < std::min(from.size(), to.size()); ++i)
    if (const ir::ExprNode &node = module_.exprs[to[i]]; node.kind == ir::ExprKind::symbol)
      symbols_[static_cast<size_t>(node.value)] |= of(from[i]);
}

Status FunctionPadding::call(const ir::Binding &b) {
  const ir::Function &callee = module_.functions[b.callee];
  std::vector<Symbols> symbols(callee.symbols.size());
  std::vector<Padding> params(callee.params.size());
  for (size_t p = 0; p < std::min(params.size(), operands_.size()); ++p) {
    params[p] = padding(operands_[p]);
    const std::vector<ExprId> &to = module_.types[callee.value(callee.params[p].value).type].dims;
    std::span<const ExprId> from = dims(p);
    for (size_t i = 0; i < std::min(from.size(), to.size()); ++i)
      if (const ir::ExprNode &node = module_.exprs[to[i]]; node.kind == ir::ExprKind::symbol)
        symbols[static_cast<size_t>(node.value)] |= of(from[i]);
  }
  CUGRT_ASSIGN(ModulePadding::Results results, all_.effects_of(callee, std::move(symbols), params));
  for (size_t p = 0; p < params.size(); ++p)
    if (has(p) && ir::writes(callee.params[p].access))
      values_[operands_[p].value().index] = {0, ~Symbols(0)};
  for (uint32_t i = 0; i < std::min<size_t>(b.result_count, results.size()); ++i)
    values_[b.result(i).index] = results[i];
  return {};
}

Status FunctionPadding::op(const ir::Binding &b) {
  at_ = &b;
  attributes_ = function_.attributes_of(b);
  const Op op = ir::op_of(b);
  CUGRT_TRY(check(op));
  for (uint32_t i = 0; i < b.result_count; ++i)
    values_[b.result(i).index] = after(op, of(type(b.result(i)).dims));
  return {};
}

Result<ModulePadding::Results> ModulePadding::effects_of(const ir::Function &function,
                                                         std::vector<Symbols> symbols,
                                                         const std::vector<Padding> &params) {
  auto key = std::tuple(&function, symbols, params);
  if (auto found = known_.find(key); found != known_.end())
    return found->second;
  CUGRT_ASSIGN(Results results, FunctionPadding(*this, function, std::move(symbols)).run(params));
  known_.emplace(std::move(key), results);
  return results;
}

Status check_padding_effects(const ir::Module &module, const ir::Function &function,
                             const std::vector<bool> &padded) {
  ModulePadding walk(module);
  std::vector<Symbols> symbols(function.symbols.size());
  Symbols all = 0;
  for (size_t s = 0; s < padded.size() && walk.names.size() < 64; ++s)
    if (padded[s]) {
      symbols[s] = Symbols(1) << walk.names.size();
      all |= symbols[s];
      walk.names.push_back(function.symbols[s].name);
    }
  std::vector<Padding> params;
  for (const ir::Parameter &param : function.params)
    params.push_back(ir::reads(param.access) ? Padding{all, 0} : Padding{0, all});
  return walk.effects_of(function, std::move(symbols), params).take_status();
}

} // namespace cugrt::passes
