// Copying modules behind what another one holds; see link.h.
#include "ir/module/link.h"

namespace cugrt::ir {

namespace {

class ModuleCopy {
public:
  ModuleCopy(const LinkPart &part, Module &target)
      : part_(part), source_(*part.module), target_(target) {}

  uint32_t run() {
    copy_exprs();
    copy_types();
    const auto first_of = [](const auto &list) { return static_cast<uint32_t>(list.size()); };
    kernels_ = first_of(target_.kernels), constants_ = first_of(target_.constants);
    functions_ = first_of(target_.functions), literals_ = first_of(target_.literals);
    callee_names_ = first_of(target_.callee_names);
    target_.literals.insert(target_.literals.end(), source_.literals.begin(),
                            source_.literals.end());
    target_.callee_names.insert(target_.callee_names.end(), source_.callee_names.begin(),
                                source_.callee_names.end());
    for (const Kernel &kernel : source_.kernels)
      target_.kernels.push_back(copied(kernel));
    for (Constant constant : source_.constants) {
      constant.name = part_.name + "." + constant.name;
      constant.type = types_[constant.type.index];
      target_.constants.push_back(std::move(constant));
    }
    for (const Function &function : source_.functions)
      target_.functions.push_back(copied(function));
    return functions_;
  }

private:
  void copy_exprs() {
    exprs_.reserve(source_.exprs.size());
    for (uint32_t i = 0; i < source_.exprs.size(); ++i) {
      const ExprNode &node = source_.exprs[{i}];
      if (node.kind == ExprKind::constant)
        exprs_.push_back(target_.exprs.constant(node.value));
      else if (node.kind == ExprKind::symbol)
        exprs_.push_back(target_.exprs.symbol({static_cast<uint32_t>(node.value)}));
      else
        exprs_.push_back(target_.exprs.make(node.kind, expr(node.a), expr(node.b), expr(node.c)));
    }
  }
  void copy_types() {
    for (uint32_t i = 0; i < source_.types.size(); ++i) {
      Type type = source_.types[{i}];
      type.scope = target_.types.scope(source_.types.scope_name(type.scope));
      for (ExprId &dim : type.dims)
        dim = expr(dim);
      for (ExprId &stride : type.strides)
        stride = expr(stride);
      for (TypeId &field : type.fields)
        field = types_[field.index];
      types_.push_back(target_.types.intern(std::move(type)));
    }
  }
  ExprId expr(ExprId id) const { return id.valid() ? exprs_[id.index] : id; }

  Kernel copied(Kernel kernel) const {
    kernel.name = part_.name + "." + kernel.name;
    const bool is_path = kernel.code_kind != CodeKind::source_text;
    if (is_path && !part_.base_folder.empty() && !kernel.code.starts_with('/') &&
        !kernel.code.starts_with("builtin:"))
      kernel.code = part_.base_folder + "/" + kernel.code;
    for (KernelVariant &variant : kernel.variants) {
      variant.predicate = expr(variant.predicate);
      for (ExprId &size : variant.grid)
        size = expr(size);
      for (ExprId &size : variant.block)
        size = expr(size);
      variant.shared_bytes = expr(variant.shared_bytes);
      variant.workspace_bytes = expr(variant.workspace_bytes);
    }
    return kernel;
  }

  /// The number that Binding::callee of that kind starts from.
  uint32_t first_callee(BindingKind kind) const {
    switch (binding_info(kind).callee) {
    case CalleeKind::kernel:
      return kernels_;
    case CalleeKind::function:
      return functions_;
    case CalleeKind::name:
      return callee_names_;
    case CalleeKind::constant:
      return constants_;
    case CalleeKind::op:
    case CalleeKind::none:
      break;
    }
    return 0;
  }

  Operand copied(Operand operand) const {
    switch (operand.kind) {
    case Operand::Kind::none:
    case Operand::Kind::value:
      return operand;
    case Operand::Kind::expr:
      return Operand::of(expr(operand.expr()));
    case Operand::Kind::literal:
      return Operand::of_literal(operand.index + literals_);
    case Operand::Kind::function:
      break;
    }
    return Operand::of_function(operand.index + functions_);
  }

  Function copied(Function function) const {
    function.name = part_.name + "." + function.name;
    function.is_private = true;
    function.num_inputs = UINT32_MAX;
    for (Symbol &symbol : function.symbols)
      symbol.buckets.clear(); // those of @main are the linked function's
    for (TypeId &type : function.result_types)
      type = types_[type.index];
    for (Constraint &constraint : function.constraints)
      constraint.expr = expr(constraint.expr);
    for (Value &value : function.values)
      value.type = types_[value.type.index];
    for (Operand &operand : function.operands)
      operand = copied(operand);
    for (ExprId &id : function.exprs)
      id = expr(id);
    for (Block &block : function.blocks)
      for (Binding &binding : block.bindings)
        if (binding.callee != UINT32_MAX)
          binding.callee += first_callee(binding.kind);
    return function;
  }

  const LinkPart &part_;
  const Module &source_;
  Module &target_;
  std::vector<ExprId> exprs_;
  std::vector<TypeId> types_;
  uint32_t kernels_ = 0, constants_ = 0, functions_ = 0, literals_ = 0, callee_names_ = 0;
};

} // namespace

uint32_t append_module(Module &target, const LinkPart &part) {
  return ModuleCopy(part, target).run();
}

} // namespace cugrt::ir
