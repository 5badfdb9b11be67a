// Vector clocks over the accesses of a block's warps; see race_check.h.
#include "emulator/exec/checks/race_check.h"

#include "base/whole_number.h"
#include "emulator/exec/block.h"
#include "emulator/exec/checks/access_rows.h"
#include "emulator/exec/memory.h"
#include "emulator/exec/units/wmma.h"

#include <algorithm>

namespace cugrt::emulator {

namespace {

using Kind = AccessRow::Kind;

/// Whether the address is of shared memory; a generic one becomes an offset into it.
bool is_shared(ptx::Space space, uint64_t &address) {
  if (space == ptx::Space::none && (address & ~(kWindowBytes - 1)) == kSharedWindow) {
    address &= kWindowBytes - 1; // of another block of the cluster: beyond this one's
    return true;
  }
  return space == ptx::Space::shared;
}

} // namespace

RaceCheck::RaceCheck(uint32_t shared_bytes, uint32_t warps)
    : warps_(warps), known_(warps), words_((size_t(shared_bytes) + 3) / 4) {}

void RaceCheck::begin_block() {
  constexpr uint32_t kLimit = UINT32_MAX / 2;
  for (const Clock &clock : known_)
    latest_ = std::max(latest_, *std::max_element(clock.begin(), clock.end()));
  if (latest_ > kLimit) {
    std::fill(words_.begin(), words_.end(), Word{});
    latest_ = 0;
  }
  for (uint32_t i = 0; i < warps_; ++i) {
    known_[i].fill(latest_);
    known_[i][i] = latest_ + 1;
  }
  for (Clock &barrier : barriers_)
    barrier.fill(0);
  exited_.fill(0);
  cluster_arriving_.fill(0);
  cluster_complete_.fill(0);
  ordered_at_.clear();
}

void RaceCheck::join(Clock &to, const Clock &from) {
  for (uint32_t i = 0; i < kMaxWarps; ++i)
    to[i] = std::max(to[i], from[i]);
}

void RaceCheck::arrive(uint32_t barrier, uint32_t warp) {
  join(barriers_[barrier], known_[warp]);
  ++known_[warp][warp];
}

// Threads that have exited count as arrived.
void RaceCheck::release(uint32_t barrier, uint32_t warps) {
  join(barriers_[barrier], exited_);
  for (uint32_t i = 0; i < warps_; ++i)
    if (warps >> i & 1)
      join(known_[i], barriers_[barrier]);
  barriers_[barrier].fill(0);
}

void RaceCheck::exited(uint32_t warp) { join(exited_, known_[warp]); }

void RaceCheck::arrive_at_cluster(uint32_t warp) {
  join(cluster_arriving_, known_[warp]);
  ++known_[warp][warp];
}

void RaceCheck::complete_cluster() {
  join(cluster_complete_, cluster_arriving_);
  cluster_arriving_.fill(0);
}

void RaceCheck::waited_for_cluster(uint32_t warp) { join(known_[warp], cluster_complete_); }

void RaceCheck::synchronise(uint32_t warp, uint64_t address) {
  constexpr size_t kMaxAddresses = 1 << 12; // beyond that all share one, which orders more
  if (ordered_at_.size() >= kMaxAddresses && !ordered_at_.count(address))
    address = ~uint64_t(0);
  Clock &clock = ordered_at_.try_emplace(address, Clock{}).first->second;
  join(clock, known_[warp]);
  join(known_[warp], clock);
  ++known_[warp][warp];
}

bool RaceCheck::ordered(const Access &before, const Access &now) const {
  return !before.at || before.warp == now.warp || !(before.bytes & now.bytes) ||
         before.time <= known_[now.warp][before.warp];
}

const RaceCheck::Access *RaceCheck::touch(uint32_t index, const Access &now) {
  static thread_local Access raced;
  Word &word = words_[index];
  auto conflict = [&](const Access &before) {
    if ((before.strong && now.strong) || ordered(before, now))
      return false;
    raced = before;
    return true;
  };
  bool found = conflict(word.write) || conflict(word.strong_write) ||
               (now.is_write && (conflict(word.reads[0]) || conflict(word.reads[1])));
  Access &own = now.is_write && now.strong                ? word.strong_write
                : now.is_write                            ? word.write
                : word.reads[0].warp == now.warp          ? word.reads[0]
                : word.reads[1].warp == now.warp          ? word.reads[1]
                : word.reads[0].time < word.reads[1].time ? word.reads[0]
                                                          : word.reads[1];
  bool again = own.at && own.warp == now.warp && own.time == now.time && own.strong == now.strong;
  uint8_t bytes = again ? own.bytes : 0;
  own = now;
  own.bytes |= bytes;
  return found ? &raced : nullptr;
}

bool RaceCheck::touch_range(Warp &w, uint64_t address, uint32_t bytes, Access now) {
  for (uint64_t at = address & ~uint64_t(3); at < address + bytes; at += 4) {
    uint32_t first = at < address ? uint32_t(address - at) : 0;
    uint32_t end = uint32_t(std::min<uint64_t>(4, address + bytes - at));
    now.bytes = uint8_t((1u << end) - (1u << first));
    if (const Access *before = touch(uint32_t(at / 4), now)) {
      report(w, at + first, *before, now);
      return false;
    }
  }
  return true;
}

void RaceCheck::report(const Warp &w, uint64_t address, const Access &before,
                       const Access &now) const {
  const Block &block = *w.block;
  (*block.launch->config->report_race)(
      std::string(now.is_write ? "write" : "read") + " of shared address " + hex_text(address) +
      " by " + thread_text(block, now.warp, now.lane) + " at " +
      location_text(*block.launch, *now.at) + " is not ordered with the " +
      (before.is_write ? "write" : "read") + " by " + thread_text(block, before.warp, before.lane) +
      " at " + location_text(*block.launch, *before.at) + ", in " + block_text(block));
}

RaceCheck::Access RaceCheck::access_of(const Warp &w, const Op *op) const {
  Access now;
  now.at = &w.current->code->locations[size_t(op - w.current->code->ops.data())];
  now.warp = uint8_t(w.index);
  now.time = known_[w.index][w.index];
  return now;
}

/// wmma.load and wmma.store, element by element.
void RaceCheck::observe_tile(Warp &w, const Op *op) {
  const uint32_t bytes = static_cast<const TileAccess *>(op->extra)->tile.element_bytes;
  const ptx::Space space = access_space(op);
  Access now = access_of(w, op);
  now.is_write = access_row(op).kind == Kind::tile_store;
  for_each_tile_access(op, w, executing_lanes(op, w),
                       [&](uint32_t, uint32_t, uint32_t lane, uint64_t address) {
                         if (!is_shared(space, address) || bytes > w.shared_bytes ||
                             address > w.shared_bytes - bytes)
                           return true;
                         now.lane = uint8_t(lane);
                         return touch_range(w, address, bytes, now);
                       });
}

void RaceCheck::observe(Warp &w, const Op *op) {
  const AccessRow &row = access_row(op);
  const bool is_bulk = row.kind == Kind::bulk_load || row.kind == Kind::bulk_store;
  if (row.kind == Kind::none || is_bulk || row.space == ptx::Space::local)
    return;
  bool ordered_access = row.kind == Kind::atomic || (row.is_plain() && (op->flags & kFlagVolatile));
  if (row.space == ptx::Space::global && !ordered_access)
    return;
  if (row.kind == Kind::tile_load || row.kind == Kind::tile_store)
    return observe_tile(w, op);
  uint32_t lanes = executing_lanes(op, w), bytes = row.total_bytes();
  uint64_t addresses[kLanes];
  if (row.kind == Kind::async_copy) {
    bytes = op->e;
    for (uint32_t i = 0; i < kLanes; ++i)
      addresses[i] =
          (op->flags & kFlagWide ? w.lane<uint64_t>(op->d)[i] : w.lane<uint32_t>(op->d)[i]) +
          uint64_t(int64_t(int32_t(op->imm)));
  } else {
    effective_addresses(op, w, addresses);
  }
  if (row.is_matrix())
    lanes &= uint32_t((uint64_t(1) << (8 * row.count)) - 1); // that name its rows
  const ptx::Space space = access_space(op);
  Access now = access_of(w, op);
  now.strong = ordered_access;
  now.is_write = row.kind == Kind::store || row.kind == Kind::async_copy ||
                 row.kind == Kind::matrix_store || row.kind == Kind::atomic;
  for (uint32_t i : lanes_of(lanes)) {
    uint64_t address = addresses[i];
    bool shared = is_shared(space, address);
    // An access out of bounds is a fault of the operation itself.
    if (!shared || bytes > w.shared_bytes || address > w.shared_bytes - bytes)
      continue;
    now.lane = uint8_t(i);
    if (!touch_range(w, address, bytes, now))
      break;
  }
  for (uint32_t i = 0; i < kLanes && ordered_access; ++i) {
    if (!(lanes >> i & 1))
      continue;
    uint64_t address = addresses[i];
    bool shared = is_shared(space, address);
    synchronise(w.index, shared ? address | kSharedWindow : address);
  }
}

} // namespace cugrt::emulator
