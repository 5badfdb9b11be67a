// Images that products of weights give as rows. Private to LayOutImages.
//
//   %y = matmul(%x, %w)                            %v = transpose(reshape(%w)), [h w c, k]
//   %z = add(%y, %b)                               %a = transpose(reshape(%b)), [h w c]
//   %i = reshape(%z) {shape = [n, c, h, w]}        %y = matmul(%x, %v) {transpose_b = true}
//                                                  %z = add(%y, %a)
//                                                  %i_last = reshape(%z) {shape = [n, h, w, c]}
//
// What is fixed changes the order of its columns once, so that the row is an image with channels
// last: the first layers of decoders. Weights of products that read such an image as a row change
// that of their rows: behind pools.
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
    if (ir::op_of(binding) == Op::matmul && read_row(binding))
      return true;
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
    if (ir::op_of(binding) != Op::reshape)
      return false;
    if (!is_moved(given[0].value()))
      return flatten(binding);
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

  /// A reshape of an image that is laid out to a row, which products by fixed weights alone read.
  bool flatten(const Binding &reshape) {
    const ValueId image = source().operands_of(reshape)[0].value(), row = reshape.result();
    const Dims dims = type_of(image).dims;
    if (!is_image(image) || !is_laid_out(image) || is_pixel(image) || rank_of(row) != 2 ||
        type_of(row).dims[0] != dims[0] || uses_.is_yielded(row) || uses_.readers(row).empty() ||
        !std::all_of(dims.begin() + 1, dims.end(), [&](ir::ExprId dim) { return known(dim); }) ||
        !std::ranges::all_of(uses_.readers(row), [&](const Binding *reader) {
          if (!is_op(*reader, Op::matmul) || maker_[reader->first_result] != reader ||
              !is_plain(reader->result()))
            return false;
          const ValueId w = source().operands_of(*reader)[1].value();
          return w != row && rank_of(w) == 2 && is_plain(w) && is_fixed_[w.index];
        }))
      return false;
    flat_[row.index] = image;
    map(row, reshaped(last_[image.index], type_of(row).dims, type_of(row).dtype,
                      source().value(row).name, reshape.location));
    return true;
  }

  /// A product that reads such a row, by weights whose rows have its order.
  bool read_row(const Binding &product) {
    const auto given = source().operands_of(product);
    const auto flat = flat_.find(given[0].index);
    if (flat == flat_.end())
      return false;
    const ValueId w = given[1].value();
    const bool by_rows = flag(product, "transpose_b");
    const Dims dims = type_of(flat->second).dims;
    const int64_t parts = int64_t(dims.size()) - 1; // of a row
    Dims apart(dims.begin() + 1, dims.end());
    apart.insert(by_rows ? apart.begin() : apart.end(), type_of(w).dims[!by_rows]);
    std::vector<int64_t> order = {by_rows ? 0 : parts};
    for (int64_t d = 1; d < parts; ++d)
      order.push_back(by_rows + d);
    order.push_back(by_rows);
    std::vector<Operand> operands = mapped(given);
    operands[1] = Operand::of(arranged(
        w, apart, order, {type_of(w).dims[!by_rows], type_of(w).dims[by_rows]}, product.location));
    const ir::Attribute columns{"transpose_b", true};
    map(product.result(), bind_inferred(Op::matmul, operands, std::span(&columns, 1),
                                        source().value(product.result()).name, product.location));
    return true;
  }

  /// A constant, taken apart, in another order, and joined.
  ValueId arranged(ValueId value, const Dims &apart, const std::vector<int64_t> &order,
                   const Dims &dims, SourceLocation location) {
    const std::string name = source().value(value).name + "_last";
    const ir::DType dtype = type_of(value).dtype;
    const ir::Attribute axes{"axes", order};
    const ValueId made = bind(Op::transpose, reshaped(mapped(value), apart, dtype, name, location),
                              std::span(&axes, 1), name,
                              module().types.tensor(dtype, permuted(apart, order)), location);
    return reshaped(made, dims, dtype, name, location);
  }

  /// Notes the result of the product and of elementwise ops with fixed columns on it, if it is a
  /// row for each image that a reshape makes and that only convolutions read.
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
    if (!is_op(op, Op::reshape) || maker_[op->first_result] != op)
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
    return arranged(value, apart, order, is_weight ? Dims{own[!is_by_rows], own[is_by_rows]} : own,
                    op.location);
  }

  std::map<uint32_t, ValueId> image_of_row_; // by value: what lies so
  std::map<uint32_t, ValueId> flat_;         // by row: the image with channels last that it is
};

} // namespace cugrt::passes
