// Boxes, domains and matches of functions of the IR; see sizes.h.

#include "compiler/planner/symbols/sizes.h"

namespace cugrt::plan {

std::vector<Bucket> buckets_of(const ir::Function &function) {
  std::vector<Bucket> buckets;
  for (uint32_t s = 0; s < function.symbols.size(); ++s)
    if (const uint32_t of = function.symbols[s].bucket_of; of != kNone)
      buckets.push_back({SymbolId{s}, SymbolId{of}, function.symbols[of].buckets});
  return buckets;
}

BucketBoxes boxes_of(const ir::Module &module, const ir::Function &function) {
  return BucketBoxes(proven_bounds(module, function), buckets_of(function),
                     ir::limits_of(module.exprs, function.constraints));
}

ir::SymbolDomain symbol_domain(const ir::Module &module, const ir::Function &function) {
  return symbol_domain(proven_bounds(module, function), buckets_of(function),
                       ir::limits_of(module.exprs, function.constraints));
}

void for_each_matched(const ir::Module &module, const ir::Function &function,
                      const std::function<void(ir::SymbolId, ir::ExprId)> &visit) {
  std::vector<bool> open; // by symbol: a match defines it that has not come yet
  for (const ir::Symbol &symbol : function.symbols)
    open.push_back(symbol.source == ir::SymbolSource::match);
  if (std::find(open.begin(), open.end(), true) == open.end())
    return;
  for (const ir::Block &block : function.blocks)
    for (const ir::Binding &b : block.bindings) {
      if (b.kind != ir::BindingKind::match_shape)
        continue;
      const ir::Type &known = module.types[function.value(function.operands_of(b)[0].value()).type];
      const std::vector<ir::ExprId> &dims = module.types[function.value(b.result()).type].dims;
      for (size_t i = 0; i < dims.size(); ++i) {
        const ir::ExprNode &node = module.exprs[dims[i]];
        if (node.kind != ir::ExprKind::symbol || !open[size_t(node.value)])
          continue;
        open[size_t(node.value)] = false;
        if (known.dims.size() == dims.size())
          visit({uint32_t(node.value)}, known.dims[i]);
      }
    }
}

} // namespace cugrt::plan
