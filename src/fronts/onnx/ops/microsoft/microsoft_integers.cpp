// Ops on bytes of domain com.microsoft, as ONNX Runtime's quantisation tools write them. Products
// stay integers; elementwise ops go through f32, as there.
#include "fronts/onnx/ops/integers.h"

namespace cugrt::onnx {

namespace {

V real(Call &c, V x) { return c.cast(x, DType::f32); }

/// A product of bytes as floats: by both scales, and a bias where there is one.
V scaled(Call &c, V product, V a_scale, V b_scale, V bias) {
  V factor = c.broadcasting(Op::mul, a_scale, b_scale);
  V y = c.binary(Op::mul, real(c, product), c.stretch(factor, c.dims(product)));
  return bias.valid() ? c.binary(Op::add, y, c.stretch(bias, c.dims(y))) : y;
}

void dynamic_matmul(Call &c) {
  const Bytes a = dynamically_quantized(c, c.value(0));
  V product = matmul_bytes(c, a.values, c.value(1), a.zero, c.value(3));
  c.result(scaled(c, product, a.scale, c.value(2), c.value(4)));
}

void matmul_to_float(Call &c) {
  V product = matmul_bytes(c, c.value(0), c.value(1), c.value(4), c.value(5));
  c.result(scaled(c, product, c.value(2), c.value(3), c.value(6)));
}

/// A, its scale and zero point, B likewise, C i32, and those of the result, else it is f32.
void qlinear_gemm(Call &c) {
  V a = c.value(0), b = c.value(3), bias = c.value(6), zero = c.value(8);
  if (c.number("alpha", 1) != 1)
    return c.unsupported("a factor other than 1");
  if (c.integer("transA", 0))
    a = c.transpose(a, {1, 0});
  if (c.integer("transB", 0))
    b = c.transpose(b, {1, 0});
  V product = matmul_bytes(c, a, b, c.value(2), c.value(5));
  if (bias.valid())
    product = c.binary(Op::add, product, bias);
  c.result(c.has(7) ? requantize(c, product, c.value(1), c.value(4), c.value(7), zero,
                                 zero.valid() ? c.dtype(zero) : DType::u8)
                    : scaled(c, product, c.value(1), c.value(4), {}));
}

/// Inputs `at` to `at` + 2 as floats.
V dequantized(Call &c, size_t at) {
  return dequantize(c, c.value(at), c.value(at + 1), c.value(at + 2));
}

/// y by the scale and the zero point that are inputs `at` and `at` + 1, of the dtype of input 0
/// where that is absent.
void output(Call &c, V y, size_t at, size_t like = 0) {
  V zero = c.value(at + 1);
  c.result(quantize(c, y, c.value(at), zero, c.dtype(zero.valid() ? zero : c.value(like))));
}

void two(Call &c) {
  output(c,
         c.broadcasting(c.node.op == "QLinearMul" ? Op::mul : Op::add, dequantized(c, 0),
                        dequantized(c, 3)),
         6);
}

void sigmoid(Call &c) { output(c, c.op(Op::sigmoid, {dequantized(c, 0)}), 3); }

void leaky_relu(Call &c) {
  output(c, c.op(Op::leaky_relu, {dequantized(c, 0)}, {attr("alpha", c.number("alpha", 0.01))}), 3);
}

void qlinear_softmax(Call &c) {
  const bool of_all = c.integer("opset", 13) < 13; // over all axes from the one on
  V x = dequantized(c, 0);
  const Dims d = c.dims(x);
  const size_t axis = c.axis(c.integer("axis", -1), d.size());
  if (of_all)
    x = c.reshape(x, {c.product(d.first(axis)), c.product(d.from(axis))});
  V y = c.op(Op::softmax, {x}, {attr("axis", of_all ? int64_t(1) : int64_t(axis))});
  output(c, of_all ? c.reshape(y, d) : y, 3);
}

void global_average(Call &c) {
  V x = dequantized(c, 0);
  const bool last = c.integer("channels_last", 0) != 0;
  Ints axes;
  for (size_t i = last ? 1 : 2; i + (last ? 1 : 0) < c.rank(x); ++i)
    axes.push_back(int64_t(i));
  output(c, c.reduce(Op::reduce_mean, x, axes, true), 3);
}

void qlinear_average(Call &c) {
  V x = dequantized(c, 0);
  const bool last = c.integer("channels_last", 0) != 0;
  if (c.rank(x) < 3)
    return c.unsupported("an image without axes");
  Ints first = {0, int64_t(c.rank(x)) - 1}, back = {0};
  for (size_t i = 1; i + 1 < c.rank(x); ++i)
    first.push_back(int64_t(i)), back.push_back(int64_t(i) + 1);
  back.push_back(1);
  V y = averages(c, last ? c.transpose(x, first) : x), zero = c.value(4);
  y = c.binary(Op::div, last ? c.transpose(y, back) : y, c.value(3));
  if (zero.valid()) // before it is rounded, as there
    y = c.binary(Op::add, y, real(c, zero));
  c.result(quantize(c, y, c.like(y, 1), {}, c.dtype(c.value(0))));
}

void qlinear_where(Call &c) {
  V condition = c.value(0), a = dequantized(c, 1), b = dequantized(c, 4);
  c.spread({&condition, &a, &b});
  output(c, c.op(Op::where, {condition, a, b}), 7, 1);
}

void qlinear_concat(Call &c) {
  std::vector<V> parts;
  for (size_t i = 2; i + 2 < c.input_count(); i += 3)
    parts.push_back(dequantized(c, i));
  if (parts.empty())
    return c.w.fail(Code::parse_error, "there is nothing to join");
  output(c, c.concat(parts, c.axis(c.integer("axis", 1), c.rank(parts[0]))), 0, 2);
}

/// A layer whose weights are bytes: it quantises the inputs once, and the state in each step.
void lstm(Call &c) {
  V x = c.value(0), w = c.value(1), r = c.value(2);
  if (c.rank(x) != 3 || c.rank(w) != 3 || c.rank(r) != 3)
    return c.w.fail(Code::parse_error, "inputs and weights are of rank 3");
  static constexpr std::string_view kActivations[] = {"Sigmoid", "Tanh", "Tanh"};
  bool usual = !(c.number("clip", 0) > 0) && !c.integer("input_forget", 0);
  if (const AttributeView *given = c.attribute("activations"))
    for (size_t i = 0; i < given->texts.size(); ++i)
      usual = usual && given->texts[i] == kActivations[i % 3];
  if (!usual)
    return c.unsupported("other activations, limits or joined gates");
  c.ignore({"activation_alpha", "activation_beta"}); // these activations have none
  c.expect_dims("hidden_size", r, 1);
  const Dims d = c.dims(x), of_w = c.dims(w), of_r = c.dims(r);
  const int64_t directions = c.number_of(of_w[0], "the number of directions");
  const E wide = of_w[2], hidden = of_r[1];
  if (directions < 1 || directions > 2)
    return c.w.fail(Code::parse_error, "there are one or two directions");
  const Bytes bytes = dynamically_quantized(c, x);
  /// The numbers of one direction: one, or one a column.
  auto of = [&](size_t input, int64_t i) {
    V v = c.value(input);
    if (!v.valid())
      return v;
    V part = c.slice(v, 0, c.constant(i), c.constant(1));
    return c.reshape(part, c.rank(v) == 1 ? Dims{} : Dims{c.dims(v)[1]});
  };
  std::vector<V> gates;
  for (int64_t i = 0; i < directions; ++i) {
    V weight = c.reshape(c.slice(w, 0, c.constant(i), c.constant(1)), {of_w[1], of_w[2]});
    V y = scaled(c, matmul_bytes(c, bytes.values, weight, bytes.zero, of(9, i)), bytes.scale,
                 of(8, i), {});
    if (c.has(3)) {
      V both = of(3, i);
      y = c.binary(
          Op::add, y,
          c.binary(Op::add, c.slice(both, 0, c.constant(0), wide), c.slice(both, 0, wide, wide)));
    }
    gates.push_back(c.reshape(y, {d[0], d[1], c.constant(1), wide}));
  }
  V peepholes = c.has(7) ? c.reshape(c.value(7), {of_w[0], c.constant(3), hidden}) : V();
  auto initial = [&](size_t i) { return c.w.match(c.value(i), {of_w[0], d[1], hidden}); };
  const std::vector<V> made =
      c.w.emit(Op::lstm_integer,
               {c.concat(gates, 2), r, c.value(10), c.value(11), initial(5), initial(6), peepholes,
                c.has(4) ? c.w.match(c.value(4), {d[1]}) : V()},
               {attr("reverse", c.text("direction", "forward") == "reverse")});
  for (size_t i = 0; i < 3; ++i)
    c.result(made[i], i);
}

} // namespace

void add_microsoft_integers(HandlerTable &table) {
  table["DynamicQuantizeMatMul"] = dynamic_matmul;
  table["MatMulIntegerToFloat"] = matmul_to_float;
  table["QGemm"] = qlinear_gemm;
  table["QLinearAdd"] = table["QLinearMul"] = two;
  table["QLinearSigmoid"] = sigmoid;
  table["QLinearLeakyRelu"] = leaky_relu;
  table["QLinearSoftmax"] = qlinear_softmax;
  table["QLinearGlobalAveragePool"] = global_average;
  table["QLinearAveragePool"] = qlinear_average;
  table["QLinearConcat"] = qlinear_concat;
  table["QLinearWhere"] = qlinear_where;
  table["DynamicQuantizeLSTM"] = lstm;
}

} // namespace cugrt::onnx
