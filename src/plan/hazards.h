// Hazards: which steps of a region must wait for which, from the byte ranges that they touch.
//
//            earlier reads          earlier writes
//   reads    none                   RAW: the data must have been written
//   writes   WAR: the reader must   WAW: the last write must win
//            be done
//
// Ranges are taken over the whole range of every symbol, so that one set of edges holds for all
// shapes; reuse of arena bytes by another tensor is a hazard like any other. Ranges in different
// spaces never overlap: an arena, each slot (the runtime refuses callers' buffers that overlap when
// one is written), each weight, each constant, each dynamic allocation.
#pragma once

#include "plan/plan.h"

#include <span>
#include <string>

namespace cugrt::plan {

struct ByteRange {
  BufferBase base = BufferBase::arena;
  uint32_t index = 0;
  int64_t begin = 0, end = 0; // half-open; end is INT64_MAX where a symbol is not bounded
  friend bool operator==(const ByteRange &, const ByteRange &) = default;
};

/// Every byte that a buffer may cover, for any value of the symbols.
ByteRange byte_range(const ir::ExprPool &exprs, const Buffer &buffer,
                     std::span<const ir::Interval> bounds);
/// byte_range of all of a function's buffers.
std::vector<ByteRange> byte_ranges(const Plan &plan, const Function &function);
std::vector<ir::Interval> symbol_bounds(const Function &function);

/// Whether two buffers can share a byte for some value of the symbols. False only where it is shown
/// that they cannot: other spaces, ranges apart, or ends and begins whose difference has one sign.
bool may_overlap(ir::ExprPool &exprs, const Buffer &a, const Buffer &b,
                 std::span<const ir::Interval> bounds);

/// Why step `to` must wait for the earlier step `from`: "RAW %lv0 [0, 4096) of arena global"; empty
/// where they may run side by side. `ranges` are those of all buffers of the function.
std::string hazard_between(const Plan &plan, const Function &function,
                           std::span<const ByteRange> ranges, const Step &from, const Step &to);

} // namespace cugrt::plan
