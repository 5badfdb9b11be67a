// Parts of images' dimensions, which reshapes join and take apart and transpositions move. Private
// to LayOutImages.
#pragma once

#include "compiler/passes/layouts/image_values.h"

namespace cugrt::passes {

class ImageParts : public ImageValues {
public:
  using ImageValues::ImageValues;

protected:
  using Dims = std::vector<ir::ExprId>;

  /// The parts that two shapes of the same elements have in common: the finest dimensions, and
  /// which of them, in order, make each dimension of either. Dimensions of 1 are made of none.
  struct Parts {
    Dims dims;
    std::vector<std::vector<size_t>> of_first, of_second;
  };
  std::optional<Parts> common_parts(const Dims &first, const Dims &second) {
    Parts out{{},
              std::vector<std::vector<size_t>>(first.size()),
              std::vector<std::vector<size_t>>(second.size())};
    size_t a = 0, b = 0;
    std::optional<ir::ExprId> left, right; // what is left of dimensions a and b
    while (true) {
      for (; !left && a < first.size(); ++a)
        if (!is_one(first[a])) {
          left = first[a];
          break;
        }
      for (; !right && b < second.size(); ++b)
        if (!is_one(second[b])) {
          right = second[b];
          break;
        }
      if (!left || !right)
        return left || right ? std::nullopt : std::optional(std::move(out));
      const std::optional<ir::ExprId> of_left = divided(*left, *right),
                                      of_right = divided(*right, *left);
      if (!of_left && !of_right)
        return {};
      out.of_first[a].push_back(out.dims.size());
      out.of_second[b].push_back(out.dims.size());
      out.dims.push_back(of_left ? *right : *left);
      auto ends = [&](const std::optional<ir::ExprId> &rest) { return !rest || is_one(*rest); };
      const bool ends_left = ends(of_left), ends_right = ends(of_right);
      left = ends_left ? std::nullopt : of_left;
      right = ends_right ? std::nullopt : of_right;
      a += ends_left, b += ends_right;
    }
  }

  /// Whether `from`, which has the elements of the image, needs no transposition by these axes
  /// where the image has channels last.
  bool lies_so(ValueId image, ValueId from, const std::vector<int64_t> &axes) {
    if (!is_image(image) || !is_plain(from))
      return false;
    const auto parts = parts_of(image, from);
    return parts && joined(parts->of_second, axes) ==
                        joined(parts->of_first, axes_to_last(parts->of_first.size()));
  }
  /// The parts of an image and of what reshapes and transpositions make of it.
  std::optional<Parts> parts_of(ValueId image, ValueId from) {
    const Binding *maker = maker_[from.index];
    if (from == image || !is_op(maker, Op::transpose))
      return common_parts(type_of(image).dims, type_of(from).dims);
    std::optional<Parts> parts = parts_of(image, source().operands_of(*maker)[0].value());
    if (parts) {
      std::vector<std::vector<size_t>> moved;
      for (int64_t axis : transposition_axes(*maker))
        moved.push_back(parts->of_second[size_t(axis)]);
      parts->of_second = std::move(moved);
    }
    return parts;
  }
  /// Whether it convolves a signal as an image of one row.
  bool is_row(const Binding &binding) const {
    return ir::op_of(binding) == Op::conv2d && rank_of(binding.result()) == kSignalRank;
  }
  /// The axes that transpose matrices.
  std::vector<int64_t> columns_first(ValueId value) const {
    std::vector<int64_t> axes(rank_of(value));
    std::iota(axes.begin(), axes.end(), 0);
    if (axes.size() > 1)
      std::swap(axes.back(), axes[axes.size() - 2]);
    return axes;
  }
  /// The axes of a transposition, counted from the front.
  std::vector<int64_t> transposition_axes(const Binding &binding) const {
    const size_t rank = rank_of(source().operands_of(binding)[0].value());
    const std::vector<int64_t> given = list(binding, "axes");
    std::vector<int64_t> axes;
    for (size_t d = 0; d < rank; ++d)
      axes.push_back(
          int64_t(given.empty() ? rank - 1 - d : ir::normalize_axis(given[d], rank).value_or(0)));
    return axes;
  }

  static std::vector<std::vector<size_t>> each_alone(size_t count) {
    std::vector<std::vector<size_t>> out(count);
    for (size_t i = 0; i < count; ++i)
      out[i] = {i};
    return out;
  }

  template <class Order>
  static std::vector<size_t> joined(const std::vector<std::vector<size_t>> &lists,
                                    const Order &order) {
    std::vector<size_t> out;
    for (const auto i : order)
      out.insert(out.end(), lists[size_t(i)].begin(), lists[size_t(i)].end());
    return out;
  }

  /// Whether the result of an elementwise op has channels last where its images are there in both
  /// layouts: a convolution reads it, and nothing else would be transposed.
  bool follows_both(const Binding &binding) const {
    return is_convolved_[binding.first_result] &&
           std::ranges::all_of(source().operands_of(binding), [&](const Operand &operand) {
             return operand.kind != Operand::Kind::value || is_fixed_[operand.index] ||
                    last_[operand.index].valid() || !is_image(operand.value()) ||
                    is_pixel(operand.value());
           });
  }

private:
  /// `whole` by a part of it, where that is a factor of it, whatever the symbols are.
  std::optional<ir::ExprId> divided(ir::ExprId whole, ir::ExprId part) {
    ir::ExprPool &exprs = module().exprs;
    auto [count, symbols] = factors(whole);
    const auto [divisor, others] = factors(part);
    if (divisor < 1 || count < 1 || count % divisor != 0)
      return {};
    for (ir::ExprId factor : others) {
      const auto at = std::find(symbols.begin(), symbols.end(), factor);
      if (at == symbols.end())
        return {};
      symbols.erase(at);
    }
    ir::ExprId rest = exprs.constant(count / divisor);
    for (ir::ExprId factor : symbols)
      rest = exprs.mul(rest, factor);
    return rest;
  }
  /// The constant factor of a product, and the others.
  std::pair<int64_t, Dims> factors(ir::ExprId dim) const {
    if (const std::optional<int64_t> size = known(dim))
      return {*size, {}};
    const ir::ExprNode node = module().exprs[dim];
    if (node.kind != ir::ExprKind::mul)
      return {1, {dim}};
    auto [size, others] = factors(node.a);
    const auto [more_size, more] = factors(node.b);
    others.insert(others.end(), more.begin(), more.end());
    return {size * more_size, others};
  }
};

} // namespace cugrt::passes
