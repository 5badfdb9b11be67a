// The op table: attributes of every op, their defaults and checks of their kinds.
#include "ops/table/ops.h"

#include "base/check.h"

#include <limits>
#include <unordered_map>

namespace cugrt::ir {

namespace {

constexpr OpInfo kOps[] = {
#define CUGRT_OP(name, least, most, results, pattern, zeros, precision, storage, shapes)           \
  {#name,                                                                                          \
   least,                                                                                          \
   most,                                                                                           \
   results,                                                                                        \
   OpPattern::pattern,                                                                             \
   OpZeros::zeros,                                                                                 \
   OpPrecision::precision,                                                                         \
   OpStorage::storage,                                                                             \
   OpShapes::shapes},
#include "ops/table/ops.def"
#undef CUGRT_OP
};

using Ints = std::vector<int64_t>;

std::vector<std::vector<OpAttribute>> make_attributes() {
  std::vector<std::vector<OpAttribute>> table(std::size(kOps));
  auto of = [&](Op op) -> std::vector<OpAttribute> & { return table[static_cast<size_t>(op)]; };
  const OpAttribute strides{"strides", AttributeKind::integers, false, Ints{1, 1}};
  const OpAttribute padding{"padding", AttributeKind::integers, false, Ints{0, 0}};
  const OpAttribute dilation{"dilation", AttributeKind::integers, false, Ints{1, 1}};
  const OpAttribute kernel{"kernel", AttributeKind::integers, true};
  const OpAttribute last_axis{"axis", AttributeKind::integer, false, int64_t(-1)};
  const OpAttribute first_axis{"axis", AttributeKind::integer, false, int64_t(0)};
  const OpAttribute axes{"axes", AttributeKind::integers, false, Ints{}};
  const OpAttribute keep_dims{"keep_dims", AttributeKind::boolean, false, false};
  const OpAttribute epsilon{"epsilon", AttributeKind::floating, false, 1e-5};
  of(Op::gelu) = {{"approximate", AttributeKind::string, false, std::string("none")}};
  auto number = [](std::string_view name, double value) {
    return OpAttribute{name, AttributeKind::floating, false, value};
  };
  auto flag = [](std::string_view name, bool value) {
    return OpAttribute{name, AttributeKind::boolean, false, value};
  };
  auto list = [](std::string_view name) {
    return OpAttribute{name, AttributeKind::integers, false, Ints{}};
  };
  const OpAttribute of_f32{"dtype", AttributeKind::dtype, false, DTypeLiteral(DType::f32)};
  of(Op::leaky_relu) = {number("alpha", 0.01)};
  of(Op::elu) = {number("alpha", 1)};
  of(Op::hard_sigmoid) = {number("alpha", 0.2), number("beta", 0.5)};
  of(Op::clip) = {number("min", -std::numeric_limits<double>::infinity()),
                  number("max", std::numeric_limits<double>::infinity())};
  of(Op::cumsum) = {last_axis, flag("exclusive", false), flag("reverse", false)};
  of(Op::top_k) = {{"k", AttributeKind::integer, true}, last_axis, flag("largest", true)};
  of(Op::gather) = of(Op::gather_elements) = {first_axis};
  of(Op::one_hot) = {{"depth", AttributeKind::integer, true},
                     last_axis,
                     number("on", 1),
                     number("off", 0),
                     of_f32};
  of(Op::slice) = {list("starts"), list("ends"), list("axes"), list("steps")};
  of(Op::pad) = {{"before", AttributeKind::integers, true},
                 {"after", AttributeKind::integers, true},
                 {"mode", AttributeKind::string, false, std::string("constant")},
                 number("value", 0)};
  of(Op::range) = {{"length", AttributeKind::integer, false, int64_t(-1)},
                   number("start", 0),
                   number("step", 1),
                   of_f32};
  of(Op::cast) = {{"dtype", AttributeKind::dtype, true}};
  of(Op::conv2d) = {
      strides, padding, dilation, {"groups", AttributeKind::integer, false, int64_t(1)}};
  of(Op::conv1d) = {{"strides", AttributeKind::integers, false, Ints{1}},
                    {"padding", AttributeKind::integers, false, Ints{0}},
                    {"dilation", AttributeKind::integers, false, Ints{1}},
                    {"groups", AttributeKind::integer, false, int64_t(1)}};
  of(Op::conv3d) = {{"strides", AttributeKind::integers, false, Ints{1, 1, 1}},
                    {"padding", AttributeKind::integers, false, Ints{0, 0, 0}},
                    {"dilation", AttributeKind::integers, false, Ints{1, 1, 1}},
                    {"groups", AttributeKind::integer, false, int64_t(1)}};
  // Of as many dimensions as the operands have: none given are 1s, or 0s.
  of(Op::conv_integer) = {list("strides"),
                          list("padding"),
                          list("dilation"),
                          {"groups", AttributeKind::integer, false, int64_t(1)}};
  of(Op::conv_transpose) = of(Op::conv_integer);
  of(Op::conv_transpose).push_back(list("output_padding"));
  const OpAttribute reduction{"reduction", AttributeKind::string, false, std::string("none")};
  of(Op::gather_nd) = {{"batch_dims", AttributeKind::integer, false, int64_t(0)}};
  of(Op::scatter_elements) = {first_axis, reduction};
  of(Op::scatter_nd) = {reduction};
  of(Op::resize) = {{"mode", AttributeKind::string, false, std::string("nearest")},
                    {"coordinates", AttributeKind::string, false, std::string("half_pixel")},
                    {"nearest", AttributeKind::string, false, std::string("round_prefer_floor")},
                    axes,
                    number("cubic_coeff", -0.75),
                    flag("exclude_outside", false),
                    number("extrapolation", 0)};
  of(Op::grid_sample) = {{"mode", AttributeKind::string, false, std::string("linear")},
                         {"padding", AttributeKind::string, false, std::string("zeros")},
                         flag("align_corners", false)};
  of(Op::lstm) = of(Op::lstm_integer) = {flag("reverse", false)};
  of(Op::gru) = {flag("reverse", false)};
  of(Op::rnn) = {flag("reverse", false),
                 {"activation", AttributeKind::string, false, std::string("tanh")}};
  of(Op::matmul) = {flag("transpose_b", false)};
  of(Op::matmul_blocks) = {flag("repacked", false)};
  of(Op::embedding_blocks) = {of_f32, flag("repacked", false)};
  of(Op::attention) = {number("scale", 0),
                       flag("causal", false),
                       {"window", AttributeKind::integer, false, int64_t(0)}};
  of(Op::rotary) = {number("base", 10000),
                    number("scale", 1),
                    {"dims", AttributeKind::integer, false, int64_t(0)},
                    flag("interleaved", false)};
  of(Op::max_pool2d) = {kernel, strides, padding, dilation, flag("ceil_mode", false)};
  of(Op::avg_pool2d) = {kernel,   strides,
                        padding,  flag("count_include_pad", true),
                        dilation, flag("ceil_mode", false)};
  of(Op::softmax) = of(Op::log_softmax) = {last_axis};
  of(Op::layer_norm) = {epsilon};
  of(Op::rms_norm) = {epsilon};
  for (Op op : {Op::reduce_sum, Op::reduce_mean, Op::reduce_max, Op::reduce_min, Op::reduce_prod})
    of(op) = {axes, keep_dims};
  of(Op::argmax) = of(Op::argmin) = {last_axis, keep_dims, flag("last", false)};
  of(Op::reshape) = {{"shape", AttributeKind::integers, false, Ints{}}};
  of(Op::transpose) = {axes};
  of(Op::concat) = {first_axis};
  of(Op::split) = {first_axis, {"sections", AttributeKind::integers, true}};
  return table;
}

const std::vector<std::vector<OpAttribute>> &attribute_table() {
  static const auto table = make_attributes();
  return table;
}

} // namespace

size_t op_count() { return std::size(kOps); }

const OpInfo &op_info(Op op) {
  CUGRT_CHECK(static_cast<size_t>(op) < std::size(kOps));
  return kOps[static_cast<size_t>(op)];
}

std::optional<Op> op_from_name(std::string_view name) {
  static const auto index = [] {
    std::unordered_map<std::string_view, Op> map;
    for (size_t i = 0; i < std::size(kOps); ++i)
      map.emplace(kOps[i].name, static_cast<Op>(i));
    return map;
  }();
  auto it = index.find(name);
  return it == index.end() ? std::nullopt : std::optional(it->second);
}

std::span<const OpAttribute> op_attributes(Op op) {
  CUGRT_CHECK(static_cast<size_t>(op) < std::size(kOps));
  return attribute_table()[static_cast<size_t>(op)];
}

AttributeValue op_attribute(Op op, std::span<const Attribute> attributes, std::string_view name) {
  for (const Attribute &a : attributes)
    if (a.name == name)
      return a.value;
  for (const OpAttribute &a : op_attributes(op))
    if (a.name == name)
      return a.default_value;
  CUGRT_CHECK(!"the op has an attribute of this name");
  return {};
}

OpPattern op_pattern(const Module &module, Op op, std::span<const TypeId> operands, TypeId result) {
  const OpPattern pattern = op_info(op).pattern;
  if (pattern != OpPattern::broadcast)
    return pattern;
  for (TypeId operand : operands)
    if (operand.valid() && module.types[operand].kind == TypeKind::tensor &&
        module.types[operand].dims == module.types[result].dims)
      return OpPattern::elementwise;
  return pattern;
}

template <class T>
static T get(Op op, std::span<const Attribute> attributes, std::string_view name) {
  AttributeValue value = op_attribute(op, attributes, name);
  CUGRT_CHECK(std::holds_alternative<T>(value));
  return std::get<T>(std::move(value));
}

int64_t op_integer(Op op, std::span<const Attribute> attributes, std::string_view name) {
  return get<int64_t>(op, attributes, name);
}

double op_float(Op op, std::span<const Attribute> attributes, std::string_view name) {
  AttributeValue value = op_attribute(op, attributes, name);
  if (const auto *integer = std::get_if<int64_t>(&value))
    return static_cast<double>(*integer);
  CUGRT_CHECK(std::holds_alternative<double>(value));
  return std::get<double>(value);
}

bool op_bool(Op op, std::span<const Attribute> attributes, std::string_view name) {
  return get<bool>(op, attributes, name);
}

std::string op_string(Op op, std::span<const Attribute> attributes, std::string_view name) {
  return get<std::string>(op, attributes, name);
}

std::vector<int64_t> op_integers(Op op, std::span<const Attribute> attributes,
                                 std::string_view name) {
  return get<Ints>(op, attributes, name);
}

DType op_dtype(Op op, std::span<const Attribute> attributes, std::string_view name) {
  return get<DTypeLiteral>(op, attributes, name).dtype;
}

std::optional<size_t> normalize_axis(int64_t axis, size_t rank) {
  auto size = static_cast<int64_t>(rank);
  if (axis < -size || axis >= size)
    return std::nullopt;
  return static_cast<size_t>(axis < 0 ? axis + size : axis);
}

} // namespace cugrt::ir
