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
// to its own shape are aliases. Operands with strides are made contiguous
// first.
#include "codegen/op_emitter.h"
#include "ir/function_cloner.h"
#include "passes/all_passes.h"
#include "passes/kernel_choice.h"
#include "plan/located.h"

namespace cugrt::passes {

namespace {

using ir::Op;

class Legalizer : public ir::FunctionCloner {
public:
  Legalizer(const ir::Function &source, ir::Module &target, codegen::KernelTable &table)
      : FunctionCloner(source, target), table_(table) {}

protected:
  Status visit(const ir::Binding &binding) override {
    if (binding.kind != ir::BindingKind::op)
      return copy(binding);
    Status status = legalize(binding);
    if (status.ok())
      return status;
    return plan::located(status.code(), source(), binding.location, status.message());
  }

private:
  Status legalize(const ir::Binding &binding);
  Result<bool> legalize_as_view(const ir::Binding &binding, const codegen::OpCall &call);
  Result<ir::ValueId> contiguous(ir::ValueId value, SourceLocation location);
  Status check_shapes(const codegen::OpCall &call, const ir::Binding &binding) const;
  bool keeps_order(const codegen::OpEmitter &op);
  Status view_reshape(const ir::Binding &binding, ir::ValueId operand);
  Result<bool> view_slice(const ir::Binding &binding, const codegen::OpCall &call);
  Status view_sections(const ir::Binding &binding, const codegen::OpCall &call, size_t axis);

  ir::Type type(ir::ValueId target_value) {
    return module().types[builder().function().value(target_value).type];
  }
  const ir::Value &result(const ir::Binding &binding, uint32_t i = 0) const {
    return source().value(binding.result(i));
  }

  codegen::KernelTable &table_;
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
  ir::Type dense = type(value);
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

// Whether a transposition leaves all axes of other sizes than 1 in their order.
bool Legalizer::keeps_order(const codegen::OpEmitter &op) {
  const ir::Type x = op.operand_type(0);
  size_t next = 0;
  for (size_t axis : op.permutation(x.dims.size())) {
    if (module().exprs.as_constant(x.dims[axis]) == 1)
      continue;
    if (axis < next)
      return false;
    next = axis;
  }
  return true;
}

Status Legalizer::view_reshape(const ir::Binding &binding, ir::ValueId operand) {
  const ir::ExprId zero = module().exprs.constant(0);
  map(binding.result(), bind_value(ir::BindingKind::view, result(binding).name, operand,
                                   std::span(&zero, 1), result(binding).type, binding.location));
  return {};
}

Status Legalizer::view_sections(const ir::Binding &binding, const codegen::OpCall &call,
                                size_t axis) {
  ir::ExprPool &exprs = module().exprs;
  const ir::Type x = type(call.operands[0]);
  const ir::ExprId row = codegen::element_count(exprs, std::span(x.dims).subspan(axis + 1));
  const ir::ExprId bytes = exprs.constant(ir::info(x.dtype).bytes_per_block);
  ir::ExprId begin = exprs.constant(0);
  for (uint32_t i = 0; i < binding.result_count; ++i) {
    const ir::ExprId offset = exprs.mul(exprs.mul(begin, row), bytes);
    map(binding.result(i),
        bind_value(ir::BindingKind::view, result(binding, i).name, call.operands[0],
                   std::span(&offset, 1), result(binding, i).type, binding.location));
    begin = exprs.add(begin, type_of(binding.result(i)).dims[axis]);
  }
  return {};
}

// A slice is a view when it takes a run of bytes.
Result<bool> Legalizer::view_slice(const ir::Binding &binding, const codegen::OpCall &call) {
  ir::ExprPool &exprs = module().exprs;
  const ir::Type x = type(call.operands[0]);
  std::vector<ir::SliceDimension> slice;
  if (call.operands.size() > 1) {
    slice = codegen::slice_of_shapes(type(call.operands[1]).dims, type(call.operands[2]).dims);
  } else {
    CUGRT_ASSIGN(slice, ir::slice_dimensions(exprs, x.dims, call.attributes));
  }
  const ir::ExprId begin = codegen::run_begin(exprs, x.dims, slice);
  if (!begin.valid())
    return false;
  const ir::ExprId offset = exprs.mul(begin, exprs.constant(ir::info(x.dtype).bytes_per_block));
  map(binding.result(), bind_value(ir::BindingKind::view, result(binding).name, call.operands[0],
                                   std::span(&offset, 1), result(binding).type, binding.location));
  return true;
}

// Whether the op needed no kernel; its results are then mapped.
Result<bool> Legalizer::legalize_as_view(const ir::Binding &binding, const codegen::OpCall &call) {
  if (call.operands.empty())
    return false;
  const codegen::OpEmitter op(table_, builder(), call);
  const ir::Type x = type(call.operands[0]);
  switch (call.op) {
  case Op::reshape:
    CUGRT_TRY(view_reshape(binding, call.operands[0]));
    return true;
  case Op::transpose:
    if (!keeps_order(op))
      return false;
    CUGRT_TRY(view_reshape(binding, call.operands[0]));
    return true;
  case Op::split: {
    const size_t axis = op.axis(x.dims.size());
    const ir::ExprId outer = codegen::element_count(module().exprs, std::span(x.dims).first(axis));
    if (ir::info(x.dtype).elements_per_block != 1 || module().exprs.as_constant(outer) != 1)
      return false;
    CUGRT_TRY(view_sections(binding, call, axis));
    return true;
  }
  case Op::slice:
    return view_slice(binding, call);
  case Op::broadcast_to:
    if (x.dims != type_of(binding.result()).dims)
      return false;
    map(binding.result(), call.operands[0]);
    return true;
  case Op::cast:
    if (x.dtype != type_of(binding.result()).dtype)
      return false;
    map(binding.result(), call.operands[0]);
    return true;
  case Op::concat:
    if (call.operands.size() != 1)
      return false;
    map(binding.result(), call.operands[0]);
    return true;
  default:
    return false;
  }
}

Status Legalizer::legalize(const ir::Binding &binding) {
  codegen::OpCall call{
      ir::op_of(binding), {}, {}, source().attributes_of(binding), binding.location};
  CUGRT_TRY(check_shapes(call, binding));
  for (const ir::Operand &operand : source().operands_of(binding)) {
    ir::ValueId value;
    if (operand.kind == ir::Operand::Kind::value) {
      CUGRT_ASSIGN(value, contiguous(mapped(operand.value()), binding.location));
    }
    call.operands.push_back(value);
  }
  CUGRT_ASSIGN(const bool done, legalize_as_view(binding, call));
  if (done)
    return {};
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
  codegen::KernelTable table(target, module.functions, context.flag("codegen.programmatic"));
  CUGRT_ASSIGN(codegen::KernelChoice choice, kernel_choice(module, context));
  table.set_choice(std::move(choice));
  for (const ir::Function &function : module.functions) {
    CUGRT_ASSIGN(ir::Function legal, Legalizer(function, target, table).run());
    target.functions.push_back(std::move(legal));
  }
  return target;
}

} // namespace cugrt::passes
