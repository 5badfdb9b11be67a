// Values that symbols may have: bounds of each, and limits that several keep jointly.
//
//   upper_bounds = {b = 64, s = 4096}, lower_bounds = {b = 1, s = 1}, constraints = [b*s <= 4096]
//
//     box      b in [1, 64], s in [1, 4096]
//     limits   b*s <= 4096
//
// Limits hold numbers of symbols alone, so one that was made for a module serves its plan too.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace cugrt::ir {

/// Inclusive bounds; INT64_MIN and INT64_MAX mean unbounded.
struct Interval {
  int64_t lower = INT64_MIN, upper = INT64_MAX;
  friend bool operator==(const Interval &, const Interval &) = default;
};

/// The intersection of both; `own` if it is empty.
inline Interval narrowed(Interval own, Interval by) {
  const Interval both{std::max(own.lower, by.lower), std::min(own.upper, by.upper)};
  return both.lower <= both.upper ? both : own;
}

/// coefficient * the product of `symbols`, which ascend; powers are repeated.
struct Monomial {
  int64_t coefficient = 1; // at least 1
  std::vector<uint32_t> symbols;
  friend bool operator==(const Monomial &, const Monomial &) = default;
};

/// The sum of `terms` is at most `most`. Says nothing of symbols that may be negative.
struct JointLimit {
  std::vector<Monomial> terms; // no two of the same symbols
  int64_t most = 0;
  friend bool operator==(const JointLimit &, const JointLimit &) = default;
};

/// A box, without the points that break a limit, and outside of all `parts`, if there are any. A
/// view: its parts must live as long.
struct Domain {
  std::span<const Interval> box; // by symbol
  std::span<const JointLimit> limits{};
  std::span<const std::vector<Interval>> parts{};

  Domain(std::span<const Interval> of, std::span<const JointLimit> with = {},
         std::span<const std::vector<Interval>> within = {})
      : box(of), limits(with), parts(within) {}
  Domain(const std::vector<Interval> &of) : box(of) {}
};

/// Lowers upper bounds to the largest values that the limits and the other symbols' lower bounds
/// leave. If they leave none, returns false and changes nothing.
bool tighten(std::vector<Interval> &box, std::span<const JointLimit> limits);

/// Whether no limit is broken; `values` by symbol. A sum that overflows breaks its limit.
bool keeps(std::span<const JointLimit> limits, std::span<const int64_t> values);

/// A value for each symbol of a box that keeps the limits, none of which can be larger by itself:
/// symbols are raised from their lower bounds one after the other, the first, or the last, before
/// the others. The lower bounds where these break a limit.
std::vector<int64_t> highest_point(const Domain &domain, bool last_first);

/// The owner of a domain.
class SymbolDomain {
public:
  SymbolDomain() = default;
  /// The box is made as small as the limits allow.
  explicit SymbolDomain(std::vector<Interval> box, std::vector<JointLimit> limits = {})
      : box_(std::move(box)), limits_(std::move(limits)) {
    tighten(box_, limits_);
  }

  operator Domain() const { return {box_, limits_, parts_}; }
  size_t size() const { return box_.size(); }
  const Interval &operator[](size_t symbol) const { return box_[symbol]; }
  std::span<const Interval> box() const { return box_; }
  const std::vector<JointLimit> &limits() const { return limits_; }

  /// Narrows the bounds of a symbol; does nothing if `by` contradicts them.
  void narrow(size_t symbol, Interval by) {
    box_[symbol] = narrowed(box_[symbol], by);
    tighten(box_, limits_);
  }
  /// Adds a symbol.
  void add(Interval bounds) { box_.push_back(bounds); }
  void add(JointLimit limit) {
    limits_.push_back(std::move(limit));
    tighten(box_, limits_);
  }
  /// Together they hold every value that a run may bring.
  void set_parts(std::vector<std::vector<Interval>> parts) { parts_ = std::move(parts); }

private:
  std::vector<Interval> box_;
  std::vector<JointLimit> limits_;
  std::vector<std::vector<Interval>> parts_;
};

} // namespace cugrt::ir
