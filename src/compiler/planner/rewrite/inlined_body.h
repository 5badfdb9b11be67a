// The bindings of one callee in its caller. Internal to inline_calls.h and inline_graphs.h, which
// choose the calls.
#pragma once

#include "compiler/planner/analysis/liveness.h"
#include "compiler/planner/symbols/sizes.h"
#include "ir/module/builder.h"
#include "ir/module/infer.h"

#include <span>
#include <string>
#include <vector>

namespace cugrt::plan {

/// The type of what an alias, a tuple or its field names, where that is known more exactly than the
/// source says; invalid for all other bindings.
ir::TypeId named_type(ir::Module &module, const ir::Function &function, const ir::Binding &b,
                      std::span<const ir::Operand> operands, std::span<const ir::ExprId> exprs);

/// Appends one callee's bindings to the function that is being built.
class InlinedBody {
public:
  /// `given`, by value of the callee: it may be a parameter's memory; its kills are dropped.
  /// `bounds`: the bounds of the caller's symbols, which this keeps up to date. `site`: the call
  /// that the bindings replace; calls that were inlined into the callee follow it.
  InlinedBody(ir::Module &module, ir::FunctionBuilder &builder, const ir::Function &callee,
              const std::vector<bool> &given, std::vector<ir::ExprId> symbols,
              ir::SymbolDomain &bounds, uint32_t site)
      : module_(module), builder_(builder), callee_(callee), given_(given), site_(site),
        symbols_(std::move(symbols)), bounds_(bounds), values_(callee.values.size()) {}

  void map(ir::ValueId callee_value, ir::Operand operand) { values_[callee_value.index] = operand; }

  /// Gives the results.
  std::vector<ir::Operand> run();

private:
  uint32_t site_of(uint32_t callee_site) const {
    return callee_site == UINT32_MAX ? site_ : site_ + 1 + callee_site;
  }
  ir::ExprId expr(ir::ExprId e) {
    return module_.exprs.as_constant(e) ? e : module_.exprs.substitute(e, symbols_);
  }
  ir::TypeId type(ir::ValueId value) {
    return ir::substitute_type(module_, callee_.value(value).type, symbols_);
  }
  ir::Operand mapped(const ir::Operand &operand);
  std::vector<ir::Operand> mapped(std::span<const ir::Operand> operands);

  void binding(const ir::Binding &b);

  /// A match defines a symbol as the dimension that it matches, if that is known and within the
  /// symbol's bounds, else as a new symbol of the caller.
  void define_symbols(const ir::Binding &b, const ir::Operand &operand);

  void blocks(const ir::Binding &b, ir::Binding &out);

  ir::Module &module_;
  ir::FunctionBuilder &builder_;
  const ir::Function &callee_;
  const std::vector<bool> &given_;
  const uint32_t site_;
  std::vector<ir::ExprId> symbols_; // by callee symbol: what stands for it in the caller
  ir::SymbolDomain &bounds_;
  std::vector<ir::Operand> values_; // by callee value
};

} // namespace cugrt::plan
