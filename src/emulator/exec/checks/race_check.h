// Races on shared memory between the warps of a block.
//
// Each warp has a vector clock: what it knows to have happened in every other warp. A barrier hands
// on what its arrivals know to those it releases (bar.arrive only gives); an atomic, volatile or
// otherwise ordered access hands on what was known to the last one at its address, so that a lock
// or a flag orders what it guards. Accesses behind it know what it handed on; it does not. Two of
// two warps to one byte, at least one of them a write and at least one not so ordered, neither
// known to the other, are a race. Lanes of one warp are taken as ordered.
//
// What is remembered of each four bytes is the last write of either sort and two reads, so that a
// race may be missed and none is made up. One object a block, used again for the next one; one
// thread at a time.
#pragma once

#include "emulator/exec/warps/warp.h"

#include <array>
#include <string>
#include <unordered_map>
#include <vector>

namespace cugrt::emulator {

class RaceCheck {
public:
  RaceCheck(uint32_t shared_bytes, uint32_t warps);

  /// All that came before is ordered before all that comes.
  void begin_block();
  /// The operation's accesses, before it is executed by the warp's active lanes. Reports a race.
  void observe(Warp &w, const Op *op);
  void arrive(uint32_t barrier, uint32_t warp);
  /// The barrier's arrivals are known to these warps (a bit each); its next phase begins.
  void release(uint32_t barrier, uint32_t warps);
  void exited(uint32_t warp);
  /// The barrier of the cluster: all that a warp knew when it arrived is known, once the phase is
  /// complete, to the block's warps that wait for it.
  void arrive_at_cluster(uint32_t warp);
  void complete_cluster();
  void waited_for_cluster(uint32_t warp);

private:
  static constexpr uint32_t kMaxWarps = 32, kMaxBarriers = 16;
  using Clock = std::array<uint32_t, kMaxWarps>;
  struct Access {
    const OpLocation *at = nullptr;
    uint32_t time = 0; // the warp's own
    uint8_t warp = 0, lane = 0, bytes = 0;
    bool strong = false; // atomic, volatile or otherwise ordered
    bool is_write = false;
  };
  struct Word {
    Access write, strong_write, reads[2];
  };
  Access access_of(const Warp &w, const Op *op) const;
  void observe_tile(Warp &w, const Op *op);
  static void join(Clock &to, const Clock &from);
  bool ordered(const Access &before, const Access &now) const;
  void synchronise(uint32_t warp, uint64_t address);
  /// The earlier access that this one races with, or null.
  const Access *touch(uint32_t word, const Access &now);
  bool touch_range(Warp &w, uint64_t address, uint32_t bytes, Access now);
  void report(const Warp &w, uint64_t address, const Access &before, const Access &now) const;

  uint32_t warps_, latest_ = 0;
  std::vector<Clock> known_; // by warp
  Clock barriers_[kMaxBarriers], exited_, cluster_arriving_, cluster_complete_;
  std::unordered_map<uint64_t, Clock> ordered_at_; // by address
  std::vector<Word> words_;
};

} // namespace cugrt::emulator
