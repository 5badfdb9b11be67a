// cp.async and cp.async.bulk: bytes to and from shared memory that arrive when they are waited for.
//
// Addresses are checked where the copy is issued. The bytes land, all at once, at the wait that
// covers the copy's group; a program that reads the destination earlier sees what was there before.
// Bulk copies to shared memory land when a barrier is asked (exec/units/mbarrier.h), those from it
// at the wait for their group, which also has read them. Groups are a thread's own: commit_group
// ends the one that its copies since the last belong to.
#include "emulator/exec/units/async_copy.h"

#include "emulator/exec/memory.h"
#include "emulator/exec/opcodes/handlers.h"
#include "emulator/exec/units/cluster.h"

#include <algorithm>
#include <cstring>

namespace cugrt::emulator {

namespace {

constexpr size_t kMaxPending = 1 << 14; // of one warp

/// Cells: d the shared and a the global address, c the bytes to read; Op::e the bytes to write,
/// Op::imm both offsets.
const Op *copy_async(const Op *op, Warp &w) {
  const uint32_t bytes = op->e;
  uint64_t destination[kLanes], source[kLanes];
  std::byte *to[kLanes], *from[kLanes];
  const bool wide = op->flags & kFlagWide; // of the shared address
  uint32_t reading = 0;
  for (uint32_t i = 0; i < kLanes; ++i) {
    uint64_t shared = wide ? w.lane<uint64_t>(op->d)[i] : w.lane<uint32_t>(op->d)[i];
    destination[i] = shared + uint64_t(int64_t(int32_t(op->imm)));
    source[i] = w.lane<uint64_t>(op->a)[i] + uint64_t(op->imm >> 32);
    reading |= uint32_t(w.lane<uint32_t>(op->c)[i] != 0) << i;
  }
  if (!translate(op, w, ptx::Space::shared, destination, bytes, bytes, to))
    return w.stop;
  const uint32_t active = w.mask;
  w.mask = active & reading;
  bool good = translate(op, w, ptx::Space::global, source, bytes, bytes, from);
  w.mask = active;
  if (!good)
    return w.stop;
  if (w.copies.size() >= kMaxPending) // landing early is allowed, and bounds what is remembered
    land_copies(w, ~0u, 0, true);
  for (uint32_t i : lanes_of(active)) {
    uint32_t count = std::min(w.lane<uint32_t>(op->c)[i], bytes);
    w.copies.push_back({count ? from[i] : nullptr, to[i], count, bytes, i, w.copy_groups[i]});
    if (w.block->init)
      w.block->init->issue(w, w.copies.back());
  }
  return op + 1;
}

/// Waits for all but the last Op::imm groups; with kFlagWide, also for copies in no group yet.
const Op *wait_for_copies(const Op *op, Warp &w) {
  const bool all = op->flags & kFlagWide;
  land_copies(w, w.mask, all ? 0 : uint32_t(op->imm), all);
  return op + 1;
}

/// Ends each lane's group.
const Op *commit(const Op *op, const Warp &w, uint32_t *groups) {
  for (uint32_t i = 0; i < kLanes; ++i)
    groups[i] += w.mask >> i & 1;
  return op + 1;
}

const Op *commit_copies(const Op *op, Warp &w) { return commit(op, w, w.copy_groups); }
const Op *commit_bulk_stores(const Op *op, Warp &w) { return commit(op, w, w.bulk_groups); }

/// Calls `land` with the due copies of the lanes' groups, but for their last ones; the rest stays.
template <class Copy, class Land>
void land_due(std::vector<Copy> &copies, const uint32_t *committed, uint32_t lanes,
              uint32_t groups_left, bool uncommitted_too, Land land) {
  size_t kept = 0;
  for (const Copy &copy : copies) {
    if ((lanes >> copy.lane & 1) &&
        (uncommitted_too || uint64_t(copy.group) + groups_left < committed[copy.lane]))
      land(copy);
    else
      copies[kept++] = copy;
  }
  copies.resize(kept);
}

/// Finds one lane's bytes at a generic address; false after a fault.
bool place_of(const Op *op, Warp &w, uint32_t lane, uint64_t address, uint32_t bytes,
              uint32_t align, std::byte **out) {
  uint64_t addresses[kLanes] = {};
  std::byte *places[kLanes];
  addresses[lane] = address;
  const uint32_t active = w.mask;
  w.mask = 1u << lane;
  const bool good = translate(op, w, ptx::Space::none, addresses, bytes, align, places);
  w.mask = active;
  *out = places[lane];
  return good;
}

constexpr uint32_t kBulkAlign = 16; // of both places and of the size

/// Copies b bytes from a to d; all addresses generic.
bool bulk_copy(const Op *op, Warp &w, uint32_t lane, BulkCopy &copy) {
  copy.bytes = w.lane<uint32_t>(op->b)[lane];
  copy.from_address = w.lane<uint64_t>(op->a)[lane];
  copy.to_address = w.lane<uint64_t>(op->d)[lane];
  copy.warp = &w;
  copy.lane = lane;
  if (copy.bytes % kBulkAlign) {
    raise_fault(w, op, FaultKind::misaligned_address, lane,
                "a bulk copy of " + std::to_string(copy.bytes) + " bytes: no multiple of 16");
    return false;
  }
  std::byte *from;
  if (!place_of(op, w, lane, copy.from_address, copy.bytes, kBulkAlign, &from) ||
      !place_of(op, w, lane, copy.to_address, copy.bytes, kBulkAlign, &copy.to))
    return false;
  copy.from = from;
  return true;
}

/// The same place in the shared memory of the block of a rank.
uint64_t in_block(uint64_t address, uint32_t rank) {
  const uint64_t window = uint64_t(UINT32_MAX) + 1, offset = (uint64_t(1) << kRankShift) - 1;
  return (address & ~(window - 1)) | uint64_t(rank + 1) << kRankShift | (address & offset);
}

/// Copies to shared memory; a barrier at c counts the bytes. With kFlagWide, e is a mask of ranks:
/// copies to the same place in each of these blocks, and counts there.
const Op *bulk_load(const Op *op, Warp &w) {
  constexpr uint32_t kRanks = 16;
  for (uint32_t i : lanes_of(w.mask)) {
    const uint64_t barrier = w.lane<uint64_t>(op->c)[i];
    BulkCopy copy;
    if (!bulk_copy(op, w, i, copy) ||
        !place_of(op, w, i, barrier, sizeof(uint64_t), sizeof(uint64_t), &copy.barrier))
      return w.stop;
    auto &copies = w.block->cluster->copies;
    if (!(op->flags & kFlagWide)) {
      copies.push_back(copy);
      continue;
    }
    const uint32_t ranks = w.lane<uint32_t>(op->e)[i];
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      if (!(ranks >> rank & 1))
        continue;
      BulkCopy one = copy;
      one.to_address = in_block(copy.to_address, rank);
      if (!place_of(op, w, i, one.to_address, copy.bytes, kBulkAlign, &one.to) ||
          !place_of(op, w, i, in_block(barrier, rank), sizeof(uint64_t), sizeof(uint64_t),
                    &one.barrier))
        return w.stop;
      copies.push_back(one);
    }
  }
  return op + 1;
}

const Op *bulk_store(const Op *op, Warp &w) {
  if (w.bulk_stores.size() >= kMaxPending)
    land_bulk_stores(w, ~0u, 0, true);
  for (uint32_t i : lanes_of(w.mask)) {
    BulkCopy copy;
    if (!bulk_copy(op, w, i, copy))
      return w.stop;
    copy.group = w.bulk_groups[i];
    w.bulk_stores.push_back(copy);
  }
  return op + 1;
}

const Op *wait_for_bulk_stores(const Op *op, Warp &w) {
  land_bulk_stores(w, w.mask, uint32_t(op->imm), false);
  return op + 1;
}

} // namespace

void land(const BulkCopy &copy) {
  if (InitCheck *init = copy.warp->block->init.get())
    init->land(copy);
  std::memmove(copy.to, copy.from, copy.bytes);
}

void land_bulk_stores(Warp &w, uint32_t lanes, uint32_t groups_left, bool uncommitted_too) {
  land_due(w.bulk_stores, w.bulk_groups, lanes, groups_left, uncommitted_too,
           [](const BulkCopy &copy) { land(copy); });
}

void land_copies(Warp &w, uint32_t lanes, uint32_t groups_left, bool uncommitted_too) {
  land_due(w.copies, w.copy_groups, lanes, groups_left, uncommitted_too,
           [&](const PendingCopy &copy) {
             if (w.block->init)
               w.block->init->land(w, copy);
             if (copy.read_bytes)
               std::memcpy(copy.to, copy.from, copy.read_bytes);
             std::memset(copy.to + copy.read_bytes, 0, copy.bytes - copy.read_bytes);
           });
}

void fill_async_copies(HandlerTable &table) {
#define ASYNC_COPY(id, names, cls, cells, ...) table[size_t(OpId::id)] = {__VA_ARGS__, __VA_ARGS__};
#include "emulator/exec/opcodes/opcodes.def"
}

} // namespace cugrt::emulator
