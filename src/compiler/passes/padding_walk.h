// What padding_effects.cpp, which walks through a function's bindings, knows of the whole walk.
// Internal to padding_effects.h.
#pragma once

#include "compiler/passes/padding_effects.h"

#include "ops/table/op_padding.h"

#include <map>

namespace cugrt::passes {

using padding::Dim;
using padding::ExprId;
using padding::Facts;
using padding::Fill;
using padding::Op;
using padding::OpPadding;
using padding::PaddedSymbols;
using padding::PaddingOperand;

/// What is known of a whole walk, from the function that has buckets through all that it calls.
/// Expressions are in terms of that function's symbols; those that other functions define have
/// numbers behind them.
class ModulePadding : public PaddedSymbols {
public:
  using Results = std::vector<Facts>;

  ModulePadding(const ir::Module &module, const ir::Function &root,
                const std::vector<bool> &padded);

  /// `symbols`: what the callee's symbols are; invalid ones are its own.
  Result<Results> effects_of(const ir::Function &function, std::vector<ExprId> symbols,
                             const std::vector<Facts> &params);
  ExprId own_symbol(const ir::Function &function, size_t symbol);

  const ir::Module &module;

private:
  const ir::Function &root_;
  std::vector<uint32_t> first_symbol_; // by function
  /// Callees by what they were given.
  std::map<std::tuple<const ir::Function *, std::vector<ExprId>, std::vector<Facts>>, Results>
      known_;
};

} // namespace cugrt::passes
