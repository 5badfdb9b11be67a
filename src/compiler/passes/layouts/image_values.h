// Images of a function in both layouts: facts about its values, and the versions of them that
// exist. Private to LayOutImages.
//
// A signal [N, C, L] counts as an image of one row, [N, C, 1, L]; its version with channels last is
// [N, 1, L, C]. A volume [N, C, D, H, W] has [N, D, H, W, C].
#pragma once

#include "base/check.h"
#include "compiler/passes/mixed_precision.h"
#include "ir/module/function_cloner.h"
#include "ops/emit/op_emitter.h"
#include "ops/table/ops.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

namespace cugrt::passes {

constexpr int64_t kMostRun = 8; // channels that a convolution copies at once
constexpr size_t kImageRank = 4, kSignalRank = 3, kVolumeRank = 5;

/// For each dimension of one layout, the other's, of images and volumes of that rank.
inline std::vector<int64_t> axes_to_last(size_t rank) {
  std::vector<int64_t> axes = {0};
  for (size_t d = 2; d < rank; ++d)
    axes.push_back(int64_t(d));
  axes.push_back(1);
  return axes;
}
inline std::vector<int64_t> axes_to_first(size_t rank) {
  std::vector<int64_t> axes = {0, int64_t(rank) - 1};
  for (size_t d = 1; d + 1 < rank; ++d)
    axes.push_back(int64_t(d));
  return axes;
}

class ImageValues : public ir::FunctionCloner {
public:
  ImageValues(const ir::Module &source_module, const ir::Function &source, ir::Module &target,
              const codegen::KernelChoice &choice)
      : FunctionCloner(source, target), choice_(choice), last_(source.values.size()),
        is_only_last_(source.values.size()), is_fixed_(source.values.size()),
        is_convolved_(source.values.size()), wanted_(source.values.size()),
        maker_(source.values.size()), written_(find_written_values(source_module, source)) {
    find_fixed(choice);
  }

  /// Ops at the borders, in order, with counts.
  const std::map<std::string, size_t> &borders() const { return borders_; }

protected:
  using Binding = ir::Binding;
  using BindingKind = ir::BindingKind;
  using Op = ir::Op;
  using Operand = ir::Operand;
  using ValueId = ir::ValueId;

  // --- Facts about values ------------------------------------------------------------------------

  /// Weights, constants, shapes of known sizes, and what ops of the body make of these alone.
  void find_fixed(const codegen::KernelChoice &choice) {
    for (size_t p = 0; p < source().params.size(); ++p)
      is_fixed_[source().params[p].value.index] = source().is_weight(p);
    for (const Binding &binding : source().body().bindings) {
      for (uint32_t i = 0; i < binding.result_count; ++i)
        maker_[binding.result(i).index] = &binding;
      if (binding.kind == BindingKind::constant ||
          (binding.kind == BindingKind::shape &&
           count_unknown(type_of(binding.result()).dims) == 0))
        is_fixed_[binding.first_result] = true;
      if (binding.kind == BindingKind::op &&
          ir::op_info(ir::op_of(binding)).images == ir::OpImages::convolves_bytes)
        has_convolutions_ = is_convolved_[source().operands_of(binding)[0].index] = true;
      if (binding.kind == BindingKind::op &&
          ir::convolves_floats(ir::op_info(ir::op_of(binding)).images)) {
        const ValueId x = source().operands_of(binding)[0].value();
        if (codegen::is_laid_out(type_of(x).dtype, choice))
          has_convolutions_ = is_convolved_[x.index] = true;
        ir::Type filter = type_of(source().operands_of(binding)[1].value());
        filter.dims = as_image(filter.dims, filter.dims.size());
        const int64_t wanted =
            codegen::channels_laid_out(module(), type_of(x), filter,
                                       source().attributes_of(binding), choice, false)
                .value_or(0);
        if (known(type_of(x).dims[1]) && wanted > *known(type_of(x).dims[1]))
          wanted_[x.index] = wanted;
      }
      const auto operands = source().operands_of(binding);
      if (binding.kind == BindingKind::op && binding.result_count == 1 && !operands.empty())
        is_fixed_[binding.first_result] =
            std::all_of(operands.begin(), operands.end(), [&](const Operand &operand) {
              return operand.kind == Operand::Kind::none ||
                     (operand.kind == Operand::Kind::value && is_fixed_[operand.index]);
            });
    }
    const auto &bindings = source().body().bindings;
    for (auto binding = bindings.rbegin(); binding != bindings.rend(); ++binding)
      convolve_before(*binding);
  }

  /// If an op keeps its operands' layout and its result feeds a convolution, operands of the same
  /// dimensions count as feeding it, too.
  void convolve_before(const Binding &binding) {
    if (binding.kind != BindingKind::op || binding.result_count != 1 ||
        !is_convolved_[binding.first_result])
      return;
    const Op op = ir::op_of(binding);
    const ir::OpImages images = ir::op_info(op).images;
    if (op == Op::concat || (images != ir::OpImages::keeps && images != ir::OpImages::pools))
      return;
    const bool pools = ir::op_info(op).pattern == ir::OpPattern::out_fusable || op == Op::resize;
    const auto operands = source().operands_of(binding);
    for (const Operand &operand : op == Op::resize ? operands.first(1) : operands)
      if (operand.kind == Operand::Kind::value && !is_fixed_[operand.index] &&
          (pools || type_of(operand.value()).dims == type_of(binding.result()).dims)) {
        is_convolved_[operand.index] = true;
        if (!pools)
          wanted_[operand.index] = std::max(wanted_[operand.index], wanted_[binding.first_result]);
      }
  }

  /// Channels that an elementwise op gives, more than its result's, as its operands have them, and
  /// whether those behind are zeros; 0 where there are none.
  std::pair<int64_t, bool> wide_channels(const Binding &binding) const {
    const int64_t channels = wanted_[binding.first_result];
    if (channels == 0)
      return {};
    size_t zeros = 0, others = 0;
    for (const Operand &operand : source().operands_of(binding)) {
      const auto wide = padded_.find({operand.index, channels});
      const std::vector<ir::ExprId> &dims = type_of(operand.value()).dims;
      if (wide != padded_.end() && dims == type_of(binding.result()).dims)
        ++(wide->second.zeros ? zeros : others);
      else if (is_fixed_[operand.index] &&
               std::all_of(dims.begin(), dims.end(), [&](ir::ExprId d) { return is_one(d); }))
        ++others;
      else
        return {};
    }
    const Op op = ir::op_of(binding);
    const auto attributes = source().attributes_of(binding);
    switch (ir::op_info(op).zeros) {
    case ir::OpZeros::zero_stays:
    case ir::OpZeros::zero_only:
    case ir::OpZeros::sums:
    case ir::OpZeros::all_zero:
      return {others == 0 ? channels : 0, true};
    case ir::OpZeros::clips:
      return {others == 0 && ir::op_float(op, attributes, "min") <= 0 &&
                      ir::op_float(op, attributes, "max") >= 0
                  ? channels
                  : 0,
              true};
    case ir::OpZeros::any_zero:
      return {zeros > 0 ? channels : 0, true};
    case ir::OpZeros::finite_stays:
      return {others == 0 ? channels : 0, false};
    case ir::OpZeros::unbounded:
    case ir::OpZeros::tests:
    case ir::OpZeros::unequal:
    case ir::OpZeros::first_zero:
    case ir::OpZeros::chooses:
    case ir::OpZeros::casts:
    case ir::OpZeros::by_rule:
      break;
    }
    return {};
  }

  std::optional<int64_t> known(ir::ExprId dim) const { return module().exprs.as_constant(dim); }
  bool is_one(ir::ExprId dim) const { return known(dim) == 1; }

  bool is_plain(ValueId value) const {
    return type_of(value).is_plain_tensor() && !written_[value.index];
  }
  size_t rank_of(ValueId value) const { return type_of(value).dims.size(); }
  bool is_image(ValueId value) const {
    return is_plain(value) && rank_of(value) >= kSignalRank && rank_of(value) <= kVolumeRank;
  }
  /// The dimensions, which may be fewer, as they stand beside images or signals of a rank.
  std::vector<ir::ExprId> as_image(std::vector<ir::ExprId> dims, size_t rank) const {
    const ir::ExprId one = module().exprs.constant(1);
    dims.insert(dims.begin(), rank - dims.size(), one);
    if (rank == kSignalRank)
      dims.insert(dims.begin() + 2, one);
    return dims;
  }
  /// An axis of an image or a signal, with channels last.
  static int64_t last_axis(size_t axis, size_t rank) {
    return rank == kSignalRank && axis == 2 ? 2 : axes_to_first(std::max(rank, kImageRank))[axis];
  }
  /// Whether it is one pixel of each image, beside those of a rank.
  bool is_pixel(ValueId value, size_t rank) const {
    const std::vector<ir::ExprId> dims = as_image(type_of(value).dims, rank);
    return std::all_of(dims.begin() + 2, dims.end(), [&](ir::ExprId d) { return is_one(d); }) &&
           count_unknown(dims) <= 1;
  }
  bool is_pixel(ValueId value) const { return is_pixel(value, rank_of(value)); }
  ptrdiff_t count_unknown(const std::vector<ir::ExprId> &dims) const {
    return std::count_if(dims.begin(), dims.end(), [&](ir::ExprId dim) { return !known(dim); });
  }
  /// Whether a value has one element and fewer dimensions, and so is the same in both layouts.
  bool is_alike(ValueId value, size_t rank) const {
    const std::vector<ir::ExprId> &dims = type_of(value).dims;
    return dims.size() < rank &&
           std::all_of(dims.begin(), dims.end(), [&](ir::ExprId dim) { return is_one(dim); });
  }
  /// Whether an elementwise op with images of a rank can read the value beside them.
  bool can_follow(ValueId value, size_t rank) const {
    const size_t own = rank_of(value);
    if (!is_plain(value) || own >= rank)
      return is_plain(value) && own == rank;
    return is_alike(value, rank) ||
           (!is_laid_out(value) &&
            ((own + 1 == rank && is_pixel(value, rank)) ||
             (is_fixed_[value.index] && count_unknown(type_of(value).dims) == 0)));
  }
  /// Whether the body convolves images of a dtype that is laid out.
  bool has_convolutions() const { return has_convolutions_; }

  // --- Attributes of a binding -------------------------------------------------------------------

  std::vector<int64_t> list(const Binding &binding, std::string_view name) const {
    return ir::op_integers(ir::op_of(binding), source().attributes_of(binding), name);
  }
  bool flag(const Binding &binding, std::string_view name) const {
    return ir::op_bool(ir::op_of(binding), source().attributes_of(binding), name);
  }
  int64_t integer(const Binding &binding, std::string_view name) const {
    return ir::op_integer(ir::op_of(binding), source().attributes_of(binding), name);
  }

  /// A window's numbers for rows and columns: of a signal, whose rows have the first ones of
  /// `of_row`. Padding may be of both sides.
  std::vector<int64_t> window(const Binding &binding, std::string_view name, int64_t of_row) const {
    std::vector<int64_t> values = list(binding, name);
    const size_t axes = rank_of(binding.result()) - 2;
    if (values.empty())
      values.assign(axes, of_row);
    if (axes == 1)
      values = values.size() == 1 ? std::vector<int64_t>{of_row, values[0]}
                                  : std::vector<int64_t>{of_row, values[0], of_row, values[1]};
    return values;
  }

  /// The channel range of an image with channels last that a value is, and nothing else, if
  /// convolutions read the range as fast as an image of its own.
  struct ChannelRange {
    ValueId of;
    int64_t first;
  };
  std::optional<ChannelRange> channel_range(ValueId value) {
    const Binding *maker = maker_[value.index];
    if (!maker || maker->kind != BindingKind::op || rank_of(value) == kVolumeRank ||
        (ir::op_of(*maker) != Op::slice && ir::op_of(*maker) != Op::split))
      return {};
    const auto operands = source().operands_of(*maker);
    ChannelRange range{operands[0].value(), 0};
    const std::vector<ir::ExprId> whole = type_of(range.of).dims;
    const std::optional<int64_t> pitch = known(whole[1]), own = known(type_of(value).dims[1]);
    if (!is_laid_out(range.of) || !pitch || !own)
      return {};
    if (ir::op_of(*maker) == Op::split) {
      if (ir::normalize_axis(integer(*maker, "axis"), whole.size()) != 1)
        return {};
      const std::vector<int64_t> sections = list(*maker, "sections");
      for (uint32_t i = 0; maker->result(i) != value; ++i)
        range.first += sections[i];
    } else {
      std::vector<ir::SliceDimension> slice;
      if (operands.size() > 1)
        slice = codegen::slice_of_shapes(type_of(operands[1].value()).dims,
                                         type_of(operands[2].value()).dims);
      else if (auto given =
                   ir::slice_dimensions(module().exprs, whole, source().attributes_of(*maker));
               given.ok())
        slice = std::move(*given);
      for (size_t d = 0; d < slice.size(); ++d)
        if (slice[d].step != 1 || (d != 1 && slice[d].size != whole[d]))
          return {};
      if (slice.size() != whole.size() || !known(slice[1].begin))
        return {};
      range.first = *known(slice[1].begin);
    }
    const int64_t run = std::gcd(*own, kMostRun);
    return *pitch % run == 0 && range.first % run == 0 ? std::optional(range) : std::nullopt;
  }

  // --- Versions of a value -----------------------------------------------------------------------

  std::vector<ir::ExprId> permuted(const std::vector<ir::ExprId> &dims,
                                   const std::vector<int64_t> &axes) const {
    std::vector<ir::ExprId> out;
    for (int64_t axis : axes)
      out.push_back(dims[size_t(axis)]);
    return out;
  }
  /// The dimensions, which are those of an image, a signal or a volume, with channels last.
  std::vector<ir::ExprId> dims_last(const std::vector<ir::ExprId> &dims) const {
    const std::vector<ir::ExprId> image = as_image(dims, dims.size());
    return permuted(image, axes_to_last(image.size()));
  }

  ValueId bind(Op op, ValueId operand, std::span<const ir::Attribute> attributes,
               const std::string &name, ir::TypeId type, SourceLocation location) {
    Binding made{};
    made.kind = BindingKind::op;
    made.callee = static_cast<uint32_t>(op);
    made.location = location;
    const Operand read = Operand::of(operand);
    return builder().bind(made, std::span(&read, 1), {}, attributes, std::span(&name, 1),
                          std::span(&type, 1));
  }

  /// An op of one result on values of the target, which must be one that inference takes.
  ValueId bind_inferred(Op op, std::span<const Operand> operands,
                        std::span<const ir::Attribute> attributes, const std::string &name,
                        SourceLocation location) {
    const auto made = bind_op(op, operands, attributes, name, location);
    CUGRT_CHECK(made.ok());
    return *made;
  }

  ValueId shape_of(const std::vector<ir::ExprId> &dims, SourceLocation location) {
    return bind_value(BindingKind::shape, "shape", {}, dims, module().types.shape(dims), location);
  }

  /// `from`, of the target, in other dimensions.
  ValueId reshaped(ValueId from, const std::vector<ir::ExprId> &dims, ir::DType dtype,
                   const std::string &name, SourceLocation location) {
    const ir::TypeId type = module().types.tensor(dtype, dims);
    if (builder().function().value(from).type == type)
      return from;
    if (count_unknown(dims) > 1) {
      const Operand operands[] = {Operand::of(from), Operand::of(shape_of(dims, location))};
      Binding made{};
      made.kind = BindingKind::op;
      made.callee = static_cast<uint32_t>(Op::reshape);
      made.location = location;
      return builder().bind(made, operands, {}, {}, std::span(&name, 1), std::span(&type, 1));
    }
    std::vector<int64_t> shape;
    for (ir::ExprId dim : dims)
      shape.push_back(known(dim).value_or(-1));
    const ir::Attribute attribute{"shape", shape};
    return bind(Op::reshape, from, std::span(&attribute, 1), name, type, location);
  }

  /// `from`, of the target, which is the value in one layout, in the other one: pixels are
  /// reshaped, others transposed. It stands beside images of a rank.
  ValueId turned(ValueId value, ValueId from, bool to_last, SourceLocation location, size_t rank) {
    const ir::Type type = type_of(value);
    const std::vector<ir::ExprId> first = as_image(type.dims, rank),
                                  last = permuted(first, axes_to_last(first.size()));
    const std::string name = source().value(value).name + (to_last ? "_last" : "_first");
    if (is_pixel(value, rank))
      return reshaped(from, to_last ? last : type.dims, type.dtype, name, location);
    const bool is_whole = type.dims.size() == first.size();
    if (to_last && !is_whole)
      from = reshaped(from, first, type.dtype, name, location);
    const ir::Attribute order{"axes",
                              to_last ? axes_to_last(first.size()) : axes_to_first(first.size())};
    const ValueId made = bind(Op::transpose, from, std::span(&order, 1), name,
                              module().types.tensor(type.dtype, to_last ? last : first), location);
    return to_last || is_whole ? made : reshaped(made, type.dims, type.dtype, name, location);
  }

  /// The value with channels last; a value of fewer dimensions fits images of `rank`.
  ValueId to_last(ValueId value, SourceLocation location, size_t rank) {
    ValueId &last = rank_of(value) == rank ? last_[value.index] : stretched_[{value.index, rank}];
    if (!last.valid()) {
      last = turned(value, mapped(value), true, location, rank);
      if (!is_fixed_[value.index] && !is_pixel(value, rank))
        ++borders_["transposed to channels last: " + origin(value)];
    }
    return last;
  }
  ValueId to_last(ValueId value, SourceLocation location) {
    return to_last(value, location, rank_of(value));
  }

  /// `from`, of the target, with zeros behind dimension d up to `size`.
  ValueId longer(ValueId from, size_t d, int64_t size, const std::string &name,
                 SourceLocation location) {
    const ir::Type type = made_type(from);
    std::vector<int64_t> after(type.dims.size());
    after[d] = size - *known(type.dims[d]);
    const ir::Attribute attributes[] = {{"before", std::vector<int64_t>(type.dims.size())},
                                        {"after", std::move(after)}};
    const Operand read = Operand::of(from);
    return bind_inferred(Op::pad, std::span(&read, 1), attributes, name, location);
  }

  /// The value with channels last, with numbers behind them up to `channels`, zeros where it was
  /// not made with others.
  ValueId padded(ValueId value, int64_t channels, SourceLocation location) {
    const ValueId last = to_last(value, location);
    if (*known(type_of(value).dims[1]) >= channels)
      return last;
    Wide &wide = padded_[{value.index, channels}];
    if (!wide.made.valid())
      wide.made = longer(last, dims_last(type_of(value).dims).size() - 1, channels,
                         source().value(value).name + "_padded", location);
    return wide.made;
  }

  /// The value with channels last, cut from one that was made with more channels.
  ValueId front_of(ValueId value, ValueId made, int64_t channels, bool zeros) {
    padded_[{value.index, channels}] = {made, zeros};
    const ir::Attribute attributes[] = {{"starts", std::vector<int64_t>{0}},
                                        {"ends", std::vector{*known(type_of(value).dims[1])}},
                                        {"axes", std::vector<int64_t>{-1}}};
    const Operand read = Operand::of(made);
    return bind_inferred(Op::slice, std::span(&read, 1), attributes,
                         source().value(value).name + "_own", source().value(value).location);
  }

  /// Weights of a convolution in groups, OI.., with channels last, so that `count` groups are one:
  /// zeros stand where a channel of y reads one of x that was another group's.
  ///
  ///   [count, block] with count blocks of zeros behind each, as a list, cut to count * count
  ///   blocks: row i has its block at place i
  ValueId joined_groups(ValueId value, int64_t count, int64_t groups, SourceLocation location) {
    using Integers = std::vector<int64_t>;
    Integers sizes;
    for (ir::ExprId dim : as_image(type_of(value).dims, rank_of(value)))
      sizes.push_back(*known(dim));
    const Integers taps(sizes.begin() + 2, sizes.end());
    const int64_t outs = sizes[0] / groups, ins = sizes[1], wide = groups / count;
    int64_t block = outs * ins;
    for (int64_t n : taps)
      block *= n;
    auto make = [&](Op op, ValueId operand, std::vector<ir::Attribute> attributes) {
      const Operand read = Operand::of(operand);
      return bind_inferred(op, std::span(&read, 1), attributes,
                           source().value(value).name + "_joined", location);
    };
    ValueId w = make(Op::reshape, mapped(value), {{"shape", Integers{wide, count, block}}});
    w = make(Op::pad, w, {{"before", Integers(3)}, {"after", Integers{0, 0, count * block}}});
    w = make(Op::reshape, w, {{"shape", Integers{wide, -1}}});
    w = make(Op::slice, w,
             {{"starts", Integers{0}},
              {"ends", Integers{count * count * block}},
              {"axes", Integers{1}}});
    Integers dims = {wide, count, count, outs, ins}, axes = {0, 1, 3}, last = {sizes[0]};
    for (size_t i = 0; i < taps.size(); ++i)
      dims.push_back(taps[i]), axes.push_back(int64_t(5 + i)), last.push_back(taps[i]);
    axes.insert(axes.end(), {2, 4}), last.push_back(count * ins);
    w = make(Op::reshape, w, {{"shape", dims}});
    w = make(Op::transpose, w, {{"axes", axes}});
    return make(Op::reshape, w, {{"shape", last}});
  }

  /// Makes the value with channels second for `reader`, and for values behind it.
  void to_first(ValueId value, const std::string &reader) {
    if (!is_only_last_[value.index])
      return;
    is_only_last_[value.index] = false;
    map(value,
        turned(value, last_[value.index], false, source().value(value).location, rank_of(value)));
    if (!is_pixel(value))
      ++borders_["transposed back: " + origin(value) + ", for " + reader];
  }

  std::string origin(ValueId value) const {
    const Binding *maker = maker_[value.index];
    if (!maker)
      return "a parameter";
    return maker->kind == BindingKind::op ? std::string(ir::op_info(ir::op_of(*maker)).name)
                                          : "what is no op";
  }

  bool is_laid_out(ValueId value) const { return is_only_last_[value.index]; }

  const codegen::KernelChoice choice_;
  std::vector<ValueId> last_; // by value: of the target, with channels last
  struct Wide {
    ValueId made;
    bool zeros = true; // what is behind
  };
  std::map<std::pair<uint32_t, int64_t>, Wide> padded_; // by value and channels: likewise
  std::map<std::pair<uint32_t, size_t>, ValueId>
      stretched_;                      // of fewer dimensions, by rank: likewise
  std::vector<bool> is_only_last_;     // by value: there is none with channels second
  std::vector<bool> is_fixed_;         // by value
  std::vector<bool> is_convolved_;     // by value: at once, or behind what keeps its layout
  std::vector<int64_t> wanted_;        // by value: channels, if more, that a convolution wants
  std::vector<const Binding *> maker_; // by value: the binding of the body
  const std::vector<bool> written_;    // by value
  std::map<std::string, size_t> borders_;
  bool has_convolutions_ = false;
};

} // namespace cugrt::passes
