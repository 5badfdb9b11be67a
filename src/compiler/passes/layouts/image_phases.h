// Transposed convolutions of images as convolutions to the phases of their strides. Private to
// LayOutImages.
#pragma once

#include "compiler/passes/layouts/image_rows.h"

namespace cugrt::passes {

class ImagePhases : public ImageRows {
public:
  using ImageRows::ImageRows;

protected:
  /// A transposed convolution of strides s is a convolution to s x s times the channels, a phase of
  /// the strides each, whose kernel puts their pixels between one another:
  ///
  ///   y[i s + a] = sum of x[i - j] w[a + j s]      of a row, phase a < s, j < ceil(taps / s)
  ///
  /// Its weights are w by phases, from the last tap to the first, and padded so that all phases
  /// have as many; whole steps of what `padding` takes away are not computed, the rest is cut off.
  bool lay_out_transposed(const Binding &binding) {
    const auto given = source().operands_of(binding);
    const ValueId x = given[0].value(), w = given[1].value(), result = binding.result();
    const bool has_bias = given.size() > 2 && given[2].kind == Operand::Kind::value;
    if (!is_image(x) || !is_image(w) || !is_fixed_[w.index] || integer(binding, "groups") != 1 ||
        (has_bias && !is_fixed_[given[2].index]))
      return false;
    const size_t rank = rank_of(x);
    for (size_t d = 0; d < rank; ++d)
      if (!known(type_of(w).dims[d]))
        return false;
    ir::ExprPool &exprs = module().exprs;
    auto size = [&](ValueId value, size_t d) { return as_image(type_of(value).dims, rank)[d]; };
    auto weight = [&](size_t d) { return *known(size(w, d)); };
    using Integers = std::vector<int64_t>;
    const Integers stride = window(binding, "strides", 1), begin = window(binding, "padding", 0),
                   dilation = window(binding, "dilation", 1);
    const size_t axes = stride.size();
    const int64_t in = weight(0), channels = weight(1);
    int64_t phases = 1;
    Integers taps, rest, around(2 * axes), cut(2 * axes); // rest: behind w
    for (size_t i = 0; i < axes; ++i) {
      const int64_t s = stride[i], own = weight(2 + i);
      const std::optional<int64_t> more =
          known(exprs.sub(exprs.mul(size(x, 2 + i), exprs.constant(s)), size(result, 2 + i)));
      if (dilation[i] != 1 || own == 0 || !more)
        return false;
      phases *= s;
      taps.push_back((own + s - 1) / s);
      rest.push_back(taps[i] * s - own);
      const int64_t steps = std::min(begin[i] / s, taps[i] - 1), left = *more - begin[i];
      around[i] = taps[i] - 1 - steps;
      around[axes + i] = left < 0 ? (-left + s - 1) / s : 0;
      cut[i] = begin[i] - steps * s;
      cut[axes + i] = left + around[axes + i] * s;
    }
    ir::Type as_convolution = type_of(w);
    as_convolution.dims = {exprs.constant(phases * channels), exprs.constant(in)};
    for (int64_t n : taps)
      as_convolution.dims.push_back(exprs.constant(n));
    const std::optional<int64_t> laid_out = codegen::channels_laid_out(
        module(), type_of(x), as_convolution, {}, choice_, !last_[x.index].valid());
    if (!laid_out)
      return false;

    const std::string name = source().value(binding.result()).name;
    auto make = [&](Op op, std::vector<Operand> operands, std::vector<ir::Attribute> attributes) {
      return bind_inferred(op, operands, attributes, name, binding.location);
    };
    auto one = [](ValueId value) { return std::vector<Operand>{Operand::of(value)}; };
    auto joined = [](std::initializer_list<Integers> lists) {
      Integers out;
      for (const Integers &list : lists)
        out.insert(out.end(), list.begin(), list.end());
      return out;
    };
    Integers apart = {in, channels}, places, from, to, order; // by axis
    for (size_t i = 0; i < axes; ++i) {
      const int64_t n = int64_t(i);
      apart.insert(apart.end(), {taps[i], stride[i]});
      places.push_back(2 + 2 * n), order.push_back(3 + 2 * n);
      from.push_back(-1), to.push_back(-taps[i] - 1);
    }
    const Integers none(axes + 2);
    ValueId filter = reshaped(mapped(w), as_image(type_of(w).dims, rank), type_of(w).dtype, name,
                              binding.location);
    filter = make(Op::pad, one(filter), {{"before", none}, {"after", joined({{0, 0}, rest})}});
    filter = make(Op::reshape, one(filter), {{"shape", apart}});
    filter = make(Op::slice, one(filter),
                  {{"starts", from}, {"ends", to}, {"axes", places}, {"steps", from}});
    filter = make(Op::transpose, one(filter), {{"axes", joined({order, {1}, places, {0}})}});
    filter = make(Op::reshape, one(filter), {{"shape", joined({{phases * channels}, taps, {in}})}});
    Integers more(axes + 2);
    more.back() = *laid_out - in;
    filter = make(Op::pad, one(filter), {{"before", none}, {"after", more}});
    std::vector<Operand> operands = {Operand::of(padded(x, *laid_out, binding.location)),
                                     Operand::of(filter)};
    if (has_bias)
      operands.push_back(Operand::of(
          make(Op::concat, std::vector<Operand>(size_t(phases), mapped(given[2])), {})));
    std::vector<ir::Attribute> attributes = {
        {"padding", around}, {"channels_last", true}, {"phases", stride}, {"cut", cut}};
    const Op convolution = axes == 3 ? Op::conv3d : Op::conv2d;
    if (rank > kSignalRank && second_[result] && !is_pixel(result)) {
      attributes.push_back({"result_second", true});
      map(result, make(convolution, operands, attributes));
    } else {
      const ir::Type type = type_of(result);
      last_[result.index] = reshaped(make(convolution, operands, attributes), dims_last(type.dims),
                                     type.dtype, name, binding.location);
      is_only_last_[result.index] = true;
      map(result, last_[result.index]);
    }
    ++laid_out_;
    return true;
  }

  size_t laid_out_ = 0; // ops
};

} // namespace cugrt::passes
