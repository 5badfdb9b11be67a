// The blocks of one launch, shared out to threads.
#pragma once

#include "emulator/exec/units/cluster.h"

#include <atomic>
#include <mutex>
#include <optional>

namespace cugrt::emulator {

/// Whether blocks of the launch are looked at for races with one another
/// (exec/checks/grid_race_check.h): those of a cooperative one.
inline bool looks_for_grid_races(const LaunchConfig &config) {
  return config.report_race && config.grid_workspace;
}

/// One launch under way: every thread that works at it takes clusters by number.
struct Grid {
  Launch launch;
  uint64_t clusters = 0;  // of blocks; without clusters, blocks
  uint32_t residents = 1; // that a thread may hold unfinished
  std::atomic<uint64_t> next{0};
  std::atomic<bool> failed{false};
  std::atomic<uint64_t> warp_instructions{0}, lane_operations{0}; // of all threads
  std::mutex mutex;
  std::optional<Fault> fault;

  void work();
};

} // namespace cugrt::emulator
