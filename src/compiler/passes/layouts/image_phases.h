// Transposed convolutions of images as convolutions to the phases of their strides. Private to
// LayOutImages.
#pragma once

#include "compiler/passes/layouts/image_moves.h"

namespace cugrt::passes {

class ImagePhases : public ImageMoves {
public:
  ImagePhases(const ir::Module &source_module, const ir::Function &source, ir::Module &target,
              const codegen::KernelChoice &choice)
      : ImageMoves(source_module, source, target, choice), choice_(choice) {}

protected:
  /// A transposed convolution of strides s is a convolution to s x s times the channels, a phase of
  /// the strides each, whose pixels are then put between one another:
  ///
  ///   y[i s + a] = sum of x[i - j] w[a + j s]      of a row, phase a < s, j < ceil(taps / s)
  ///
  /// Its kernel is w by phases, from the last tap to the first, and padded so that all phases have
  /// as many; what `padding` takes away is cut off behind. Phases along a row alone lie as they
  /// should; there zeros before w make the cut whole steps, which the convolution leaves out.
  bool lay_out_transposed(const Binding &binding) {
    const auto given = source().operands_of(binding);
    const ValueId x = given[0].value(), w = given[1].value();
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
    using Dims = std::vector<ir::ExprId>;
    const Integers stride = window(binding, "strides", 1), begin = window(binding, "padding", 0),
                   dilation = window(binding, "dilation", 1);
    const size_t axes = stride.size();
    int64_t phases = 1;
    for (size_t i = 0; i < axes; ++i) {
      phases *= stride[i];
      if (dilation[i] != 1 || weight(2 + i) == 0)
        return false;
    }
    Integers taps, front, rest, around; // front, rest: before and behind w
    Dims parts, whole, result, from_place, strides;
    // Whether a convolution with `around`, of w with zeros at its ends, gives all of the result,
    // or, where it `is_whole`, the result alone.
    auto is_convolved_so = [&](bool is_whole) {
      taps = front = rest = {}, around.assign(2 * axes, 0);
      parts = whole = result = {size(x, 0)}, from_place = {exprs.constant(0)}, strides = {};
      for (size_t i = 0; i < axes; ++i) {
        const int64_t s = stride[i], own = weight(2 + i), at = is_whole ? 0 : begin[i];
        front.push_back(is_whole ? (s - begin[i] % s) % s : 0);
        taps.push_back((front[i] + own + s - 1) / s);
        rest.push_back(taps[i] * s - own - front[i]);
        strides.push_back(exprs.constant(s));
        from_place.push_back(exprs.constant(at));
        result.push_back(size(binding.result(), 2 + i));
        parts.push_back(is_whole ? divided(result.back(), strides.back()).value_or(ir::ExprId())
                                 : exprs.add(size(x, 2 + i), exprs.constant(taps[i] - 1)));
        if (!parts.back().valid())
          return false;
        whole.push_back(exprs.mul(parts.back(), strides.back()));
        around[i] = taps[i] - 1 - (is_whole ? (begin[i] + front[i]) / s : 0);
        around[axes + i] =
            known(exprs.sub(exprs.add(parts.back(), exprs.constant(taps[i] - 1 - around[i])),
                            size(x, 2 + i)))
                .value_or(-1);
        if (around[i] < 0 || around[axes + i] < 0 ||
            known(exprs.sub(whole.back(), exprs.add(exprs.constant(at), result.back())))
                    .value_or(-1) < 0)
          return false;
      }
      return true;
    };
    const bool is_row =
                   std::all_of(stride.begin(), stride.end() - 1, [](int64_t s) { return s == 1; }),
               is_whole = is_row && is_convolved_so(true);
    if (!is_whole && !is_convolved_so(false))
      return false;
    const int64_t in = weight(0), channels = weight(1);
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
    Integers apart = {in, channels}, places, from, to, order, strips = {0}; // by axis
    for (size_t i = 0; i < axes; ++i) {
      const int64_t n = int64_t(i), count = int64_t(axes);
      apart.insert(apart.end(), {taps[i], stride[i]});
      places.push_back(2 + 2 * n), order.push_back(3 + 2 * n);
      from.push_back(-1), to.push_back(-taps[i] - 1);
      strips.insert(strips.end(), {1 + n, 1 + count + n});
    }
    strips.push_back(int64_t(2 * axes + 1));
    const Integers none(axes + 2);
    ValueId filter = reshaped(mapped(w), as_image(type_of(w).dims, rank), type_of(w).dtype, name,
                              binding.location);
    filter = make(Op::pad, one(filter),
                  {{"before", joined({{0, 0}, front})}, {"after", joined({{0, 0}, rest})}});
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
    ValueId y = make(axes == 3 ? Op::conv3d : Op::conv2d, operands,
                     {{"padding", around}, {"channels_last", true}});
    const ir::DType dtype = type_of(x).dtype;
    auto behind = [&](Dims dims, int64_t last) {
      dims.push_back(exprs.constant(last));
      return dims;
    };
    Dims between = parts;
    between.insert(between.end(), strides.begin(), strides.end());
    y = reshaped(y, behind(between, channels), dtype, name, binding.location);
    if (!is_row) // else neighbours in memory
      y = make(Op::transpose, one(y), {{"axes", strips}});
    y = reshaped(y, behind(whole, channels), dtype, name, binding.location);
    if (!is_whole)
      y = make(Op::slice,
               {Operand::of(y), Operand::of(shape_of(behind(from_place, 0), binding.location)),
                Operand::of(shape_of(behind(result, channels), binding.location))},
               {});
    map(binding.result(), y);
    last_[binding.first_result] = y;
    is_only_last_[binding.first_result] = true;
    ++laid_out_;
    return true;
  }

  const codegen::KernelChoice choice_;
  size_t laid_out_ = 0; // ops
};

} // namespace cugrt::passes
