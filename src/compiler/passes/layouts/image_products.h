// Products of pixels. Private to LayOutImages.
//
//   %r = reshape(%x) {shape = [n, c, h w]}       %r = reshape(%x_last) {shape = [n, h w, c]}
//   %y = matmul(%a, %r)                          %y = matmul(%r, %a) {transpose_b = true}
//   %i = reshape(%y) {shape = [n, m, h, w]}      %i_last = reshape(%y) {shape = [n, h, w, m]}
//
// Rows and columns of a factor change where it is an image with channels last, and those of the
// result where it becomes one, so that no transposition stands before or behind. One column is a
// row as well.
#pragma once

#include "compiler/passes/layouts/image_moves.h"

#include <set>

namespace cugrt::passes {

class ImageProducts : public ImageMoves {
public:
  using ImageMoves::ImageMoves;

protected:
  bool lay_out_product(const Binding &product) {
    const auto given = source().operands_of(product);
    const ValueId a = given[0].value(), b = given[1].value(), y = product.result();
    if (!waits_[a.index] && !waits_[b.index])
      return false;
    const bool of_columns = flag(product, "transpose_b");
    const std::string &name = source().value(y).name;
    if (const Binding *reshape = image_behind(product);
        reshape && (of_columns || is_turned_image(b))) {
      // P x Q of transposed matrices, in turn.
      const bool is_turned = is_turned_image(a);
      const ValueId p = of_columns ? as_given(b) : as_turned(b, product.location),
                    q = is_turned ? as_turned(a, product.location) : as_given(a);
      const Operand factors[] = {Operand::of(p), Operand::of(q)};
      const ir::Attribute columns{"transpose_b", !is_turned};
      const ValueId image = reshape->result();
      last_[image.index] = reshaped(
          bind_inferred(Op::matmul, factors, std::span(&columns, 1), name, product.location),
          dims_last(type_of(image).dims), type_of(image).dtype, source().value(image).name,
          reshape->location);
      is_only_last_[image.index] = is_made_[image.index] = true;
      map(image, last_[image.index]);
      return true;
    }
    if (has_one_column(product) && is_turned_image(a)) {
      std::vector<ir::ExprId> row = type_of(b).dims;
      if (!of_columns)
        std::swap(row.back(), row[row.size() - 2]);
      const Operand factors[] = {
          Operand::of(reshaped(as_given(b), row, type_of(b).dtype, name, product.location)),
          Operand::of(as_turned(a, product.location))};
      map(y, reshaped(bind_inferred(Op::matmul, factors, {}, name, product.location),
                      type_of(y).dims, type_of(y).dtype, name, product.location));
      return true;
    }
    const ValueId left = as_given(a);
    if (!is_turned_image(b))
      return as_given(b), false;
    std::vector<Operand> operands = {Operand::of(left),
                                     Operand::of(as_turned(b, product.location))};
    for (const Operand &bias : given.subspan(2))
      operands.push_back(mapped(bias));
    const ir::Attribute columns{"transpose_b", !of_columns};
    map(y, bind_inferred(Op::matmul, operands, std::span(&columns, 1), name, product.location));
    return true;
  }

  /// Whether the convolution is a product of weights and pixels that lie with channels second and
  /// that nothing reads otherwise: it takes them so.
  bool reads_pixels_second(const Binding &binding) {
    constexpr int64_t kRun = 8, kFewestPixels = 64;
    const auto given = source().operands_of(binding);
    const ValueId x = given[0].value(), w = given[1].value();
    const std::vector<ir::ExprId> taps = type_of(w).dims, dims = type_of(x).dims;
    int64_t pixels = 1;
    for (size_t d = 2; d < dims.size(); ++d)
      pixels *= known(dims[d]).value_or(0);
    auto are = [&](std::string_view name, int64_t value) {
      return std::ranges::all_of(list(binding, name), [&](int64_t n) { return n == value; });
    };
    return ir::op_of(binding) != Op::conv3d && integer(binding, "groups") == 1 && maker_[x.index] &&
           !last_[x.index].valid() && !is_fixed_[x.index] && are("strides", 1) &&
           are("padding", 0) &&
           std::all_of(taps.begin() + 2, taps.end(), [&](ir::ExprId n) { return is_one(n); }) &&
           known(dims[1]).value_or(1) % kRun == 0 && pixels % kRun == 0 &&
           pixels >= kFewestPixels &&
           std::ranges::all_of(uses_.readers(x), [&](const Binding *reader) {
             return reader == &binding || reader->kind != BindingKind::op ||
                    ir::op_info(ir::op_of(*reader)).images == ir::OpImages::second;
           });
  }
  /// The operand that a convolution reads with channels second, if it does: pixels, or the
  /// function's own image of few channels as it was before casts and reshapes, which its kernel
  /// takes out of their planes and rounds. A signal's operand is an image of one row.
  std::optional<Operand> read_second(const Binding &convolution) {
    ValueId x = source().operands_of(convolution)[0].value();
    if (!reads_pixels_second(convolution)) {
      if (last_[x.index].valid() || uses_.is_yielded(x) || is_fixed_[x.index] ||
          !std::ranges::all_of(uses_.readers(x),
                               [&](const Binding *reader) { return takes_planes(*reader); }))
        return {};
      for (const Binding *maker = maker_[x.index]; maker; maker = maker_[x.index]) {
        const Op op = maker->kind == BindingKind::op ? ir::op_of(*maker) : Op::range;
        const bool is_narrow = is_half(type_of(x).dtype);
        if (op != Op::reshape && (op != Op::cast || !is_narrow))
          return {};
        x = source().operands_of(*maker)[0].value();
        if (op == Op::cast && type_of(x).dtype != ir::DType::f32)
          return {};
      }
      if (!is_plain(x) || type_of(x).dtype != ir::DType::f32)
        return {};
    }
    const Dims dims = type_of(source().operands_of(convolution)[0].value()).dims;
    return Operand::of(reshaped(mapped(x), as_image(dims, dims.size()), type_of(x).dtype,
                                source().value(x).name, convolution.location));
  }

  /// The factor as it is written.
  ValueId as_given(ValueId factor) {
    if (waits_[factor.index] && given_.insert(factor.index).second) {
      const Binding &maker = *maker_[factor.index];
      if (ir::op_of(maker) == Op::transpose) {
        move(maker, transposition_axes(maker));
        return mapped(factor);
      }
      const ValueId image = image_of(factor);
      to_first(image, "matmul");
      map(factor, reshaped(mapped(image), type_of(factor).dims, type_of(factor).dtype,
                           source().value(factor).name, source().value(factor).location));
    }
    return mapped(factor);
  }

private:
  /// Whether it is a convolution of one group that is laid out where its image of so few channels
  /// is copied to channels last.
  bool takes_planes(const Binding &binding) {
    constexpr int64_t kFew = 4;
    if (binding.kind != BindingKind::op ||
        (ir::op_of(binding) != Op::conv1d && ir::op_of(binding) != Op::conv2d) ||
        integer(binding, "groups") != 1 ||
        (ir::op_of(binding) == Op::conv2d && flag(binding, "channels_last")))
      return false;
    const ValueId x = source().operands_of(binding)[0].value(),
                  w = source().operands_of(binding)[1].value();
    ir::Type filter = type_of(w);
    if (!is_image(x) || is_pixel(x) || !is_image(w) || !is_fixed_[w.index])
      return false;
    filter.dims = as_image(filter.dims, rank_of(w));
    return known(filter.dims[1]).value_or(kFew + 1) <= kFew &&
           codegen::channels_laid_out(module(), type_of(x), filter, source().attributes_of(binding),
                                      choice_, true) == kFew;
  }

  ValueId image_of(ValueId factor) const {
    const ValueId x = source().operands_of(*maker_[factor.index])[0].value();
    return waits_[x.index] ? image_of(x) : x;
  }
  /// Whether the factor is an image with channels last whose transposed matrices lie so.
  bool is_turned_image(ValueId factor) {
    return waits_[factor.index] && lies_so(image_of(factor), factor, columns_first(factor));
  }
  ValueId as_turned(ValueId factor, SourceLocation location) {
    return reshaped(last_[image_of(factor).index],
                    permuted(type_of(factor).dims, columns_first(factor)), type_of(factor).dtype,
                    source().value(factor).name, location);
  }
  std::set<uint32_t> given_; // factors that waited and are there
};

} // namespace cugrt::passes
