// Which cluster runs when: those that were begun take turns. See grid.h.
#include "emulator/exec/grid.h"

#include "emulator/exec/checks/accesses.h"
#include "emulator/exec/checks/grid_race_check.h"
#include "emulator/exec/checks/poll_check.h"

#include <algorithm>
#include <deque>

namespace cugrt::emulator {

namespace {

std::atomic<uint64_t> total_instructions, total_lane_operations;

/// The part of a drawn order that chooses among clusters.
class ClusterOrder {
public:
  ClusterOrder(const LaunchOrder &order, uint64_t clusters)
      : draws(order.seed), numbers_(clusters, draws.next()), between_(order.between_blocks) {
    if (between_)
      turns_left_ = draws.below(2 * clusters + 1);
  }
  uint64_t number(uint64_t i) const { return numbers_[i]; }
  /// Called between two turns. Other work may free remembered memory.
  void between_turns(std::vector<AddressRange> &remembered) {
    if (!between_ || turns_left_--)
      return;
    (*between_)();
    std::fill(remembered.begin(), remembered.end(), AddressRange{});
    turns_left_ = draws.below(kTurnsBetween);
  }
  /// Limits how many cut clusters keep others from ending.
  bool widens(size_t active) { return active < kMaxCut && draws.once_in(2); }
  template <class Clusters> void choose(Clusters &active) {
    std::swap(active.front(), active[draws.below(active.size())]);
  }

  Draws draws;

private:
  static constexpr uint64_t kTurnsBetween = 64;
  static constexpr size_t kMaxCut = 8;
  Permutation numbers_;
  const std::function<void()> *between_;
  uint64_t turns_left_ = 0;
};

} // namespace

void Grid::work() {
  std::vector<AddressRange> ranges(launch.cache_count);
  LaunchAccesses accesses;
  accesses.counts = launch.config->accesses && launch.config->accesses->counts;
  std::optional<ClusterOrder> order;
  if (launch.config->order)
    order.emplace(*launch.config->order, clusters);
  std::optional<PollCheck> polls;
  if (launch.config->report_polling)
    polls.emplace(*launch.config->report_polling, *launch.memory).turn().counts = accesses.counts;
  std::optional<GridRaceCheck> grid_races;
  if (looks_for_grid_races(*launch.config))
    grid_races.emplace(*launch.config->report_race, clusters).turn().counts = accesses.counts;
  LaunchAccesses *const turn = polls ? &polls->turn() : grid_races ? &grid_races->turn() : nullptr;
  std::deque<std::unique_ptr<Cluster>> active, idle;
  bool widen = true; // take another cluster before going on with those there are
  while (!failed.load(std::memory_order_relaxed)) {
    bool fresh = false;
    if (polls)
      widen = polls->may_begin();
    if (widen && active.size() < residents) {
      uint64_t index = next.fetch_add(1, std::memory_order_relaxed);
      if (index < clusters) {
        if (idle.empty())
          idle.push_back(make_cluster(launch, ranges.data()));
        for (const auto &block : idle.back()->blocks) {
          block->accesses = turn ? turn : launch.config->accesses ? &accesses : nullptr;
          block->draws = order ? &order->draws : nullptr;
        }
        begin_cluster(*idle.back(), order ? order->number(index) : index);
        if (polls)
          polls->began(*idle.back());
        if (grid_races)
          grid_races->began(*idle.back());
        active.push_front(std::move(idle.back()));
        idle.pop_back();
        fresh = true;
      }
    }
    if (active.empty())
      break;
    if (order) {
      order->between_turns(ranges);
      order->choose(active);
    }
    std::unique_ptr<Cluster> cluster = std::move(active.front());
    active.pop_front();
    BlockState state = run_cluster(*cluster);
    if (turn && launch.config->accesses)
      accesses.add(*turn);
    if (polls)
      polls->turned(*cluster, state);
    if (grid_races)
      grid_races->turned(*cluster, state);
    widen = fresh || state == BlockState::finished;
    if (state == BlockState::running) {
      active.push_back(std::move(cluster)); // others get their turn: it may wait for them
      widen = true;
    } else if (state == BlockState::cut) {
      active.push_back(std::move(cluster));
      widen = order->widens(active.size());
    } else if (state == BlockState::finished) {
      idle.push_back(std::move(cluster));
    } else {
      failed = true;
      std::lock_guard lock(mutex);
      if (!fault)
        fault = take_fault(*cluster);
    }
  }
  uint64_t instructions = 0, lanes = 0;
  ExecutionCounters counted;
  for (auto *list : {&active, &idle})
    for (const auto &cluster : *list)
      for (const auto &block : cluster->blocks) {
        instructions += block->warp_instructions;
        lanes += block->lane_operations;
        counted.warp_instructions += block->counted.warp_instructions;
        counted.lane_operations += block->counted.lane_operations;
      }
  if (ExecutionCounters *counters = launch.config->counters) {
    std::lock_guard lock(mutex);
    counters->warp_instructions += counted.warp_instructions;
    counters->lane_operations += counted.lane_operations;
  }
  if (launch.config->accesses) {
    std::lock_guard lock(mutex);
    launch.config->accesses->add(accesses);
  }
  warp_instructions.fetch_add(instructions, std::memory_order_relaxed);
  lane_operations.fetch_add(lanes, std::memory_order_relaxed);
  total_instructions.fetch_add(instructions, std::memory_order_relaxed);
  total_lane_operations.fetch_add(lanes, std::memory_order_relaxed);
}

ExecutionCounters execution_counters() {
  return {total_instructions.load(std::memory_order_relaxed),
          total_lane_operations.load(std::memory_order_relaxed)};
}

} // namespace cugrt::emulator
