// From how many runs on a graph is worth its building, and what a mix of shapes takes in all.
#pragma once

#include "bench/launch/subject.h"

#include <optional>
#include <string>
#include <vector>

namespace cugrt::bench {

inline constexpr uint32_t kRunCounts[] = {1, 10, 100, 1000, 10'000};

/// Totals of one way of running the same thing, in host microseconds from before the first call
/// until the device is idle. Of three measurements the one with the median total.
struct RunTotals {
  std::string mode;                            // plain, explicit or patched
  double first_us = 0, repeat_us = 0;          // the first run, the mean of the others
  std::vector<std::optional<double>> total_us; // by kRunCounts; empty where it was not run
  uint64_t built = 0, patched = 0;             // instances and launches of regions
};

struct AmortisedCase {
  std::string name, graph; // "amortise_chain_100", "mix_8x512"
  uint32_t nodes = 0;
  size_t node_count = 0;
  std::vector<uint32_t> runs; // of which there are totals
  std::vector<RunTotals> ways;
  /// From this number of runs on the explicit graph takes less than plain launches; nothing when
  /// it never does.
  std::optional<uint64_t> break_even_runs;
  std::string note;
};

/// Plain launches against an explicit graph, its building included.
Result<AmortisedCase> amortise(const BenchDriver &driver, std::string_view graph, uint32_t nodes,
                               double seconds);

/// One transformer layer in three shapes, so many runs each: plain, with an instance for each
/// shape, and with one instance that is patched; each mix alone and all in turn.
Result<std::vector<AmortisedCase>> measure_mixes(const BenchDriver &driver);

} // namespace cugrt::bench
