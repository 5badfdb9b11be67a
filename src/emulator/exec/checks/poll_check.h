// Finds blocks that wait for one of their grid that has not begun. Only a cooperative launch holds
// all blocks at once; any other may run them one after the other, and they would wait for ever.
//
// So a new block begins only when every block that runs has had a turn of polling alone since any
// of them last did other work. Polling: it reads what others write (volatile, relaxed, acquire) and
// writes nothing. What the new block writes there before it polls itself is what they waited for.
// Blocks that wait for the host, for another launch or for blocks that have begun are not reported,
// nor blocks that poll by atomic operations: others begin after some of their turns.
#pragma once

#include "emulator/exec/checks/accesses.h"
#include "emulator/exec/units/cluster.h"

#include <map>
#include <string>

namespace cugrt::emulator {

/// Checks one launch, which runs on one thread. Reports its first finding.
class PollCheck {
public:
  PollCheck(const PollingReport &report, const AddressSpace &memory)
      : report_(report), memory_(memory) {}

  /// Accesses of a cluster in a turn.
  LaunchAccesses &turn() { return turn_; }

  /// Whether another cluster may begin.
  bool may_begin() const;
  void began(const Cluster &cluster);
  /// Call after a turn, which ended in `state`; turn() is empty again.
  void turned(const Cluster &cluster, BlockState state);

private:
  struct Active {
    uint64_t number = 0; // in the order in which they began
    uint32_t ran = 0;    // so many turns in a row ended with threads that go on and on
    bool waits = false;  // as said above
    AccessSet polled;    // by the turn in which it waited
  };
  struct Waiting {
    AccessSet polled;
    std::string block;
  };
  void compare(const Cluster &cluster, AccessSet &written);

  const PollingReport &report_;
  const AddressSpace &memory_;
  LaunchAccesses turn_;
  std::map<const Cluster *, Active> active_;
  uint64_t begun_ = 0;
  std::vector<Waiting> waiting_; // all that there were when the last one began, until one goes on
  bool told_ = false;
};

} // namespace cugrt::emulator
