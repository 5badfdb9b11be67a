// Boxes of symbol values. The symbol of a bucket has few values, and what differs from one to the
// other, offsets above all, can be planned for each by itself:
//
//   buckets n = [8, 32], n up to 100     box 0   n in [0, 8]      n_bucket = 8
//                                        box 1   n in [9, 32]     n_bucket = 32
//                                        box 2   n in [33, 100]   n_bucket in [33, 100]
//
// With several such symbols there is a box for each of the one with each of the other, the last
// symbol's fastest. Every run has its values in exactly one box.
#pragma once

#include "plan/format/plan.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cugrt::plan {

class BucketBoxes {
public:
  static constexpr size_t kMostBoxes = 64;

  /// Makes one box, `bounds` themselves, if there are no buckets, or more than kMostBoxes boxes.
  BucketBoxes(std::span<const ir::Interval> bounds, std::span<const Bucket> buckets,
              std::vector<ir::JointLimit> limits = {});

  size_t count() const { return boxes_.size(); }
  /// Its values within the limits. No run has its values in a box that they leave empty: that one
  /// is as another.
  ir::Domain operator[](size_t box) const { return {boxes_[box], limits_, parts_}; }
  /// All boxes, by symbol.
  const std::vector<std::vector<ir::Interval>> &all() const { return boxes_; }
  /// The box in which these values, by symbol, lie; none where they are out of all bounds.
  std::optional<size_t> find(std::span<const int64_t> symbols) const;
  /// An expression that has the value `by_box[b]` in box b.
  ExprId table(ir::ExprPool &exprs, std::span<const int64_t> by_box) const;
  /// "n_bucket = 8", or "n_bucket from 33 to 100".
  std::string label(size_t box, std::span<const std::string> names) const;

private:
  /// A symbol with its values, each with those of the symbol that it is the bucket of.
  struct Axis {
    SymbolId symbol, of;
    std::vector<ir::Interval> values, of_values;
  };
  static Axis make_axis(std::span<const ir::Interval> bounds, const Bucket &bucket);
  void split(std::span<const ir::Interval> bounds, std::span<const Bucket> buckets);
  friend BucketBoxes one_box(std::vector<ir::Interval> bounds, std::span<const Bucket> buckets,
                             std::vector<ir::JointLimit> limits);
  ExprId choose(ir::ExprPool &exprs, size_t axis, size_t begin, size_t end,
                std::span<const int64_t> by_box) const;

  std::vector<Axis> axes_;
  std::vector<std::vector<ir::Interval>> boxes_; // as small as the limits allow
  std::vector<ir::JointLimit> limits_;
  std::vector<std::vector<ir::Interval>> parts_; // of the one box, where others were asked for
};

/// The boxes of a plan's function if any buffer's place in an arena depends on a bucket, else one
/// box.
BucketBoxes boxes_of(const ir::ExprPool &exprs, const Function &function);

/// Every value that a run may bring. Where there are constraints and buckets it has the boxes as
/// parts: a constraint limits what callers bring, and thereby the buckets that they come into.
ir::SymbolDomain symbol_domain(const ir::ExprPool &exprs, const Function &function);
/// The same of symbols within `bounds`.
ir::SymbolDomain symbol_domain(const std::vector<ir::Interval> &bounds,
                               std::span<const Bucket> buckets,
                               const std::vector<ir::JointLimit> &limits);

} // namespace cugrt::plan
