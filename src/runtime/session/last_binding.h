// What a function was last bound to, in the form that the next run is compared with.
//
// Most runs bring what the last one brought, or the same shapes at other addresses. Neither needs
// the checks of a binding again: kinds, dtypes, ranks and dimensions are compared with ones that
// passed, and for addresses the places are remembered at which each slot was found to be all right:
//
//   slot      current place   other known places
//   %x        [a, a+64)       [b, b+64)
//   %y (out)  [c, c+32)       [d, d+32)
//   arena     [m, m+4096)
//
// Places of different slots that may not overlap do not, known ones included. So every slot may
// take any of its known places, whatever the others do, and callers that use their buffers in turn
// pay a comparison for each. A place that is not known is checked against all current ones, and
// what it overlaps of the other known ones is forgotten. Slots that take each other's places are
// all checked together, and their other places forgotten. Whatever does not pass is bound from the
// start by the session, with all checks, which tells what is wrong.
#pragma once

#include "cugrt/cugrt.h"
#include "runtime/frame.h"
#include "runtime/slot_check.h"

#include <span>
#include <vector>

namespace cugrt::runtime {

class LastBinding {
public:
  /// What a tensor argument or result is bound through.
  struct Place {
    uint32_t slot = kNone; // kNone: nothing that a run uses
    bool movable = false;  // by a run; a result of the session's own memory is not
    bool written = false;
    uint64_t bytes = 0, alignment_bytes = 1;
    std::array<uint64_t, 3> others{}; // other known addresses, the last left first; or any current
  };

  enum class Match {
    same,
    moved,     // but for addresses: the frame has the new ones
    different, // or not comparable: to be bound with all checks; the frame is in no known state
  };

  void forget() { argument_count_ = kForgotten; }
  /// The frame is bound to `arguments` and `results`, which have passed every check. A result of
  /// kind NONE is in memory of the session's. `places` has one for each argument and result;
  /// `fixed` are the ranges that no run moves.
  void set(const Frame &frame, std::span<const cugrt_value> arguments,
           std::span<const cugrt_value> results, std::vector<Place> places,
           std::vector<BoundRange> fixed);
  /// Whether a run repeats the last one: the same arguments at the same addresses, and no results
  /// bound. All that such a run pays for its arguments; any other goes on with match().
  bool repeats(std::span<const cugrt_value> arguments, size_t result_count);
  /// After repeats() of the same arguments: compares the rest of a run with the binding and moves
  /// the frame's bases. `handed_out` are the results of the last run, which may come back in the
  /// same array.
  Match match(Frame &frame, std::span<const cugrt_value> arguments,
              std::span<const cugrt_value> results, const std::vector<cugrt_value> &handed_out);

private:
  struct Entry {
    int32_t form = 0; // of arguments: how they are compared; of the entry behind them: the end
    cugrt_value value{};
    Place place;
  };
  static constexpr size_t kForgotten = SIZE_MAX; // as argument_count_: no run has so many
  struct Mover;
  template <class SameAddress>
  Entry *compare(const cugrt_value *now, Entry *entry, const SameAddress &same_address);
  bool take(Mover &mover, Entry &entry, uint64_t address);
  bool find_place(const Frame &frame, Place &place, uint64_t address);
  bool add_place(const Frame &frame, Place &place, uint64_t address);
  bool check_all(const Frame &frame);
  bool match_results(Mover &mover, std::span<const cugrt_value> results,
                     const std::vector<cugrt_value> &handed_out);

  bool results_bound_ = false; // some result is bound by the caller
  bool unchecked_ = false;     // match() has taken an address that may overlap another slot's
  size_t argument_count_ = kForgotten;
  Entry *first_other_ = nullptr;           // where repeats() found the first difference
  std::vector<Entry> entries_;             // arguments, their end, results
  std::vector<BoundRange> fixed_, ranges_; // ranges_: scratch
};

} // namespace cugrt::runtime
