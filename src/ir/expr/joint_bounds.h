// Bounds of sums of products under joint limits (private to the IR layer).
#pragma once

#include "ir/expr.h"
#include "ir/wide.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace cugrt::ir {

class JointBounds {
public:
  /// Bounds of a part that is no sum or product, such as a quotient.
  using RangeOf = llvm::function_ref<WideInterval(ExprId)>;

  /// `range_of` is called for parts of what is asked for alone. Each step takes from `work`; when
  /// nothing is left bounds stay as wide as they are. All arguments must outlive it.
  JointBounds(const ExprPool &exprs, const Domain &domain, RangeOf range_of, uint32_t &work)
      : exprs_(exprs), domain_(domain), range_of_(range_of), work_(work) {}

  /// Bounds of a sum or product: infinite where nothing follows from the limits.
  WideInterval range(ExprId expr);
  /// The largest value of the product of `factors`, of which the last is divided by `divisor` (at
  /// least 1) and rounded up.
  Wide upper_of_product(std::span<const ExprId> factors, int64_t divisor);

private:
  // An atom is a symbol's number, or that of an expression which is taken as a whole.
  static constexpr uint32_t kWhole = uint32_t(1) << 31;
  static constexpr size_t kMostAtoms = 24;               // so that none of these allocates
  using Atoms = llvm::SmallVector<uint32_t, kMostAtoms>; // ascending, powers repeated
  struct Term {
    Wide coefficient;
    Atoms atoms;
  };
  using Terms = std::vector<Term>;

  bool spend(size_t steps);
  bool expand(ExprId expr, Terms &out);
  bool multiply(const Terms &a, const Terms &b, Terms &out);
  bool add_scaled(Terms &to, const Terms &from, Wide scale);
  WideInterval atom(uint32_t atom);
  WideInterval plain(const Atoms &atoms);
  bool never_negative(const Atoms &atoms);
  Wide lowest(std::span<const uint32_t> symbols);
  Wide lowest(const Monomial &term);
  Wide upper(const Atoms &atoms);
  Wide upper(const Term &term);
  Wide upper(const Terms &terms);
  Wide upper_by_limit(const Terms &terms, const Term &term, const JointLimit &limit,
                      const Monomial &monomial);
  Wide upper_by_quotient(const Terms &terms);

  const ExprPool &exprs_;
  const Domain &domain_;
  RangeOf range_of_;
  uint32_t &work_;
};

} // namespace cugrt::ir
