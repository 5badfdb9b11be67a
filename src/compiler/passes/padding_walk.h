// The walk that finds what padding does, shared by its two files: padding_effects.cpp goes through
// a function's bindings, padding_rules.cpp has the rule of each op. Internal to padding_effects.h.
#pragma once

#include "compiler/passes/padding_effects.h"

#include "ops/table/ops.h"

#include <map>

namespace cugrt::passes {

using ir::ExprId;
using ir::Op;
using ir::ValueId;

/// A bit for each of the padded symbols; those from number 64 on are not followed.
using Symbols = uint64_t;

/// Of one value: the symbols along whose padding its elements are zero, and those along whose
/// padding they are unknown.
struct Padding {
  Symbols zero = 0, unknown = 0;
  auto operator<=>(const Padding &) const = default;
};

/// What added elements do to the others along one dimension.
enum class Harm {
  unless_zero,   // nothing where they are zero
  by_their_size, // more or less, with what they are; -inf in a softmax does nothing
  always,        // their number or their place is the harm
};

class ModulePadding {
public:
  using Results = std::vector<Padding>;

  explicit ModulePadding(const ir::Module &module) : module_(module) {}

  /// `symbols` by symbol of the function, `params` by parameter.
  Result<Results> effects_of(const ir::Function &function, std::vector<Symbols> symbols,
                             const std::vector<Padding> &params);

  std::vector<std::string> names; // of the symbols, by bit

private:
  friend class FunctionPadding;
  const ir::Module &module_;
  /// Callees by what they were given.
  std::map<std::tuple<const ir::Function *, std::vector<Symbols>, std::vector<Padding>>, Results>
      known_;
};

class FunctionPadding {
public:
  FunctionPadding(ModulePadding &all, const ir::Function &function, std::vector<Symbols> symbols)
      : all_(all), module_(all.module_), function_(function), symbols_(std::move(symbols)),
        values_(function.values.size(), Padding{0, ~Symbols(0)}) {}

  Result<ModulePadding::Results> run(const std::vector<Padding> &params) {
    for (size_t p = 0; p < params.size(); ++p)
      values_[function_.params[p].value.index] = params[p];
    CUGRT_TRY(block(0));
    ModulePadding::Results results;
    for (const ir::Operand &result : function_.results_of(function_.body()))
      results.push_back(padding(result));
    return results;
  }

private:
  Symbols of(ExprId expr) const {
    std::vector<ir::SymbolId> used;
    module_.exprs.collect_symbols(expr, used);
    Symbols all = 0;
    for (ir::SymbolId symbol : used)
      all |= symbols_[symbol.index];
    return all;
  }
  Symbols of(std::span<const ExprId> dims) const {
    Symbols all = 0;
    for (ExprId dim : dims)
      all |= of(dim);
    return all;
  }
  const ir::Type &type(ValueId value) const { return module_.types[function_.value(value).type]; }
  /// Of operand i of the op at hand; none: no dimensions.
  std::span<const ExprId> dims(size_t i) const {
    if (i >= operands_.size() || operands_[i].kind != ir::Operand::Kind::value)
      return {};
    return type(operands_[i].value()).dims;
  }
  bool has(size_t i) const {
    return i < operands_.size() && operands_[i].kind == ir::Operand::Kind::value;
  }
  Padding padding(const ir::Operand &operand) const {
    return operand.kind == ir::Operand::Kind::value ? values_[operand.value().index] : Padding();
  }

  Status block(uint32_t number);
  Status binding(const ir::Binding &b);
  Status call(const ir::Binding &b);
  void match(const ir::Binding &b);
  Status op(const ir::Binding &b);
  Status check(Op op);
  Status check_along(size_t operand, int64_t axis, Harm harm);
  Status check_axes(Op op, Harm harm);
  Status check_from(size_t first, Harm harm, size_t unless = 0);
  Status check_concat();
  Status check_slice();
  Status check_attention();
  Status check_reshape();
  Padding after(Op op, Symbols result) const;
  Status refuse(Symbols symbols, const char *how, Harm harm) const;

  ModulePadding &all_;
  const ir::Module &module_;
  const ir::Function &function_;
  std::vector<Symbols> symbols_;
  std::vector<Padding> values_;
  const ir::Binding *at_ = nullptr; // the op at hand
  std::span<const ir::Operand> operands_;
  std::span<const ir::Attribute> attributes_;
};

} // namespace cugrt::passes
