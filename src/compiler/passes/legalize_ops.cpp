// LegalizeOps: every tensor-level op becomes launches of kernels in destination-passing form, or a
// view.
//
//   %y = conv2d(%x, %w, %b) {..}       %y = alloc : tensor<[n, 16, 8, 8], f32>
//                                      launch @conv2d_x4_f32(%x, %w, %b, %y, n, 1, 8, ..)
//   %z = reshape(%y) {..}              %z = view %y, 0 : tensor<[n, 1024], f32>
//
// Results are allocated unplanned; PlanMemory places them. Ops that would only copy a contiguous
// run of bytes are views, and so share bytes with their operand: reshape, a transposition that
// moves axes of size 1 only, sections of a split that lie one after the other, a slice of the
// outermost axis. A cast to the same dtype, the concatenation of one operand and a tensor stretched
// to its own shape are aliases (ops/emit/element_ops.h). Operands with strides are made contiguous
// first, but for rows of attention (attention/row_views.h). An op that writes its first operand has
// that as its result.
#include "compiler/passes/all_passes.h"
#include "compiler/passes/attention/row_views.h"
#include "ir/module/function_cloner.h"
#include "ir/module/module.h"
#include "ops/emit/element_ops.h"
#include "ops/emit/op_emitter.h"

namespace cugrt::passes {

namespace {

class Legalizer : public ir::FunctionCloner {
public:
  Legalizer(const ir::Module &source_module, const ir::Function &source, ir::Module &target,
            codegen::KernelTable &table)
      : FunctionCloner(source, target), table_(table), rows_(source_module, target, source) {}

protected:
  Status enter_block(uint32_t) override { return forget_block(); }
  Status leave_block(uint32_t) override { return forget_block(); }
  Status visit(const ir::Binding &binding) override {
    if (binding.kind != ir::BindingKind::op)
      return copy(binding);
    if (rows_.is_gone(binding))
      return {};
    Status status = legalize(binding);
    if (status.ok())
      return status;
    return ir::located(status.code(), source(), binding.location, status.message());
  }

private:
  Status forget_block() {
    table_.leave_block();
    return {};
  }
  Status legalize(const ir::Binding &binding);
  Result<bool> legalize_as_view(const ir::Binding &binding, const codegen::OpCall &call);
  Result<ir::ValueId> contiguous(ir::ValueId value, SourceLocation location);
  Status check_shapes(const codegen::OpCall &call, const ir::Binding &binding) const;

  const ir::Value &result(const ir::Binding &binding, uint32_t i = 0) const {
    return source().value(binding.result(i));
  }

  codegen::KernelTable &table_;
  const RowViews rows_;
};

Status Legalizer::check_shapes(const codegen::OpCall &call, const ir::Binding &binding) const {
  auto known = [&](const ir::Value &value) {
    const ir::Type &type = module().types[value.type];
    return type.kind != ir::TypeKind::tensor || type.known_shape
               ? Status()
               : Status::error(Code::unsupported,
                               std::string(ir::op_info(call.op).name) + " of %" + value.name +
                                   ": its shape is not known; give it one with match");
  };
  for (const ir::Operand &operand : source().operands_of(binding))
    if (operand.kind == ir::Operand::Kind::value)
      CUGRT_TRY(known(source().value(operand.value())));
  for (uint32_t i = 0; i < binding.result_count; ++i)
    CUGRT_TRY(known(result(binding, i)));
  return {};
}

// A tensor of the same elements without strides: the value itself, or a copy.
Result<ir::ValueId> Legalizer::contiguous(ir::ValueId value, SourceLocation location) {
  ir::Type dense = made_type(value);
  if (dense.kind != ir::TypeKind::tensor || dense.strides.empty())
    return value;
  const std::vector<ir::ExprId> strides = std::move(dense.strides);
  dense.strides.clear();
  if (strides == codegen::contiguous_strides(module().exprs, dense.dims))
    return value;
  const std::string hint = builder().function().value(value).name + "_dense";
  const ir::ValueId copy = bind_value(ir::BindingKind::alloc, hint, {}, {},
                                      module().types.intern(std::move(dense)), location);
  CUGRT_TRY(codegen::emit_gather(table_, builder(), value, copy, location));
  return copy;
}

// Whether the op needed no kernel; its results are then mapped.
Result<bool> Legalizer::legalize_as_view(const ir::Binding &binding, const codegen::OpCall &call) {
  std::vector<ir::TypeId> operands, results;
  for (ir::ValueId operand : call.operands)
    operands.push_back(operand.valid() ? builder().function().value(operand).type : ir::TypeId());
  for (uint32_t i = 0; i < binding.result_count; ++i)
    results.push_back(result(binding, i).type);
  CUGRT_ASSIGN(const std::optional<codegen::OpView> view,
               codegen::op_view(module(), call.op, operands, results, call.attributes));
  if (!view)
    return false;
  if (view->is_operand)
    map(binding.result(), call.operands[0]);
  for (uint32_t i = 0; i < view->offsets_bytes.size(); ++i)
    map(binding.result(i), bind_value(ir::BindingKind::view, result(binding, i).name,
                                      call.operands[0], std::span(&view->offsets_bytes[i], 1),
                                      result(binding, i).type, binding.location));
  return true;
}

Status Legalizer::legalize(const ir::Binding &binding) {
  codegen::OpCall call{
      ir::op_of(binding), {}, {}, source().attributes_of(binding), binding.location};
  CUGRT_TRY(check_shapes(call, binding));
  for (const ir::Operand &operand : source().operands_of(binding)) {
    ir::ValueId value;
    const bool is_value = operand.kind == ir::Operand::Kind::value,
               takes_rows = is_value && call.op == ir::Op::attention;
    if (const RowViews::View *rows = takes_rows ? rows_.find(operand.value()) : nullptr) {
      const std::string &name = source().value(operand.value()).name;
      value = bind_value(ir::BindingKind::view, name, mapped(rows->source),
                         std::span(&rows->offset_bytes, 1), rows->type, binding.location);
    } else if (is_value) {
      CUGRT_ASSIGN(value, contiguous(mapped(operand.value()), binding.location));
    }
    call.operands.push_back(value);
  }
  CUGRT_ASSIGN(const bool done, legalize_as_view(binding, call));
  if (done)
    return {};
  if (ir::writes_operand(binding)) {
    map(binding.result(), call.operands[0]);
    return codegen::emit_op(table_, builder(), call);
  }
  for (uint32_t i = 0; i < binding.result_count; ++i) {
    call.results.push_back(bind_value(ir::BindingKind::alloc, result(binding, i).name, {}, {},
                                      result(binding, i).type, binding.location));
    map(binding.result(i), call.results.back());
  }
  return codegen::emit_op(table_, builder(), call);
}

} // namespace

Result<ir::Module> legalize_ops(const ir::Module &module, const PassContext &context) {
  ir::Module target = ir::without_functions(module);
  CUGRT_ASSIGN(codegen::KernelChoice choice, kernel_choice(module, context));
  codegen::KernelTable table(target, module.functions, context.flag("codegen.programmatic"),
                             std::move(choice));
  for (const ir::Function &function : module.functions)
    CUGRT_TRY(Legalizer(module, function, target, table).add_function());
  return target;
}

} // namespace cugrt::passes
