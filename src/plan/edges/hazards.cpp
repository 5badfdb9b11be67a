// Byte ranges of buffers, and bytes that two steps share.
#include "plan/edges/hazards.h"

#include <algorithm>

namespace cugrt::plan {

ByteRange byte_range(const ir::ExprPool &exprs, const Buffer &buffer, const ir::Domain &domain) {
  ByteRange range{buffer.base, 0, buffer.index, 0, INT64_MAX};
  if (!buffer.bytes.valid())
    return range;
  ir::Interval offset = exprs.range(buffer.offset_bytes, domain);
  ir::Interval bytes = exprs.range(buffer.bytes, domain);
  range.begin = std::max<int64_t>(offset.lower, 0);
  int64_t end;
  if (offset.upper != INT64_MAX && bytes.upper != INT64_MAX &&
      !__builtin_add_overflow(offset.upper, bytes.upper, &end))
    range.end = std::max(range.begin, end);
  return range;
}

/// Bytes of a tensor that has elements: its size with strides has a select for a tensor without.
static ExprId bytes_of_some(const ir::ExprPool &exprs, ExprId bytes) {
  const ir::ExprNode &node = exprs[bytes];
  if (node.kind != ir::ExprKind::select)
    return bytes;
  if (exprs.as_constant(node.b) == 0)
    return node.c;
  return exprs.as_constant(node.c) == 0 ? node.b : bytes;
}

static Buffer resolved(const Buffer &buffer, const MatchedSymbols &matched) {
  Buffer copy = buffer;
  copy.dims = matched.resolve(std::move(copy.dims));
  copy.bytes = matched.resolve(copy.bytes);
  copy.offset_bytes = matched.resolve(copy.offset_bytes);
  return copy;
}

static bool lies_within(ir::ExprPool &exprs, const Buffer &buffer, ExprId offset_bytes,
                        ExprId whole, const ir::Domain &domain) {
  if (exprs.as_constant(offset_bytes) == 0 && buffer.bytes == whole)
    return true;
  std::vector<ir::Interval> some(domain.box.begin(), domain.box.end()); // no dimension is 0
  for (ExprId dim : buffer.dims)
    if (exprs.as_constant(dim) == 0) {
      return true;
    } else if (exprs[dim].kind == ir::ExprKind::symbol) {
      ir::Interval &symbol = some[size_t(exprs[dim].value)];
      symbol.lower = std::max<int64_t>(symbol.lower, 1);
      if (symbol.lower > symbol.upper)
        return true;
    }
  if (!ir::tighten(some, domain.limits))
    return true;
  const ExprId end = exprs.add(offset_bytes, bytes_of_some(exprs, buffer.bytes));
  return exprs.never_negative(exprs.sub(whole, end), {some, domain.limits});
}

bool lies_within(ir::ExprPool &exprs, const Buffer &buffer, ExprId offset_bytes, ExprId whole,
                 const ir::Domain &domain, const MatchedSymbols &matched) {
  return lies_within(exprs, buffer, offset_bytes, whole, domain) ||
         (!matched.empty() &&
          lies_within(exprs, resolved(buffer, matched), matched.resolve(offset_bytes),
                      matched.resolve(whole), domain));
}

static bool may_overlap(ir::ExprPool &exprs, const Buffer &a, const Buffer &b,
                        const ir::Domain &domain) {
  if (a.base != b.base || a.index != b.index)
    return false;
  if (!a.bytes.valid() || !b.bytes.valid())
    return true;
  ByteRange x = byte_range(exprs, a, domain), y = byte_range(exprs, b, domain);
  if (x.end <= y.begin || y.end <= x.begin)
    return false;
  auto before = [&](const Buffer &low, const Buffer &high) {
    ExprId end = exprs.add(low.offset_bytes, low.bytes);
    return exprs.range(exprs.sub(high.offset_bytes, end), domain).lower >= 0;
  };
  return !before(a, b) && !before(b, a);
}

bool may_overlap(ir::ExprPool &exprs, const Buffer &a, const Buffer &b, const ir::Domain &domain,
                 const MatchedSymbols &matched) {
  return may_overlap(exprs, a, b, domain) &&
         (matched.empty() ||
          may_overlap(exprs, resolved(a, matched), resolved(b, matched), domain));
}

bool always_overlap(ir::ExprPool &exprs, const Buffer &a, const Buffer &b, const ir::Domain &domain,
                    const MatchedSymbols &matched) {
  if (a.tensor != b.tensor || a.base != b.base || a.index != b.index || !a.bytes.valid() ||
      !b.bytes.valid() || exprs.range(a.bytes, domain).upper <= 0 ||
      exprs.range(b.bytes, domain).upper <= 0)
    return false;
  if (matched.same(a.offset_bytes, b.offset_bytes))
    return true;
  auto reaches = [&](const Buffer &low, const Buffer &high) {
    if (!low.strides.empty()) // its elements may lie on both sides of the other's
      return false;
    const ExprId ahead = matched.resolve(exprs.sub(high.offset_bytes, low.offset_bytes));
    const ExprId rest = exprs.sub(matched.resolve(low.bytes), ahead);
    return exprs.range(ahead, domain).lower >= 0 && exprs.range(rest, domain).lower > 0;
  };
  return reaches(a, b) || reaches(b, a);
}

ByteRanges::ByteRanges(const Plan &plan, const Function &function) {
  const BucketBoxes boxes = boxes_of(plan.exprs, function);
  box_count_ = boxes.count();
  ranges_.reserve(function.buffers.size());
  const ir::SymbolDomain domain = symbol_domain(plan.exprs, function);
  for (const Buffer &buffer : function.buffers) {
    if (box_count_ > 1)
      starts_.push_back(uint32_t(ranges_.size()));
    if (box_count_ == 1 || buffer.base != BufferBase::arena) {
      ranges_.push_back(byte_range(plan.exprs, buffer, domain));
      continue;
    }
    for (size_t box = 0; box < box_count_; ++box) {
      ranges_.push_back(byte_range(plan.exprs, buffer, boxes[box]));
      ranges_.back().box = uint16_t(box);
    }
  }
  if (box_count_ > 1)
    starts_.push_back(uint32_t(ranges_.size()));
}

/// The first pair of ranges that overlap; empty ranges where none do.
static std::pair<ByteRange, ByteRange> overlap(std::span<const ByteRange> a,
                                               std::span<const ByteRange> b) {
  for (const ByteRange &p : a)
    for (const ByteRange &q : b)
      if (p.same_space(q) && std::max(p.begin, q.begin) < std::min(p.end, q.end))
        return {p, q};
  return {};
}

std::string hazard_between(const Plan &plan, const Function &function, const ByteRanges &ranges,
                           const Step &from, const Step &to) {
  static constexpr const char *kNames[] = {"RAW", "WAR", "WAW"};
  for (size_t kind = 0; kind < 3; ++kind)
    for (uint32_t b = to.accesses.begin; b < to.accesses.end(); ++b)
      for (uint32_t a = from.accesses.begin; a < from.accesses.end(); ++a) {
        const BufferAccess &x = function.accesses[a], &y = function.accesses[b];
        const auto [p, q] = overlap(ranges[x.buffer], ranges[y.buffer]);
        bool first = kind == 1 ? ir::reads(x.access) : ir::writes(x.access);
        bool second = kind == 0 ? ir::reads(y.access) : ir::writes(y.access);
        int64_t begin = std::max(p.begin, q.begin), end = std::min(p.end, q.end);
        if (!first || !second || begin >= end)
          continue;
        return std::string(kNames[kind]) + " %" + function.buffers[y.buffer].name + " [" +
               std::to_string(begin) + ", " + (end == INT64_MAX ? "..." : std::to_string(end)) +
               ") of " + plan.place_text(function, q.base, q.index);
      }
  return "";
}

} // namespace cugrt::plan
