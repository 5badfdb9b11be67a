// The product of buckets, and expressions that choose in it.
#include "plan/symbols/bucket_boxes.h"

#include <algorithm>

namespace cugrt::plan {

BucketBoxes::Axis BucketBoxes::make_axis(std::span<const ir::Interval> bounds,
                                         const Bucket &bucket) {
  Axis axis{bucket.symbol, bucket.of, {}, {}};
  const ir::Interval all = bounds[bucket.of.index];
  int64_t lower = all.lower;
  for (int64_t size : bucket.sizes) {
    const int64_t upper = std::min(size, all.upper);
    if (lower > upper)
      continue; // no value has this bucket
    axis.values.push_back({size, size});
    axis.of_values.push_back({lower, upper});
    if (upper == all.upper)
      return axis;
    lower = upper + 1;
  }
  axis.values.push_back({lower, all.upper});
  axis.of_values.push_back({lower, all.upper});
  return axis;
}

BucketBoxes::BucketBoxes(std::span<const ir::Interval> bounds, std::span<const Bucket> buckets,
                         std::vector<ir::JointLimit> limits)
    : limits_(std::move(limits)) {
  boxes_.emplace_back(bounds.begin(), bounds.end());
  split(bounds, buckets);
  std::vector<size_t> empty;
  for (size_t box = 0; box < boxes_.size(); ++box)
    if (!ir::tighten(boxes_[box], limits_))
      empty.push_back(box);
  size_t full = 0;
  while (full < empty.size() && empty[full] == full)
    ++full;
  if (full < boxes_.size())
    for (size_t box : empty)
      boxes_[box] = boxes_[full];
}

void BucketBoxes::split(std::span<const ir::Interval> bounds, std::span<const Bucket> buckets) {
  for (const Bucket &bucket : buckets) {
    Axis axis = make_axis(bounds, bucket);
    if (boxes_.size() * axis.values.size() > kMostBoxes) {
      axes_.clear();
      boxes_.assign(1, {bounds.begin(), bounds.end()});
      return;
    }
    std::vector<std::vector<ir::Interval>> product;
    for (const std::vector<ir::Interval> &box : boxes_)
      for (size_t v = 0; v < axis.values.size(); ++v) {
        product.push_back(box);
        product.back()[axis.symbol.index] = axis.values[v];
        product.back()[axis.of.index] = axis.of_values[v];
      }
    boxes_ = std::move(product);
    axes_.push_back(std::move(axis));
  }
}

std::optional<size_t> BucketBoxes::find(std::span<const int64_t> symbols) const {
  size_t box = 0;
  for (const Axis &axis : axes_) {
    const int64_t value = symbols[axis.symbol.index];
    size_t v = 0;
    while (v < axis.values.size() && axis.values[v].upper < value)
      ++v;
    if (v == axis.values.size() || value < axis.values[v].lower)
      return std::nullopt;
    box = box * axis.values.size() + v;
  }
  return box;
}

ExprId BucketBoxes::table(ir::ExprPool &exprs, std::span<const int64_t> by_box) const {
  return choose(exprs, 0, 0, axes_.empty() ? 1 : axes_[0].values.size(), by_box);
}

/// Chooses among the axis's values [begin, end); earlier axes' choices have selected `by_box`.
ExprId BucketBoxes::choose(ir::ExprPool &exprs, size_t axis, size_t begin, size_t end,
                           std::span<const int64_t> by_box) const {
  if (axis == axes_.size())
    return exprs.constant(by_box[0]);
  if (end - begin == 1) {
    const size_t inner = by_box.size() / axes_[axis].values.size();
    const size_t next = axis + 1;
    return choose(exprs, next, 0, next < axes_.size() ? axes_[next].values.size() : 1,
                  by_box.subspan(begin * inner, inner));
  }
  const size_t middle = begin + (end - begin) / 2;
  const ExprId low = choose(exprs, axis, begin, middle, by_box),
               high = choose(exprs, axis, middle, end, by_box);
  if (low == high)
    return low;
  const ExprId is_low = exprs.make(ir::ExprKind::le, exprs.symbol(axes_[axis].symbol),
                                   exprs.constant(axes_[axis].values[middle - 1].upper));
  return exprs.make(ir::ExprKind::select, is_low, low, high);
}

std::string BucketBoxes::label(size_t box, std::span<const std::string> names) const {
  std::string text;
  size_t rest = boxes_.size();
  for (const Axis &axis : axes_) {
    rest /= axis.values.size();
    const ir::Interval values = axis.values[box / rest % axis.values.size()];
    text += (text.empty() ? "" : ", ") + names[axis.symbol.index] +
            (values.lower == values.upper
                 ? " = " + std::to_string(values.lower)
                 : " from " + std::to_string(values.lower) + " to " + std::to_string(values.upper));
  }
  return text;
}

static std::vector<ir::Interval> bounds_of(const Function &function) {
  std::vector<ir::Interval> bounds;
  bounds.reserve(function.symbols.size());
  for (const Symbol &symbol : function.symbols)
    bounds.push_back(symbol.bounds);
  return bounds;
}

/// With limits, the boxes of these buckets show the values that the limits leave.
static std::vector<std::vector<ir::Interval>> parts_of(std::span<const ir::Interval> bounds,
                                                       std::span<const Bucket> buckets,
                                                       const std::vector<ir::JointLimit> &limits) {
  if (limits.empty() || buckets.empty())
    return {};
  const BucketBoxes boxes(bounds, buckets, limits);
  return boxes.count() > 1 ? boxes.all() : std::vector<std::vector<ir::Interval>>();
}

ir::SymbolDomain symbol_domain(const std::vector<ir::Interval> &bounds,
                               std::span<const Bucket> buckets,
                               const std::vector<ir::JointLimit> &limits) {
  ir::SymbolDomain domain(bounds, limits);
  domain.set_parts(parts_of(bounds, buckets, limits));
  return domain;
}

/// Makes one box, whatever the buckets.
BucketBoxes one_box(std::vector<ir::Interval> bounds, std::span<const Bucket> buckets,
                    std::vector<ir::JointLimit> limits) {
  auto parts = parts_of(bounds, buckets, limits);
  BucketBoxes boxes(bounds, {}, std::move(limits));
  boxes.parts_ = std::move(parts);
  return boxes;
}

ir::SymbolDomain symbol_domain(const ir::ExprPool &exprs, const Function &function) {
  return symbol_domain(bounds_of(function), function.buckets,
                       ir::limits_of(exprs, function.constraints));
}

BucketBoxes boxes_of(const ir::ExprPool &exprs, const Function &function) {
  std::vector<SymbolId> symbols;
  if (!function.buckets.empty())
    for (const Buffer &buffer : function.buffers)
      if (buffer.base == BufferBase::arena)
        exprs.collect_symbols(buffer.offset_bytes, symbols);
  const bool tables = std::any_of(symbols.begin(), symbols.end(), [&](SymbolId symbol) {
    return function.symbols[symbol.index].source == ir::SymbolSource::bucket;
  });
  const std::vector<ir::JointLimit> limits = ir::limits_of(exprs, function.constraints);
  return tables ? BucketBoxes(bounds_of(function), function.buckets, limits)
                : one_box(bounds_of(function), function.buckets, limits);
}

} // namespace cugrt::plan
