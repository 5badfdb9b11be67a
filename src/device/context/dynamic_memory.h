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
  /// `allocator`, which outlives this, takes the driver's place; null: none.
  DynamicMemory(const Device &device, const cugrt_allocator *allocator)
      : device_(device), allocator_(allocator) {}
  /// The session's work has ended by then.
  ~DynamicMemory();
  DynamicMemory(const DynamicMemory &) = delete;

  /// An address aligned to at least 256 bytes; 0 for no bytes. Context current.
  Result<uint64_t> allocate(uint64_t bytes, driver::StreamRef stream);
  /// Later work may use the block. Waits for the stream, and gives back all that is kept, where
  /// that is much more than runs have at a time. Context current.
  Status release(uint64_t address, driver::StreamRef stream);
  /// The next run begins on the stream, behind all that was queued so far. Context current.
  Status next_run(driver::StreamRef stream);
  /// All work has ended: gives kept blocks back. The driver's pool keeps what it has.
  void all_done();
  /// The same, when the device is full or the session ends: the pool gives back what it can, too.
  void give_back();

  /// Whether waiting for the session's work and then give_back() frees memory.
  bool keeps_released() const { return !kept_.empty() || freed_; }
  /// Of the blocks that are allocated and not released.
  uint64_t size_bytes() const;

private:
  struct Kept {
    MemoryBlock block;
    uint64_t run; // that released it
  };
  /// Runs that leave a block before it is given back: shapes often come in turns.
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
