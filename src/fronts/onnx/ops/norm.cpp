// Normalizations, and attention as products and a softmax.
#include "fronts/onnx/call.h"

#include <cstring>

namespace cugrt::onnx {

namespace {

/// A vector over the channels (axis 1) of x.
V channel(Call &c, V v, V x) {
  Dims column(c.rank(x) > 1 ? c.rank(x) - 1 : 1, c.constant(1));
  if (c.rank(v) == 1)
    column[0] = c.dims(v)[0];
  return c.reshape(v, column);
}

/// The factor of x and the summand behind, of one element a channel. Both follow from weights
/// alone, so they are made once.
struct Affine {
  V factor, shift;
};
Affine affine_of(Call &c, V scale, V bias, V mean, V variance, double epsilon) {
  Affine out;
  V deviation = c.op(Op::rsqrt, {c.binary(Op::add, variance, c.like(variance, epsilon))});
  out.factor = c.binary(Op::mul, scale, deviation);
  out.shift = c.binary(Op::sub, bias, c.binary(Op::mul, mean, out.factor));
  return out;
}

void batch_norm(Call &c) {
  c.ignore({"momentum"}); // of training
  c.expect("spatial", 1);
  if (c.w.folded.count(&c.node)) { // the convolution before it has read the others
    c.ignore({"epsilon", "training_mode"});
    for (size_t i = 1; i < c.input_count(); ++i)
      c.ignore_input(i);
    return c.result(c.required(0));
  }
  const bool training = c.integer("training_mode", 0) != 0;
  if (c.wants(1) && !training)
    return c.unsupported("training before opset 14");
  V x = c.value(0);
  const DType dtype = c.dtype(x);
  V scale = channel(c, c.cast(c.value(1), dtype), x),
    bias = channel(c, c.cast(c.value(2), dtype), x);
  V mean = channel(c, c.cast(c.value(3), dtype), x),
    variance = channel(c, c.cast(c.value(4), dtype), x);
  if (training) { // by the batch's own, which run into the given ones
    Ints axes;
    for (size_t i = 0; i < c.rank(x); ++i)
      if (i != 1)
        axes.push_back(int64_t(i));
    const double momentum = c.number("momentum", 0.9);
    auto running = [&](V given, V own, size_t result) {
      V sum = c.binary(Op::add, c.binary(Op::mul, given, c.like(given, momentum)),
                       c.binary(Op::mul, own, c.like(own, 1 - momentum)));
      c.result(c.reshape(sum, c.dims(c.value(3))), result);
    };
    auto mean_of = [&](V v) {
      V kept = c.reduce(Op::reduce_mean, v, axes, true);
      return c.reshape(kept, c.dims(mean));
    };
    V own_mean = mean_of(x), off = c.binary(Op::sub, x, own_mean);
    V own_variance = mean_of(c.binary(Op::mul, off, off));
    running(mean, own_mean, 1);
    running(variance, own_variance, 2);
    mean = own_mean, variance = own_variance;
  }
  const Affine y = affine_of(c, scale, bias, mean, variance, c.number("epsilon", 1e-5));
  c.result(c.binary(Op::add, c.binary(Op::mul, x, y.factor), y.shift));
}

/// Layer norm over the last axis of [rows.., columns].
V normalized(Call &c, V flat, double epsilon) {
  return c.op(Op::layer_norm, {flat}, {attr("epsilon", epsilon)});
}

/// Whether an input is a constant of floats that are all this number.
bool is_all(Call &c, size_t i, float number) {
  const EntryPtr entry = c.has(i) ? c.w.constant_of(c.node.inputs[i]) : nullptr;
  if (!entry || !entry->constant || entry->constant->dtype != DType::f32)
    return false;
  const std::string_view bytes = entry->constant->bytes;
  for (size_t at = 0; at + sizeof number <= bytes.size(); at += sizeof number)
    if (std::memcmp(bytes.data() + at, &number, sizeof number) != 0)
      return false;
  return true;
}

void instance_norm(Call &c) {
  V x = c.value(0);
  if (c.rank(x) < 3)
    return c.unsupported("an image without axes");
  const Dims d = c.dims(x);
  V y = normalized(c, c.reshape(x, {d[0], d[1], c.product(d.from(2))}), c.number("epsilon", 1e-5));
  y = c.reshape(y, d);
  // Exporters write a group norm as one of instances that changes nothing behind it.
  if (is_all(c, 1, 1) && is_all(c, 2, 0)) {
    c.ignore_input(1), c.ignore_input(2);
    return c.result(y);
  }
  c.result(c.binary(Op::add, c.binary(Op::mul, y, channel(c, c.value(1), x)),
                    channel(c, c.value(2), x)));
}

void group_norm(Call &c) {
  V x = c.value(0), scale = c.value(1), bias = c.value(2);
  c.expect("stash_type", 1);
  c.result(group_normed(c, x, scale, bias, c.integer("num_groups", 1)));
}

void layer_norm(Call &c) {
  V x = c.value(0);
  const Dims d = c.dims(x);
  const size_t axis = c.axis(c.integer("axis", -1), d.size());
  const double epsilon = c.number("epsilon", 1e-5);
  c.expect("stash_type", 1);
  const E rows = c.product(d.first(axis)), columns = c.product(d.from(axis));
  const bool is_last = axis + 1 == d.size(); // which is the axis of the op
  V flat = is_last ? x : c.reshape(x, {rows, columns});
  auto shaped = [&](V y) { return is_last ? y : c.reshape(y, d); };
  const Dims own = d.from(axis);
  // A factor with dimensions outside of the norm's own is applied behind it, with all that follows.
  auto is_own = [&](V v) {
    const Dims have = v.valid() ? c.dims(v) : Dims();
    const size_t outer = have.size() - std::min(have.size(), own.size());
    return std::all_of(have.begin(), have.begin() + ptrdiff_t(outer),
                       [&](E e) { return c.known(e) == 1; });
  };
  auto flattened = [&](V v) {
    if (!v.valid())
      return v;
    const Dims have = c.dims(v);
    if (have.size() > own.size())
      v = c.reshape(v, have.from(have.size() - own.size()));
    return c.reshape(c.broadcast(c.stretch(v, own), own), {columns});
  };
  const bool is_rms = c.node.op != "LayerNormalization";
  V scale = c.has(1) ? c.value(1) : V(), bias = !is_rms && c.has(2) ? c.value(2) : V();
  const bool scaled = is_own(scale), moved = scaled && is_own(bias);
  std::vector<V> operands = {flat, scaled ? flattened(scale) : V()};
  if (!is_rms)
    operands.push_back(moved ? flattened(bias) : V());
  V y = shaped(c.op(is_rms ? Op::rms_norm : Op::layer_norm, operands, {attr("epsilon", epsilon)}));
  if (!scaled)
    y = c.binary(Op::mul, y, c.stretch(scale, d));
  if (!moved && bias.valid())
    y = c.binary(Op::add, y, c.stretch(bias, d));
  c.result(y, 0);
  if (is_rms && c.wants(1))
    return c.unsupported("the inverse deviation as a result");
  if (!c.wants(1) && !c.wants(2))
    return;
  Dims kept = d.first(size_t(axis));
  kept.resize(d.size(), c.constant(1));
  const Ints columns_axis = {is_last ? int64_t(axis) : 1};
  V mean = c.reduce(Op::reduce_mean, flat, columns_axis, true), off = c.binary(Op::sub, flat, mean);
  V variance = c.reduce(Op::reduce_mean, c.binary(Op::mul, off, off), columns_axis, true);
  V inverse = c.op(Op::rsqrt, {c.binary(Op::add, variance, c.like(variance, epsilon))});
  // Converts to floats of 32 bits, as the stash type says; f64 stays.
  auto stashed = [&](V v) {
    return c.reshape(c.dtype(v) == DType::f64 ? v : c.cast(v, DType::f32), kept);
  };
  c.result(stashed(mean), 1);
  c.result(stashed(inverse), 2);
}

void mean_variance(Call &c) {
  V x = c.value(0);
  const Ints axes = c.axes(c.integers("axes", {0, 2, 3}), c.rank(x));
  V mean = c.reduce(Op::reduce_mean, x, axes, true), off = c.binary(Op::sub, x, mean);
  V deviation =
      c.op(Op::sqrt, {c.reduce(Op::reduce_mean, c.binary(Op::mul, off, off), axes, true)});
  c.result(c.binary(Op::div, off, c.binary(Op::add, deviation, c.like(x, 1e-9))));
}

} // namespace

V group_normed(Call &c, V x, V scale, V bias, int64_t groups) {
  if (c.rank(x) < 3)
    c.unsupported("an image without axes");
  const Dims d = c.dims(x);
  const E g = c.constant(groups), inner = c.w.exprs().floordiv(d[1], g);
  const E rest = c.product(d.from(2));
  V y = normalized(c, c.reshape(x, {d[0], g, c.w.exprs().mul(inner, rest)}),
                   c.number("epsilon", 1e-5));
  y = c.reshape(y, d);
  if (c.dims(scale)[0] != d[1]) { // one a group (opset 18)
    auto each = [&](V v) {
      return c.reshape(c.broadcast(c.reshape(v, {g, c.constant(1)}), {g, inner}), {d[1]});
    };
    scale = each(scale), bias = each(bias);
  }
  return c.binary(Op::add, c.binary(Op::mul, y, channel(c, scale, x)), channel(c, bias, x));
}

void fold_batch_norm(Call &c, V &weights, V &bias, int64_t groups, bool transposed) {
  const Node *norm = c.node.outputs.empty() ? nullptr : c.w.only_reader(c.node.outputs[0]);
  if (!norm || norm->op != "BatchNormalization" || !norm->domain.empty() ||
      norm->inputs.size() != 5 || norm->inputs[0] != c.node.outputs[0] || !c.node.domain.empty())
    return; // convolutions of other domains do more before their result
  Call other(c.w, *norm);
  const DType dtype = c.dtype(weights), wide = dtype == DType::f64 ? dtype : DType::f32;
  const Dims d = c.dims(weights);
  const E channels =
      transposed ? c.w.exprs().mul(d.at(1), c.constant(groups)) : d.at(0); // of the result
  if (other.integer("training_mode", 0) || other.wants(1) || !c.w.constant_of(c.node.inputs[1]) ||
      (c.has(2) && !c.w.constant_of(c.node.inputs[2])) || !is_real(dtype) || groups < 1)
    return;
  for (size_t i = 1; i < 5; ++i) {
    const EntryPtr one = c.w.constant_of(norm->inputs[i]);
    if (!one || c.dims(c.w.device(*one)) != Dims{channels} || !is_real(c.dtype(one->device)))
      return;
  }
  V given[4];
  for (size_t i = 0; i < 4; ++i)
    given[i] = c.cast(other.value(1 + i), wide);
  const Affine norm_of =
      affine_of(c, given[0], given[1], given[2], given[3], other.number("epsilon", 1e-5));
  // A factor for each output: along the first axis of the weights, or of a transposed one's within
  // each group along the second.
  Dims parts = d, factors(d.size(), c.constant(1));
  if (transposed) {
    parts[0] = c.w.exprs().floordiv(d[0], c.constant(groups));
    parts.insert(parts.begin(), c.constant(groups));
    factors = Dims(parts.size(), c.constant(1));
    factors[2] = d[1];
    factors[0] = c.constant(groups);
  } else {
    factors[0] = channels;
  }
  V scaled = c.binary(Op::mul, c.reshape(c.cast(weights, wide), parts),
                      c.reshape(norm_of.factor, factors));
  weights = c.cast(c.reshape(scaled, d), dtype);
  V own = bias.valid() ? c.binary(Op::add, c.binary(Op::mul, c.cast(bias, wide), norm_of.factor),
                                  norm_of.shift)
                       : norm_of.shift;
  bias = c.cast(own, dtype);
  c.w.folded.insert(norm);
}

void add_norms(HandlerTable &table) {
  table["BatchNormalization"] = batch_norm;
  table["InstanceNormalization"] = instance_norm;
  table["GroupNormalization"] = group_norm;
  table["LayerNormalization"] = table["RMSNormalization"] = layer_norm;
  table["SimplifiedLayerNormalization"] = layer_norm; // which ONNX Runtime's tools write
  table["MeanVarianceNormalization"] = mean_variance;
}

} // namespace cugrt::onnx
