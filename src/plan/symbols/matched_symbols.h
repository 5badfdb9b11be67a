// Expressions that equal the symbols that matches define.
//
//   func @main(%x: tensor<[n, 4], f32>)
//     %m = match %x : tensor<[z, 4], f32>     z is n wherever it has a value
//
// To compare a size over z with one over n, z is replaced by n. Bounds are taken from the size as
// it was written, since z may have closer bounds than n. A comparison holds if it can be shown in
// either form.
#pragma once

#include "plan/format/plan.h"

#include <vector>

namespace cugrt::plan {

/// Symbols of one function and the expressions that they equal, in one pool, which must live as
/// long.
class MatchedSymbols {
public:
  MatchedSymbols(ir::ExprPool &exprs, size_t symbols) : exprs_(&exprs), symbols_(symbols) {}

  /// `symbol` is `dim` wherever it has a value. Said again of a symbol, it changes nothing;
  /// nor where it would stand for a large expression.
  void define(ir::SymbolId symbol, ir::ExprId dim);
  /// Likewise for an expression of another pool, over the same symbols.
  void define(ir::SymbolId symbol, const ir::ExprPool &from, ir::ExprId dim);

  /// Whether no symbol stands for anything: all expressions are as they are.
  bool empty() const { return stands_for_.empty(); }
  /// The expression without the symbols that stand for others: equal in value. Invalid: itself.
  ir::ExprId resolve(ir::ExprId expr) const;
  std::vector<ir::ExprId> resolve(std::vector<ir::ExprId> exprs) const;
  /// The same of an expression of another pool.
  ir::ExprId resolve(const ir::ExprPool &from, ir::ExprId expr) const;
  /// Whether two expressions are the same one or resolve to it; invalid ones are none.
  bool same(ir::ExprId a, ir::ExprId b) const;
  bool same(const std::vector<ir::ExprId> &a, const std::vector<ir::ExprId> &b) const;

private:
  void prepare();
  ir::ExprPool *exprs_;
  size_t symbols_;
  std::vector<ir::ExprId> stands_for_; // by symbol: itself, where it stands for nothing; or empty
};

/// The symbols of a plan's function that one match each defines. `exprs` holds the plan's
/// expressions under their numbers.
MatchedSymbols matched_symbols(ir::ExprPool &exprs, const Function &function);

} // namespace cugrt::plan
