// Recognises values of a function for matches of attention: scalars, and operands of products
// behind transposes, scales, reshapes, slices and repeated heads.
#pragma once

#include "compiler/passes/attention/attention_patterns.h"
#include "compiler/passes/value_uses.h"

#include <array>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace cugrt::passes {

class ValueReader {
public:
  ValueReader(ir::Module &module, const ir::Function &function)
      : module_(module), function_(function), uses_(function) {}
  /// Bindings of this block are looked at from now on.
  void enter(uint32_t block);

  ir::Module &module() const { return module_; }
  const ir::Type &type(ir::ValueId value) const {
    return module_.types[function_.value(value).type];
  }
  bool is_floating(ir::ValueId value) const;
  /// Invalid: absent, or no value.
  ir::ValueId operand(const ir::Binding &b, size_t i) const { return function_.operand_of(b, i); }
  std::span<const ir::Attribute> attributes(const ir::Binding &b) const {
    return function_.attributes_of(b);
  }
  bool is_here(const ir::Binding *b) const { return here_.contains(b); }
  /// The maker of a value in the block, else null.
  const ir::Binding *maker(ir::ValueId value) const;
  /// The maker in any block.
  const ir::Binding *maker_anywhere(ir::ValueId value) const { return uses_.maker(value); }
  const std::vector<const ir::Binding *> &readers(ir::ValueId value) const {
    return uses_.readers(value);
  }
  bool is_yielded(ir::ValueId value) const { return uses_.is_yielded(value); }
  /// The only reader in the block, else null.
  const ir::Binding *only_reader(ir::ValueId value) const;

  /// The bytes of a constant of the module; null: it is none.
  const ir::Constant *constant(ir::ValueId value) const;
  /// A constant of one element.
  std::optional<double> scalar(ir::ValueId value) const;
  /// The value that `b` multiplies or divides by a scalar, which also multiplies `factor`; invalid:
  /// it does neither.
  ir::ValueId scaled(const ir::Binding &b, double &factor) const;

  /// Whether a transposition exchanges the last two dimensions and leaves the others.
  bool exchanges(const ir::Binding &transpose) const;

  /// An operand of a product as [.., length, width], of which it has the last two dimensions
  /// `exchanged` or not.
  HeadsOperand peeled(ir::ValueId value, bool exchanged) const;
  /// The dimensions of an operand, read through its axes.
  std::vector<ir::ExprId> dims_of(const HeadsOperand &x) const;
  /// Gives an operand of rank 5 its first two dimensions as one. False where they do not lie so.
  bool join_batch(HeadsOperand &x) const;
  /// An operand of rank 5, `exchanged` or not, as [all but the last two, 1, length, width], with
  /// nothing looked through but scales and that exchange.
  HeadsOperand flattened(ir::ValueId value, bool exchanged) const;
  /// Whether `four` has the first two of five dimensions as one: sequences in two.
  bool joins_batch(const std::vector<ir::ExprId> &five, const std::vector<ir::ExprId> &four) const;
  /// Sequences and heads of an operand of rank 3 before a reshape joined them.
  std::optional<std::array<ir::ExprId, 2>> heads_before(const HeadsOperand &x) const;
  /// Whether all operands have these sequences and heads there.
  bool parts_alike(std::initializer_list<const HeadsOperand *> operands, ir::ExprId sequences,
                   ir::ExprId heads) const;
  /// Whether operands [H, length, width] are the heads of one sequence, as they lie: [length, H,
  /// width], or parts of the channels of an image [1, H width, ..].
  bool are_heads_of_one(std::initializer_list<const HeadsOperand *> operands) const;
  /// Heads of an operand [sequences and heads, length, D] that lie beside each other in rows of a
  /// tensor that it is made of; invalid: none do.
  ir::ExprId heads_in_rows(const HeadsOperand &x) const;
  /// Makes operands rows of heads, [B, length, H, D], of the tensors that these lie in. What lies
  /// so in none is turned, together where several are parts of the same tensor; else it stays.
  void find_rows(const std::array<HeadsOperand *, 3> &operands) const;
  /// Gives an operand of rank 3 its sequences and heads. False where it has others.
  bool part_heads(HeadsOperand &x, ir::ExprId sequences, ir::ExprId heads) const;

private:
  std::vector<ir::ExprId> present_dims(const HeadsOperand &x) const;
  void peel(HeadsOperand &x) const;
  bool peel_repeated_heads(HeadsOperand &x, const ir::Binding &reshape,
                           const std::vector<ir::ExprId> &joined) const;
  bool peel_joined_heads(HeadsOperand &x, const ir::Binding &reshape) const;
  bool peel_joined_batch(HeadsOperand &x, const ir::Binding &reshape) const;
  bool peel_slice(HeadsOperand &x, const ir::Binding &b) const;
  std::optional<std::vector<ir::ExprId>> shape(ir::ValueId value) const;

  ir::Module &module_; // expressions are added
  const ir::Function &function_;
  const ValueUses uses_;
  std::unordered_set<const ir::Binding *> here_; // bindings of the block
};

// Facts about the masks of attention before a run.

class MaskFacts {
public:
  explicit MaskFacts(const ValueReader &read) : read_(read) {}

  /// Whether it may hide positions by -infinity, so that of a row nothing may be left. Overflow of
  /// finite numbers is left out of account, but for casts of floats.
  bool may_hide(const MaskPart &part);
  /// Whether it hides, of `size` positions from `size` queries, all behind the query's own and
  /// nothing else, by at most `most`.
  bool is_causal(const MaskPart &part, ir::ExprId size, double most) const;
  /// The mask of which the condition says, row by row, whether its largest element is -infinity;
  /// invalid: it says something else.
  ir::ValueId largest_is_minus_infinity(ir::ValueId condition) const;

private:
  /// row * query + column * position + rest, of integers.
  struct Places {
    int64_t row = 0, column = 0, rest = 0;
  };
  bool is_finite(ir::ValueId value, int depth);
  bool find_finite(ir::ValueId value, int depth);
  bool is_lower_triangle(ir::ValueId condition, ir::ExprId size, int depth) const;
  bool is_causal_bias(ir::ValueId mask, ir::ExprId size, double most) const;
  std::optional<Places> places(ir::ValueId value, ir::ExprId size, int depth) const;
  std::optional<Places> counted(ir::ValueId value, ir::ExprId size) const;
  std::optional<int64_t> square(ir::ValueId value, ir::ExprId size) const;

  const ValueReader &read_;
  std::unordered_map<uint32_t, bool> finite_; // by value: sums may share their terms
};

} // namespace cugrt::passes
