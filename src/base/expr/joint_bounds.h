// Bounds of sums of products under joint limits (private to the IR layer).
#pragma once

#include "base/expr/expr.h"
#include "base/expr/wide.h"

#include "base/check.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

namespace cugrt::ir {

class JointBounds {
public:
  /// Bounds of a part that is no sum or product, such as a quotient.
  using RangeOf = std::function<WideInterval(ExprId)>;

  /// Calls `range_of` only for parts of an expression. Each step takes from `work`; once that is
  /// used up, bounds stay as wide as they are. All arguments must outlive this.
  JointBounds(const ExprPool &exprs, const Domain &domain, const RangeOf &range_of, uint32_t &work)
      : exprs_(exprs), domain_(domain), range_of_(range_of), work_(work) {}

  /// Bounds of a sum or product: infinite where nothing follows from the limits.
  WideInterval range(ExprId expr);
  /// The largest value of the product of `factors`, of which the last is divided by `divisor` (at
  /// least 1) and rounded up.
  Wide upper_of_product(std::span<const ExprId> factors, int64_t divisor);

private:
  // An atom is a symbol's number, or that of an expression which is taken as a whole.
  static constexpr uint32_t kWhole = uint32_t(1) << 31;
  static constexpr size_t kMostAtoms = 24;
  /// The atoms of one product: ascending, powers repeated. Copies allocate nothing.
  class Atoms {
  public:
    using value_type = uint32_t;
    Atoms() = default;
    Atoms(std::initializer_list<uint32_t> atoms) : Atoms(atoms.begin(), atoms.end()) {}
    template <class It> Atoms(It first, It last) {
      std::copy(first, last, std::back_inserter(*this));
    }
    void push_back(uint32_t atom) {
      CUGRT_CHECK(count_ < kMostAtoms);
      atoms_[count_++] = atom;
    }
    void erase(const uint32_t *at) {
      std::copy(at + 1, end(), atoms_.begin() + (at - begin()));
      --count_;
    }
    size_t size() const { return count_; }
    bool empty() const { return count_ == 0; }
    const uint32_t *begin() const { return atoms_.data(); }
    const uint32_t *end() const { return atoms_.data() + count_; }
    bool operator==(const Atoms &other) const {
      return std::equal(begin(), end(), other.begin(), other.end());
    }

  private:
    std::array<uint32_t, kMostAtoms> atoms_;
    size_t count_ = 0;
  };
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
  bool either_bounds(const Terms &terms, uint32_t chosen);
  Wide upper_by_choice(const Terms &terms);
  Wide upper_by_choice(const Terms &terms, uint32_t chosen);

  const ExprPool &exprs_;
  const Domain &domain_;
  const RangeOf &range_of_;
  uint32_t &work_;
};

} // namespace cugrt::ir
