// Symbols are raised from their lower bounds, each by bisection, one after the other; every one of
// them is first once, with the others behind it in both directions.
#include "plan/validate/validate_parts.h"

#include <algorithm>

namespace cugrt::plan {
namespace {

constexpr size_t kMostFirst = 16;

class PointFinder {
public:
  PointFinder(const ir::ExprPool &exprs, const Function &function) : exprs_(exprs), f_(function) {
    for (const Constraint &constraint : f_.constraints)
      exprs_.collect_symbols(constraint.expr, limited_);
  }

  std::vector<std::vector<int64_t>> run() const {
    std::vector<std::vector<int64_t>> points;
    const size_t count = limited_.size();
    for (size_t first = 0; first < std::min(count, kMostFirst); ++first)
      for (bool backward : {false, true}) {
        std::vector<int64_t> point = lowest();
        if (!is_kept(point))
          return {};
        for (size_t i = 0; i < count; ++i)
          raise(point, limited_[(backward ? first + count - i : first + i) % count]);
        for (const Bucket &bucket : f_.buckets)
          point[bucket.symbol.index] = ir::round_up_to_bucket(bucket.sizes, point[bucket.of.index]);
        if (is_kept(point) && std::find(points.begin(), points.end(), point) == points.end())
          points.push_back(std::move(point));
      }
    return points;
  }

private:
  std::vector<int64_t> lowest() const {
    std::vector<int64_t> point;
    for (const Symbol &symbol : f_.symbols)
      point.push_back(symbol.bounds.upper == INT64_MAX ? symbol.bounds.lower : symbol.bounds.upper);
    for (SymbolId symbol : limited_)
      point[symbol.index] = f_.symbols[symbol.index].bounds.lower;
    return point;
  }

  bool is_kept(const std::vector<int64_t> &point) const {
    return std::all_of(f_.constraints.begin(), f_.constraints.end(),
                       [&](const Constraint &constraint) {
                         const auto value = exprs_.evaluate(constraint.expr, point);
                         return value.ok() && *value <= constraint.most;
                       });
  }

  void raise(std::vector<int64_t> &point, SymbolId symbol) const {
    int64_t &value = point[symbol.index];
    int64_t low = value, high = f_.symbols[symbol.index].bounds.upper;
    if (value = high; high == INT64_MAX || !is_kept(point)) {
      while (high - low > 1) {
        value = low + (high - low) / 2;
        (is_kept(point) ? low : high) = value;
      }
      value = low;
    }
  }

  const ir::ExprPool &exprs_;
  const Function &f_;
  std::vector<SymbolId> limited_;
};

} // namespace

std::vector<std::vector<int64_t>> edge_points(const ir::ExprPool &exprs, const Function &function) {
  return PointFinder(exprs, function).run();
}

} // namespace cugrt::plan
