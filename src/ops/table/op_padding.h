// What each op does with elements that a bucket adds: the facts that are followed, and the frame of
// an op's rule. OpPadding has a function for each rule of the rows, in the file of the rule's ops;
// compiler/passes/padding_effects.cpp walks through a function's bindings and asks them.
#pragma once

#include "ops/table/ops.h"

#include <string>
#include <vector>

namespace cugrt::padding {

using ir::ExprId;
using ir::Op;

/// The elements that a bucket adds along one dimension, whatever their other coordinates.
enum class Fill : uint8_t {
  zero,
  one,
  finite,  // numbers
  lowest,  // -inf, or a number so low that it counts for nothing beside others
  highest, // likewise
  place,   // numbers that follow from positions (range). As the condition of where, the author's
           // word that it hides what is added.
  any,
};
inline bool is_number(Fill fill) { return fill <= Fill::finite || fill == Fill::place; }

/// One dimension of a value. The caller's elements stand in front, added ones behind, along each of
/// `parts`: one, or several that a reshape joined, the outermost first. All parts but the first are
/// padded.
struct Dim {
  std::vector<ExprId> parts;
  Fill fill = Fill::any;
  auto operator<=>(const Dim &) const = default;
};

/// Facts about one value. `all`: the fill of a constant whose elements are alike; else `finite`.
struct Facts {
  std::vector<Dim> dims;
  Fill all = Fill::finite;
  auto operator<=>(const Facts &) const = default;
};

/// The symbols of the function that has buckets, which of them are padded, and expressions in terms
/// of them.
class PaddedSymbols {
public:
  /// `function` and `padded` (by symbol) outlive this.
  PaddedSymbols(const ir::ExprPool &known, const ir::Function &function,
                const std::vector<bool> &padded)
      : exprs(known), function_(function), padded_(padded) {}

  bool is_padded(ExprId expr) const;
  /// The names of the padded symbols in `exprs`, with commas.
  std::string names_of(std::span<const ExprId> exprs) const;
  /// Nothing is known but where what callers bring stands.
  Facts plain(std::vector<ExprId> dims) const;
  /// The quotient of what `b` divides for all values of the symbols; else invalid.
  ExprId quotient(ExprId a, ExprId b);

  ir::ExprPool exprs; // the module's, and what is added to them

private:
  const ir::Function &function_;
  const std::vector<bool> &padded_;
};

/// An operand of an op.
struct PaddingOperand {
  bool present = false;
  std::string name;
  ir::DType dtype = ir::DType::f32;
  std::vector<ExprId> dims; // of a tensor or a shape
  Facts facts;              // of a tensor
  bool is_number() const;   // all that was added, along whichever dimension
};

/// The rule of one op. It must carry each padded dimension of an operand to a dimension of a
/// result, or declare it harmless; a dimension that it does not mention is refused.
class OpPadding {
public:
  OpPadding(PaddedSymbols &all, Op op, std::span<const ir::Attribute> attributes,
            std::vector<PaddingOperand> operands, std::vector<std::vector<ExprId>> results);

  /// The facts of the results. An error is a sentence that begins behind the op's name, such as
  /// "runs along ..".
  Result<std::vector<Facts>> run();

private:
  bool has(size_t i) const { return i < operands_.size() && operands_[i].present; }
  size_t rank(size_t i) const { return has(i) ? operands_[i].dims.size() : 0; }
  bool is_padded(size_t i, size_t dim) const {
    return dim < rank(i) && all_.is_padded(operands_[i].dims[dim]);
  }
  int64_t integer(const char *name) const { return ir::op_integer(op_, attributes_, name); }
  bool flag(const char *name) const { return ir::op_bool(op_, attributes_, name); }
  std::vector<int64_t> list(const char *name) const {
    return ir::op_integers(op_, attributes_, name);
  }
  size_t axis(int64_t number, size_t operand = 0) const {
    return *ir::normalize_axis(number, rank(operand));
  }
  size_t axis() const { return axis(integer("axis")); }

  Status refuse(size_t operand, size_t dim, const char *how, bool may_choose = false) const;
  /// Results do not depend on elements added along this dimension if they are `harmless`; with
  /// Fill::any they always do.
  Status take(size_t operand, size_t dim, Fill harmless);
  /// It becomes a dimension of a result, in its order.
  Status carry(size_t operand, size_t dim, size_t to, size_t result = 0);
  /// Likewise, for a dimension with other elements: the caller's must be in front.
  Status follow(size_t operand, size_t dim, size_t to, size_t result = 0);
  /// Aligned at the last dimension, as NumPy broadcasts; the last `without` ones are left out.
  Status align(size_t operand, size_t without = 0);
  /// The fill of operand i along dimension `to` of the result.
  Fill fill(size_t i, size_t to, size_t result = 0) const;
  Fill linear(size_t to) const;
  Fill like_first(size_t to) const;
  /// Sets the fills of all results' dimensions.
  template <class F> void fills(F of) {
    for (size_t r = 0; r < results_.size(); ++r)
      for (size_t d = 0; d < results_[r].dims.size(); ++d)
        results_[r].dims[d].fill = of(d, r);
  }

  Status elementwise();
  Fill elementwise_fill(size_t to) const;
  Status convolution(Fill harmless, size_t w_channels, size_t w_contracted);

  // The rules, by the names in rows.
#define rule(name) Status name();
#define rule_padded(name, padding)                                                                 \
  Status name() { return padding(); }
#define same(name)
#define CUGRT_OP(name, operands, results, RULE, ...) RULE
#include "ops/table/ops.def"

  PaddedSymbols &all_;
  Op op_;
  std::span<const ir::Attribute> attributes_;
  std::vector<PaddingOperand> operands_;
  std::vector<std::vector<bool>> covered_; // by operand and dimension
  std::vector<Facts> results_;
  /// For each result and dimension: the operands' dimensions that it comes from.
  std::vector<std::vector<std::vector<std::pair<size_t, size_t>>>> sources_;
};

/// The fill that covers both choices.
Fill either(Fill a, Fill b);

} // namespace cugrt::padding
