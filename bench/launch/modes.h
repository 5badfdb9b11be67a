// The six ways of launching a graph, measured in turn.
//
//   mode       first                                        repeat
//   plain      one pass over the launches                   another
//   explicit   a session's first run: evaluate, add nodes,  a run with nothing changed
//              instantiate, upload, launch
//   captured   begin, launches, end, instantiate, upload,   cuGraphLaunch
//              launch
//   patched    a run at another shape on the one instance   a run with nothing changed
//   recapture  the old graph goes, then as captured         cuGraphLaunch
//   rebuild    the old instance goes, then built anew for   cuGraphLaunch
//              another shape
//
// All modes of a case take turns within each round, so that what disturbs the machine disturbs all
// alike. Every timed call starts with the device idle; waiting is outside of the times.
#pragma once

#include "bench/launch/subject.h"
#include "bench/support/samples.h"

#include <array>

namespace cugrt::bench {

enum class Mode : uint8_t { plain, explicit_graph, captured, patched, recapture, rebuild };
inline constexpr std::array<const char *, 6> kModeNames = {"plain",   "explicit",  "captured",
                                                           "patched", "recapture", "rebuild"};

/// Host microseconds of whole graphs; empty where the mode has no such part.
struct ModeFigures {
  Samples first, repeat;
  Samples bare; // cuGraphLaunch alone on the same graph, where repeat is a run
  Samples add;  // adding all nodes, or capturing them
  Samples instantiate, upload;
  Samples set;    // setting every node
  Samples device; // from before the first node to after the last one, by events
  std::optional<double> device_bytes, host_bytes; // of an instance with its template
};

struct CaseFigures {
  std::array<ModeFigures, 6> modes;
  size_t node_count = 0, edge_count = 0, rounds = 0;
  const ModeFigures &of(Mode mode) const { return modes[static_cast<size_t>(mode)]; }
};

struct CaseLimits {
  double seconds = 2; // no further round once this is spent
  size_t least_rounds = 3, most_rounds = 25;
};

Result<CaseFigures> measure_case(const BenchDriver &driver, const LaunchModule &module,
                                 const CaseLimits &limits);

} // namespace cugrt::bench
