// LayOutImages: convolutions of f16 and bf16, and of f32 in tf32, read and write images with
// channels last, and so does what lies between them. There they have the kernels of
// kernels/convolution/conv2d_last_mma.cuh.
//
//   %y = conv2d(%x, %w)            %x_last = transpose(%x) {axes = [0, 2, 3, 1]}
//   %r = relu(%y)                  %w_last = transpose(%w) {axes = [0, 2, 3, 1]}
//   %z = conv2d(%r, %v)            %y = conv2d(%x_last, %w_last) {channels_last = true}
//   ..                             %r = relu(%y)
//                                  %v_last = transpose(%v) {axes = [0, 2, 3, 1]}
//                                  %z = conv2d(%r, %v_last) {channels_last = true}
//                                  %z_first = transpose(%z) {axes = [0, 3, 1, 2]}
//
// Decided for the body of a function from front to back. A convolution is laid out where its kernel
// takes it and its weights are fixed, so that LiftTransformParams transposes them once. Elementwise
// ops, pools, concatenations, splits, slices, pads, resizes, reductions, what runs along an axis,
// and depthwise convolutions follow an operand that is laid out. Groups of few channels are joined.
// A transposition to or from channels last is none; image_moves.h has the others. All other ops
// read channels second: a value is transposed there and back at most once, a single pixel is
// reshaped. Nested blocks, and values that something may write, stay as they are.
#include "compiler/passes/all_passes.h"
#include "compiler/passes/layouts/image_phases.h"
#include "ops/emit/op_emitter.h"

#include <optional>

namespace cugrt::passes {

namespace {

// A convolution of joined groups multiplies that many times the weights.
constexpr int64_t kMostJoined = 16;
constexpr int64_t kByteRun = 4; // channels that a convolution of bytes copies at once

class ImageLayouts : public ImagePhases {
public:
  ImageLayouts(const ir::Module &source_module, const ir::Function &source, ir::Module &target,
               const codegen::KernelChoice &choice)
      : ImagePhases(source_module, source, target, choice) {}

  size_t laid_out() const { return laid_out_; }

protected:
  Status enter_block(uint32_t) override {
    ++depth_;
    return {};
  }
  Status leave_block(uint32_t block) override {
    --depth_;
    if (depth_ == 0)
      for (const Operand &result : source().results_of(source().blocks[block]))
        if (result.kind == Operand::Kind::value)
          to_first(result.value(), "the function's result");
    return {};
  }

  Status visit(const Binding &binding) override {
    if (depth_ > 1)
      return copy(binding);
    if (binding.kind == BindingKind::op && lay_out(binding))
      return {};
    for (const Operand &operand : source().operands_of(binding))
      if (operand.kind == Operand::Kind::value)
        to_first(operand.value(), binding.kind == BindingKind::op
                                      ? std::string(ir::op_info(ir::op_of(binding)).name)
                                      : "what is no op");
    return copy(binding);
  }

private:
  // --- Ops ---------------------------------------------------------------------------------------

  /// Appends the op with channels last, where it can be and gains by it.
  bool lay_out(const Binding &binding) {
    const Op op = ir::op_of(binding);
    for (uint32_t i = 0; i < binding.result_count; ++i)
      if (!is_plain(binding.result(i)))
        return false;
    if (is_made(binding) || lay_out_row(binding))
      return true;
    switch (ir::op_info(op).images) {
    case ir::OpImages::second:
      return op == Op::matmul && lay_out_product(binding);
    case ir::OpImages::keeps:
      return op == Op::concat   ? lay_out_parts(binding)
             : op == Op::resize ? lay_out_resize(binding)
                                : lay_out_elementwise(binding);
    case ir::OpImages::convolves:
      return lay_out_convolution(binding);
    case ir::OpImages::convolves_bytes:
      return lay_out_bytes(binding);
    case ir::OpImages::spreads:
      return lay_out_transposed(binding);
    case ir::OpImages::pools:
      return lay_out_pool(binding);
    case ir::OpImages::parts:
      return lay_out_parts(binding);
    case ir::OpImages::reduces:
      return lay_out_reduction(binding);
    case ir::OpImages::along_axis:
      return lay_out_along_axis(binding);
    case ir::OpImages::reshapes:
      return lay_out_reshape(binding);
    case ir::OpImages::norms:
      return lay_out_norm(source().operands_of(binding)[0].value(), binding);
    case ir::OpImages::transposes:
      return lay_out_transpose(binding);
    case ir::OpImages::pads:
      return lay_out_pad(binding);
    case ir::OpImages::slices:
      return lay_out_slice(binding);
    case ir::OpImages::gathers:
      return lay_out_gather(binding);
    case ir::OpImages::stretches:
      return lay_out_stretch(binding);
    case ir::OpImages::grouped:
      break;
    }
    return false;
  }

  /// The op on these operands, with `changed` in the place of attributes of the same names. Where
  /// they have more channels, `wide` says how many and whether they are zeros.
  bool append(const Binding &binding, const std::vector<Operand> &operands,
              std::vector<ir::Attribute> changed = {}, bool results_laid_out = true,
              std::pair<int64_t, bool> wide = {}) {
    std::vector<ir::Attribute> attributes;
    for (const ir::Attribute &given : source().attributes_of(binding))
      if (std::none_of(changed.begin(), changed.end(),
                       [&](const ir::Attribute &other) { return other.name == given.name; }))
        attributes.push_back(given);
    attributes.insert(attributes.end(), changed.begin(), changed.end());
    std::vector<std::string> names;
    std::vector<ir::TypeId> types;
    for (uint32_t i = 0; i < binding.result_count; ++i) {
      const ir::Value &result = source().value(binding.result(i));
      const ir::Type type = type_of(binding.result(i));
      std::vector<ir::ExprId> dims = results_laid_out  ? dims_last(type.dims)
                                     : is_row(binding) ? as_image(type.dims, kSignalRank)
                                                       : type.dims;
      if (wide.first > 0)
        dims.back() = module().exprs.constant(wide.first);
      names.push_back(result.name);
      types.push_back(module().types.tensor(type.dtype, dims));
    }
    const ValueId first =
        builder().bind(binding, operands, source().exprs_of(binding), attributes, names, types);
    for (uint32_t i = 0; i < binding.result_count; ++i) {
      const ValueId result = binding.result(i);
      ValueId made{first.index + i};
      if (wide.first > 0)
        made = front_of(result, made, wide.first, wide.second);
      if (!results_laid_out && is_row(binding))
        made = reshaped(made, type_of(result).dims, type_of(result).dtype,
                        source().value(result).name + "_first", binding.location);
      map(result, made);
      if (results_laid_out) {
        last_[result.index] = made;
        is_only_last_[result.index] = true;
      }
    }
    ++laid_out_;
    return true;
  }

  bool lay_out_elementwise(const Binding &binding) {
    if (binding.result_count != 1 || !is_image(binding.result()))
      return false;
    const auto given = source().operands_of(binding);
    const size_t rank = rank_of(binding.result());
    const bool in_both = follows_both(binding);
    // A constant, other than pixels, lies as convolutions want it.
    bool any = in_both && !is_fixed_[binding.first_result] && !is_pixel(binding.result());
    for (const Operand &operand : given) {
      if (operand.kind == Operand::Kind::none)
        continue;
      if (operand.kind != Operand::Kind::value || !can_follow(operand.value(), rank))
        return false;
      // A pixel beside images is the same in both layouts.
      any = any || ((is_laid_out(operand.value()) ||
                     (in_both && last_[operand.index].valid() && !is_fixed_[operand.index])) &&
                    rank_of(operand.value()) == rank &&
                    (!is_pixel(operand.value()) || is_pixel(binding.result())));
    }
    if (!any)
      return false;
    const std::pair<int64_t, bool> wide = wide_channels(binding);
    std::vector<Operand> operands;
    for (const Operand &operand : given) {
      const auto made = padded_.find({operand.index, wide.first});
      operands.push_back(wide.first > 0 && made != padded_.end() ? Operand::of(made->second.made)
                         : operand.kind == Operand::Kind::value && !is_alike(operand.value(), rank)
                             ? Operand::of(to_last(operand.value(), binding.location, rank))
                             : mapped(operand));
    }
    return append(binding, operands, {}, true, wide);
  }

  /// Convolutions of bytes: those that tensor cores multiply in runs of 4 channels, with zeros
  /// behind those of an image and of its weights, and others between them.
  bool lay_out_bytes(const Binding &binding) {
    const auto given = source().operands_of(binding);
    const ValueId x = given[0].value(), w = given[1].value();
    const int64_t groups = integer(binding, "groups");
    if (!is_plain(x) || !is_plain(w) || rank_of(x) != kImageRank || !is_fixed_[w.index] ||
        flag(binding, "channels_last") || !known(type_of(x).dims[1]) || !known(type_of(w).dims[1]))
      return false;
    const int64_t channels = *known(type_of(x).dims[1]), in_group = *known(type_of(w).dims[1]);
    // A zero beside weights with a zero point is none.
    const bool pads = groups == 1 && given.size() < 4 && !is_pixel(x);
    const int64_t more = pads ? (kByteRun - channels % kByteRun) % kByteRun : 0;
    ir::Type filter = type_of(w);
    filter.dims[1] = module().exprs.constant(in_group + more);
    const bool takes = codegen::takes_bytes_last(module(), filter, groups, choice_.target);
    if (!takes && !is_laid_out(x))
      return false;
    const int64_t zeros = takes ? more : 0;
    std::vector<Operand> operands = {Operand::of(padded(x, channels + zeros, binding.location)),
                                     Operand::of(padded(w, in_group + zeros, binding.location))};
    for (const Operand &zero_point : given.subspan(2))
      operands.push_back(mapped(zero_point));
    return append(binding, operands, {{"channels_last", true}});
  }

  bool lay_out_convolution(const Binding &binding) {
    const auto given = source().operands_of(binding);
    const ValueId x = given[0].value(), w = given[1].value();
    if (!is_image(x) || !is_image(w) || !is_fixed_[w.index] || !known(type_of(x).dims[1]) ||
        (ir::op_of(binding) != Op::conv1d && flag(binding, "channels_last")))
      return false;
    const int64_t groups = integer(binding, "groups");
    std::vector<ir::Attribute> attributes = {{"strides", window(binding, "strides", 1)},
                                             {"padding", window(binding, "padding", 0)},
                                             {"dilation", window(binding, "dilation", 1)},
                                             {"channels_last", true},
                                             {"groups", groups}};
    const std::vector<ir::ExprId> sizes = as_image(type_of(w).dims, rank_of(w));
    const bool is_depthwise = groups > 1 && is_one(sizes[1]) && known(sizes[0]) == groups;
    if (is_depthwise && !is_laid_out(x)) // it would gain nothing
      return false;
    // Groups of few channels are joined until tensor cores can multiply them.
    const int64_t in_group = known(sizes[1]).value_or(0), most = is_depthwise ? 1 : kMostJoined;
    const bool is_copied = !last_[x.index].valid() && !is_pixel(x);
    std::optional<int64_t> channels;
    int64_t count = 0;
    while (!channels && ++count <= std::min(groups, most)) {
      ir::Type filter = type_of(w);
      filter.dims = sizes;
      if (count > 1)
        filter.dims[1] = module().exprs.constant(count * in_group);
      attributes.back() = {"groups", groups / count};
      if (groups % count == 0)
        channels = codegen::channels_laid_out(module(), type_of(x), filter, attributes, choice_,
                                              is_copied);
    }
    if (!channels || (count > 1 && channels != known(type_of(x).dims[1])))
      return false;
    const ValueId y = binding.result();
    const std::optional<Operand> second = read_second(binding);
    const std::optional<ChannelRange> range =
        channels == known(type_of(x).dims[1]) ? channel_range(x) : std::nullopt;
    std::vector<Operand> operands = {
        second
            ? *second
            : Operand::of(range ? last_[range->of.index] : padded(x, *channels, binding.location)),
        Operand::of(count > 1 ? joined_groups(w, count, groups, binding.location)
                              : padded(w, *channels / groups, binding.location))};
    if (given.size() > 2)
      operands.push_back(mapped(given[2]));
    Binding of_images = binding;
    if (ir::op_of(binding) == Op::conv1d)
      of_images.callee = static_cast<uint32_t>(Op::conv2d);
    else if (count > 1)
      attributes.erase(attributes.begin(), attributes.begin() + 3);
    else
      attributes = {{"channels_last", true}};
    if (range)
      attributes.push_back({"first_channel", range->first});
    if (second)
      attributes.push_back({"x_second", true});
    const bool is_second = second_[y] && !is_pixel(y) && (rank_of(y) > kSignalRank || gains_row(y));
    if (is_second)
      attributes.push_back({"result_second", true});
    // Zeros behind the channels that a convolution behind it wants cost less than to copy it.
    const bool has_bias = operands.size() > 2 && operands[2].kind == Operand::Kind::value;
    const int64_t wide =
        is_second || groups > 1 || (has_bias && !is_fixed_[given[2].index]) ? 0 : wanted_[y.index];
    for (size_t i = 1; wide > 0 && i < (has_bias ? 3 : 2); ++i)
      operands[i] =
          Operand::of(longer(operands[i].value(), 0, wide,
                             source().value(given[i].value()).name + "_wide", binding.location));
    return append(of_images, operands, attributes, !is_second, {wide, true});
  }

  /// Whether a signal with channels second saves a transposition: ops other than casts are not
  /// part of a convolution behind the reshape, and one channel is only reshaped.
  bool gains_row(ValueId y) const {
    return !is_one(type_of(y).dims[1]) &&
           std::ranges::none_of(uses_.readers(y), [](const Binding *reader) {
             return reader->kind == BindingKind::op && ir::op_of(*reader) != Op::cast &&
                    ir::op_info(ir::op_of(*reader)).images == ir::OpImages::keeps;
           });
  }

  bool lay_out_pool(const Binding &binding) {
    const ValueId x = source().operands_of(binding)[0].value();
    if (!is_laid_out(x))
      return false;
    const std::optional<ChannelRange> range = channel_range(x);
    std::vector<ir::Attribute> attributes = {{"channels_last", true}};
    if (range)
      attributes.insert(attributes.end(), {{"first_channel", range->first},
                                           {"channels", *known(type_of(x).dims[1])}});
    return append(binding, {Operand::of(last_[range ? range->of.index : x.index])}, attributes);
  }

  bool lay_out_parts(const Binding &binding) {
    const auto given = source().operands_of(binding);
    bool any = false;
    for (const Operand &operand : given) {
      if (!is_image(operand.value()))
        return false;
      any = any || is_laid_out(operand.value());
    }
    const size_t rank = rank_of(given[0].value());
    const std::optional<size_t> axis = ir::normalize_axis(integer(binding, "axis"), rank);
    if (!any || !axis)
      return false;
    std::vector<Operand> operands;
    for (const Operand &operand : given)
      operands.push_back(Operand::of(to_last(operand.value(), binding.location)));
    append(binding, operands, {{"axis", last_axis(*axis, rank)}});
    const ValueId y = binding.result(0);
    if (const int64_t wide = wanted_[y.index]; wide > 0 && binding.result_count == 1) {
      // Others read it where the convolution does.
      last_[y.index] = front_of(y, padded(y, wide, binding.location), wide, true);
      map(y, last_[y.index]);
    }
    return true;
  }

  /// Lays out a reduction with `keep_dims`, or one that leaves the other dimensions in their order.
  bool lay_out_reduction(const Binding &binding) {
    const ValueId x = source().operands_of(binding)[0].value();
    if (!is_laid_out(x))
      return false;
    const size_t rank = rank_of(x);
    const std::vector<int64_t> given = list(binding, "axes");
    std::vector<bool> over(rank, given.empty());
    std::vector<int64_t> axes;
    for (int64_t axis : given) {
      const std::optional<size_t> d = ir::normalize_axis(axis, rank);
      if (!d)
        return false;
      over[*d] = true;
      axes.push_back(last_axis(*d, rank));
    }
    if (rank == kSignalRank && !given.empty())
      axes.push_back(1); // its row
    const bool keeps = flag(binding, "keep_dims");
    if (!keeps && !over[1] && !std::all_of(over.begin() + 2, over.end(), [](bool o) { return o; }))
      return false;
    return append(binding, {Operand::of(last_[x.index])}, {{"axes", axes}}, keeps);
  }

  bool lay_out_along_axis(const Binding &binding) {
    const ValueId x = source().operands_of(binding)[0].value();
    const Op op = ir::op_of(binding);
    const size_t rank = rank_of(x);
    const std::optional<size_t> axis = ir::normalize_axis(integer(binding, "axis"), rank);
    const bool drops_axis = ir::is_part(op, ir::OpPart::searches) && !flag(binding, "keep_dims");
    if (!is_laid_out(x) || !axis || (drops_axis && (*axis != 1 || rank == kSignalRank)))
      return false;
    return append(binding, {Operand::of(last_[x.index])}, {{"axis", last_axis(*axis, rank)}},
                  !drops_axis);
  }

  bool lay_out_pad(const Binding &binding) {
    const ValueId x = source().operands_of(binding)[0].value();
    if (!is_laid_out(x))
      return false;
    auto permuted_list = [&](std::string_view name) {
      std::vector<int64_t> given = list(binding, name), out;
      if (rank_of(x) == kSignalRank)
        given.insert(given.begin() + 2, 0);
      for (int64_t axis : axes_to_last(given.size()))
        out.push_back(given[size_t(axis)]);
      return out;
    };
    return append(binding, {Operand::of(last_[x.index])},
                  {{"before", permuted_list("before")}, {"after", permuted_list("after")}});
  }

  bool lay_out_slice(const Binding &binding) {
    const auto given = source().operands_of(binding);
    const ValueId x = given[0].value();
    if (!is_laid_out(x))
      return false;
    std::vector<Operand> operands = {Operand::of(last_[x.index])};
    for (size_t i = 1; i < given.size(); ++i) { // where it begins, its size
      const ir::Type &shape = type_of(given[i].value());
      if (!shape.known_shape)
        return false;
      std::vector<ir::ExprId> dims = shape.dims;
      if (rank_of(x) == kSignalRank) // of its row
        dims.insert(dims.begin() + 2, module().exprs.constant(int64_t(i) - 1));
      operands.push_back(
          Operand::of(shape_of(permuted(dims, axes_to_last(dims.size())), binding.location)));
    }
    if (given.size() > 1)
      return append(binding, operands);
    std::vector<int64_t> axes = list(binding, "axes");
    if (axes.empty()) // the first ones
      for (size_t d = 0; d < list(binding, "starts").size(); ++d)
        axes.push_back(int64_t(d));
    for (int64_t &axis : axes) {
      const std::optional<size_t> d = ir::normalize_axis(axis, rank_of(x));
      if (!d)
        return false;
      axis = last_axis(*d, rank_of(x));
    }
    return append(binding, {Operand::of(last_[x.index])}, {{"axes", axes}});
  }

  /// Lays out pixels stretched over images, for an op that reads them beside laid-out values.
  bool lay_out_stretch(const Binding &binding) {
    const ValueId x = source().operands_of(binding)[0].value(), y = binding.result();
    const Binding *reader = uses_.only_reader(y);
    if (!is_image(x) || !is_pixel(x) || !is_image(y) || rank_of(x) != rank_of(y) || !reader ||
        reader->kind != BindingKind::op ||
        ir::op_info(ir::op_of(*reader)).images != ir::OpImages::keeps ||
        std::ranges::none_of(source().operands_of(*reader), [&](const Operand &other) {
          return other.kind == Operand::Kind::value && is_laid_out(other.value());
        }))
      return false;
    return append(binding, {Operand::of(to_last(x, binding.location)),
                            Operand::of(shape_of(dims_last(type_of(y).dims), binding.location))});
  }

  /// Lays out a gather with one index for each place along the axis, or with one of a row or
  /// column, which gives a signal.
  bool lay_out_gather(const Binding &binding) {
    const auto given = source().operands_of(binding);
    const ValueId x = given[0].value();
    const std::optional<size_t> axis = ir::normalize_axis(integer(binding, "axis"), rank_of(x));
    if (!is_laid_out(x) || !axis)
      return false;
    if (rank_of(given[1].value()) == 0 && rank_of(x) == kImageRank && *axis > 1)
      return lay_out_line(binding, last_axis(*axis, rank_of(x)));
    if (rank_of(given[1].value()) != 1)
      return false;
    return append(binding, {Operand::of(last_[x.index]), mapped(given[1])},
                  {{"axis", last_axis(*axis, rank_of(x))}});
  }

  /// Scales and regions have numbers for each resized axis, in order. A result wanted with channels
  /// second is resized so: the operand has fewer elements.
  bool lay_out_resize(const Binding &binding) {
    const auto given = source().operands_of(binding);
    const ValueId x = given[0].value();
    std::vector<int64_t> axes = list(binding, "axes");
    if (!is_laid_out(x) || second_.ends(binding.result()) || (axes.empty() && given.size() > 2))
      return false;
    for (int64_t &axis : axes) {
      const std::optional<size_t> d = ir::normalize_axis(axis, rank_of(x));
      if (!d || *d < 2)
        return false;
      axis = last_axis(*d, rank_of(x));
    }
    std::vector<Operand> operands = {
        Operand::of(last_[x.index]),
        Operand::of(shape_of(dims_last(type_of(binding.result()).dims), binding.location))};
    for (const Operand &operand : given.subspan(2))
      operands.push_back(mapped(operand));
    return append(binding, operands, {{"axes", axes}});
  }

  size_t depth_ = 0; // open blocks
};

} // namespace

Result<ir::Module> lay_out_images(const ir::Module &module, const PassContext &context) {
  codegen::KernelChoice choice; // of these two
  choice.target.compute_capability = context.number("target.compute_capability");
  choice.tf32 = context.choice("mixed.dtype") == "tf32";
  ir::Module target = ir::without_functions(module);
  for (const ir::Function &function : module.functions) {
    ImageLayouts layouts(module, function, target, choice);
    CUGRT_TRY(layouts.add_function());
    if (layouts.laid_out() == 0)
      continue;
    context.note("images in @" + function.name + ": " + std::to_string(layouts.laid_out()) +
                 " ops with channels last");
    for (const auto &[text, times] : layouts.borders())
      context.note("images in @" + function.name, text, times);
  }
  return target;
}

} // namespace cugrt::passes
