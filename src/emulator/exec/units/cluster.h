// Clusters: blocks that run at the same time, see one another's shared memory and meet at a barrier
// of their own. Every block is in one; a launch without clusters has clusters of one block.
#pragma once

#include "emulator/exec/block.h"
#include "emulator/exec/units/mbarrier.h"

namespace cugrt::emulator {

// Shared memory that is the system's (%reserved_smem_offset_1 and its like): at addresses above
// every block's own, in its storage behind them. Cooperative groups keep what tiles of several
// warps share in it.
inline constexpr uint32_t kReservedShared = 15u << 20, kReservedSharedBytes = 1024;

struct Cluster {
  std::vector<std::unique_ptr<Block>> blocks; // by rank; all on one thread
  uint32_t arrived = 0; // threads at the barrier (barrier.cluster) in its present phase
  // Copies that complete at a barrier of any of the blocks and have not landed.
  std::vector<BulkCopy> copies;
  std::vector<PendingArrival> arrivals;
};

/// Makes a cluster of the launch; begin_cluster starts its blocks at the cluster of a number, again
/// after all have finished.
std::unique_ptr<Cluster> make_cluster(const Launch &launch, AddressRange *ranges);
void begin_cluster(Cluster &cluster, uint64_t number);
/// A turn of each block, again while only they can let one another go on.
BlockState run_cluster(Cluster &cluster);
/// The block that failed, of a cluster that has.
std::optional<Fault> take_fault(Cluster &cluster);

/// The block of the cluster in whose shared memory `address` lies, an offset into the window of
/// shared memory, and of which an offset into that block's remains. Null: no block has the rank, or
/// it has ended, and its memory with it.
Block *owner_of(const Warp &w, uint64_t &address);

/// Lanes that leave for good no longer count as arrived.
void leave_cluster_barrier(Warp &w, uint32_t lanes);
/// Call after threads have exited: the barrier's phase may be complete.
void cluster_threads_exited(Cluster &cluster);
/// Whether a path of the block waits for the cluster's barrier.
bool waits_for_cluster(const Block &block);

} // namespace cugrt::emulator
