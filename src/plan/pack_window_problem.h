// A packing problem with windows, made ready for greedy placement and search: items in canonical
// order with the parts of them that are occupied, sections of their time, and for every two items
// that meet how far apart they may lie.
//
// Where items i and j share a section, with i's bytes [a, b) and j's bytes [c, d) occupied there,
// the difference offset(j) - offset(i) must not lie strictly between a - d and b - c. Over all the
// sections that they share the differences that are left form *options*, ranges of which one is
// open below (j lies below i) and one above (j lies above i); one between them has each item in the
// other's hollow:
//
//   offset      ┌────┐
//               │ i  │    i shows its first bytes only, then its last only. j may lie below i or
//          ┌────┴────┤    above it as a whole, or as here above the former and below the latter,
//          │    j    │    where it has a little room to move.
//          ├────┬────┘
//          │ i  │
//          └────┘─────▸ steps
#pragma once

#include "plan/pack_problem.h"

#include <optional>

namespace cugrt::plan {

/// In steps [begin, end) an item occupies its bytes [low, high).
struct PackPart {
  uint32_t begin = 0, end = 0;
  int64_t low = 0, high = 0;
  friend auto operator<=>(const PackPart &, const PackPart &) = default;
};

/// Items with bytes that are occupied at some step, ascending by (begin, end, bytes, alignment,
/// parts, place): numbering the caller's items otherwise changes nothing here.
struct WindowItems {
  std::vector<PackItem> items;       // begin and end: the first part's and the last's
  std::vector<uint32_t> part_starts; // item i has parts[part_starts[i] .. part_starts[i + 1])
  std::vector<PackPart> parts;       // of an item ascending; where two touch, their bytes differ
  std::vector<int64_t> fixed;        // offsets, or -1
  std::vector<uint32_t> given;       // the caller's numbers
  bool windowed = false;             // some part is not the whole item

  /// The input must have passed check_input().
  static WindowItems make(const PackInput &input);
  std::span<const PackPart> parts_of(uint32_t i) const {
    return {parts.data() + part_starts[i], parts.data() + part_starts[i + 1]};
  }
  int64_t steps(uint32_t i) const; // in which it occupies something
  /// Changing places with the other makes no difference.
  bool twins(uint32_t i, uint32_t j) const;
};

struct WindowProblem {
  static constexpr int64_t kUnbounded = INT64_MAX;
  struct Member {
    uint32_t item = 0;
    int64_t low = 0, high = 0;
  };
  /// offset(b) - offset(a) in [least, most]; -kUnbounded and kUnbounded for no limit.
  struct Option {
    int64_t least = 0, most = 0;
  };
  struct Pair {
    uint32_t a = 0, b = 0; // a < b
    uint32_t first_option = 0, option_count = 0;
  };

  const WindowItems &items;
  std::vector<uint32_t> section_starts; // section s has members[section_starts[s] .. [s + 1])
  std::vector<Member> members;
  std::vector<Pair> pairs; // of items that can clash
  std::vector<Option> options;
  PackLists pairs_of;          // of each item
  PackLists places_of;         // of each item, where it stands in `members` of full sections
  std::vector<int64_t> loads;  // of each item: the largest load of a section that it is in
  std::vector<uint32_t> homes; // of each member: its section
  int64_t unit_bytes = 1;      // divides the peak of whatever a search can produce

  std::span<const Member> members_of(uint32_t section) const {
    return {members.data() + section_starts[section], members.data() + section_starts[section + 1]};
  }
  std::span<const Option> options_of(const Pair &pair) const {
    return {options.data() + pair.first_option, pair.option_count};
  }

  explicit WindowProblem(const WindowItems &list) : items(list) {}
  /// Every item as low as it can lie with the same options as in a legal packing; in rare cases, of
  /// items that lift each other in circles, the packing itself.
  std::vector<int64_t> lowered(std::span<const int64_t> offsets) const;

  /// Nothing when there are too many items, or too many that meet. The items must outlive it.
  static std::optional<WindowProblem> make(const WindowItems &items);
};

} // namespace cugrt::plan
