// The blocks of one launch, shared out to threads.
#pragma once

#include "emulator/exec/block.h"

#include <atomic>
#include <mutex>
#include <optional>

namespace cugrt::emulator {

/// One launch under way: blocks are taken by number, by every thread that works at it.
struct Grid {
  Launch launch;
  uint64_t blocks = 0;
  uint32_t residents = 1; // blocks that a thread may hold unfinished
  std::atomic<uint64_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::optional<Fault> fault;

  void work();
};

} // namespace cugrt::emulator
