// Recognises quantised values, as QuantizeLinear and DequantizeLinear are written in our ops:
//
//   dequantised   mul(cast(sub(cast(q, i32), cast(zero, i32))), scale), without zero point
//                 mul(cast(q), scale); q i8 or u8, the cast to f32, f16 or bf16
//   quantised     cast(clip(add(round(div(x, scale)), cast(zero)))), limited to all of i8 or u8;
//                 the add may be missing
//
// All ops of a chain lie in one block, and nothing writes what they make.
#pragma once

#include "compiler/passes/value_uses.h"
#include "ops/table/ops.h"

#include <optional>
#include <unordered_set>
#include <vector>

namespace cugrt::passes {

/// (q - zero) * scale. Scale and zero point have one element, or stretch over q as it lies.
struct Dequantized {
  ir::ValueId q, scale;
  ir::ValueId zero; // of q's dtype; invalid: 0
};

/// round(x / scale) + zero, with one scale and one zero point.
struct Quantized {
  ir::ValueId x, scale;
  ir::ValueId zero; // invalid: 0
};

class QuantizedValues {
public:
  /// `function` belongs to `module`.
  QuantizedValues(const ir::Module &module, const ir::Function &function);
  /// Bindings of this block are looked at from now on; none when it is left.
  void enter(uint32_t block);
  void leave() { here_.clear(); }

  std::optional<Dequantized> dequantized(const ir::Binding &binding) const;
  std::optional<Quantized> quantized(const ir::Binding &binding) const;

  bool has_one_element(ir::ValueId value) const;
  /// Both absent, or constants of one element with the same bits.
  bool are_alike(ir::ValueId a, ir::ValueId b) const;
  /// A constant, perhaps reshaped; null: it is none.
  const ir::Constant *constant(ir::ValueId value) const;
  /// Whether a constant scale of one element can multiply 8-bit numbers and divide the products to
  /// the same numbers again.
  bool is_reversible(ir::ValueId scale) const;

private:
  const ir::Type &type(ir::ValueId value) const {
    return module_.types[function_.value(value).type];
  }
  /// The binding of the block that makes the value by this op; null: there is none such.
  const ir::Binding *made_by(ir::ValueId value, ir::Op op) const;
  /// Invalid: the value is no result of a cast.
  ir::ValueId cast_from(ir::ValueId value) const;
  /// The zero point as a value of the elements' dtype, before it was cast; invalid: unknown.
  ir::ValueId zero_point(ir::ValueId value, ir::DType dtype) const;
  bool is_byte(ir::ValueId value) const;
  bool is_zero(ir::ValueId value) const;

  const ir::Module &module_;
  const ir::Function &function_;
  const ValueUses uses_;
  const std::vector<bool> written_; // by value
  std::unordered_set<const ir::Binding *> here_;
};

} // namespace cugrt::passes
