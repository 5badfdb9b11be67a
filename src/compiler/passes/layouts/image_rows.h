// Images that products of weights give as rows. Private to LayOutImages.
//
//   %y = matmul(%x, %w)                            %v = transpose(reshape(%w)), [h w c, k]
//   %z = add(%y, %b)                               %a = transpose(reshape(%b)), [h w c]
//   %i = reshape(%z) {shape = [n, c, h, w]}        %y = matmul(%x, %v) {transpose_b = true}
//                                                  %z = add(%y, %a)
//                                                  %i_last = reshape(%z) {shape = [n, h, w, c]}
//
// What is fixed changes the order of its columns once, so that the row is an image with channels
// last: the first layers of decoders.
#pragma once

#include "compiler/passes/layouts/image_products.h"

namespace cugrt::passes {

class ImageRows : public ImageProducts {
public:
  using ImageProducts::ImageProducts;

protected:
  /// The op on columns in another order, where it gives a row that is such an image, or is the
  /// reshape behind it.
  bool lay_out_row(const Binding &binding) {
    const auto given = source().operands_of(binding);
    if (ir::op_of(binding) == Op::matmul)
      find_row(binding);
    if (const auto row = image_of_row_.find(binding.first_result); row != image_of_row_.end()) {
      const bool is_product = ir::op_of(binding) == Op::matmul;
      std::vector<Operand> operands;
      for (const Operand &operand : given)
        operands.push_back(operand.kind != Operand::Kind::value || is_moved(operand.value())
                               ? mapped(operand)
                           : is_product && operands.empty()
                               ? Operand::of(as_given(operand.value()))
                               : Operand::of(with_columns(operand.value(), row->second, binding)));
      if (!is_product) {
        copy_with(binding, operands);
        return true;
      }
      const ir::Attribute columns{"transpose_b", true};
      map(binding.result(), bind_inferred(Op::matmul, operands, std::span(&columns, 1),
                                          source().value(binding.result()).name, binding.location));
      return true;
    }
    if (ir::op_of(binding) != Op::reshape || !is_moved(given[0].value()))
      return false;
    const ValueId image = binding.result();
    last_[image.index] =
        reshaped(mapped(given[0].value()), dims_last(type_of(image).dims), type_of(image).dtype,
                 source().value(image).name, binding.location);
    is_only_last_[image.index] = true;
    map(image, last_[image.index]);
    return true;
  }

private:
  bool is_moved(ValueId value) const { return image_of_row_.contains(value.index); }

  /// Notes what the product gives and elementwise ops with fixed columns make of it, where that is
  /// a row for each of the images that a reshape makes, which convolutions alone read.
  void find_row(const Binding &product) {
    const auto given = source().operands_of(product);
    const ValueId x = given[0].value(), w = given[1].value();
    if (rank_of(x) != 2 || rank_of(w) != 2 || !is_plain(x) || !is_plain(w) || !is_fixed_[w.index])
      return;
    std::vector<ValueId> rows;
    const Binding *op = &product;
    for (; op && op->kind == BindingKind::op && op->result_count == 1 &&
           maker_[op->first_result] == op && is_plain(op->result()) &&
           (op == &product || (ir::op_info(ir::op_of(*op)).images == ir::OpImages::keeps &&
                               type_of(op->result()).dims == type_of(product.result()).dims));
         op = uses_.only_reader(op->result())) {
      for (const Operand &operand : source().operands_of(*op).subspan(op == &product ? 2 : 0))
        if (operand.kind == Operand::Kind::value &&
            operand.value() != (rows.empty() ? x : rows.back()) &&
            !has_fixed_columns(operand.value(), type_of(product.result()).dims.back()))
          return;
      rows.push_back(op->result());
    }
    if (!op || op->kind != BindingKind::op || ir::op_of(*op) != Op::reshape ||
        maker_[op->first_result] != op)
      return;
    const ValueId image = op->result();
    const std::vector<ir::ExprId> dims = type_of(image).dims;
    if (!is_image(image) || is_pixel(image) || !is_convolved_[image.index] ||
        uses_.is_yielded(image) || dims[0] != type_of(product.result()).dims[0] ||
        !std::all_of(dims.begin() + 1, dims.end(), [&](ir::ExprId dim) { return known(dim); }) ||
        std::ranges::any_of(uses_.readers(image), [&](const Binding *reader) {
          return reader->kind != BindingKind::op ||
                 ir::op_info(ir::op_of(*reader)).images == ir::OpImages::second;
        }))
      return;
    for (ValueId row : rows)
      image_of_row_[row.index] = image;
  }

  /// Whether the value is fixed, and has a number for each column or one for all.
  bool has_fixed_columns(ValueId value, ir::ExprId columns) const {
    const std::vector<ir::ExprId> &dims = type_of(value).dims;
    return is_plain(value) && is_fixed_[value.index] && dims.size() <= 2 &&
           std::all_of(dims.begin(), dims.end(), [&](const ir::ExprId &dim) {
             return is_one(dim) || (&dim == &dims.back() && dim == columns);
           });
  }

  /// A fixed operand of the op with columns in the order of the image with channels last; a
  /// product's weights by rows.
  ValueId with_columns(ValueId value, ValueId image, const Binding &op) {
    const Dims own = type_of(value).dims, dims = type_of(image).dims;
    const bool is_weight = own.size() == 2 && ir::op_of(op) == Op::matmul,
               is_by_rows = is_weight && flag(op, "transpose_b");
    if (own.empty() || (!is_weight && is_one(own.back())))
      return mapped(value);
    Dims apart(dims.begin() + 1, dims.end());
    if (is_weight)
      apart.insert(is_by_rows ? apart.end() : apart.begin(), own[is_by_rows]);
    std::vector<int64_t> order;
    const int64_t first = is_weight && !is_by_rows; // dimension of channels
    for (size_t d = 1; d + 1 < dims.size(); ++d)
      order.push_back(first + int64_t(d));
    order.push_back(first);
    if (is_weight)
      order.push_back(is_by_rows ? int64_t(dims.size()) - 1 : 0);
    const std::string name = source().value(value).name + "_last";
    const ir::DType dtype = type_of(value).dtype;
    const ir::Attribute axes{"axes", order};
    ValueId made = reshaped(mapped(value), apart, dtype, name, op.location);
    made = bind(Op::transpose, made, std::span(&axes, 1), name,
                module().types.tensor(dtype, permuted(apart, order)), op.location);
    return reshaped(made, is_weight ? Dims{own[!is_by_rows], own[is_by_rows]} : own, dtype, name,
                    op.location);
  }

  std::map<uint32_t, ValueId> image_of_row_; // by value: what lies so
};

} // namespace cugrt::passes
