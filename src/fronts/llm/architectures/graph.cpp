// Ops and weights; see graph.h.
#include "fronts/llm/architectures/graph.h"

#include <algorithm>

namespace cugrt::llm {

static std::string dims_text(std::span<const int64_t> dims) {
  std::string text;
  for (int64_t dim : dims)
    text += (text.empty() ? "[" : ", ") + std::to_string(dim);
  return text.empty() ? "[]" : text + "]";
}

Result<const Weight *> WeightList::tensor(const std::string &name,
                                          const std::vector<int64_t> &dims) {
  if (const auto known = weights_.find(name); known != weights_.end())
    return &known->second;
  const gguf::Tensor *tensor = file_.find_tensor(name);
  if (!tensor)
    return Status::error(Code::not_found, "'" + file_.name() + "' has no tensor '" + name + "'");
  const std::string_view type = gguf::type_info(tensor->type)->name;
  const std::optional<ir::DType> dtype = ir::dtype_from_name(type);
  if (!dtype)
    return Status::error(Code::unsupported, "'" + file_.name() + "': tensor '" + name +
                                                "' is of type " + std::string(type) +
                                                ", which there are no kernels for");
  if (tensor->dims != dims)
    return Status::error(Code::parse_error, "'" + file_.name() + "': tensor '" + name +
                                                "' has dimensions " + dims_text(tensor->dims) +
                                                ", not " + dims_text(dims));
  return &add({name, *dtype, dims, tensor->bytes});
}

const Weight &WeightList::add(Weight weight) {
  std::string name = weight.name;
  return weights_.try_emplace(std::move(name), std::move(weight)).first->second;
}

Status WeightList::check_all_used() const {
  for (const gguf::Tensor &tensor : file_.tensors())
    if (!weights_.contains(std::string(tensor.name)))
      return Status::error(Code::unsupported, "'" + file_.name() + "': tensor '" +
                                                  std::string(tensor.name) +
                                                  "' has no place in this architecture");
  return {};
}

std::vector<Weight> WeightList::take() {
  std::vector<Weight> list;
  for (auto &[name, weight] : weights_)
    list.push_back(std::move(weight));
  weights_.clear();
  return list;
}

ir::ValueId GraphBuilder::fail(Status status) {
  if (status_.ok())
    status_ = std::move(status);
  return builder_.function().params.front().value; // some value; the function is not used
}

ir::ValueId GraphBuilder::input(const std::string &name, ir::DType dtype, Dims dims,
                                ir::Access access) {
  ++inputs_;
  return builder_.param(name, builder_.module().types.tensor(dtype, std::move(dims)), access);
}

ir::ValueId GraphBuilder::op(ir::Op op, std::vector<ir::ValueId> operands,
                             std::vector<ir::Attribute> attributes, std::string_view hint) {
  std::vector<ir::TypeId> types;
  std::vector<ir::Operand> values;
  for (ir::ValueId operand : operands) {
    types.push_back(operand.valid() ? builder_.function().value(operand).type : ir::TypeId());
    values.push_back(operand.valid() ? ir::Operand::of(operand) : ir::Operand());
  }
  Result<std::vector<ir::TypeId>> results =
      ir::infer_op(builder_.module(), op, types, attributes, &builder_.function());
  if (!results.ok())
    return fail(results.take_status().in(ir::op_info(op).name));
  ir::Binding binding{};
  binding.kind = ir::BindingKind::op;
  binding.callee = static_cast<uint32_t>(op);
  const std::vector<std::string> hints(results->size(), std::string(hint));
  return builder_.bind(binding, values, {}, attributes, hints, *results);
}

ir::ValueId GraphBuilder::shape(const Dims &dims) {
  ir::Binding binding{};
  binding.kind = ir::BindingKind::shape;
  const std::string hint = "shape";
  const ir::TypeId type = builder_.module().types.shape(dims);
  return builder_.bind(binding, {}, dims, {}, std::span(&hint, 1), std::span(&type, 1));
}

ir::ValueId GraphBuilder::cast(ir::ValueId x, ir::DType dtype) {
  return dtype_of(x) == dtype ? x : op(ir::Op::cast, {x}, {{"dtype", ir::DTypeLiteral(dtype)}});
}

ir::ValueId GraphBuilder::alloc(ir::DType dtype, const Dims &dims, std::string_view hint) {
  return builder_.alloc(hint, builder_.module().types.tensor(dtype, dims));
}

ir::ValueId GraphBuilder::view(std::string_view hint, ir::ValueId source, uint64_t offset_bytes,
                               ir::DType dtype, const Dims &dims) {
  return builder_.view(hint, source, constant(static_cast<int64_t>(offset_bytes)),
                       builder_.module().types.tensor(dtype, dims));
}

void GraphBuilder::launch(std::string_view kernel, std::vector<ir::Operand> operands) {
  const ir::Module &module = builder_.module();
  const auto at = std::ranges::find(module.kernels, kernel, &ir::Kernel::name);
  builder_.launch(static_cast<uint32_t>(at - module.kernels.begin()), operands);
}

ir::ValueId GraphBuilder::param(const Weight &weight) {
  auto [at, is_new] = params_.try_emplace(weight.name);
  if (is_new) {
    Dims dims;
    for (int64_t dim : weight.dims)
      dims.push_back(constant(dim));
    at->second =
        builder_.param(weight.name, builder_.module().types.tensor(weight.dtype, std::move(dims)));
  }
  return at->second;
}

ir::ValueId GraphBuilder::weight(const std::string &name, const std::vector<int64_t> &dims) {
  Result<const Weight *> found = weights_.tensor(name, dims);
  return found.ok() ? param(**found) : fail(found.take_status());
}

ir::ValueId GraphBuilder::made_weight(const Weight &weight) { return param(weights_.add(weight)); }

ir::ValueId GraphBuilder::product(ir::ValueId x, const std::string &name, int64_t out, int64_t in,
                                  bool has_bias) {
  const ir::ValueId w = weight(name + ".weight", {out, in});
  const ir::ValueId bias = has_bias ? small_weight(name + ".bias", {out}) : ir::ValueId();
  if (ir::info(dtype_of(w)).kind == ir::DTypeKind::block)
    return op(ir::Op::matmul_blocks, {x, w, bias});
  return op(ir::Op::matmul, {x, form({name + ".weight", {out, in}, true}), bias});
}

ir::ValueId GraphBuilder::form(const Form &form) {
  const auto [at, is_new] = forms_.try_emplace(form);
  if (is_new) {
    at->second = cast(weight(form.name, form.dims), dtype_);
    if (form.is_transposed)
      at->second = op(ir::Op::transpose, {at->second}, {{"axes", std::vector<int64_t>{1, 0}}});
  }
  return at->second;
}

Status GraphBuilder::finish(std::vector<ir::ValueId> results) {
  CUGRT_TRY(std::move(status_));
  ir::Function &function = builder_.function();
  function.num_inputs = inputs_;
  std::vector<ir::Operand> operands;
  for (ir::ValueId result : results) {
    function.result_types.push_back(function.value(result).type);
    operands.push_back(ir::Operand::of(result));
  }
  ir::Module &module = builder_.module();
  module.functions.push_back(builder_.finish(operands));
  return {};
}

} // namespace cugrt::llm
