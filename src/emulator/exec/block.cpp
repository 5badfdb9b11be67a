// Blocks: their memory, special registers, barriers, and the round over their warps.
#include "emulator/exec/block.h"

#include "base/whole_number.h"
#include "emulator/exec/units/cluster.h"

#include <algorithm>
#include <cstring>

namespace cugrt::emulator {

namespace {

constexpr uint32_t kMaxRounds = 4; // with warps that gave way, before other blocks get a turn
constexpr uint32_t kRoundsOfCutBlock = 8; // about, in a drawn order

uint64_t aligned(uint64_t bytes) { return (bytes + 63) & ~uint64_t(63); }

uint32_t threads_of(const Launch &launch) {
  const auto &block = launch.config->block;
  return block[0] * block[1] * block[2];
}

void fill32(std::byte *registers, uint32_t cell, uint32_t value) {
  std::fill_n(reinterpret_cast<uint32_t *>(registers + cell), kLanes, value);
}

/// Thread coordinates of a lane along one axis.
uint32_t thread_coordinate(const Launch &launch, uint32_t warp, uint32_t lane, size_t axis) {
  const auto &block = launch.config->block;
  uint32_t thread = warp * kLanes + lane;
  return axis == 0   ? thread % block[0]
         : axis == 1 ? thread / block[0] % block[1]
                     : thread / block[0] / block[1];
}

uint32_t multiprocessor_of(const Block &block) {
  const std::span<const uint32_t> own = block.launch->config->multiprocessors;
  return own.empty() ? uint32_t(block.linear_index % block.launch->multiprocessors)
                     : own[block.linear_index % own.size()];
}

uint32_t special_value(const Warp &w, Special special, uint32_t lane) {
  const Launch &launch = *w.block->launch;
  const LaunchConfig &config = *launch.config;
  const size_t axis = size_t(special) % 3; // of rows of three
  switch (special) {
#define SPECIAL(id, name, of_block, ...)                                                           \
  case Special::id:                                                                                \
    return __VA_ARGS__;
#include "emulator/exec/warps/special_registers.def"
  }
  return 0;
}

/// Whether a register changes from block to block, and is the same in all lanes.
bool is_of_block(Special special) {
  static constexpr bool kRows[] = {
#define SPECIAL(id, name, of_block, ...) of_block,
#include "emulator/exec/warps/special_registers.def"
  };
  return kRows[size_t(special)];
}

std::string location_of(const Warp &w, const CallFrame *call, const Op *op) {
  const FunctionCode &code = *call->code;
  size_t index = size_t(op - code.ops.data());
  if (index >= code.locations.size())
    return "the end";
  return location_text(*w.block->launch, code.locations[index]);
}

/// Warps that meet one at the barrier which has waited for the grids before have waited as well.
void spread_wait(Block &block, uint32_t number) {
  uint32_t there = 0;
  for (const auto &w : block.warps)
    for (uint32_t i = 0; i < w->path_count; ++i)
      if (w->paths[i].state == PathState::at_barrier && w->paths[i].barrier == number)
        there |= 1u << w->index;
  if (block.waited & there)
    block.waited |= there;
}

/// Releases the barrier's paths in every warp and starts its next phase.
void release(Block &block, uint32_t number) {
  Barrier &barrier = block.barriers[number];
  if (block.accesses)
    spread_wait(block, number);
  uint32_t released = 0;
  for (auto &w : block.warps) {
    for (uint32_t i = 0; i < w->path_count; ++i) {
      Path &path = w->paths[i];
      if (path.state != PathState::at_barrier || path.barrier != number)
        continue;
      path.state = PathState::ready;
      released |= 1u << w->index;
      OpId id = OpId(path.barrier_op->id);
      if (id == OpId::bar_sync)
        continue;
      uint32_t value = id == OpId::bar_red_popc  ? barrier.ones
                       : id == OpId::bar_red_and ? 0u - uint32_t(barrier.ones == barrier.arrived)
                                                 : 0u - uint32_t(barrier.ones != 0);
      auto *d = reinterpret_cast<uint32_t *>(path.call->registers + path.barrier_op->d);
      for (uint32_t lane : lanes_of(path.mask))
        d[lane] = value;
    }
  }
  barrier = Barrier{};
  if (block.races)
    block.races->release(number, released);
}

} // namespace

void report_deadlock(Block &block) {
  std::string text = "deadlock in " + block_text(block) + ": ";
  constexpr size_t kMaxShown = 8;
  size_t shown = 0, paths = 0;
  for (const auto &w : block.warps) {
    for (uint32_t i = 0; i < w->path_count; ++i, ++paths) {
      if (shown == kMaxShown)
        continue;
      const Path &path = w->paths[i];
      const bool barrier = path.state == PathState::at_barrier;
      text += (shown++ ? "; warp " : "warp ") + std::to_string(w->index) + " lanes " +
              hex_digits(path.mask, 8) +
              (barrier ? " at barrier " + std::to_string(path.barrier) + ", " : " wait at ") +
              location_of(*w, path.call, barrier ? path.barrier_op : path.pc);
    }
  }
  if (paths > shown)
    text += "; and " + std::to_string(paths - shown) + " more";
  block.fault = Fault{FaultKind::deadlock, std::move(text)};
}

std::string location_text(const Launch &launch, const OpLocation &at) {
  std::string text = "ptx line " + std::to_string(at.line);
  const auto &files = *launch.files;
  if (at.source_line && at.file < files.size())
    text = std::string(files[at.file]) + ":" + std::to_string(at.source_line) + " (" + text + ")";
  return text;
}

std::string thread_text(const Block &block, uint32_t warp, uint32_t lane) {
  auto axis = [&](int i) {
    return std::to_string(thread_coordinate(*block.launch, warp, lane, i));
  };
  return "thread (" + axis(0) + ", " + axis(1) + ", " + axis(2) + ")";
}

std::string block_text(const Block &block) {
  return "kernel " + block.launch->code->name + ", block (" + std::to_string(block.index[0]) +
         ", " + std::to_string(block.index[1]) + ", " + std::to_string(block.index[2]) + ")";
}

std::string access_place(const Warp &w, const Op *op, uint32_t lane) {
  return block_text(*w.block) + ", " + thread_text(*w.block, w.index, lane) + ", at " +
         location_of(w, w.current, op);
}

const Op *raise_fault(Warp &w, const Op *op, FaultKind kind, uint32_t lane, std::string what) {
  Block &block = *w.block;
  w.leave = Leave::fault;
  if (!block.fault)
    block.fault = Fault{kind, what + " in " + access_place(w, op, lane)};
  return w.stop;
}

void fill_constants(const FunctionCode &code, std::byte *registers) {
  for (const ConstantCell &constant : code.constants) {
    if (constant.wide)
      std::fill_n(reinterpret_cast<uint64_t *>(registers + constant.cell), kLanes, constant.bits);
    else
      fill32(registers, constant.cell, uint32_t(constant.bits));
  }
}

void fill_specials(const Warp &w, const FunctionCode &code, std::byte *registers, bool all) {
  for (const SpecialCell &special : code.specials) {
    if (is_of_block(special.special))
      fill32(registers, special.cell, special_value(w, special.special, 0));
    else if (all)
      for (uint32_t lane = 0; lane < kLanes; ++lane)
        reinterpret_cast<uint32_t *>(registers + special.cell)[lane] =
            special_value(w, special.special, lane);
  }
}

std::unique_ptr<Block> make_block(const Launch &launch, AddressRange *ranges) {
  auto block = std::make_unique<Block>();
  block->launch = &launch;
  uint32_t warps = (threads_of(launch) + kLanes - 1) / kLanes;
  uint64_t registers = aligned(launch.code->register_bytes),
           local = aligned(launch.local_stride * kLanes);
  uint64_t shared = aligned(launch.shared_bytes) + kReservedSharedBytes;
  block->storage.reset(new std::byte[shared + warps * (registers + local) + 64]);
  auto raw = reinterpret_cast<uintptr_t>(block->storage.get());
  auto *cursor = reinterpret_cast<std::byte *>((raw + 63) & ~uintptr_t(63));
  block->shared = cursor;
  cursor += shared;
  for (uint32_t i = 0; i < warps; ++i) {
    auto w = std::make_unique<Warp>();
    w->index = i;
    w->block = block.get();
    w->params = launch.config->params.data();
    w->param_bytes = launch.config->params.size();
    w->shared = block->shared;
    w->shared_bytes = launch.shared_bytes;
    w->base.code = launch.code;
    w->base.registers = cursor;
    cursor += registers;
    w->local = cursor;
    cursor += local;
    w->local_stride = launch.local_stride;
    std::fill(std::begin(w->stack_top), std::end(w->stack_top), w->local_stride);
    w->memory = launch.memory;
    w->global_offset = reinterpret_cast<uint64_t>(launch.memory->host(0));
    w->ranges = ranges;
    fill_constants(*launch.code, w->base.registers);
    block->warps.push_back(std::move(w));
  }
  if (launch.config->report_race && launch.shared_bytes)
    block->races = std::make_unique<RaceCheck>(launch.shared_bytes, warps);
  if (launch.config->report_uninitialized)
    block->init = std::make_unique<InitCheck>(*launch.memory->undefined(), launch, warps);
  for (const auto &w : block->warps) // the number of warps is known only now
    fill_specials(*w, *launch.code, w->base.registers, true);
  return block;
}

void begin_block(Block &block, const std::array<uint32_t, 3> &index) {
  const Launch &launch = *block.launch;
  const auto &grid = launch.config->grid;
  block.linear_index = (uint64_t(index[2]) * grid[1] + index[1]) * grid[0] + index[0];
  block.index = index;
  block.live_threads = threads_of(launch);
  block.waited = 0;
  block.call_bytes = 0;
  std::fill(std::begin(block.barriers), std::end(block.barriers), Barrier{});
  std::memset(block.shared, AddressSpace::kPoison, launch.shared_bytes);
  if (block.races)
    block.races->begin_block();
  if (block.init)
    block.init->begin_block();
  for (auto &w : block.warps) {
    uint32_t lanes = std::min(block.live_threads - w->index * kLanes, kLanes);
    w->live = lanes == kLanes ? ~0u : (1u << lanes) - 1;
    w->calls.clear();
    w->copies.clear();
    std::fill(std::begin(w->copy_groups), std::end(w->copy_groups), 0u);
    w->bulk_stores.clear();
    if (launch.code->allocates)
      std::fill(std::begin(w->stack_top), std::end(w->stack_top), w->local_stride);
    w->cluster_arrived = w->cluster_done = 0;
    w->base.lanes = w->live;
    w->path_count = 1;
    w->paths[0] = Path{};
    w->paths[0].pc = launch.code->ops.data();
    w->paths[0].call = &w->base;
    w->paths[0].mask = w->live;
    for (uint32_t lane = 0; lane < kLanes && launch.known_stack_bytes; ++lane)
      std::memset(w->local + lane * launch.local_stride, AddressSpace::kPoison,
                  launch.known_stack_bytes);
    fill_specials(*w, *launch.code, w->base.registers, false);
  }
}

void arrive(Warp &w, uint32_t number, uint32_t threads, uint32_t expected, uint32_t ones) {
  Block &block = *w.block;
  if (block.races)
    block.races->arrive(number, w.index);
  Barrier &barrier = block.barriers[number];
  barrier.arrived += threads;
  barrier.ones += ones;
  barrier.expected = std::max(barrier.expected, expected);
  uint32_t needed = barrier.expected ? barrier.expected : block.live_threads;
  if (barrier.arrived >= needed)
    release(block, number);
}

void threads_exited(Block &block, uint32_t threads) {
  block.live_threads -= threads;
  cluster_threads_exited(*block.cluster);
  for (uint32_t i = 0; i < kBarriers; ++i) {
    const Barrier &barrier = block.barriers[i];
    if (barrier.arrived && !barrier.expected && barrier.arrived >= block.live_threads)
      release(block, i);
  }
}

BlockState run_block(Block &block) {
  for (uint32_t round = 0; round < kMaxRounds;) {
    bool finished = true, gave_way = false, cut = false;
    uint64_t before = block.warp_instructions;
    if (block.draws)
      block.draws->shuffle(block.warps);
    for (auto &w : block.warps) {
      if (w->path_count == 0)
        continue;
      WarpState state = run_warp(*w);
      if (state == WarpState::fault)
        return BlockState::fault;
      finished &= state == WarpState::finished;
      gave_way |= state == WarpState::ready;
      cut |= state == WarpState::cut;
    }
    if (finished)
      return BlockState::finished;
    if (block.warp_instructions == before && !gave_way) {
      if (waits_for_cluster(block))
        return BlockState::waiting;
      report_deadlock(block);
      return BlockState::fault;
    }
    if (cut && block.draws->once_in(kRoundsOfCutBlock))
      return BlockState::cut;
    round += gave_way;
  }
  return BlockState::running;
}

} // namespace cugrt::emulator
