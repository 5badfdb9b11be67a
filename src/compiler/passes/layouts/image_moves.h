// Transpositions of images and of their parts, and the reshapes around them. Private to
// LayOutImages.
//
// A shuffle of channels, places between channels (DepthToSpace) and windows of an image are a
// reshape that takes dimensions apart, a transposition, and a reshape that joins them:
//
//   %a = reshape(%x, [n, g, c / g, h, w])          %a = reshape(%x_last, [n, h, w, g, c / g])
//   %b = transpose(%a) {axes = [0, 2, 1, 3, 4]}    %b = transpose(%a) {axes = [0, 1, 2, 4, 3]}
//   %y = reshape(%b, [n, c, h, w])                 %y_last = reshape(%b, [n, h, w, c])
//
// The transposition goes from one layout to the other as well, so none is added for the layout.
#pragma once

#include "compiler/passes/layouts/image_parts.h"
#include "compiler/passes/layouts/second_results.h"
#include "compiler/passes/value_uses.h"

namespace cugrt::passes {

constexpr int64_t kMostGroup = 1024; // channels of a group of group_norm

class ImageMoves : public ImageParts {
public:
  ImageMoves(const ir::Module &source_module, const ir::Function &source, ir::Module &target,
             const codegen::KernelChoice &choice)
      : ImageParts(source_module, source, target, choice), uses_(source),
        second_(module(), source, uses_, [this](auto... of) { return wish_of(of...); }),
        waits_(source.values.size()), is_made_(source.values.size()) {}

protected:
  /// A reshape that takes apart an image with channels last waits for the transposition that alone
  /// reads it, or for products and several. One that a transposition was joined with is there.
  bool lay_out_reshape(const Binding &binding) {
    const ValueId x = source().operands_of(binding)[0].value(), result = binding.result();
    const Binding *cast = only_reader(result, Op::cast);
    if (const Binding *norm = only_reader(cast ? cast->result() : result, Op::layer_norm))
      return lay_out_norm(x, *norm);
    if (lay_out_pools(x, binding) || lay_out_repeats(x, binding))
      return true;
    if (!is_laid_out(x) || !second_.moves(result) ||
        !common_parts(type_of(x).dims, type_of(result).dims))
      return false;
    return waits_[result.index] = true;
  }

  /// Pools of a signal, as of an image of one row, or of a volume: of its planes, as of channels,
  /// and then of [n, channels, planes, pixels], between reshapes.
  bool lay_out_pools(ValueId x, const Binding &reshape) {
    if (!is_laid_out(x) || rank_of(x) == kImageRank)
      return false;
    const bool is_signal = rank_of(x) == kSignalRank;
    const Dims own = type_of(x).dims;
    std::vector<const Binding *> chain = {&reshape}; // a pool and a reshape, and of volumes again
    for (size_t i = 0; i < (is_signal ? 1 : 2); ++i) {
      const ValueId image = chain.back()->result();
      const Binding *pool = only_reader(image, Op::max_pool2d);
      pool = pool ? pool : only_reader(image, Op::avg_pool2d);
      const Binding *back = pool ? only_reader(pool->result(), Op::reshape) : nullptr;
      if (!back || flag(*pool, "channels_last"))
        return false;
      chain.insert(chain.end(), {pool, back});
    }
    auto dims = [&](size_t i) { return type_of(chain[i]->result()).dims; };
    const Dims first = dims(0), end = dims(chain.size() - 1), pooled = dims(1);
    const ir::ExprId one = module().exprs.constant(1);
    if (is_signal
            ? first != Dims{own[0], own[1], one, own[2]} || end != Dims{own[0], own[1], pooled[3]}
            : first != Dims{own[0], module().exprs.mul(own[1], own[2]), own[3], own[4]} ||
                  dims(2) !=
                      Dims{own[0], own[1], own[2], module().exprs.mul(pooled[2], pooled[3])} ||
                  end != Dims{own[0], own[1], dims(3)[2], pooled[2], pooled[3]})
      return false;
    const ir::DType dtype = type_of(x).dtype;
    ValueId y = last_[x.index];
    for (size_t i = 1; i < chain.size(); i += 2) {
      const Binding &pool = *chain[i];
      const std::string &name = source().value(pool.result()).name;
      Dims from = i > 1 || is_signal
                      ? Dims{own[0], is_signal ? one : own[2], dims(i - 1)[3], own[1]}
                      : Dims{module().exprs.mul(own[0], own[2]), own[3], own[4], own[1]};
      const Operand read = Operand::of(reshaped(y, from, dtype, name, pool.location));
      std::vector<ir::Attribute> attributes(source().attributes_of(pool).begin(),
                                            source().attributes_of(pool).end());
      std::erase_if(attributes, [](const auto &given) { return given.name == "channels_last"; });
      attributes.push_back({"channels_last", true});
      y = bind_inferred(ir::op_of(pool), std::span(&read, 1), attributes, name, pool.location);
      is_made_[pool.first_result] = is_made_[chain[i + 1]->first_result] = true;
    }
    const ValueId result = chain.back()->result();
    last_[result.index] =
        reshaped(y, dims_last(end), dtype, source().value(result).name, chain.back()->location);
    is_only_last_[result.index] = true;
    map(result, last_[result.index]);
    return true;
  }
  /// Rows, columns or channels that are repeated in their places: a reshape gives dimensions of 1
  /// behind theirs, which are stretched, and another one joins them.
  bool lay_out_repeats(ValueId x, const Binding &reshape) {
    const Binding *stretch = only_reader(reshape.result(), Op::broadcast_to),
                  *back = stretch ? only_reader(stretch->result(), Op::reshape) : nullptr;
    if (!is_laid_out(x) || !back)
      return false;
    const Dims own = type_of(x).dims, ones = type_of(reshape.result()).dims,
               wide = type_of(stretch->result()).dims, end = type_of(back->result()).dims;
    Dims times, product; // by dimension of x
    size_t at = 0;
    for (ir::ExprId dim : own) {
      if (at == ones.size() || ones[at] != dim || wide[at++] != dim)
        return false;
      const bool repeats = at < ones.size() && is_one(ones[at]) && !is_one(wide[at]);
      times.push_back(repeats ? wide[at++] : module().exprs.constant(1));
      product.push_back(module().exprs.mul(dim, times.back()));
    }
    if (at != ones.size() || product != end)
      return false;
    const Dims last = dims_last(own), last_times = dims_last(times);
    Dims before, behind;
    for (size_t d = 0; d < last.size(); ++d) {
      before.push_back(last[d]), behind.push_back(last[d]);
      if (!is_one(last_times[d]))
        before.push_back(module().exprs.constant(1)), behind.push_back(last_times[d]);
    }
    const ir::DType dtype = type_of(x).dtype;
    const ValueId result = back->result();
    const std::string &name = source().value(result).name;
    const Operand read[] = {
        Operand::of(reshaped(last_[x.index], before, dtype, name, reshape.location)),
        Operand::of(shape_of(behind, stretch->location))};
    last_[result.index] =
        reshaped(bind_inferred(Op::broadcast_to, read, {}, name, stretch->location), dims_last(end),
                 dtype, name, back->location);
    is_only_last_[result.index] = is_made_[result.index] = is_made_[stretch->first_result] = true;
    map(result, last_[result.index]);
    return true;
  }
  bool is_made(const Binding &binding) const { return is_made_[binding.first_result]; }

  /// A norm without scale over the last dimension of [n, groups, ..], which a reshape of image x
  /// gives and another one takes back, is one by groups of channels. Of a signal the last dimension
  /// may be its own. A cast to f32 may stand before it: it reads x as it is then. Of some channels
  /// of what is laid out it reads these where they lie.
  bool lay_out_norm(ValueId x, const Binding &norm) {
    const ValueId normal = norm.result(), rows = source().operands_of(norm)[0].value();
    if (is_made_[normal.index])
      return true;
    const Dims &own = type_of(x).dims, &dims = type_of(rows).dims;
    const Binding *back = rows == x ? nullptr : only_reader(normal, Op::reshape);
    const ValueId end = back ? back->result() : normal;
    const std::optional<int64_t> channels = is_image(x) ? known(own[1]) : std::nullopt,
                                 groups = dims.size() == 3 ? known(dims[1]) : std::nullopt;
    if (!is_laid_out(x) || source().operands_of(norm).size() > 1 || type_of(end).dims != own ||
        (type_of(normal).dtype != type_of(x).dtype &&
         (type_of(normal).dtype != ir::DType::f32 || !is_half(type_of(x).dtype))) ||
        !channels || !groups || dims[0] != own[0] || *groups < 1 || *channels % *groups != 0 ||
        *channels < 1 || *channels / *groups > kMostGroup)
      return false;
    std::vector<ir::Attribute> attributes = {
        {"groups", *groups},
        {"epsilon", ir::op_float(Op::layer_norm, source().attributes_of(norm), "epsilon")}};
    const ir::DType dtype = type_of(normal).dtype;
    const std::string &name = source().value(normal).name;
    const ir::TypeId type = module().types.tensor(dtype, dims_last(own));
    ValueId image = last_[x.index];
    const std::optional<ChannelRange> range = channel_range(x);
    if (range) {
      image = last_[range->of.index];
      attributes.push_back({"first_channel", range->first});
      attributes.push_back({"channels", *channels});
    }
    if (dtype != type_of(x).dtype)
      attributes.push_back({"wide", true});
    last_[end.index] = bind(Op::group_norm, image, attributes, name, type, norm.location);
    map(end, last_[end.index]);
    is_only_last_[end.index] = is_made_[end.index] = is_made_[normal.index] = true;
    is_made_[rows.index] = rows != x;
    return true;
  }

  /// A transposition to channels last gives x in this layout. One from channels last has x as its
  /// own version in this layout, and is made if something reads channels second. Others go from x
  /// as it lies to the form that the reshape behind them needs.
  bool lay_out_transpose(const Binding &binding) {
    const ValueId x = source().operands_of(binding)[0].value(), result = binding.result();
    if (!has_convolutions())
      return false;
    const size_t rank = rank_of(x);
    const std::vector<int64_t> axes = transposition_axes(binding);
    if (waits_[x.index] || (is_image(x) && is_laid_out(x))) {
      const ValueId image = waits_[x.index] ? source().operands_of(*maker_[x.index])[0].value() : x;
      if (!lies_so(image, x, axes) && is_turned_factor(image, binding))
        return waits_[result.index] = true;
    }
    if (is_image(x) && !waits_[x.index]) {
      const bool is_signal = rank == kSignalRank;
      const std::string name = source().value(result).name;
      const ir::Type type = type_of(result);
      if (axes == axes_to_last(rank) && is_laid_out(x)) {
        map(result, is_signal
                        ? reshaped(last_[x.index], type.dims, type.dtype, name, binding.location)
                        : last_[x.index]);
        return true;
      }
      // For signals, the same axes may turn a matrix for a product. Readers choose the layout of
      // constants.
      if (axes == axes_to_first(rank) && !is_fixed_[x.index] &&
          (rank == kImageRank || is_convolved_[result.index])) {
        to_first(x, "transpose");
        last_[result.index] = is_signal ? reshaped(mapped(x), dims_last(type.dims), type.dtype,
                                                   name, binding.location)
                                        : mapped(x);
        is_only_last_[result.index] = true;
        map(result, last_[result.index]);
        return true;
      }
    }
    return move(binding, axes);
  }

  /// A row or column of images that are laid out is a signal; `axis`: of those with channels last.
  bool lay_out_line(const Binding &gather, int64_t axis) {
    const auto given = source().operands_of(gather);
    const ir::Value &line = source().value(gather.result());
    const Operand operands[] = {Operand::of(last_[given[0].index]), mapped(given[1])};
    const ir::Attribute along{"axis", axis};
    const ValueId made =
        bind_inferred(Op::gather, operands, std::span(&along, 1), line.name, gather.location);
    last_[gather.first_result] =
        reshaped(made, dims_last(type_of(gather.result()).dims), type_of(gather.result()).dtype,
                 line.name, gather.location);
    map(gather.result(), last_[gather.first_result]);
    return is_only_last_[gather.first_result] = true;
  }

  /// The wish of a transposition or product that reads `from`, the image or a reshape of it. With
  /// channels last, some of their readings cost no time; else both layouts cost the same, or images
  /// are transposed back first.
  SecondResults::Wish wish_of(ValueId image, const Binding &reader, ValueId from) {
    using Wish = SecondResults::Wish;
    if (ir::op_of(reader) == Op::transpose) {
      if (lies_so(image, from, transposition_axes(reader)))
        // Attention reads rows where they lie.
        return is_part(image) && !is_read_by(Op::attention, reader.result()) ? Wish::none
                                                                             : Wish::last;
      if (is_turned_factor(image, reader))
        return Wish::last;
      const std::optional<Parts> parts = parts_of(image, from);
      if (!parts)
        return Wish::second;
      const std::vector<size_t> moved = joined(parts->of_second, transposition_axes(reader));
      return std::is_sorted(moved.begin(), moved.end()) && is_read_by(Op::matmul, reader.result())
                 ? Wish::second
                 : Wish::none;
    }
    const auto operands = source().operands_of(reader);
    return lies_so(image, from, columns_first(from)) &&
                   (operands[0].value() != from || image_behind(reader) || has_one_column(reader))
               ? Wish::none
               : Wish::second;
  }
  /// Whether it is some channels of an image, which a kernel takes out in either layout.
  bool is_part(ValueId image) const {
    const Binding *maker = maker_[image.index];
    while (maker && maker->kind == BindingKind::op &&
           ir::op_info(ir::op_of(*maker)).images == ir::OpImages::keeps &&
           ir::op_of(*maker) != Op::concat)
      maker = maker_[source().operands_of(*maker)[0].index];
    return maker && maker->kind == BindingKind::op &&
           (ir::op_of(*maker) == Op::split || ir::op_of(*maker) == Op::slice);
  }
  /// Whether such an op alone reads the value, perhaps reshaped.
  bool is_read_by(Op op, ValueId value) const {
    const Binding *reader = uses_.only_reader(value);
    while (is_op(reader, Op::reshape))
      reader = uses_.only_reader(reader->result());
    return is_op(reader, op);
  }
  /// Whether a transposition of the image, or of a reshape of it, is the right factor of products
  /// alone whose columns lie in the image with channels last.
  bool is_turned_factor(ValueId image, const Binding &transposition) {
    const ValueId factor = transposition.result();
    return !uses_.readers(factor).empty() && !uses_.is_yielded(factor) &&
           std::ranges::all_of(uses_.readers(factor),
                               [&](const Binding *reader) {
                                 return is_op(*reader, Op::matmul) &&
                                        source().operands_of(*reader)[0].value() != factor;
                               }) &&
           lies_so(image, factor, columns_first(factor));
  }
  /// Whether the product is of a matrix and one column: its transposed one has the same elements.
  bool has_one_column(const Binding &product) const {
    return is_one(type_of(product.result()).dims.back()) &&
           source().operands_of(product).size() == 2;
  }
  /// The reshape that makes the result of a product an image to convolve, of which the transposed
  /// result has channels last.
  const Binding *image_behind(const Binding &product) {
    const Binding *reshape = only_reader(product.result(), Op::reshape);
    return reshape && source().operands_of(product).size() == 2 &&
                   is_convolved_[reshape->first_result] &&
                   lies_so(reshape->result(), product.result(), columns_first(product.result()))
               ? reshape
               : nullptr;
  }

  const ValueUses uses_;
  const SecondResults second_;

  /// The op of the body that alone reads the value, if it is that one and gives a plain tensor.
  const Binding *only_reader(ValueId value, Op op) const {
    const Binding *reader = uses_.only_reader(value);
    return is_op(reader, op) && maker_[reader->first_result] == reader && is_plain(reader->result())
               ? reader
               : nullptr;
  }

private:
  static Dims chosen(const Dims &dims, const std::vector<size_t> &places) {
    Dims out;
    for (size_t place : places)
      out.push_back(dims[place]);
    return out;
  }

protected:
  /// The transposition from x as it lies, if with channels last, or to the layout in which the
  /// reshape behind it has channels last, if a convolution reads that.
  bool move(const Binding &binding, const std::vector<int64_t> &axes) {
    const ValueId x = source().operands_of(binding)[0].value(), result = binding.result();
    const bool waited = waits_[x.index];
    const ValueId image = waited ? source().operands_of(*maker_[x.index])[0].value() : x;
    const bool from_last = waited || is_laid_out(x);
    const Binding *reshape = only_reader(result, Op::reshape);
    if (reshape &&
        (!is_image(reshape->result()) || (!from_last && !is_convolved_[reshape->first_result])))
      reshape = nullptr;
    if (!from_last && !reshape)
      return false;

    // The moved parts of x's dimensions, as they lie and as they are transposed.
    const Dims &dims = type_of(x).dims;
    Parts parts{dims, each_alone(dims.size()), each_alone(dims.size())};
    if (waited)
      parts = *common_parts(type_of(image).dims, dims);
    const std::vector<size_t> moved = joined(parts.of_second, axes);
    // The same, taken apart further as the reshape behind wants it.
    Parts behind{chosen(parts.dims, moved), {}, each_alone(moved.size())};
    std::vector<size_t> to = in_order(moved.size());
    if (reshape) {
      std::optional<Parts> wanted = common_parts(type_of(reshape->result()).dims, behind.dims);
      // If no convolution reads the result, its channels stand where x's do.
      const auto has_channels = [&](size_t part) {
        const auto &channels = parts.of_first[1];
        for (size_t i = 0; i < moved.size(); ++i)
          if (std::find(channels.begin(), channels.end(), moved[i]) != channels.end() &&
              std::find(wanted->of_second[i].begin(), wanted->of_second[i].end(), part) !=
                  wanted->of_second[i].end())
            return true;
        return false;
      };
      if (wanted &&
          (is_convolved_[reshape->first_result] ||
           std::any_of(wanted->of_first[1].begin(), wanted->of_first[1].end(), has_channels))) {
        behind = std::move(*wanted);
        to = joined(behind.of_first, axes_to_last(behind.of_first.size()));
      } else if (from_last) {
        reshape = nullptr;
      } else {
        return false;
      }
    }
    std::vector<std::vector<size_t>> lists(parts.dims.size()); // by part: those behind
    for (size_t i = 0; i < moved.size(); ++i)
      lists[moved[i]] = behind.of_second[i];
    const std::vector<size_t> lies =
        joined(lists, from_last ? joined(parts.of_first, axes_to_last(parts.of_first.size()))
                                : in_order(parts.dims.size()));
    std::vector<int64_t> place(lies.size()), order;
    for (size_t i = 0; i < lies.size(); ++i)
      place[lies[i]] = int64_t(i);
    for (size_t part : to)
      order.push_back(place[part]);

    const ir::DType dtype = type_of(x).dtype;
    const std::string name = source().value(result).name;
    ValueId y = reshaped(from_last ? last_[image.index] : mapped(x), chosen(behind.dims, lies),
                         dtype, source().value(x).name, binding.location);
    if (!std::is_sorted(order.begin(), order.end())) {
      const ir::Attribute attribute{"axes", order};
      y = bind(Op::transpose, y, std::span(&attribute, 1), name,
               module().types.tensor(dtype, chosen(behind.dims, to)), binding.location);
    }
    if (!reshape) {
      map(result, reshaped(y, type_of(result).dims, dtype, name, binding.location));
      return true;
    }
    const ValueId end = reshape->result();
    last_[end.index] = reshaped(y, dims_last(type_of(end).dims), dtype, source().value(end).name,
                                reshape->location);
    is_only_last_[end.index] = is_made_[end.index] = true;
    map(end, last_[end.index]);
    return true;
  }

  static std::vector<size_t> in_order(size_t count) {
    std::vector<size_t> out(count);
    for (size_t i = 0; i < count; ++i)
      out[i] = i;
    return out;
  }

  std::vector<bool> waits_;   // by value: a reshape of an image that is to be made as it lies
  std::vector<bool> is_made_; // by value: a reshape that stands with the transposition before it
};

} // namespace cugrt::passes
