// The last binding of a function, in the form that the next run is compared with.
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
#include "device/program/run_binding.h"
#include "device/program/slot_check.h"

#include <span>
#include <vector>

namespace cugrt::runtime {

/// A value: compare_run() and match_run() below read and change it.
struct LastBinding {
  /// The binding of a tensor argument or result.
  struct Place {
    uint32_t base = kNone; // of its slot; kNone: no run uses the tensor
    bool movable = false;  // a run may bring another address; false in the session's own memory
    bool written = false;
    uint64_t bytes = 0, alignment_bytes = 1;
    /// Other addresses that passed the checks, the one used most recently first. Entries without
    /// one hold the current address, which has passed them too.
    std::array<uint64_t, 3> others{};
  };
  struct Entry {
    int32_t form = 0; // of arguments: how they are compared; of the entry behind them: the end
    cugrt_value value{};
    Place place;
  };
  static constexpr size_t kForgotten = SIZE_MAX; // as argument_count: no run has so many

  bool results_bound = false; // some result is bound by the caller
  bool unchecked = false;     // match_run() took an address that may overlap another slot's
  size_t argument_count = kForgotten;
  std::vector<Entry> entries{1};         // arguments, their end, results; never empty
  std::vector<BoundRange> fixed, ranges; // ranges: scratch

  void forget() { argument_count = kForgotten; }
  /// The run is bound to `arguments` and `results`, which have passed every check. A result of
  /// kind NONE is in memory of the session's. `places` has one for each argument and result;
  /// `fixed_ranges` are those that no run moves.
  void set(const RunBinding &run, std::span<const cugrt_value> arguments,
           std::span<const cugrt_value> results, std::span<const Place> places,
           std::span<const BoundRange> fixed_ranges);
};

/// The first difference between a run and the last one; valid until the next match_run() or set().
struct Comparison {
  LastBinding::Entry *first_other; // null: none; with another number of arguments it is any
  /// The arguments and addresses are the same and no results are bound: nothing is left to do.
  bool repeats() const { return !first_other; }
};
/// The only comparison that a run needs if it repeats the last one; other runs continue with
/// match_run().
Comparison compare_run(LastBinding &last, std::span<const cugrt_value> arguments,
                       size_t result_count);

enum class Match {
  same,
  moved,     // the same at other addresses: the run has the new ones
  different, // must be bound again with all checks; the run is half-written
};
/// Compares the rest of a run with the binding and moves the run's bases; `compared` is
/// compare_run() of the same arguments. `handed_out` are the results of the last run, which may
/// come back in the same array.
Match match_run(LastBinding &last, Comparison compared, RunBinding &run,
                std::span<const cugrt_value> arguments, std::span<const cugrt_value> results,
                const std::vector<cugrt_value> &handed_out);

} // namespace cugrt::runtime
