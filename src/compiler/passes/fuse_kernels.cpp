// FuseKernels: a call of a group of ops (op_groups.h) becomes one generated kernel:
//
//   %y = call @fused_matmul_add_relu(%x, %w, %b)
//
//   %y = alloc : tensor<[n, 32], f32>
//   launch @fused_matmul_add_relu_f32(%x, %w, %y, n, 32, 64, .., %b, 32)
//
// A group of which no kernel can be made, whole or in parts, becomes its ops again, for
// LegalizeOps. fused_group.h says how a group is split. Results are the same, bit for bit, as those
// of the ops one by one. Groups that nothing calls any longer are removed.
#include "base/check.h"
#include "compiler/fused/fused_group.h"
#include "compiler/ir_names.h"
#include "compiler/passes/all_passes.h"
#include "compiler/passes/op_groups.h"
#include "ir/module/function_cloner.h"
#include "ir/module/infer.h"

#include <algorithm>

namespace cugrt::passes {

namespace {

class KernelFuser : public ir::FunctionCloner {
public:
  KernelFuser(const ir::Module &source_module, const std::vector<bool> &is_group,
              const ir::Function &source, ir::Module &target, codegen::KernelTable &table)
      : FunctionCloner(source, target), source_module_(source_module), is_group_(is_group),
        table_(table) {}

protected:
  Status visit(const Binding &binding) override {
    if (binding.kind != BindingKind::call || !is_group_[binding.callee] || !open(binding))
      return copy(binding);
    for (const codegen::FusedPart &part : codegen::split_group(module(), group_))
      emit(part);
    map(binding.result(), group_.values[group_.ops.back().result].given);
    return {};
  }

private:
  /// The callee's ops in terms of the caller. False where a type is none that a kernel takes, or
  /// does not follow from the arguments: the call then stays.
  bool open(const Binding &call) {
    callee_ = &source_module_.functions[call.callee];
    const std::span<const Operand> arguments = source().operands_of(call);
    std::vector<ir::TypeId> types;
    for (const Operand &argument : arguments)
      types.push_back(ir::operand_type(module(), source(), argument));
    symbols_ = ir::bind_callee_symbols(module(), *callee_, types);
    if (has_checks())
      return false;
    group_ = {};
    group_.location = call.location;
    result_name_ = source().value(call.result()).name;
    for (const ir::Value &value : callee_->values)
      group_.values.push_back({ir::substitute_type(module(), value.type, symbols_), {}});
    for (size_t i = 0; i < arguments.size(); ++i) {
      codegen::FusedGroup::Value &value = group_.values[callee_->params[i].value.index];
      if (arguments[i].kind != Operand::Kind::value || value.type != types[i])
        return false;
      value.given = mapped(arguments[i].value());
    }
    for (const codegen::FusedGroup::Value &value : group_.values)
      if (!value.type.valid() || !is_plain(module().types[value.type]))
        return false;
    ops_.clear();
    for (const Binding &binding : callee_->body().bindings)
      if (binding.kind == BindingKind::op)
        add(binding);
    return group_.values[group_.ops.back().result].type == source().value(call.result()).type;
  }

  /// Whether the call checks bounds or alignments that the caller does not keep by itself.
  bool has_checks() {
    const ir::SymbolDomain domain = source().symbol_domain(module().exprs);
    for (size_t s = 0; s < symbols_.size(); ++s) {
      if (!symbols_[s].valid())
        return true;
      const ir::Interval range = module().exprs.range(symbols_[s], domain);
      const ir::Interval &wanted = callee_->symbols[s].bounds;
      if (range.lower < wanted.lower || range.upper > wanted.upper)
        return true;
    }
    for (const ir::Constraint &constraint : callee_->constraints)
      if (module().exprs.range(module().exprs.substitute(constraint.expr, symbols_), domain).upper >
          constraint.most)
        return true;
    return std::any_of(callee_->params.begin(), callee_->params.end(),
                       [](const ir::Parameter &param) { return param.alignment_bytes > 1; });
  }

  static bool is_plain(const ir::Type &type) {
    return type.kind == ir::TypeKind::shape || type.is_plain_tensor();
  }

  void add(const Binding &binding) {
    codegen::FusedOp op{ir::op_of(binding), {}, {}, binding.result().index};
    const std::span<const ir::Attribute> attributes = callee_->attributes_of(binding);
    op.attributes.assign(attributes.begin(), attributes.end());
    for (const Operand &operand : callee_->operands_of(binding))
      op.operands.push_back(operand.kind == Operand::Kind::value ? operand.index
                                                                 : codegen::FusedGroup::kNoValue);
    group_.ops.push_back(std::move(op));
    ops_.push_back(&binding);
  }

  void emit(const codegen::FusedPart &part) {
    if (part.ops.size() == 1)
      return append(part.ops[0]);
    codegen::FusedGroup::Value &result = group_.values[group_.ops[part.ops.back()].result];
    const std::string &name = name_of(part.ops.back());
    result.given = bind_value(BindingKind::alloc, name, {}, {}, result.type, group_.location);
    if (codegen::emit_fused(table_, builder(), group_, part, result.given).ok())
      return;
    for (uint32_t op : part.ops) // the allocation is dead
      append(op);
  }

  /// The name of the op's result: the call's, or as in the group.
  const std::string &name_of(uint32_t op) const {
    return op + 1 == group_.ops.size() ? result_name_ : callee_->values[group_.ops[op].result].name;
  }

  /// An op as it stands in the group.
  void append(uint32_t number) {
    const codegen::FusedOp &op = group_.ops[number];
    std::vector<Operand> operands;
    for (uint32_t operand : op.operands)
      operands.push_back(operand == codegen::FusedGroup::kNoValue ? Operand() : given(operand));
    Binding binding{};
    binding.kind = BindingKind::op;
    binding.callee = uint32_t(op.op);
    binding.location = ops_[number]->location;
    codegen::FusedGroup::Value &result = group_.values[op.result];
    const std::string &name = name_of(number);
    result.given = builder().bind(binding, operands, {}, op.attributes, std::span(&name, 1),
                                  std::span(&result.type, 1));
  }

  /// A value of the group in the caller. Shapes are made where they are first needed.
  Operand given(uint32_t value) {
    codegen::FusedGroup::Value &known = group_.values[value];
    if (!known.given.valid()) {
      CUGRT_CHECK(module().types[known.type].kind == ir::TypeKind::shape);
      const std::vector<ir::ExprId> dims = module().types[known.type].dims;
      known.given = bind_value(BindingKind::shape, "shape", {}, dims, known.type, group_.location);
    }
    return Operand::of(known.given);
  }

  const ir::Module &source_module_;
  const std::vector<bool> &is_group_; // by function
  codegen::KernelTable &table_;
  // The call that is being replaced:
  const ir::Function *callee_ = nullptr;
  std::string result_name_;
  std::vector<ir::ExprId> symbols_;
  codegen::FusedGroup group_;
  std::vector<const Binding *> ops_; // by op of the group
};

} // namespace

Result<ir::Module> fuse_kernels(const ir::Module &module, const PassContext &context) {
  std::vector<bool> is_group;
  for (const ir::Function &function : module.functions)
    is_group.push_back(is_fused_group(module, function));
  if (!context.flag("fuse.kernels") ||
      std::find(is_group.begin(), is_group.end(), true) == is_group.end())
    return module;
  ir::Module target = ir::without_functions(module);
  CUGRT_ASSIGN(codegen::KernelChoice choice, kernel_choice(module, context));
  codegen::KernelTable table(target, module.functions, context.flag("codegen.programmatic"),
                             std::move(choice));
  for (const ir::Function &function : module.functions)
    CUGRT_TRY(KernelFuser(module, is_group, function, target, table).add_function());
  ir::remove_dead_functions(target);
  return target;
}

} // namespace cugrt::passes
