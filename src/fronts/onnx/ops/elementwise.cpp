// Ops that work element by element, and those that choose between elements.
#include "fronts/onnx/ops/integers.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cugrt::onnx {

const Activation *find_activation(std::string_view name) {
  static constexpr Activation kActivations[] = {
      {"Sigmoid", Op::sigmoid, 0},
      {"Tanh", Op::tanh, 0},
      {"Relu", Op::relu, 0},
      {"Softsign", Op::softsign, 0},
      {"Softplus", Op::softplus, 0},
      {"LeakyRelu", Op::leaky_relu, 1, 0.01},
      {"ThresholdedRelu", Op::where, 1, 1},
      {"Elu", Op::elu, 1, 1},
      {"HardSigmoid", Op::hard_sigmoid, 2, 0.2, 0.5},
      {"Affine", Op::add, 2, 1, 0},
      {"ScaledTanh", Op::tanh, 2},
  };
  const auto small = [](char letter) { return letter | 0x20; };
  const auto *found = std::ranges::find_if(kActivations, [&](const Activation &one) {
    return std::ranges::equal(one.name, name, {}, small, small);
  });
  return found == std::end(kActivations) ? nullptr : found;
}

V activated(Call &c, const Activation &activation, V x) {
  const auto &[name, op, parameters, alpha, beta] = activation;
  if (name == "ThresholdedRelu")
    return c.op(op, {c.binary(Op::greater, x, c.like(x, *alpha)), x, c.like(x, 0)});
  if (name == "Affine")
    return c.binary(op, c.binary(Op::mul, x, c.like(x, *alpha)), c.like(x, *beta));
  if (name == "ScaledTanh")
    return c.binary(Op::mul, c.op(op, {c.binary(Op::mul, x, c.like(x, *beta))}), c.like(x, *alpha));
  std::vector<ir::Attribute> with;
  if (parameters > 0)
    with.push_back(attr("alpha", *alpha));
  if (parameters > 1)
    with.push_back(attr("beta", *beta));
  return c.op(op, {x}, std::move(with));
}

namespace {

template <Op kOp> void two(Call &c) { c.result(c.broadcasting(kOp, c.value(0), c.value(1))); }

bool is_unsigned(DType dtype) { return ir::info(dtype).kind == ir::DTypeKind::unsigned_integer; }

void absolute(Call &c) {
  V x = c.value(0);
  c.result(is_unsigned(c.dtype(x)) ? c.copied(x) : c.op(Op::abs, {x}));
}

/// Float functions of an op that takes integers, too.
void identity(Call &c) {
  const EntryPtr x = c.entry(0);
  if (x)
    c.result(x);
}

/// Takes tensors and nothing, but no sequences.
void optional(Call &c) {
  if (c.node.op == "OptionalGetElement")
    return c.result(c.entry(0));
  c.ignore_input(0); // there or not
  Host there{DType::boolean, {}, {c.constant(c.has(0))}, {}};
  c.result(std::move(there));
}

void cast(Call &c) {
  V x = c.value(0);
  std::optional<DType> to;
  Narrow narrow = Narrow::none;
  if (c.node.op == "CastLike") {
    to = c.dtype(c.value(1));
    narrow = c.required(1)->narrow;
  } else {
    const auto number = static_cast<int32_t>(c.integer("to", 0));
    to = dtype_of(number);
    narrow = narrow_of(number);
    if (!to && narrow == Narrow::none)
      return c.unsupported("a cast to " + dtype_name(number));
  }
  if (narrow != Narrow::none)
    return c.result(narrowed(c, x, narrow), narrow);
  ignore_rounding(c, *to);
  if (c.dtype(x) == *to) {
    const EntryPtr own = c.required(0);
    auto same = std::make_shared<Entry>(*own);
    same->narrow = Narrow::none;
    c.result(own->narrow == Narrow::none ? own : same);
    return;
  }
  c.result(c.cast(x, *to));
}

void parametric_relu(Call &c) {
  V x = c.value(0);
  c.result(c.binary(Op::prelu, x, c.stretch(c.value(1), c.dims(x))));
}

void power(Call &c) {
  V a = c.value(0), b = c.value(1);
  if (!is_real(c.dtype(a)) && is_real(c.dtype(b)))
    c.result( // in f64, which holds more integers than the exponent's dtype
        c.cast(c.broadcasting(Op::pow, c.cast(a, DType::f64), c.cast(b, DType::f64)), c.dtype(a)));
  else
    c.result(c.broadcasting(Op::pow, a, b));
}

void modulo(Call &c) {
  c.result(
      c.broadcasting(c.integer("fmod", 0) ? Op::trunc_mod : Op::floor_mod, c.value(0), c.value(1)));
}

void variadic(Call &c) {
  const Op op = c.node.op == "Max" ? Op::maximum : c.node.op == "Min" ? Op::minimum : Op::add;
  V all = c.value(0);
  for (size_t i = 1; i < c.input_count(); ++i)
    all = c.broadcasting(op, all, c.value(i));
  if (c.node.op == "Mean")
    all = c.binary(Op::div, all, c.like(all, static_cast<double>(c.input_count())));
  if (c.input_count() == 1 && c.node.op != "Mean")
    return c.result(c.entry(0));
  c.result(all);
}

void where(Call &c) {
  V condition = c.value(0), a = c.value(1), b = c.value(2);
  c.spread({&condition, &a, &b});
  c.result(c.op(Op::where, {condition, a, b}));
}

/// Writes ONNX's definition in simpler ops: an x less than `least` becomes that, then one more than
/// `most` becomes that. So a NaN limits nothing, and `most` wins where `least` is more than it.
void clip(Call &c) {
  V x = c.value(0);
  const double inf = std::numeric_limits<double>::infinity();
  const bool real = is_real(c.dtype(x));
  auto number = [](double bound, double none) { return std::isnan(bound) ? none : bound; };
  if (c.node.op == "Clip" && (c.attribute("min") || c.attribute("max"))) // opset below 11
    return c.result(c.op(Op::clip, {x},
                         {attr("min", number(c.number("min", -inf), -inf)),
                          attr("max", number(c.number("max", inf), inf))}));
  const Host *low = c.host(1), *high = c.host(2);
  if (real && (!c.has(1) || (low && low->reals.size() == 1)) &&
      (!c.has(2) || (high && high->reals.size() == 1))) {
    const double least = low ? number(low->reals[0], -inf) : -inf,
                 most = high ? number(high->reals[0], inf) : inf;
    if (least <= most)
      return c.result(c.op(Op::clip, {x}, {attr("min", least), attr("max", most)}));
  }
  if (!c.has(1) && !c.has(2))
    return c.result(c.entry(0));
  auto limited = [&](size_t input, Op compare, Op integers) {
    if (!c.has(input))
      return;
    V bound = c.value(input);
    if (c.rank(bound) != 0) // one element, as a list
      bound = c.reshape(bound, {});
    x = real ? c.op(Op::where, {c.binary(compare, x, bound), bound, x})
             : c.binary(integers, x, bound);
  };
  limited(1, Op::less, Op::maximum);
  limited(2, Op::greater, Op::minimum);
  c.result(x);
}

void is_inf(Call &c) {
  V x = c.value(0);
  V found = c.op(Op::is_inf, {x});
  if (!c.integer("detect_negative", 1))
    found = c.binary(Op::logical_and, found, c.binary(Op::greater, x, c.like(x, 0)));
  if (!c.integer("detect_positive", 1))
    found = c.binary(Op::logical_and, found, c.binary(Op::less, x, c.like(x, 0)));
  c.result(found);
}

void gelu(Call &c) {
  c.result(c.op(Op::gelu, {c.value(0)}, {attr("approximate", c.text("approximate", "none"))}));
}

void with_alpha(Call &c) {
  const bool leaky = c.node.op == "LeakyRelu";
  c.result(c.op(leaky ? Op::leaky_relu : Op::elu, {c.value(0)},
                {attr("alpha", c.number("alpha", leaky ? 0.01 : 1.0))}));
}

void hard_sigmoid(Call &c) {
  c.result(c.op(Op::hard_sigmoid, {c.value(0)},
                {attr("alpha", c.number("alpha", 0.2)), attr("beta", c.number("beta", 0.5))}));
}

/// x where a comparison with a number holds, else the function's result for x.
V choose(Call &c, Op compare, V x, double number, V yes, V no) {
  return c.op(Op::where, {c.binary(compare, x, c.like(x, number)), yes, no});
}

void selu(Call &c) {
  const double alpha = c.number("alpha", 1.67326319217681884765625),
               gamma = c.number("gamma", 1.05070102214813232421875);
  V y = c.op(Op::elu, {c.value(0)}, {attr("alpha", alpha)});
  c.result(c.binary(Op::mul, y, c.like(y, gamma)));
}

void celu(Call &c) {
  const double alpha = c.number("alpha", 1);
  V x = c.value(0);
  // max(0, x) + min(0, alpha (exp(x / alpha) - 1)) is alpha elu(x / alpha)
  V y = c.op(Op::elu, {c.binary(Op::div, x, c.like(x, alpha))}, {attr("alpha", 1.0)});
  c.result(c.binary(Op::mul, y, c.like(y, alpha)));
}

void thresholded_relu(Call &c) {
  V x = c.value(0);
  c.result(choose(c, Op::greater, x, c.number("alpha", 1), x, c.like(x, 0)));
}

void shrink(Call &c) {
  V x = c.value(0);
  const DType dtype = c.dtype(x);
  const double bias = c.number("bias", 0), lambda = c.number("lambd", 0.5);
  V y = is_real(dtype) ? x : c.cast(x, DType::f32);
  V below = choose(c, Op::less, y, -lambda, c.binary(Op::add, y, c.like(y, bias)), c.like(y, 0));
  V out = choose(c, Op::greater, y, lambda, c.binary(Op::sub, y, c.like(y, bias)), below);
  c.result(c.cast(out, dtype));
}

void mish(Call &c) {
  V x = c.value(0);
  c.result(c.binary(Op::mul, x, c.op(Op::tanh, {c.op(Op::softplus, {x})})));
}

void swish(Call &c) {
  V x = c.value(0);
  const double alpha = c.number("alpha", 1);
  c.result(alpha == 1
               ? c.op(Op::silu, {x})
               : c.binary(Op::mul, x, c.op(Op::sigmoid, {c.binary(Op::mul, x, c.like(x, alpha))})));
}

void dropout(Call &c) {
  c.ignore({"ratio", "seed"}); // of training
  c.ignore_input(1);
  if (c.has(2)) {
    const Ints training = c.constants(2);
    if (!training.empty() && training[0])
      return c.unsupported("training");
  }
  if (c.wants(1)) {
    V x = c.value(0);
    c.result(c.broadcast(c.scalar(DType::boolean, 1), c.dims(x)), 1);
  }
  c.result(c.entry(0), 0);
}

void constant(Call &c) {
  for (const AttributeView &one : c.node.attributes) {
    Host host;
    c.attribute(one.name);
    if (one.name == "value" && one.tensor) {
      const std::string_view name = c.node.outputs.empty() ? "" : c.node.outputs[0];
      if (EntryPtr made = c.w.constant_entry(*one.tensor, name))
        c.result(std::move(made));
      return;
    }
    if (one.name == "value_float" || one.name == "value_floats") {
      host.dtype = DType::f32;
      if (one.name == "value_float")
        host.reals = {one.number};
      else
        host.reals.assign(one.numbers.begin(), one.numbers.end());
    } else if (one.name == "value_int") {
      host.ints = {c.constant(one.integer)};
    } else if (one.name == "value_ints") {
      for (int64_t value : one.integers)
        host.ints.push_back(c.constant(value));
    } else {
      continue;
    }
    if (one.name.back() == 's')
      host.dims = {static_cast<int64_t>(host.size())};
    return c.result(std::move(host));
  }
  c.unsupported("a constant of strings, or a sparse one");
}

/// Operands whose ranks are made equal for an op that is found by its name.
V bits(Call &c, std::string_view name, V a, V b) {
  c.spread({&a, &b});
  const Dims all = c.broadcast_dims(c.dims(a), c.dims(b));
  return c.op(name, {c.broadcast(a, all), c.broadcast(b, all)});
}

void bitwise(Call &c) {
  const std::string_view op = c.node.op;
  if (op == "BitwiseNot")
    return c.result(c.op("bitwise_not", {c.value(0)}));
  V a = c.value(0), b = c.value(1);
  if (op == "BitShift")
    c.result(bits(c, c.text("direction", "") == "LEFT" ? "shift_left" : "shift_right", a, b));
  else
    c.result(bits(c,
                  op == "BitwiseAnd"  ? "bitwise_and"
                  : op == "BitwiseOr" ? "bitwise_or"
                                      : "bitwise_xor",
                  a, b));
}

void bit_cast(Call &c) {
  V x = c.value(0);
  const std::optional<DType> to = dtype_of(static_cast<int32_t>(c.integer("to", 0)));
  if (!to || ir::info(*to).bytes_per_block != ir::info(c.dtype(x)).bytes_per_block)
    return c.unsupported("another dtype's bits of another size");
  const V view = c.w.append(ir::BindingKind::view, {ir::Operand::of(x)}, {c.constant(0)},
                            {c.w.builder().module().types.tensor(*to, c.dims(x))});
  c.result(c.copied(view));
}

} // namespace

void ignore_rounding(const Call &c, DType to) {
  if (!is_real(to) || ir::info(to).bytes_per_block > 1)
    c.ignore({"saturate", "round_mode"});
}

void add_elementwise(HandlerTable &table) {
#define CUGRT_SAME_unary(name, op) {name, unary<Op::op>},
#define CUGRT_SAME_two(name, op) {name, two<Op::op>},
#define CUGRT_SAME_own(name, op)
#define CUGRT_SAME_microsoft(name, op)
#define CUGRT_SAME_OP(name, op, importer) CUGRT_SAME_##importer(#name, op)
  const std::pair<std::string_view, Handler> rows[] = {
#include "fronts/onnx/same_ops.def"
      {"Abs", absolute},
      {"IsInf", is_inf},
      {"PRelu", parametric_relu},
      {"Pow", power},
      {"Mod", modulo},
      {"Max", variadic},
      {"Min", variadic},
      {"Sum", variadic},
      {"Mean", variadic},
      {"Where", where},
      {"Clip", clip},
      {"Identity", identity},
      {"OptionalHasElement", optional},
      {"OptionalGetElement", optional},
      {"Cast", cast},
      {"CastLike", cast},
      {"Gelu", gelu},
      {"LeakyRelu", with_alpha},
      {"Elu", with_alpha},
      {"HardSigmoid", hard_sigmoid},
      {"Selu", selu},
      {"Celu", celu},
      {"ThresholdedRelu", thresholded_relu},
      {"Shrink", shrink},
      {"Mish", mish},
      {"Swish", swish},
      {"BitShift", bitwise},
      {"BitwiseAnd", bitwise},
      {"BitwiseOr", bitwise},
      {"BitwiseXor", bitwise},
      {"BitwiseNot", bitwise},
      {"BitCast", bit_cast},
      {"Dropout", dropout},
      {"Constant", constant}};
#undef CUGRT_SAME_OP
#undef CUGRT_SAME_unary
#undef CUGRT_SAME_two
#undef CUGRT_SAME_own
#undef CUGRT_SAME_microsoft
  for (const auto &[name, handler] : rows)
    table[name] = handler;
}

} // namespace cugrt::onnx
