// The table of op families, and functions that they share.
#include "ops/emit/op_emitter.h"

#include "base/check.h"
#include "base/type/state_scope.h"
#include "ops/emit/element_ops.h"

namespace cugrt::codegen {

/// Indexed by op.
constexpr Status (*kFamilies[])(OpEmitter &) = {
#define rule(name) emit_##name
#define CUGRT_OP(name, operands, results, RULE, ...) RULE,
#include "ops/table/ops.def"
};

Status emit_op(KernelTable &table, ir::FunctionBuilder &builder, const OpCall &call) {
  OpEmitter emitter(table, builder, call);
  CUGRT_CHECK(static_cast<size_t>(call.op) < std::size(kFamilies));
  return kFamilies[static_cast<size_t>(call.op)](emitter);
}

static ir::ValueId alloc_counters(OpEmitter &op, ir::TypeId type, ir::ExprId count) {
  const ir::ValueId storage = op.builder().alloc_storage(
      "state", ir::kStateScope, op.exprs().mul(count, op.constant(int64_t(sizeof(uint32_t)))));
  return op.builder().alloc_tensor("counters", storage, op.constant(0), type);
}

static ir::TypeId type_of_counters(OpEmitter &op, ir::ExprId count) {
  ir::TypePool &types = op.builder().module().types;
  return types.tensor(ir::DType::i32, {count}, types.scope(ir::kStateScope));
}

// The launches of a block that share counters come one after the other, as they would anyway: side
// by side, each would have parts in memory.
void add_counters(OpEmitter &op, KernelLaunch &launch, ir::ExprId count) {
  const ir::TypeId type = type_of_counters(op, count);
  const ir::Function &function = op.builder().function();
  if (!op.builder().in_nested_block()) {
    const auto &bindings = function.blocks[0].bindings;
    for (auto binding = bindings.rbegin(); binding != bindings.rend(); ++binding)
      if (binding->kind == ir::BindingKind::alloc_tensor &&
          function.value(binding->result()).type == type)
        return launch.inout("counters", binding->result());
  }
  launch.inout("counters", alloc_counters(op, type, count));
}

void add_shared_tiles(OpEmitter &op, KernelLaunch &launch, ir::ExprId tiles, int64_t sums,
                      ir::DType dtype) {
  ir::FunctionBuilder &builder = op.builder();
  ir::ExprPool &exprs = op.exprs();
  ir::TypePool &types = builder.module().types;
  launch.output(
      "parts",
      builder.alloc("parts", types.tensor(dtype, {exprs.mul(tiles, exprs.constant(sums))})));
  launch.inout("counters", alloc_counters(op, type_of_counters(op, tiles), tiles));
}

ir::ExprId OpEmitter::count(const ir::Type &type, size_t begin, size_t end) {
  const std::span<const ir::ExprId> dims(type.dims);
  return element_count(exprs(), dims.subspan(begin, std::min(end, dims.size()) - begin));
}

/// The view of an op that is no launch yet.
static std::optional<OpView> view_of(ir::Module &module, const ir::Function &function,
                                     const ir::Binding &made) {
  std::vector<ir::TypeId> operands, results;
  for (const ir::Operand &operand : function.operands_of(made))
    operands.push_back(operand.kind == ir::Operand::Kind::value
                           ? function.value(operand.value()).type
                           : ir::TypeId());
  for (uint32_t i = 0; i < made.result_count; ++i)
    results.push_back(function.value(made.result(i)).type);
  auto view = op_view(module, ir::op_of(made), operands, results, function.attributes_of(made));
  return view.ok() ? *view : std::nullopt;
}

bool OpEmitter::begins_aligned(size_t i) {
  constexpr int64_t kAlignment = 16; // of results, and so of all that a function allocates
  const ir::Function &function = builder_.function();
  ir::ValueId value = operand(i);
  for (;;) {
    for (const ir::Parameter &param : function.params)
      if (param.value == value)
        return param.alignment_bytes % kAlignment == 0 && param.alignment_bytes > 0;
    const ir::Binding *made = nullptr;
    for (const ir::Block &block : function.blocks)
      for (const ir::Binding &binding : block.bindings)
        if (value.index - binding.first_result < binding.result_count)
          made = &binding;
    if (!made)
      return false;
    ir::ExprId offset = constant(0); // within what it is a view of
    if (made->kind == ir::BindingKind::alloc)
      return true;
    if (made->kind == ir::BindingKind::view) {
      offset = function.exprs_of(*made)[0];
    } else if (made->kind == ir::BindingKind::op) { // that is no launch yet
      if (!ir::shares_bytes(ir::op_of(*made)))
        return true;
      const auto view = view_of(builder_.module(), function, *made);
      if (!view)
        return false;
      if (!view->is_operand)
        offset = view->offsets_bytes[value.index - made->first_result];
    } else {
      return false;
    }
    if (!divides(kAlignment, offset))
      return false;
    value = function.operands_of(*made)[0].value();
  }
}

ir::Type OpEmitter::operand_type(size_t i) const {
  const bool is_computed = i == 0 && call_.fusion && call_.fusion->loaded.valid();
  return is_computed ? builder_.module().types[call_.fusion->loaded] : type(operand(i));
}

ir::Type OpEmitter::result_type(size_t i) const {
  return call_.fusion ? builder_.module().types[call_.fusion->computed] : type(result(i));
}

size_t OpEmitter::axis(size_t rank) const {
  const std::optional<size_t> axis = ir::normalize_axis(integer("axis"), rank);
  CUGRT_CHECK(axis); // inference has refused others
  return *axis;
}

std::vector<size_t> OpEmitter::permutation(size_t rank) const {
  std::vector<size_t> axes;
  for (int64_t axis : integers("axes"))
    axes.push_back(*ir::normalize_axis(axis, rank));
  for (size_t i = axes.size(); i < rank; ++i) // none given: all, last first
    axes.push_back(rank - 1 - i);
  return axes;
}

// --- Dtypes --------------------------------------------------------------------------------------

Status OpEmitter::unsupported(ir::DType dtype, std::string_view what) const {
  return Status::error(Code::unsupported, std::string(name()) + " of " +
                                              std::string(ir::info(dtype).name) + ": " +
                                              std::string(what));
}

Status OpEmitter::require_floating(size_t count) const {
  const ir::DType dtype = operand_type(0).dtype;
  if (ir::info(dtype).kind != ir::DTypeKind::floating)
    return unsupported(dtype, "there are kernels for f16, bf16, f32 and f64; cast the operand");
  auto same = [&](ir::DType other) {
    return other == dtype
               ? Status()
               : unsupported(dtype, "operands and results must be of one dtype, but one is " +
                                        std::string(ir::info(other).name));
  };
  for (size_t i = 0; i < std::min(count, call_.operands.size()); ++i)
    if (has_operand(i))
      CUGRT_TRY(same(operand_type(i).dtype));
  for (size_t i = 0; i < call_.results.size(); ++i)
    CUGRT_TRY(same(result_type(i).dtype));
  return {};
}

Status OpEmitter::require_whole_bytes(ir::DType dtype) const {
  if (ir::info(dtype).elements_per_block != 1)
    return unsupported(dtype, "elements that are no whole bytes cannot be moved one by one");
  return {};
}

KernelLaunch OpEmitter::launch(std::string_view source, std::string entry,
                               std::string_view suffix) {
  std::string name = suffix.empty() ? entry : entry + "_" + std::string(suffix);
  return KernelLaunch(table_, builder_, std::move(name), source, std::move(entry), call_.fusion);
}

KernelLaunch OpEmitter::floating_launch(std::string_view source, std::string entry,
                                        std::string_view name, size_t of_operand) {
  const ir::DType dtype = operand_type(of_operand).dtype;
  std::string hint(name.empty() ? entry : name);
  hint += "_" + std::string(ir::info(dtype).name);
  KernelLaunch launch(table_, builder_, std::move(hint), source, std::move(entry), call_.fusion);
  launch.floating_type(dtype);
  return launch;
}

KernelLaunch OpEmitter::number_launch(std::string_view source, std::string entry, ir::DType dtype) {
  std::string hint = entry + "_" + std::string(ir::info(dtype).name);
  KernelLaunch launch(table_, builder_, std::move(hint), source, std::move(entry), call_.fusion);
  launch.number_type(dtype);
  return launch;
}

KernelLaunch OpEmitter::moving_launch(std::string_view source, std::string entry, ir::DType dtype,
                                      std::string_view name) {
  const uint32_t bytes = ir::info(dtype).bytes_per_block;
  std::string hint(name.empty() ? entry : name);
  hint += "_b" + std::to_string(8 * bytes); // "gather_b32"
  KernelLaunch launch(table_, builder_, std::move(hint), source, std::move(entry));
  launch.element_bytes(bytes);
  return launch;
}

void OpEmitter::zero_points(KernelLaunch &launch, const std::string &name, size_t i) {
  input_if_given(launch, name, i);
  if (has_operand(i))
    launch.size(name + "_step", constant(exprs().as_constant(count(operand_type(i))) != 1));
}

} // namespace cugrt::codegen
