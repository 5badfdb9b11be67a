// The last users of one space's bytes: segments with their last writer, and the readers
// since.
//
//   bytes   │◂──── w 3 ────▸│◂─ w 5 ─▸│◂──── w 3 ────▸│
//   readers │   6 ▸ 4       │         │   4           │     lists, latest first; segments that come
//                                                           of one share their lists' tails
#pragma once

#include "plan/format/plan.h"

#include <algorithm>
#include <map>

namespace cugrt::plan {

struct Segment {
  int64_t end = 0;
  uint32_t writer = kNone;
  uint32_t readers = kNone; // a list
};

/// The segments of one space, by their first byte; disjoint, with holes where nothing was touched.
class Timeline {
public:
  /// Calls visit(segment) for the segments that make up [begin, end), made where needed.
  template <class Visit> void each(int64_t begin, int64_t end, Visit visit) {
    Map::iterator it = segments_.lower_bound(begin);
    if (it == segments_.end() || it->first != begin || it->second.end != end)
      it = split(begin, it);
    for (int64_t at = begin; at < end; at = it++->second.end) {
      if (it == segments_.end() || it->first > at) {
        int64_t hole_end = it == segments_.end() ? end : std::min(end, it->first);
        it = segments_.emplace_hint(it, at, Segment{hole_end, kNone, kNone});
      } else if (it->second.end > end) {
        Segment upper = it->second;
        it->second.end = end;
        segments_.emplace_hint(std::next(it), end, upper);
      }
      visit(it->second);
    }
  }

  /// Calls visit(segment) for the segments that share a byte with [begin, end), and then replaces
  /// their bytes there by one segment.
  template <class Visit> void overwrite(int64_t begin, int64_t end, uint32_t writer, Visit visit) {
    Map::iterator it = segments_.lower_bound(begin), own = segments_.end();
    if (it != segments_.begin() && std::prev(it)->second.end > begin) {
      Segment &before = std::prev(it)->second;
      visit(before);
      if (before.end > end)
        it = segments_.emplace_hint(it, end, before);
      before.end = begin;
    }
    Map::node_type spare; // of a segment that is gone
    while (it != segments_.end() && it->first < end) {
      visit(it->second);
      if (it->second.end > end)
        segments_.emplace_hint(std::next(it), end, it->second);
      if (it->first == begin)
        own = it++;
      else
        spare = segments_.extract(it++);
    }
    if (own == segments_.end() && spare) {
      spare.key() = begin;
      own = segments_.insert(it, std::move(spare));
    } else if (own == segments_.end()) {
      own = segments_.emplace_hint(it, begin, Segment());
    }
    own->second = Segment{end, writer, kNone};
  }

  /// Calls visit(segment) for those that share a byte with [begin, end), as they are.
  template <class Visit> void look(int64_t begin, int64_t end, Visit visit) const {
    auto it = segments_.upper_bound(begin);
    if (it != segments_.begin() && std::prev(it)->second.end > begin)
      --it;
    for (; it != segments_.end() && it->first < end; ++it)
      visit(it->second);
  }

  /// Forgets the users of [begin, end).
  void clear(int64_t begin, int64_t end) {
    split(end, segments_.lower_bound(end));
    split(begin, segments_.lower_bound(begin));
    segments_.erase(segments_.lower_bound(begin), segments_.lower_bound(end));
  }

private:
  using Map = std::map<int64_t, Segment>;

  /// `it` is lower_bound(at), and still is afterwards: a segment that covers `at` is cut there.
  Map::iterator split(int64_t at, Map::iterator it) {
    if (it == segments_.begin() || (it != segments_.end() && it->first == at))
      return it;
    auto before = std::prev(it);
    if (before->second.end <= at)
      return it;
    Segment upper = before->second;
    before->second.end = at;
    return segments_.emplace_hint(it, at, upper);
  }

  Map segments_;
};

} // namespace cugrt::plan
