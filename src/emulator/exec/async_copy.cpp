// cp.async: bytes from global to shared memory that arrive when the thread waits for them.
//
// Addresses are checked where the copy is issued. The bytes land, all at once, at the wait that
// covers the copy's group; a program that reads the destination earlier sees what was there before.
// Groups are a thread's own: commit_group ends the one that its copies since the last belong to.
#include "emulator/exec/async_copy.h"

#include "emulator/exec/block.h"
#include "emulator/exec/common.h"
#include "emulator/exec/memory.h"

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
  for (uint32_t i = 0; i < kLanes; ++i) {
    if (!(active >> i & 1))
      continue;
    uint32_t count = std::min(w.lane<uint32_t>(op->c)[i], bytes);
    w.copies.push_back({count ? from[i] : nullptr, to[i], count, bytes, i, w.copy_groups[i]});
  }
  return op + 1;
}

const Op *commit_copies(const Op *op, Warp &w) {
  for (uint32_t i = 0; i < kLanes; ++i)
    w.copy_groups[i] += w.mask >> i & 1;
  return op + 1;
}

/// All but the last Op::imm groups; with kFlagWide, also what is in no group yet.
const Op *wait_for_copies(const Op *op, Warp &w) {
  const bool all = op->flags & kFlagWide;
  land_copies(w, w.mask, all ? 0 : uint32_t(op->imm), all);
  return op + 1;
}

} // namespace

void land_copies(Warp &w, uint32_t lanes, uint32_t groups_left, bool uncommitted_too) {
  auto lands = [&](const PendingCopy &copy) {
    const uint32_t committed = w.copy_groups[copy.lane];
    return (lanes >> copy.lane & 1) &&
           (uncommitted_too || uint64_t(copy.group) + groups_left < committed);
  };
  size_t kept = 0;
  for (const PendingCopy &copy : w.copies) {
    if (!lands(copy)) {
      w.copies[kept++] = copy;
      continue;
    }
    if (w.block->init)
      w.block->init->land(w, copy);
    if (copy.read_bytes)
      std::memcpy(copy.to, copy.from, copy.read_bytes);
    std::memset(copy.to + copy.read_bytes, 0, copy.bytes - copy.read_bytes);
  }
  w.copies.resize(kept);
}

void fill_async_copies(HandlerTable &table) {
#define ASYNC_COPY(id, names, cls, ...) table[size_t(OpId::id)] = {__VA_ARGS__, __VA_ARGS__};
#include "emulator/exec/opcodes.def"
}

} // namespace cugrt::emulator
