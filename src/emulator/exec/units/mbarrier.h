// mbarrier objects, and work that completes at them: copies to shared memory, cp.async arrivals.
//
// The eight bytes of an object are opaque in PTX; here they are, from the lowest bit,
//
//     20 bits   arrivals that each phase expects
//     20 bits   arrivals that the present phase still waits for
//     21 bits   bytes that it still waits for (the tx-count), with a sign
//      1 bit    the parity of the present phase
//      2 bits   1: memory that holds anything else is no barrier
//
// A phase is complete when it waits for neither. What is under way lands when somebody asks whether
// a phase of the barrier is complete: a program that reads before it has asked sees old bytes.
#pragma once

#include "emulator/exec/warps/warp.h"

namespace cugrt::emulator {

struct Cluster;

/// cp.async.mbarrier.arrive, until the lane's copies have landed.
struct PendingArrival {
  std::byte *barrier;
  Warp *warp;
  uint32_t lane;
};

/// Lands copies under way to the barrier; in a drawn order, now and then.
void land_at_barrier(Cluster &cluster, const std::byte *barrier);

/// Finds the operation's barriers, an address a lane with `offset` behind it. False after a fault:
/// an address that is not of shared memory, or not a multiple of 8.
bool find_barriers(const Op *op, Warp &w, uint64_t *addresses, std::byte **out);

} // namespace cugrt::emulator
