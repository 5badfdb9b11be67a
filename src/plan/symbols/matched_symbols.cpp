#include "plan/symbols/matched_symbols.h"

#include <algorithm>

namespace cugrt::plan {

void MatchedSymbols::prepare() {
  if (stands_for_.empty())
    for (uint32_t i = 0; i < symbols_; ++i)
      stands_for_.push_back(exprs_->symbol({i}));
}

void MatchedSymbols::define(ir::SymbolId symbol, ir::ExprId dim) {
  constexpr uint32_t kLargest = 64; // as a tree: matches of what is matched could nest without end
  prepare();
  const ir::ExprId itself = exprs_->symbol(symbol);
  if (const ir::ExprId is = resolve(dim);
      stands_for_[symbol.index] == itself && exprs_->tree_size(is) <= kLargest)
    stands_for_[symbol.index] = is;
}

void MatchedSymbols::define(ir::SymbolId symbol, const ir::ExprPool &from, ir::ExprId dim) {
  prepare();
  define(symbol, resolve(from, dim));
}

ir::ExprId MatchedSymbols::resolve(ir::ExprId expr) const {
  return empty() || !expr.valid() ? expr : exprs_->substitute(expr, stands_for_);
}

std::vector<ir::ExprId> MatchedSymbols::resolve(std::vector<ir::ExprId> exprs) const {
  for (ir::ExprId &expr : exprs)
    expr = resolve(expr);
  return exprs;
}

ir::ExprId MatchedSymbols::resolve(const ir::ExprPool &from, ir::ExprId expr) const {
  return from.copy_to(*exprs_, expr, stands_for_);
}

bool MatchedSymbols::same(ir::ExprId a, ir::ExprId b) const {
  return a.valid() && b.valid() && (a == b || (!empty() && resolve(a) == resolve(b)));
}

bool MatchedSymbols::same(const std::vector<ir::ExprId> &a,
                          const std::vector<ir::ExprId> &b) const {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](ir::ExprId x, ir::ExprId y) { return same(x, y); });
}

/// The dimensions of a match's operand; none if they are unknown.
static std::vector<ir::ExprId> dims_of(const Function &function, const OperandRef &operand) {
  std::vector<ir::ExprId> dims;
  if (operand.kind == OperandRef::Kind::buffer)
    return function.buffers[operand.index].dims;
  if (operand.kind == OperandRef::Kind::list)
    for (const OperandRef &element : function.lists[operand.index])
      if (element.kind == OperandRef::Kind::expr)
        dims.push_back({element.index});
  return dims;
}

MatchedSymbols matched_symbols(ir::ExprPool &exprs, const Function &function) {
  MatchedSymbols matched(exprs, function.symbols.size());
  std::vector<uint32_t> matches(function.symbols.size()); // by symbol: those that define it
  auto for_each_match = [&](auto visit) {
    for (const Block &block : function.blocks)
      for (const Item &item : block.items)
        if (item.kind == ItemKind::match)
          visit(item);
  };
  for_each_match([&](const Item &item) {
    for (SymbolId symbol : item.defines)
      ++matches[symbol.index];
  });
  for_each_match([&](const Item &item) {
    const std::vector<ir::ExprId> known = dims_of(function, item.operands[0]);
    for (size_t i = 0; i < item.dims.size() && known.size() == item.dims.size(); ++i)
      if (const ir::ExprNode &node = exprs[item.dims[i]];
          node.kind == ir::ExprKind::symbol && matches[size_t(node.value)] == 1 &&
          std::find(item.defines.begin(), item.defines.end(), SymbolId{uint32_t(node.value)}) !=
              item.defines.end())
        matched.define({uint32_t(node.value)}, known[i]);
  });
  return matched;
}

} // namespace cugrt::plan
