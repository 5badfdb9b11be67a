// Hazards by one sweep over a region's accesses in program order. Every space that is written holds
// its byte range as segments; a segment knows its last writer and who has read it since. A read
// makes RAW hazards with the segments' writers, a write makes WAR hazards with their readers (or
// WAW with their writer, where nobody has read), and becomes the writer of one new segment.
#include "plan/hazards.h"

#include <algorithm>
#include <map>

namespace cugrt::plan {

ByteRange byte_range(const ir::ExprPool &exprs, const Buffer &buffer,
                     std::span<const ir::Interval> bounds) {
  ByteRange range{buffer.base, buffer.index, 0, INT64_MAX};
  if (!buffer.bytes.valid())
    return range;
  ir::Interval offset = exprs.range(buffer.offset_bytes, bounds);
  ir::Interval bytes = exprs.range(buffer.bytes, bounds);
  range.begin = std::max<int64_t>(offset.lower, 0);
  int64_t end;
  if (offset.upper != INT64_MAX && bytes.upper != INT64_MAX &&
      !__builtin_add_overflow(offset.upper, bytes.upper, &end))
    range.end = std::max(range.begin, end);
  return range;
}

bool may_overlap(ir::ExprPool &exprs, const Buffer &a, const Buffer &b,
                 std::span<const ir::Interval> bounds) {
  if (a.base != b.base || a.index != b.index)
    return false;
  if (!a.bytes.valid() || !b.bytes.valid())
    return true;
  ByteRange x = byte_range(exprs, a, bounds), y = byte_range(exprs, b, bounds);
  if (x.end <= y.begin || y.end <= x.begin)
    return false;
  auto before = [&](const Buffer &low, const Buffer &high) {
    ExprId end = exprs.add(low.offset_bytes, low.bytes);
    return exprs.range(exprs.sub(high.offset_bytes, end), bounds).lower >= 0;
  };
  return !before(a, b) && !before(b, a);
}

std::vector<ir::Interval> symbol_bounds(const Function &function) {
  std::vector<ir::Interval> bounds;
  bounds.reserve(function.symbols.size());
  for (const Symbol &symbol : function.symbols)
    bounds.push_back(symbol.bounds);
  return bounds;
}

std::vector<ByteRange> byte_ranges(const Plan &plan, const Function &function) {
  std::vector<ir::Interval> bounds = symbol_bounds(function);
  std::vector<ByteRange> ranges;
  ranges.reserve(function.buffers.size());
  for (const Buffer &buffer : function.buffers)
    ranges.push_back(byte_range(plan.exprs, buffer, bounds));
  return ranges;
}

namespace {

using Space = std::pair<BufferBase, uint32_t>;

Space space_of(const ByteRange &range) { return {range.base, range.index}; }

struct Segment {
  int64_t end;
  uint32_t writer = kNone;
  std::vector<uint32_t> readers; // since the last write, ascending
};

/// The segments of one space, by their first byte; disjoint, with holes where nothing was touched.
class Timeline {
public:
  /// Calls visit(segment, begin) for the segments that make up [begin, end), made where needed.
  template <class Visit> void each(int64_t begin, int64_t end, Visit visit) {
    split(begin);
    split(end);
    int64_t at = begin;
    for (auto it = segments_.lower_bound(begin); at < end; ++it) {
      if (it == segments_.end() || it->first > at) {
        int64_t hole_end = it == segments_.end() ? end : std::min(end, it->first);
        it = segments_.emplace_hint(it, at, Segment{hole_end, kNone, {}});
      }
      visit(it->second, it->first);
      at = it->second.end;
    }
  }

  void replace(int64_t begin, int64_t end, uint32_t writer) {
    segments_.erase(segments_.lower_bound(begin), segments_.lower_bound(end));
    segments_.emplace(begin, Segment{end, writer, {}});
  }

private:
  void split(int64_t at) {
    auto it = segments_.lower_bound(at);
    if (it == segments_.begin())
      return;
    --it;
    if (it->second.end <= at)
      return;
    Segment upper = it->second;
    it->second.end = at;
    segments_.emplace(at, std::move(upper));
  }

  std::map<int64_t, Segment> segments_;
};

class Sweep {
public:
  Sweep(const Function &function, Range steps, std::span<const ByteRange> ranges)
      : function_(function), steps_(steps), ranges_(ranges) {}

  std::vector<Hazard> run() {
    for (uint32_t s = 0; s < steps_.count; ++s)
      for_accesses(s, [&](const BufferAccess &access) {
        if (ir::writes(access.access))
          written_[space_of(ranges_[access.buffer])];
      });
    for (uint32_t s = 0; s < steps_.count; ++s) {
      for_accesses(s, [&](const BufferAccess &access) {
        if (ir::reads(access.access))
          read(s, access.buffer);
      });
      for_accesses(s, [&](const BufferAccess &access) {
        if (ir::writes(access.access))
          write(s, access.buffer);
      });
    }
    return std::move(hazards_);
  }

private:
  template <class Visit> void for_accesses(uint32_t step, Visit visit) {
    Range range = function_.steps[steps_.begin + step].accesses;
    for (uint32_t i = range.begin; i < range.end(); ++i)
      visit(function_.accesses[i]);
  }

  void add(uint32_t from, uint32_t to, HazardKind kind, uint32_t buffer, int64_t begin,
           int64_t end) {
    if (from == kNone || from == to)
      return;
    const ByteRange &range = ranges_[buffer];
    hazards_.push_back({from, to, kind, buffer, {range.base, range.index, begin, end}});
  }

  void read(uint32_t step, uint32_t buffer) {
    const ByteRange &range = ranges_[buffer];
    auto timeline = written_.find(space_of(range));
    if (timeline == written_.end() || range.begin >= range.end)
      return; // nothing of the region writes there
    timeline->second.each(range.begin, range.end, [&](Segment &segment, int64_t begin) {
      add(segment.writer, step, HazardKind::raw, buffer, begin, segment.end);
      if (segment.readers.empty() || segment.readers.back() != step)
        segment.readers.push_back(step);
    });
  }

  void write(uint32_t step, uint32_t buffer) {
    const ByteRange &range = ranges_[buffer];
    if (range.begin >= range.end)
      return;
    Timeline &timeline = written_[space_of(range)];
    timeline.each(range.begin, range.end, [&](Segment &segment, int64_t begin) {
      for (uint32_t reader : segment.readers)
        add(reader, step, HazardKind::war, buffer, begin, segment.end);
      if (segment.readers.empty()) // else the readers have waited for the writer
        add(segment.writer, step, HazardKind::waw, buffer, begin, segment.end);
    });
    timeline.replace(range.begin, range.end, step);
  }

  const Function &function_;
  Range steps_;
  std::span<const ByteRange> ranges_;
  std::map<Space, Timeline> written_;
  std::vector<Hazard> hazards_;
};

} // namespace

std::vector<Hazard> find_hazards(const Function &function, Range steps,
                                 std::span<const ByteRange> ranges) {
  return Sweep(function, steps, ranges).run();
}

std::string hazard_reason(const Plan &plan, const Function &function, const Hazard &hazard) {
  static constexpr const char *kNames[] = {"RAW", "WAR", "WAW"};
  const ByteRange &range = hazard.overlap;
  std::string text = kNames[size_t(hazard.kind)];
  text += " %" + function.buffers[hazard.buffer].name + " [" + std::to_string(range.begin) + ", " +
          (range.end == INT64_MAX ? "..." : std::to_string(range.end)) + ") of ";
  switch (range.base) {
  case BufferBase::arena:
    return text + "arena " + plan.arenas[range.index].scope;
  case BufferBase::slot: {
    const Slot &slot = function.slots[range.index];
    return text + (slot.kind == SlotKind::param ? "slot %" + function.params[slot.index].name
                                                : "result " + std::to_string(slot.index));
  }
  case BufferBase::weight:
    return text + "weight %" + function.params[range.index].name;
  case BufferBase::constant:
    return text + "constant @" + plan.constants[range.index].name;
  case BufferBase::dynamic:
    return text + "allocation " + std::to_string(range.index);
  }
  return text;
}

} // namespace cugrt::plan
