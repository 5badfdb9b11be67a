// An op of the language as nodes of ONNX. Sources: docs/ir.md for what ops mean, the documents of
// ONNX's operators at opset 21 for what nodes do.
#include "fronts/onnx/export/export.h"
#include "fronts/onnx/export/graph_writer.h"
#include "fronts/onnx/file/tensor.h"

namespace cugrt::onnx {

namespace {

using ir::Op;

/// Writes one binding of an op, with its attributes.
class OpWriter {
public:
  OpWriter(GraphWriter &graph, const ir::Binding &binding)
      : graph_(graph), binding_(binding), op_(ir::op_of(binding)),
        attributes_(graph.function().attributes_of(binding)) {
    for (const ir::Operand &operand : graph.function().operands_of(binding)) {
      inputs_.push_back(operand.kind == ir::Operand::Kind::value ? graph.name(operand.value())
                                                                 : "");
      operands_.push_back(operand);
    }
    for (uint32_t i = 0; i < binding.result_count; ++i)
      results_.push_back(graph.function().value(binding.result(i)).name);
  }

  void write() {
    Names made = nodes();
    for (uint32_t i = 0; i < binding_.result_count && i < made.size(); ++i)
      graph_.bind(binding_.result(i), {made[i]});
  }

private:
  int64_t integer(std::string_view name) const { return ir::op_integer(op_, attributes_, name); }
  double real(std::string_view name) const { return ir::op_float(op_, attributes_, name); }
  int64_t flag(std::string_view name) const { return ir::op_bool(op_, attributes_, name) ? 1 : 0; }
  std::string word(std::string_view name) const { return ir::op_string(op_, attributes_, name); }
  std::vector<int64_t> list(std::string_view name) const {
    return ir::op_integers(op_, attributes_, name);
  }
  bool given(std::string_view name) const {
    for (const ir::Attribute &attribute : attributes_)
      if (attribute.name == name)
        return true;
    return false;
  }
  const std::string &in(size_t i) const {
    static const std::string kAbsent;
    return i < inputs_.size() ? inputs_[i] : kAbsent;
  }
  const ir::Type &type(size_t i) const { return graph_.type(operands_[i].value()); }
  ir::DType dtype() const { return graph_.type(binding_.result(0)).dtype; }
  bool floating() const { return ir::info(type(0).dtype).kind == ir::DTypeKind::floating; }
  std::string number(double value, ir::DType of) { return graph_.constant(of, {value}, {}); }

  /// The node that gives the result.
  Names last(const std::string &op, Names inputs, NodeAttributes attributes = {},
             const std::string &domain = "") {
    while (!inputs.empty() && inputs.back().empty())
      inputs.pop_back();
    return graph_.node_of(op, domain, inputs, attributes, results_);
  }
  /// The operator of a row of same_ops.def.
  Names same(const std::string &op, std::string_view importer) {
    return last(op, inputs_, {}, importer == "microsoft" ? "com.microsoft" : "");
  }
  std::string part(const std::string &op, const Names &inputs, NodeAttributes attributes = {}) {
    return graph_.node(op, inputs, attributes);
  }
  std::string as(const std::string &value, ir::DType to) {
    return part("Cast", {value}, {{"to", int64_t(onnx_dtype(to))}});
  }
  /// Positions, which some of ONNX's ops take as i64 alone.
  std::string wide(size_t i) {
    return type(i).dtype == ir::DType::i64 ? in(i) : as(in(i), ir::DType::i64);
  }

  /// A node of our own domain, with all that the op has.
  Names own() {
    NodeAttributes attributes;
    for (const ir::Attribute &attribute : attributes_) {
      if (const auto *flag = std::get_if<bool>(&attribute.value))
        attributes.push_back({attribute.name, int64_t(*flag)});
      else if (const auto *integer = std::get_if<int64_t>(&attribute.value))
        attributes.push_back({attribute.name, *integer});
      else if (const auto *real = std::get_if<double>(&attribute.value))
        attributes.push_back({attribute.name, static_cast<float>(*real)});
      else if (const auto *text = std::get_if<std::string>(&attribute.value))
        attributes.push_back({attribute.name, *text});
      else if (const auto *dtype = std::get_if<ir::DTypeLiteral>(&attribute.value))
        attributes.push_back({attribute.name, int64_t(onnx_dtype(dtype->dtype))});
      else if (const auto *integers = std::get_if<std::vector<int64_t>>(&attribute.value))
        attributes.push_back({attribute.name, *integers});
    }
    return graph_.node_of(std::string(ir::op_info(op_).name), "cugrt", inputs_, attributes,
                          results_);
  }

  Names nodes();
  Names clip();
  Names matmul(const std::string &op);
  Names window(const std::string &op, bool pool);
  Names norm(bool center);
  Names reduce(const std::string &op);
  Names slice();
  Names range();
  Names resize();
  Names one_hot();

  GraphWriter &graph_;
  const ir::Binding &binding_;
  const Op op_;
  std::span<const ir::Attribute> attributes_;
  std::vector<ir::Operand> operands_;
  Names inputs_, results_;
};

Names OpWriter::clip() {
  auto bound = [&](const char *name) {
    return given(name) ? number(real(name), type(0).dtype) : std::string();
  };
  const std::string least = bound("min");
  return last("Clip", {in(0), least, bound("max")});
}

Names OpWriter::matmul(const std::string &op) {
  std::string b = in(1);
  if (flag("transpose_b") != 0) {
    std::vector<int64_t> order;
    for (size_t i = 0; i < type(1).dims.size(); ++i)
      order.push_back(static_cast<int64_t>(i));
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    b = part("Transpose", {b}, {{"perm", order}});
  }
  Names inputs = inputs_;
  inputs[1] = b;
  if (op_ == Op::matmul_integer || in(2).empty())
    return last(op, inputs);
  return last("Add", {part(op, {in(0), b}), in(2)});
}

/// Convolutions and pools.
Names OpWriter::window(const std::string &op, bool pool) {
  const size_t rank = type(0).dims.size() - 2;
  auto whole = [&](const char *name, int64_t missing) {
    std::vector<int64_t> numbers = list(name);
    numbers.resize(numbers.empty() ? rank : numbers.size(), missing);
    return numbers;
  };
  std::vector<int64_t> pads = whole("padding", 0);
  if (pads.size() == rank)
    pads.insert(pads.end(), pads.begin(), pads.begin() + static_cast<ptrdiff_t>(rank));
  NodeAttributes attributes = {{"strides", whole("strides", 1)},
                               {"pads", std::move(pads)},
                               {"dilations", whole("dilation", 1)}};
  if (pool) {
    attributes.push_back({"kernel_shape", list("kernel")});
    attributes.push_back({"ceil_mode", flag("ceil_mode")});
    if (op_ == Op::avg_pool2d)
      attributes.push_back({"count_include_pad", flag("count_include_pad")});
  } else {
    attributes.push_back({"group", integer("groups")});
  }
  if (op_ == Op::conv_transpose)
    attributes.push_back({"output_padding", whole("output_padding", 0)});
  return last(op, inputs_, attributes);
}

Names OpWriter::norm(bool center) {
  const ir::Type &x = type(0);
  const std::string width = graph_.expr(x.dims.back());
  auto filled = [&](double value) {
    return part("Expand", {graph_.constant(x.dtype, {value}, {1}), width});
  };
  const std::string scale = in(1).empty() ? filled(1) : in(1);
  if (center)
    return last("LayerNormalization", {in(0), scale, in(2)},
                {{"axis", int64_t(-1)}, {"epsilon", static_cast<float>(real("epsilon"))}});
  const std::string mean = part("ReduceMean", {part("Mul", {in(0), in(0)}), graph_.integers({-1})});
  const std::string root = part("Sqrt", {part("Add", {mean, number(real("epsilon"), x.dtype)})});
  return last("Mul", {part("Div", {in(0), root}), scale});
}

Names OpWriter::reduce(const std::string &op) {
  const std::vector<int64_t> axes = list("axes");
  return last(op, {in(0), axes.empty() ? "" : graph_.integers(axes)},
              {{"keepdims", flag("keep_dims")}});
}

Names OpWriter::slice() {
  if (inputs_.size() == 3)
    return last("Slice", {in(0), in(1), part("Add", {in(1), in(2)})});
  const std::vector<int64_t> starts = list("starts");
  std::vector<int64_t> axes = list("axes"), steps = list("steps");
  for (size_t i = axes.size(); i < starts.size(); ++i)
    axes.push_back(static_cast<int64_t>(i));
  steps.resize(starts.size(), 1);
  const std::string begin = graph_.integers(starts), end = graph_.integers(list("ends")),
                    along = graph_.integers(axes);
  return last("Slice", {in(0), begin, end, along, graph_.integers(steps)});
}

/// start + i step, of i64 positions: ONNX's own op reckons the length in the dtype.
Names OpWriter::range() {
  const std::string length =
      in(0).empty() ? graph_.constant(ir::DType::i64, {static_cast<double>(integer("length"))}, {})
                    : part("Squeeze", {in(0)});
  const std::string zero = graph_.constant(ir::DType::i64, {0}, {});
  const std::string places =
      part("Range", {zero, length, graph_.constant(ir::DType::i64, {1}, {})});
  const std::string step = number(real("step"), dtype());
  return last("Add", {part("Mul", {as(places, dtype()), step}), number(real("start"), dtype())});
}

Names OpWriter::resize() {
  const std::vector<int64_t> axes = list("axes");
  NodeAttributes attributes = {{"mode", word("mode")},
                               {"coordinate_transformation_mode", word("coordinates")},
                               {"nearest_mode", word("nearest")},
                               {"cubic_coeff_a", static_cast<float>(real("cubic_coeff"))},
                               {"exclude_outside", flag("exclude_outside")},
                               {"extrapolation_value", static_cast<float>(real("extrapolation"))}};
  std::string sizes = in(1);
  if (!axes.empty()) {
    attributes.push_back({"axes", axes});
    sizes = part("Gather", {sizes, graph_.integers(axes)});
  }
  const std::string scales = in(2);
  return last("Resize", {in(0), in(3), scales, scales.empty() ? sizes : ""}, attributes);
}

Names OpWriter::one_hot() {
  const std::string depth = graph_.integers({integer("depth")});
  const std::string values = graph_.constant(dtype(), {real("off"), real("on")}, {2});
  return last("OneHot", {wide(0), depth, values}, {{"axis", integer("axis")}});
}

Names OpWriter::nodes() {
  switch (op_) {
#define CUGRT_SAME_OP(name, op, importer)                                                          \
  case Op::op:                                                                                     \
    return same(#name, #importer);
#include "fronts/onnx/same_ops.def"
#undef CUGRT_SAME_OP
  case Op::rsqrt:
    return last("Reciprocal", {part("Sqrt", inputs_)});
  case Op::silu:
    return last("Mul", {in(0), part("Sigmoid", {in(0)})});
  case Op::gelu:
    return last("Gelu", inputs_, {{"approximate", word("approximate")}});
  case Op::log1p:
    return last("Log", {part("Add", {in(0), number(1, type(0).dtype)})});
  case Op::leaky_relu:
    return last("LeakyRelu", inputs_, {{"alpha", static_cast<float>(real("alpha"))}});
  case Op::elu:
    return last("Elu", inputs_, {{"alpha", static_cast<float>(real("alpha"))}});
  case Op::hard_sigmoid:
    return last(
        "HardSigmoid", inputs_,
        {{"alpha", static_cast<float>(real("alpha"))}, {"beta", static_cast<float>(real("beta"))}});
  case Op::clip:
    return clip();
  case Op::floor_mod:
    if (!floating())
      return last("Mod", inputs_);
    return last("Sub", {in(0), part("Mul", {part("Floor", {part("Div", {in(0), in(1)})}), in(1)})});
  case Op::trunc_mod:
    return last("Mod", inputs_, {{"fmod", int64_t(1)}});
  case Op::not_equal:
    return last("Not", {part("Equal", inputs_)});
  case Op::shift_left:
  case Op::shift_right: // ONNX shifts what has no sign
    if (ir::info(type(0).dtype).kind != ir::DTypeKind::unsigned_integer)
      return own();
    return last("BitShift", inputs_,
                {{"direction", std::string(op_ == Op::shift_left ? "LEFT" : "RIGHT")}});
  case Op::cast:
    return last("Cast", inputs_, {{"to", int64_t(onnx_dtype(dtype()))}});
  case Op::matmul:
    return matmul("MatMul");
  case Op::matmul_integer:
    return matmul("MatMulInteger");
  case Op::conv1d:
    return window("Conv", false);
  case Op::conv2d:
  case Op::conv3d:
    return flag("channels_last") != 0 ? own() : window("Conv", false);
  case Op::conv_transpose:
    return window("ConvTranspose", false);
  case Op::conv_integer:
    return flag("channels_last") != 0 ? own() : window("ConvInteger", false);
  case Op::max_pool2d:
    return flag("channels_last") != 0 ? own() : window("MaxPool", true);
  case Op::avg_pool2d:
    return flag("channels_last") != 0 ? own() : window("AveragePool", true);
  case Op::softmax:
    return last("Softmax", inputs_, {{"axis", integer("axis")}});
  case Op::log_softmax:
    return last("LogSoftmax", inputs_, {{"axis", integer("axis")}});
  case Op::layer_norm:
    return norm(true);
  case Op::rms_norm:
    return norm(false);
  case Op::group_norm:
    return own();
  case Op::reduce_sum:
    return reduce("ReduceSum");
  case Op::reduce_mean:
    return reduce("ReduceMean");
  case Op::reduce_max:
    return reduce("ReduceMax");
  case Op::reduce_min:
    return reduce("ReduceMin");
  case Op::reduce_prod:
    return reduce("ReduceProd");
  case Op::argmax:
  case Op::argmin:
    return last(op_ == Op::argmax ? "ArgMax" : "ArgMin", inputs_,
                {{"axis", integer("axis")},
                 {"keepdims", flag("keep_dims")},
                 {"select_last_index", flag("last")}});
  case Op::cumsum:
    return last(
        "CumSum",
        {in(0), graph_.constant(ir::DType::i64, {static_cast<double>(integer("axis"))}, {})},
        {{"exclusive", flag("exclusive")}, {"reverse", flag("reverse")}});
  case Op::top_k:
    return last("TopK", {in(0), graph_.integers({integer("k")})},
                {{"axis", integer("axis")}, {"largest", flag("largest")}, {"sorted", int64_t(1)}});
  case Op::reshape:
    if (in(1).empty())
      return last("Reshape", {in(0), graph_.integers(list("shape"))});
    return last("Reshape", inputs_, {{"allowzero", int64_t(1)}});
  case Op::broadcast_to:
    return last("Expand", inputs_);
  case Op::transpose: {
    const std::vector<int64_t> axes = list("axes");
    return last("Transpose", inputs_,
                axes.empty() ? NodeAttributes() : NodeAttributes{{"perm", axes}});
  }
  case Op::concat:
    return last("Concat", inputs_, {{"axis", integer("axis")}});
  case Op::split:
    return last("Split", {in(0), graph_.integers(list("sections"))}, {{"axis", integer("axis")}});
  case Op::slice:
    return slice();
  case Op::pad: {
    std::vector<int64_t> pads = list("before");
    for (const int64_t one : list("after"))
      pads.push_back(one);
    const std::string value =
        word("mode") == "constant" ? number(real("value"), type(0).dtype) : std::string();
    return last("Pad", {in(0), graph_.integers(pads), value}, {{"mode", word("mode")}});
  }
  case Op::resize:
    return resize();
  case Op::grid_sample:
    return last("GridSample", inputs_,
                {{"mode", word("mode")},
                 {"padding_mode", word("padding")},
                 {"align_corners", flag("align_corners")}});
  case Op::embedding:
    return last("Gather", inputs_, {{"axis", int64_t(0)}});
  case Op::gather:
    return last("Gather", inputs_, {{"axis", integer("axis")}});
  case Op::gather_elements:
    return last("GatherElements", inputs_, {{"axis", integer("axis")}});
  case Op::gather_nd:
    return last("GatherND", {in(0), wide(1)}, {{"batch_dims", integer("batch_dims")}});
  case Op::scatter_elements:
    return last("ScatterElements", inputs_,
                {{"axis", integer("axis")}, {"reduction", word("reduction")}});
  case Op::scatter_nd:
    return last("ScatterND", {in(0), wide(1), in(2)}, {{"reduction", word("reduction")}});
  case Op::one_hot:
    return one_hot();
  case Op::range:
    return range();
  // ONNX's own take what these have computed before, or ONNX has none.
  case Op::attention:
  case Op::cache_write:
  case Op::cumprod: // an operator from opset 26 on
  case Op::rotary:
  case Op::embedding_blocks:
  case Op::matmul_blocks:
  case Op::repack_blocks:
  case Op::lstm:
  case Op::lstm_integer:
  case Op::gru:
  case Op::rnn:
    return own();
  }
  return own();
}

} // namespace

void GraphWriter::write_op(const ir::Binding &binding) { OpWriter(*this, binding).write(); }

} // namespace cugrt::onnx
