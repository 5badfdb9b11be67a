// Memory for unplanned allocations of a session, in stream order: a block that was released is used
// again by later work only, since runs of a session follow each other on the device.
//
// Where the driver has stream-ordered allocation its pool does the keeping; elsewhere, and with an
// allocator of the caller's, released blocks are kept here and given back when the session's work
// has ended.
#pragma once

#include "runtime/arena.h"
#include "runtime/device.h"

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
  /// Later work may use the block. Context current.
  Status release(uint64_t address, driver::StreamRef stream);
  /// All work has ended: gives kept blocks back.
  void all_done() { kept_.clear(); }

private:
  const Device &device_;
  const cugrt_allocator *allocator_;
  std::map<uint64_t, MemoryBlock> used_;      // by address; plain allocations
  std::multimap<uint64_t, MemoryBlock> kept_; // by size
  std::map<uint64_t, uint64_t> pooled_;       // address to bytes; stream-ordered ones
};

} // namespace cugrt::runtime
