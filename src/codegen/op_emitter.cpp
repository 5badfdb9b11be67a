// The table of op families, and what they share.
#include "codegen/op_emitter.h"

#include "support/check.h"

namespace cugrt::codegen {

namespace {

constexpr std::string_view kOpNames[] = {
#define CUGRT_OP(name, least, most, results) #name,
#include "ir/ops.def"
#undef CUGRT_OP
};

using Family = Status (*)(OpEmitter &);

// By op. Reshape has no kernel: it is a view.
Family family_of(Op op) {
  switch (op) {
  case Op::relu:
  case Op::neg:
  case Op::abs:
  case Op::exp:
  case Op::log:
  case Op::sqrt:
  case Op::rsqrt:
  case Op::tanh:
  case Op::sigmoid:
  case Op::silu:
  case Op::gelu:
    return emit_unary;
  case Op::add:
  case Op::sub:
  case Op::mul:
  case Op::div:
  case Op::maximum:
  case Op::minimum:
    return emit_binary;
  case Op::cast:
    return emit_cast;
  case Op::matmul:
    return emit_matmul;
  case Op::conv2d:
    return emit_conv2d;
  case Op::max_pool2d:
  case Op::avg_pool2d:
    return emit_pool2d;
  case Op::softmax:
    return emit_softmax;
  case Op::layer_norm:
  case Op::rms_norm:
    return emit_norm;
  case Op::reduce_sum:
  case Op::reduce_mean:
  case Op::reduce_max:
    return emit_reduce;
  case Op::argmax:
    return emit_argmax;
  case Op::transpose:
    return emit_transpose;
  case Op::concat:
    return emit_concat;
  case Op::split:
    return emit_split;
  case Op::embedding:
    return emit_embedding;
  case Op::reshape:
    return nullptr;
  }
  return nullptr;
}

} // namespace

std::string_view op_name(uint32_t op) {
  CUGRT_CHECK(op < std::size(kOpNames));
  return kOpNames[op];
}

Status emit_op(KernelTable &table, ir::FunctionBuilder &builder, const OpCall &call) {
  OpEmitter emitter(table, builder, call);
  const Family family = family_of(Op(call.op));
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

// --- Attributes ----------------------------------------------------------------------------------

const ir::AttributeValue *OpEmitter::find(std::string_view name) const {
  for (const ir::Attribute &attribute : call_.attributes)
    if (attribute.name == name)
      return &attribute.value;
  return nullptr;
}

int64_t OpEmitter::integer(std::string_view name, int64_t otherwise) const {
  const ir::AttributeValue *value = find(name);
  if (const bool *flag = value ? std::get_if<bool>(value) : nullptr)
    return *flag;
  const int64_t *integer = value ? std::get_if<int64_t>(value) : nullptr;
  return integer ? *integer : otherwise;
}

double OpEmitter::number(std::string_view name, double otherwise) const {
  const ir::AttributeValue *value = find(name);
  if (const int64_t *integer = value ? std::get_if<int64_t>(value) : nullptr)
    return double(*integer);
  const double *number = value ? std::get_if<double>(value) : nullptr;
  return number ? *number : otherwise;
}

std::string OpEmitter::text(std::string_view name, std::string_view otherwise) const {
  const ir::AttributeValue *value = find(name);
  const std::string *text = value ? std::get_if<std::string>(value) : nullptr;
  return text ? *text : std::string(otherwise);
}

std::vector<int64_t> OpEmitter::integers(std::string_view name,
                                         std::vector<int64_t> otherwise) const {
  const ir::AttributeValue *value = find(name);
  const auto *list = value ? std::get_if<std::vector<int64_t>>(value) : nullptr;
  return list ? *list : std::move(otherwise);
}

size_t OpEmitter::axis(std::string_view name, int64_t otherwise, size_t rank) const {
  const int64_t axis = integer(name, otherwise);
  const int64_t from_front = axis < 0 ? axis + int64_t(rank) : axis;
  CUGRT_CHECK(from_front >= 0 && from_front < int64_t(rank)); // the op's inference has checked it
  return size_t(from_front);
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
  for (const std::vector<ir::ValueId> &values : {call_.operands, call_.results})
    for (ir::ValueId value : values)
      if (value.valid() && type(value).dtype != dtype)
        return unsupported(dtype, "operands and results must be of one dtype, but one is " +
                                      std::string(ir::info(type(value).dtype).name));
  return {};
}

Status OpEmitter::require_whole_bytes(ir::DType dtype) const {
  if (ir::info(dtype).elements_per_block != 1)
    return unsupported(dtype, "elements that are no whole bytes cannot be moved one by one");
  return {};
}

KernelLaunch OpEmitter::launch(std::string_view source, std::string entry, std::string_view dtype) {
  std::string hint = entry;
  if (!dtype.empty())
    hint += "_" + std::string(dtype);
  return KernelLaunch(table_, builder_, std::move(hint), source, std::move(entry));
}

KernelLaunch OpEmitter::floating_launch(std::string_view source, std::string entry) {
  const ir::DType dtype = operand_type(0).dtype;
  KernelLaunch launch = this->launch(source, std::move(entry), ir::info(dtype).name);
  launch.floating_type(dtype);
  return launch;
}

} // namespace cugrt::codegen
