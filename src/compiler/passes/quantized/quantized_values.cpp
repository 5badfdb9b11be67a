// Chains of ops that quantise and dequantise; see quantized_values.h.
#include "compiler/passes/quantized/quantized_values.h"

#include "base/type/element.h"
#include "compiler/ir_names.h"
#include "compiler/passes/mixed_precision.h"

#include <algorithm>
#include <limits>

namespace cugrt::passes {

QuantizedValues::QuantizedValues(const ir::Module &module, const ir::Function &function)
    : module_(module), function_(function), uses_(function),
      written_(find_written_values(module, function)) {}

void QuantizedValues::enter(uint32_t block) {
  here_.clear();
  for (const Binding &binding : function_.blocks[block].bindings)
    here_.insert(&binding);
}

const Binding *QuantizedValues::made_by(ValueId value, Op op) const {
  const Binding *made = value.valid() ? uses_.maker(value) : nullptr;
  return is_op(made, op) && here_.contains(made) && !written_[value.index] ? made : nullptr;
}

ValueId QuantizedValues::cast_from(ValueId value) const {
  const Binding *cast = made_by(value, Op::cast);
  return cast ? function_.operand_of(*cast, 0) : ValueId();
}

bool QuantizedValues::is_byte(ValueId value) const {
  if (!value.valid() || written_[value.index])
    return false;
  const ir::Type &q = type(value);
  return q.is_plain_tensor() && (q.dtype == DType::i8 || q.dtype == DType::u8);
}

const ir::Constant *QuantizedValues::constant(ValueId value) const {
  while (const Binding *reshape = made_by(value, Op::reshape))
    value = function_.operand_of(*reshape, 0);
  const Binding *made = value.valid() ? uses_.maker(value) : nullptr;
  return made && made->kind == BindingKind::constant ? &module_.constants[made->callee] : nullptr;
}

bool QuantizedValues::is_zero(ValueId value) const {
  const ir::Constant *zeros = constant(value);
  return zeros && std::ranges::all_of(zeros->bytes, [](char byte) { return byte == 0; });
}

bool QuantizedValues::has_one_element(ValueId value) const {
  const ir::Type &of = type(value);
  return std::ranges::all_of(
      of.dims, [&](ir::ExprId dim) { return module_.exprs.as_constant(dim) == int64_t(1); });
}

bool QuantizedValues::are_alike(ValueId a, ValueId b) const {
  if (!a.valid() || !b.valid())
    return a.valid() == b.valid();
  const ir::Constant *left = constant(a), *right = constant(b);
  return left && right && type(a).dtype == type(b).dtype && has_one_element(a) &&
         has_one_element(b) && left->bytes == right->bytes;
}

bool QuantizedValues::is_reversible(ValueId scale) const {
  const ir::Constant *made = constant(scale);
  if (!made || !has_one_element(scale) || type(scale).dtype != DType::f32)
    return false;
  constexpr double kMost = 255; // differences of bytes
  const double value = ir::float_at(DType::f32, made->bytes.data());
  return value >= std::numeric_limits<float>::min() &&
         value <= double(std::numeric_limits<float>::max()) / kMost;
}

ValueId QuantizedValues::zero_point(ValueId value, DType dtype) const {
  const ValueId zero = cast_from(value);
  return zero.valid() && type(zero).dtype == dtype && !written_[zero.index] ? zero : ValueId();
}

std::optional<Dequantized> QuantizedValues::dequantized(const Binding &binding) const {
  if (binding.kind != BindingKind::op || made_by(binding.result(), Op::mul) != &binding)
    return {};
  const ValueId number = function_.operand_of(binding, 0), scale = function_.operand_of(binding, 1);
  if (!number.valid() || !scale.valid() || written_[scale.index] ||
      type(number).dims != type(binding.result()).dims)
    return {};
  ValueId whole = cast_from(number), zero;
  if (const Binding *sub = made_by(whole, Op::sub)) {
    whole = function_.operand_of(*sub, 0);
    if (!whole.valid() || type(whole).dims != type(number).dims)
      return {};
    zero = function_.operand_of(*sub, 1);
  }
  const ValueId q = is_byte(whole) ? whole : cast_from(whole);
  if (!is_byte(q) || (whole != q && type(whole).dtype != DType::i32))
    return {};
  if (zero.valid()) {
    if (zero = zero_point(zero, type(q).dtype); !zero.valid())
      return {};
    if (is_zero(zero))
      zero = {};
  }
  return Dequantized{q, scale, zero};
}

std::optional<Quantized> QuantizedValues::quantized(const Binding &binding) const {
  if (binding.kind != BindingKind::op || made_by(binding.result(), Op::cast) != &binding ||
      !is_byte(binding.result()))
    return {};
  const DType dtype = type(binding.result()).dtype;
  const bool has_sign = dtype == DType::i8;
  const Binding *clip = made_by(function_.operand_of(binding, 0), Op::clip);
  if (!clip ||
      ir::op_float(Op::clip, function_.attributes_of(*clip), "min") != (has_sign ? -128 : 0) ||
      ir::op_float(Op::clip, function_.attributes_of(*clip), "max") != (has_sign ? 127 : 255))
    return {};
  ValueId rounded = function_.operand_of(*clip, 0), zero;
  if (const Binding *add = made_by(rounded, Op::add)) {
    rounded = function_.operand_of(*add, 0);
    zero = zero_point(function_.operand_of(*add, 1), dtype);
    if (!zero.valid() || !has_one_element(zero))
      return {};
    if (is_zero(zero))
      zero = {};
  }
  const Binding *round = made_by(rounded, Op::round);
  const Binding *div = round ? made_by(function_.operand_of(*round, 0), Op::div) : nullptr;
  if (!div)
    return {};
  const ValueId x = function_.operand_of(*div, 0), scale = function_.operand_of(*div, 1);
  if (!x.valid() || !scale.valid() || !has_one_element(scale) ||
      type(x).dims != type(binding.result()).dims)
    return {};
  return Quantized{x, scale, zero};
}

} // namespace cugrt::passes
