// Races on global memory between the blocks of a cooperative grid.
//
// Each block has a vector clock, as warps have in race_check.h: an atomic, volatile or otherwise
// ordered access takes over what was known to the last one at its address, and hands on what the
// block has done. Two blocks that touch one byte, one of them writing and one of them not so
// ordered, neither known to the other, race. All is looked at by turns of a block (grid.h): what a
// turn takes over counts for all of it, so that a race may be missed and none is made up.
#pragma once

#include "emulator/exec/block.h"
#include "emulator/exec/checks/accesses.h"
#include "emulator/exec/executor.h"
#include "emulator/exec/units/cluster.h"

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace cugrt::emulator {

/// Checks one launch, on one thread. Reports its first finding. A cluster counts as one block.
class GridRaceCheck {
public:
  GridRaceCheck(const RaceReport &report, uint64_t clusters) : report_(report), all_(clusters) {}

  /// Accesses of a cluster in a turn.
  LaunchAccesses &turn() { return turn_; }
  void began(const Cluster &cluster);
  /// Call after a turn, which ended in `state`; turn() is empty again.
  void turned(const Cluster &cluster, BlockState state);

private:
  using Clock = std::vector<uint32_t>; // by the order in which they began
  struct Part {
    uint32_t time; // the block's own
    AccessSet touched;
  };
  struct Own {
    std::string name;
    Clock known;
    uint32_t time = 1;
    std::deque<Part> parts; // that some block does not know of, and some more
    bool has_ended = false;
  };
  void take_over(Own &own, const AccessSet &touched);
  void compare(const Own &own, AccessSet &touched);
  void hand_on(Own &own, size_t number, const AccessSet &touched);
  void forget(Own &own, size_t number);

  const RaceReport &report_;
  LaunchAccesses turn_;
  std::vector<Own> all_;
  std::map<const Cluster *, size_t> active_;
  size_t begun_ = 0;
  std::unordered_map<uint64_t, std::shared_ptr<const Clock>> ordered_at_; // by words of 8 bytes
  bool told_ = false;
};

} // namespace cugrt::emulator
