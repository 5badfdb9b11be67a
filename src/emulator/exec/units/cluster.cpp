// The rounds over a cluster's blocks, its barrier, and addresses of one another's shared memory.
#include "emulator/exec/units/cluster.h"

#include "emulator/exec/opcodes/handlers.h"

#include <algorithm>

namespace cugrt::emulator {

static bool has_ended(const Block &block) { return block.live_threads == 0; }

/// All threads that are left have arrived: the phase is complete, and the next one begins.
static void complete_phase(Cluster &cluster) {
  cluster.arrived = 0;
  for (const auto &block : cluster.blocks) {
    if (block->races)
      block->races->complete_cluster();
    for (const auto &w : block->warps) {
      w->cluster_done |= w->cluster_arrived;
      w->cluster_arrived = 0;
      for (uint32_t i = 0; i < w->path_count; ++i)
        if (w->paths[i].state == PathState::at_cluster)
          w->paths[i].state = PathState::ready;
    }
  }
}

static void complete_if_all_arrived(Cluster &cluster) {
  uint32_t live = 0;
  for (const auto &block : cluster.blocks)
    live += block->live_threads;
  if (cluster.arrived && cluster.arrived >= live)
    complete_phase(cluster);
}

static std::array<uint32_t, 3> coordinates(uint64_t number, const std::array<uint32_t, 3> &extent) {
  if (number < extent[0])
    return {uint32_t(number), 0, 0};
  return {uint32_t(number % extent[0]), uint32_t(number / extent[0] % extent[1]),
          uint32_t(number / extent[0] / extent[1])};
}

std::unique_ptr<Cluster> make_cluster(const Launch &launch, AddressRange *ranges) {
  auto cluster = std::make_unique<Cluster>();
  const auto &extent = launch.config->cluster;
  for (uint32_t rank = 0; rank < extent[0] * extent[1] * extent[2]; ++rank) {
    cluster->blocks.push_back(make_block(launch, ranges));
    cluster->blocks.back()->cluster = cluster.get();
    cluster->blocks.back()->rank = rank;
  }
  return cluster;
}

void begin_cluster(Cluster &cluster, uint64_t number) {
  const LaunchConfig &config = *cluster.blocks[0]->launch->config;
  cluster.arrived = 0;
  cluster.copies.clear();
  cluster.arrivals.clear();
  if (cluster.blocks.size() == 1) {
    begin_block(*cluster.blocks[0], coordinates(number, config.grid));
    return;
  }
  std::array<uint32_t, 3> clusters;
  for (size_t i = 0; i < 3; ++i)
    clusters[i] = config.grid[i] / config.cluster[i];
  const auto at = coordinates(number, clusters);
  for (const auto &block : cluster.blocks) {
    auto index = coordinates(block->rank, config.cluster);
    for (size_t i = 0; i < 3; ++i)
      index[i] += at[i] * config.cluster[i];
    begin_block(*block, index);
  }
}

BlockState run_cluster(Cluster &cluster) {
  if (cluster.blocks.size() == 1) {
    const BlockState state = run_block(*cluster.blocks[0]);
    if (state != BlockState::waiting)
      return state;
    report_deadlock(*cluster.blocks[0]);
    return BlockState::fault;
  }
  std::vector<Block *> order;
  for (const auto &block : cluster.blocks)
    order.push_back(block.get());
  while (true) {
    if (Draws *draws = order[0]->draws)
      draws->shuffle(order);
    bool cut = false, running = false, finished = true;
    uint64_t before = 0, after = 0;
    for (Block *block : order) {
      before += block->warp_instructions;
      BlockState state = has_ended(*block) ? BlockState::finished : run_block(*block);
      after += block->warp_instructions;
      if (state == BlockState::fault)
        return state;
      cut |= state == BlockState::cut;
      running |= state == BlockState::running;
      finished &= state == BlockState::finished;
    }
    if (finished)
      return BlockState::finished;
    if (running || cut)
      return running ? BlockState::running : BlockState::cut;
    if (before != after)
      continue;
    // Each that is left waits for the barrier, at which another will never arrive.
    for (Block *block : order)
      if (!has_ended(*block)) {
        report_deadlock(*block);
        return BlockState::fault;
      }
  }
}

std::optional<Fault> take_fault(Cluster &cluster) {
  for (const auto &block : cluster.blocks)
    if (block->fault)
      return std::move(block->fault);
  return std::nullopt;
}

Block *owner_of(const Warp &w, uint64_t &address) {
  const uint64_t rank = address >> kRankShift;
  if (rank == 0)
    return w.block;
  const auto &blocks = w.block->cluster->blocks;
  if (rank > blocks.size() || has_ended(*blocks[rank - 1]))
    return nullptr;
  address &= (uint64_t(1) << kRankShift) - 1;
  return blocks[rank - 1].get();
}

void leave_cluster_barrier(Warp &w, uint32_t lanes) {
  w.block->cluster->arrived -= uint32_t(__builtin_popcount(w.cluster_arrived & lanes));
  w.cluster_arrived &= ~lanes;
  w.cluster_done &= ~lanes;
}

void cluster_threads_exited(Cluster &cluster) { complete_if_all_arrived(cluster); }

bool waits_for_cluster(const Block &block) {
  return std::any_of(block.warps.begin(), block.warps.end(), [](const auto &w) {
    return std::any_of(w->paths, w->paths + w->path_count,
                       [](const Path &path) { return path.state == PathState::at_cluster; });
  });
}

static const Op *misused(const Op *op, Warp &w, u32 lanes, const char *what) {
  return raise_fault(w, op, FaultKind::illegal_instruction, u32(__builtin_ctz(lanes)), what);
}

static const Op *cluster_arrive(const Op *op, Warp &w) {
  if (u32 again = w.mask & (w.cluster_arrived | w.cluster_done))
    return misused(op, w, again, "barrier.cluster.arrive again, without a wait between");
  if (w.block->races)
    w.block->races->arrive_at_cluster(w.index);
  w.cluster_arrived |= w.mask;
  w.block->cluster->arrived += u32(__builtin_popcount(w.mask));
  complete_if_all_arrived(*w.block->cluster);
  return op + 1;
}

static const Op *cluster_wait(const Op *op, Warp &w) {
  if (u32 early = w.mask & ~(w.cluster_arrived | w.cluster_done))
    return misused(op, w, early, "barrier.cluster.wait without an arrival before it");
  const u32 passing = w.mask & w.cluster_done, waiting = w.mask & ~passing;
  w.cluster_done &= ~passing;
  if (passing && w.block->races)
    w.block->races->waited_for_cluster(w.index);
  if (!waiting)
    return op + 1;
  w.leave = Leave::cluster;
  w.at = op;
  w.taken = waiting;
  return w.stop;
}

/// Op::a an address of shared memory, generic or not, and Op::b a rank: the same place in the
/// shared memory of that block.
template <class T> static const Op *map_address(const Op *op, Warp &w) {
  constexpr T kOffset = (T(1) << kRankShift) - 1;
  constexpr T kRank = T(0xffffffff) & ~kOffset;
  const T *a = w.lane<T>(op->a);
  const u32 *rank = w.lane<u32>(op->b);
  T *d = w.lane<T>(op->d);
  for (u32 i : lanes_of(w.mask)) {
    // Ranks that no cluster has stay ranks that none has.
    const T above = T(std::min(rank[i], 254u) + 1) << kRankShift;
    d[i] = (a[i] & ~kRank) | above;
  }
  return op + 1;
}

template <class T> static const Op *rank_of_address(const Op *op, Warp &w) {
  const T *a = w.lane<T>(op->a);
  u32 *d = w.lane<u32>(op->d);
  for (u32 i : lanes_of(w.mask)) {
    const u32 above = u32(a[i]) >> kRankShift;
    d[i] = above ? above - 1 : w.block->rank;
  }
  return op + 1;
}

void fill_clusters(HandlerTable &table) {
#define CLUSTER(id, names, cls, cells, ...) table[size_t(OpId::id)] = {__VA_ARGS__, __VA_ARGS__};
#include "emulator/exec/opcodes/opcodes.def"
}

} // namespace cugrt::emulator
