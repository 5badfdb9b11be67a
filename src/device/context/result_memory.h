// A session's memory for one result of a function, and the addresses that runs handed out.
//
// Callers hand results back in the array in which an earlier run left them, and such an address
// binds nothing. So that it is never taken for memory of the caller's, a block that has become too
// small stays until the session ends: nobody else can have memory there. Where the driver has
// enough, a block is at least twice as large as the one before, so all of them are less than twice
// the largest.
#pragma once

#include "device/context/arena.h"

#include <algorithm>
#include <vector>

namespace cugrt::runtime {

class ResultMemory {
public:
  /// Address of the block in use; 0 if there is none.
  uint64_t address() const { return blocks_.empty() ? 0 : blocks_.back().address(); }
  uint64_t size_bytes() const { return blocks_.empty() ? 0 : blocks_.back().size_bytes(); }
  uint64_t total_bytes() const {
    uint64_t sum = 0;
    for (const MemoryBlock &block : blocks_)
      sum += block.size_bytes();
    return sum;
  }
  /// Puts later results into `block`.
  void use(MemoryBlock block) { blocks_.push_back(std::move(block)); }

  /// Notes where a run found a result that has its place elsewhere, such as in a parameter. Keeps
  /// the last few of many places.
  void found_at(uint64_t address) {
    if (std::find(places_.begin(), places_.end(), address) != places_.end())
      return;
    if (places_.size() < kMostPlaces)
      return places_.push_back(address);
    places_[oldest_] = address;
    oldest_ = (oldest_ + 1) % kMostPlaces;
  }

  /// Whether a run may have left this address in the caller's array without having been given it.
  bool handed_out(uint64_t address) const {
    auto at = [&](const MemoryBlock &block) { return block.address() == address; };
    return std::any_of(blocks_.begin(), blocks_.end(), at) ||
           std::find(places_.begin(), places_.end(), address) != places_.end();
  }

private:
  static constexpr size_t kMostPlaces = 1024;
  std::vector<MemoryBlock> blocks_;
  std::vector<uint64_t> places_;
  size_t oldest_ = 0;
};

} // namespace cugrt::runtime
