// Hazards: which steps of a region must wait for which, from the byte ranges that they touch.
//
//            earlier reads          earlier writes
//   reads    none                   RAW: the data must have been written
//   writes   WAR: the reader must   WAW: the last write must win
//            be done
//
// Ranges are taken over the whole range of every symbol, so that one set of edges holds for all
// shapes; reuse of arena bytes by another tensor is a hazard like any other. Where offsets are a
// table by bucket (plan/symbols/bucket_boxes.h), ranges are taken box by box, and what overlaps in
// any of them is a hazard. Ranges in different spaces never overlap: an arena, each slot (the
// runtime refuses callers' buffers that overlap when one is written), each weight, each constant,
// each dynamic allocation.
#pragma once

#include "plan/symbols/bucket_boxes.h"
#include "plan/symbols/matched_symbols.h"

#include <span>
#include <string>

namespace cugrt::plan {

struct ByteRange {
  BufferBase base = BufferBase::arena;
  uint16_t box = 0; // of arenas: a space for each
  uint32_t index = 0;
  int64_t begin = 0, end = 0; // half-open; end is INT64_MAX where a symbol is not bounded
  bool same_space(const ByteRange &other) const {
    return base == other.base && index == other.index && box == other.box;
  }
  friend bool operator==(const ByteRange &, const ByteRange &) = default;
};

/// Bytes that each buffer of a function may cover: one range, or, in arenas with tables, one for
/// each box.
class ByteRanges {
public:
  ByteRanges(const Plan &plan, const Function &function);
  std::span<const ByteRange> operator[](uint32_t buffer) const {
    return starts_.empty()
               ? std::span(ranges_).subspan(buffer, 1)
               : std::span(ranges_).subspan(starts_[buffer], starts_[buffer + 1] - starts_[buffer]);
  }
  size_t box_count() const { return box_count_; }

private:
  size_t box_count_ = 1;
  std::vector<uint32_t> starts_; // by buffer; empty: one range each
  std::vector<ByteRange> ranges_;
};

/// Every byte that a buffer may cover, for any value of the symbols.
ByteRange byte_range(const ir::ExprPool &exprs, const Buffer &buffer, const ir::Domain &domain);

/// Whether a buffer without an address of its own is empty or lies within the `whole` bytes of its
/// parent, for all values of the symbols in `domain` that matches allow, as far as intervals tell.
/// `matched` are the function's, over `exprs`.
bool lies_within(ir::ExprPool &exprs, const Buffer &buffer, ExprId offset_bytes, ExprId whole,
                 const ir::Domain &domain, const MatchedSymbols &matched);

/// Whether two buffers can share a byte for some value of the symbols. False only where it is shown
/// that they cannot: other spaces, ranges apart, or ends and begins whose difference has one sign.
bool may_overlap(ir::ExprPool &exprs, const Buffer &a, const Buffer &b, const ir::Domain &domain,
                 const MatchedSymbols &matched);

/// Whether two buffers of one tensor share a byte for all values of the symbols for which neither
/// is empty, as far as can be seen; false where one of them is always empty, or symbols leave it
/// open.
bool always_overlap(ir::ExprPool &exprs, const Buffer &a, const Buffer &b, const ir::Domain &domain,
                    const MatchedSymbols &matched);

/// Why step `to` must wait for the earlier step `from`: "RAW %lv0 [0, 4096) of arena global"; empty
/// where they may run side by side. `ranges` are those of the function.
std::string hazard_between(const Plan &plan, const Function &function, const ByteRanges &ranges,
                           const Step &from, const Step &to);

} // namespace cugrt::plan
