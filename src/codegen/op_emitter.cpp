// The table of op families, and what they share.
#include "codegen/op_emitter.h"

#include "support/check.h"

namespace cugrt::codegen {

namespace {

using Family = Status (*)(OpEmitter &);

// By op. Reshape has no kernel: it is a view.
Family family_of(ir::Op op) {
  switch (op) {
  case ir::Op::relu:
  case ir::Op::neg:
  case ir::Op::abs:
  case ir::Op::exp:
  case ir::Op::log:
  case ir::Op::sqrt:
  case ir::Op::rsqrt:
  case ir::Op::tanh:
  case ir::Op::sigmoid:
  case ir::Op::silu:
  case ir::Op::gelu:
    return emit_unary;
  case ir::Op::add:
  case ir::Op::sub:
  case ir::Op::mul:
  case ir::Op::div:
  case ir::Op::maximum:
  case ir::Op::minimum:
    return emit_binary;
  case ir::Op::cast:
    return emit_cast;
  case ir::Op::matmul:
    return emit_matmul;
  case ir::Op::conv2d:
    return emit_conv2d;
  case ir::Op::max_pool2d:
  case ir::Op::avg_pool2d:
    return emit_pool2d;
  case ir::Op::softmax:
    return emit_softmax;
  case ir::Op::layer_norm:
  case ir::Op::rms_norm:
    return emit_norm;
  case ir::Op::reduce_sum:
  case ir::Op::reduce_mean:
  case ir::Op::reduce_max:
    return emit_reduce;
  case ir::Op::argmax:
    return emit_argmax;
  case ir::Op::transpose:
    return emit_transpose;
  case ir::Op::concat:
    return emit_concat;
  case ir::Op::split:
    return emit_split;
  case ir::Op::embedding:
    return emit_embedding;
  case ir::Op::reshape:
    return nullptr;
  }
  return nullptr;
}

} // namespace

Status emit_op(KernelTable &table, ir::FunctionBuilder &builder, const OpCall &call) {
  OpEmitter emitter(table, builder, call);
  const Family family = family_of(call.op);
  if (!family)
    return emitter.unsupported(emitter.operand_type(0).dtype, "no kernel computes it");
  return family(emitter);
}

ir::ExprId OpEmitter::count(const ir::Type &type, size_t begin, size_t end) {
  const std::span<const ir::ExprId> dims(type.dims);
  return element_count(exprs(), dims.subspan(begin, std::min(end, dims.size()) - begin));
}

ir::Type OpEmitter::type(ir::ValueId value) const {
  return builder_.module().types[builder_.function().value(value).type];
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

Status OpEmitter::require_floating() const {
  const ir::DType dtype = operand_type(0).dtype;
  if (ir::info(dtype).kind != ir::DTypeKind::floating)
    return unsupported(dtype, "there are kernels for f16, bf16, f32 and f64; cast the operand");
  auto same = [&](ir::DType other) {
    return other == dtype
               ? Status()
               : unsupported(dtype, "operands and results must be of one dtype, but one is " +
                                        std::string(ir::info(other).name));
  };
  for (size_t i = 0; i < call_.operands.size(); ++i)
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
                                        std::string_view name) {
  const ir::DType dtype = operand_type(0).dtype;
  std::string hint(name.empty() ? entry : name);
  hint += "_" + std::string(ir::info(dtype).name);
  KernelLaunch launch(table_, builder_, std::move(hint), source, std::move(entry), call_.fusion);
  launch.floating_type(dtype);
  return launch;
}

} // namespace cugrt::codegen
