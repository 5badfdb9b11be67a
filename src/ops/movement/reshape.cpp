// Other dimensions for the same elements: a view, without a kernel.
#include "ops/emit/op_emitter.h"
#include "ops/table/infer_op.h"
#include "ops/table/op_padding.h"

#include <algorithm>

namespace cugrt::ir {

ExprId Inference::product(const Dims &dims) const {
  ExprId total = constant(1);
  for (ExprId d : dims)
    total = m.exprs.mul(total, d);
  return total;
}

/// The attribute's dimensions; a single -1 becomes the rest of the elements.
Result<Dims> Inference::attribute_shape(ExprId total) const {
  Dims out;
  size_t open = SIZE_MAX;
  for (int64_t d : op_integers(op, attributes, "shape")) {
    if (d < -1 || (d == -1 && open != SIZE_MAX))
      return wrong("attribute 'shape' has dimensions of at least 0 and at most one -1");
    if (d == -1)
      open = out.size();
    out.push_back(constant(d == -1 ? 1 : d));
  }
  if (open != SIZE_MAX) {
    ExprId rest = product(out);
    if (known(rest) == 0)
      return wrong("the -1 of attribute 'shape' is undetermined beside a dimension 0");
    out[open] = m.exprs.floordiv(total, rest);
  }
  return out;
}

Types Inference::reshape() const {
  if (info(type(0).dtype).elements_per_block != 1)
    return wrong("packed and block dtypes cannot be reshaped");
  ExprId total = product(dims(0));
  bool given = std::any_of(attributes.begin(), attributes.end(),
                           [](const Attribute &a) { return a.name == "shape"; });
  if (given == has(1))
    return wrong("takes either a shape operand or attribute 'shape'");
  Dims out;
  if (has(1)) {
    out = dims(1);
  } else {
    CUGRT_ASSIGN(out, attribute_shape(total));
  }
  CUGRT_TRY(check_equal(total, product(out), "numbers of elements before and after reshape"));
  return one(type(0).dtype, std::move(out));
}

} // namespace cugrt::ir

namespace cugrt::padding {

/// The tensor's linear order is a product of parts, of which all but the first are padded: an
/// unpadded dimension joins the part before it. Each dimension of the result must take whole parts
/// from the right, or unpadded factors of one: then added elements stay in their places.
Status OpPadding::reshape() {
  struct Part {
    ExprId size;
    size_t operand_dim;
  };
  ir::ExprPool &exprs = all_.exprs;
  auto is_one = [&](ExprId e) { return exprs.as_constant(e) == 1; };
  std::vector<Part> parts;
  std::vector<Fill> fill_of; // by part: of all dimensions that have it
  size_t padded_dim = 0;
  bool padded = false;
  for (size_t d = 0; d < rank(0); ++d) {
    if (is_padded(0, d)) {
      padded_dim = d;
      padded = covered_[0][d] = true;
    }
    for (ExprId part : operands_[0].facts.dims[d].parts) {
      if (is_one(part))
        continue;
      const bool adds = all_.is_padded(part);
      const Fill fill = adds ? operands_[0].facts.dims[d].fill : Fill::zero;
      if (!parts.empty() && !adds) {
        parts.back().size = exprs.mul(parts.back().size, part);
      } else {
        parts.push_back({part, d});
        fill_of.push_back(fill);
      }
    }
  }
  results_[0].all = operands_[0].facts.all;
  if (!padded)
    return {};
  for (size_t to = results_[0].dims.size(); to-- > 0;) {
    Dim &target = results_[0].dims[to];
    ExprId need = target.parts[0];
    std::vector<ExprId> taken; // innermost first
    std::optional<Fill> fill;
    while (!is_one(need)) {
      if (parts.empty())
        return refuse(0, padded_dim, "mixes");
      const ExprId part = parts.back().size, beyond = all_.quotient(need, part);
      if (all_.is_padded(part))
        fill = fill ? either(*fill, fill_of.back()) : fill_of.back();
      if (beyond.valid()) {
        taken.push_back(part);
        need = beyond;
        parts.pop_back();
        fill_of.pop_back();
        continue;
      }
      const ExprId rest = all_.quotient(part, need);
      if (!rest.valid() || all_.is_padded(need))
        return refuse(0, parts.back().operand_dim, "mixes");
      taken.push_back(need);
      parts.back().size = rest;
      need = exprs.constant(1);
    }
    target.parts.clear();
    for (size_t i = taken.size(); i-- > 0;)
      if (!target.parts.empty() && !all_.is_padded(taken[i]))
        target.parts.back() = exprs.mul(target.parts.back(), taken[i]);
      else
        target.parts.push_back(taken[i]);
    if (target.parts.empty())
      target.parts.push_back(exprs.constant(1));
    target.fill = fill.value_or(Fill::zero);
  }
  return {};
}

} // namespace cugrt::padding

namespace cugrt::codegen {

Status emit_reshape(OpEmitter &op) {
  return op.unsupported(op.operand_type(0).dtype, "it has no kernel: it is a view");
}

} // namespace cugrt::codegen
