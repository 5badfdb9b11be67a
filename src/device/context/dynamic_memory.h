// Memory for unplanned allocations of a session, in stream order: a block that was released is used
// again by later work only, since runs of a session follow each other on the device.
//
// Where the driver has stream-ordered allocation the device's pool does the keeping; elsewhere, and
// with an allocator of the caller's, released blocks are kept here. One that several runs in a row
// have left is given back once the work that used it has ended, which an event tells without
// waiting; all of them go when the session's work has ended.
#pragma once

#include "device/context/arena.h"
#include "device/context/device.h"

#include <map>

namespace cugrt::runtime {

class DynamicMemory {
public:
  /// `allocator` replaces the driver and outlives this; null: none.
  DynamicMemory(const Device &device, const cugrt_allocator *allocator)
      : device_(device), allocator_(allocator) {}
  /// The session's work must have ended.
  ~DynamicMemory();
  DynamicMemory(const DynamicMemory &) = delete;

  /// Returns an address aligned to at least 256 bytes; 0 for no bytes. Context current.
  Result<uint64_t> allocate(uint64_t bytes, driver::StreamRef stream);
  /// Lets later work use the block. If much more is kept than runs use at a time, waits for the
  /// stream and gives all of it back. Context current.
  Status release(uint64_t address, driver::StreamRef stream);
  /// Begins the next run on the stream, after all work queued so far. Context current.
  Status next_run(driver::StreamRef stream);
  /// Call when all work has ended: gives kept blocks back. The driver's pool keeps its memory.
  void all_done();
  /// The same, if the device is full or the session ends: the pool also gives back its free memory.
  void give_back();

  /// Whether give_back(), after a wait for the session's work, frees memory.
  bool keeps_released() const { return !kept_.empty() || freed_; }
  /// Bytes of the blocks that are allocated and not released.
  uint64_t size_bytes() const;

private:
  struct Kept {
    MemoryBlock block;
    uint64_t run; // that released it
  };
  /// A block is given back after so many runs that leave it: shapes often alternate.
  static constexpr uint64_t kRunsUnused = 4;
  static constexpr size_t kMaxKept = 64; // or twice what runs have at a time

  const Device &device_;
  const cugrt_allocator *allocator_;
  std::map<uint64_t, MemoryBlock> used_; // by address; plain allocations
  size_t most_used_ = 0;
  std::multimap<uint64_t, Kept> kept_;  // by size
  std::map<uint64_t, uint64_t> pooled_; // address to bytes; stream-ordered ones
  bool freed_ = false;                  // some of these, since the pool was told to give back
  bool pool_used_ = false;              // the pool may keep memory of ours
  driver::Event mark_;                  // behind run `marked_` and all before it; 0: not recorded
  uint64_t run_ = 1, marked_ = 0,
           ended_ = 0; // this run; see mark_; the last one known to have ended
};

} // namespace cugrt::runtime
