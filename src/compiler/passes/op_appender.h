// A cloner that writes several ops in the place of one: they are appended one after the other, and
// an error is asked for at the end.
#pragma once

#include "compiler/ir_names.h"
#include "ir/module/function_cloner.h"

#include <optional>

namespace cugrt::passes {

class OpAppender : public ir::FunctionCloner {
protected:
  using FunctionCloner::FunctionCloner;
  using Dims = std::vector<ExprId>;

  /// Appends an op of the target's values; absent ones are invalid. The first error stays in
  /// status_, and later results are not used. The result is named `hint`, by default hint_.
  ValueId op(Op op, std::initializer_list<ValueId> operands, std::vector<ir::Attribute> attributes,
             std::optional<std::string_view> hint = {}) {
    if (!status_.ok())
      return {};
    std::vector<Operand> given;
    for (ValueId value : operands)
      given.push_back(value.valid() ? Operand::of(value) : Operand{});
    while (!given.empty() && given.back().kind == Operand::Kind::none)
      given.pop_back();
    Result<ValueId> made = bind_op(op, given, attributes, hint.value_or(hint_), location_);
    if (!made.ok())
      status_ = made.take_status();
    return made.ok() ? *made : ValueId();
  }
  ValueId shape(const Dims &dims) {
    return bind_value(BindingKind::shape, "dims", {}, dims, module().types.shape(dims), location_);
  }
  ValueId reshaped(ValueId x, const Dims &dims, std::optional<std::string_view> hint = {}) {
    return !status_.ok() || made_type(x).dims == dims ? x
                                                      : op(Op::reshape, {x, shape(dims)}, {}, hint);
  }

  SourceLocation location_{}; // of what is appended
  std::string hint_;
  Status status_;
};

} // namespace cugrt::passes
