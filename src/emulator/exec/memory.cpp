// Slow paths of memory accesses: several allocations, generic addresses, faults, ordered accesses.
#include "emulator/exec/memory.h"

#include "base/whole_number.h"
#include "emulator/device/device_heap.h"
#include "emulator/exec/checks/access_rows.h"
#include "emulator/exec/units/cluster.h"

namespace cugrt::emulator {

ptx::Space resolve(ptx::Space space, uint64_t &address) {
  if (space != ptx::Space::none)
    return space;
  uint64_t window = address & ~(kWindowBytes - 1);
  ptx::Space found = window == kSharedWindow  ? ptx::Space::shared
                     : window == kLocalWindow ? ptx::Space::local
                     : window == kParamWindow ? ptx::Space::param
                                              : ptx::Space::global;
  if (found != ptx::Space::global)
    address &= kWindowBytes - 1;
  return found;
}

namespace {

void fault_at(const Op *op, Warp &w, FaultKind kind, uint32_t lane, ptx::Space space,
              uint64_t address, uint32_t bytes) {
  const char *why = kind == FaultKind::misaligned_address ? "misaligned " : "out-of-bounds ";
  std::string text = why + std::to_string(bytes) + "-byte access to " +
                     std::string(ptx::space_name(space)) + " address " + hex_text(address);
  if (space != ptx::Space::global && space != ptx::Space::none)
    text += " (of " +
            std::to_string(space == ptx::Space::shared ? w.shared_bytes : w.local_stride) +
            " bytes)";
  raise_fault(w, op, kind, lane, text);
}

bool fits(uint64_t address, uint32_t bytes, uint64_t limit) {
  return bytes <= limit && address <= limit - bytes;
}

/// Beyond the end of an allocation, hardware has the granule's other bytes. Such an access is a
/// finding, unless it is a vector load, aligned as every access is, that holds a byte of the
/// allocation: compilers widen loads so, and do not use the bytes beyond.
bool place_beyond(const Op *op, Warp &w, uint32_t lane, uint64_t address, uint32_t bytes) {
  const DeviceHeap *heap = w.block->launch->config->heap;
  auto allocation = w.memory->find_granule(address, bytes);
  if (!allocation && heap)
    allocation = heap->find_granule(address, bytes);
  if (!allocation)
    return false;
  const BoundsReport *report = w.block->launch->config->report_bounds;
  const AccessRow &row = access_row(op);
  bool widened = address < allocation->end() && row.kind == AccessRow::Kind::load && row.count > 1;
  if (!report || widened)
    return true;
  (*report)("an access of " + std::to_string(bytes) + " bytes at " + hex_text(address) + ", " +
            (address < allocation->end() ? "across" : "behind") + " the end of an allocation of " +
            std::to_string(allocation->bytes) + " bytes in " + access_place(w, op, lane));
  return true;
}

bool place_global(const Op *op, Warp &w, uint32_t lane, uint64_t address, uint32_t bytes,
                  std::byte **out) {
  AddressRange &range = w.ranges[op->cache];
  if (!range.contains(address, bytes)) {
    const DeviceHeap *heap = w.block->launch->config->heap;
    if (auto found = w.memory->find(address, bytes)) {
      range = *found;
    } else if (heap && heap->find(address, bytes)) {
      // Not remembered, since blocks end while kernels run.
    } else if (w.memory->is_lent(address, bytes)) {
      *out = reinterpret_cast<std::byte *>(address);
      return true;
    } else if (!place_beyond(op, w, lane, address, bytes)) {
      return false;
    }
  }
  *out = w.memory->host(address);
  return true;
}

/// An address given in the block's own shared memory names no other's; a generic one may.
bool place_shared(Warp &w, bool own, uint64_t address, uint32_t bytes, std::byte **out) {
  const Block *owner = owner_of(w, address);
  if (!owner || (own && owner != w.block))
    return false;
  if (address >= kReservedShared) {
    const uint64_t behind = (w.shared_bytes + 63) & ~uint64_t(63);
    address -= kReservedShared;
    *out = owner->shared + behind + address;
    return fits(address, bytes, kReservedSharedBytes);
  }
  *out = owner->shared + address;
  return fits(address, bytes, w.shared_bytes);
}

bool place(const Op *op, Warp &w, uint32_t lane, ptx::Space given, ptx::Space space,
           uint64_t address, uint32_t bytes, std::byte **out) {
  switch (space) {
  case ptx::Space::shared:
    return place_shared(w, given == ptx::Space::shared, address, bytes, out);
  case ptx::Space::local:
    *out = w.local + lane * w.local_stride + address;
    return fits(address, bytes, w.local_stride);
  case ptx::Space::param:
    *out = const_cast<std::byte *>(w.params) + address;
    return fits(address, bytes, w.param_bytes);
  default:
    return place_global(op, w, lane, address, bytes, out);
  }
}

uint64_t load_bits(const std::byte *p, uint32_t bytes) {
  switch (bytes) {
  case 1:
    return __atomic_load_n(reinterpret_cast<const uint8_t *>(p), __ATOMIC_SEQ_CST);
  case 2:
    return __atomic_load_n(reinterpret_cast<const uint16_t *>(p), __ATOMIC_SEQ_CST);
  case 4:
    return __atomic_load_n(reinterpret_cast<const uint32_t *>(p), __ATOMIC_SEQ_CST);
  default:
    return __atomic_load_n(reinterpret_cast<const uint64_t *>(p), __ATOMIC_SEQ_CST);
  }
}

void store_bits(std::byte *p, uint32_t bytes, uint64_t bits) {
  switch (bytes) {
  case 1:
    return __atomic_store_n(reinterpret_cast<uint8_t *>(p), uint8_t(bits), __ATOMIC_SEQ_CST);
  case 2:
    return __atomic_store_n(reinterpret_cast<uint16_t *>(p), uint16_t(bits), __ATOMIC_SEQ_CST);
  case 4:
    return __atomic_store_n(reinterpret_cast<uint32_t *>(p), uint32_t(bits), __ATOMIC_SEQ_CST);
  default:
    return __atomic_store_n(reinterpret_cast<uint64_t *>(p), bits, __ATOMIC_SEQ_CST);
  }
}

} // namespace

void effective_addresses(const Op *op, const Warp &w, uint64_t *addresses) {
  if (op->flags & kFlagWide) {
    const uint64_t *bases = w.lane<uint64_t>(op->a);
    for (uint32_t i = 0; i < kLanes; ++i)
      addresses[i] = bases[i] + uint64_t(op->imm);
  } else { // offsets of 32-bit addresses do not carry beyond 32 bits
    const uint32_t *bases = w.lane<uint32_t>(op->a);
    for (uint32_t i = 0; i < kLanes; ++i)
      addresses[i] = bases[i] + uint32_t(op->imm);
  }
}

bool translate(const Op *op, Warp &w, ptx::Space space, const uint64_t *addresses, uint32_t bytes,
               uint32_t align, std::byte **out) {
  for (uint32_t lane : lanes_of(w.mask)) {
    uint64_t address = addresses[lane];
    ptx::Space resolved = resolve(space, address);
    FaultKind kind = FaultKind::illegal_address;
    if (address & (align - 1))
      kind = FaultKind::misaligned_address;
    else if (place(op, w, lane, space, resolved, address, bytes, &out[lane]))
      continue;
    fault_at(op, w, kind, lane, resolved, address, bytes);
    return false;
  }
  return true;
}

bool translate_own(const Op *op, Warp &w, ptx::Space space, uint32_t bytes, std::byte **out) {
  uint64_t addresses[kLanes];
  effective_addresses(op, w, addresses);
  return translate(op, w, space, addresses, bytes, bytes, out);
}

const Op *load_ordered(const Op *op, Warp &w, ptx::Space space, uint32_t bytes, bool is_signed,
                       uint32_t count) {
  std::byte *places[kLanes];
  if (!translate_own(op, w, space, bytes * count, places))
    return w.stop;
  w.polled = true;
  const uint32_t cells[] = {op->d, op->b, op->c, op->e};
  for (uint32_t i = 0; i < kLanes; ++i) {
    for (uint32_t n = 0; n < count && (w.mask >> i & 1); ++n) {
      uint64_t bits = load_bits(places[i] + n * bytes, bytes);
      if (is_signed) // T(-1) < 0: extend to the lane
        bits = uint64_t(int64_t(bits << (64 - 8 * bytes)) >> (64 - 8 * bytes));
      if (bytes == 8)
        w.lane<uint64_t>(cells[n])[i] = bits;
      else
        w.lane<uint32_t>(cells[n])[i] = uint32_t(bits);
    }
  }
  return op + 1;
}

const Op *store_ordered(const Op *op, Warp &w, ptx::Space space, uint32_t bytes, uint32_t count) {
  std::byte *places[kLanes];
  if (!translate_own(op, w, space, bytes * count, places))
    return w.stop;
  const uint32_t cells[] = {op->d, op->b, op->c, op->e};
  for (uint32_t i = 0; i < kLanes; ++i)
    for (uint32_t n = 0; n < count && (w.mask >> i & 1); ++n)
      store_bits(places[i] + n * bytes, bytes,
                 bytes == 8 ? w.lane<uint64_t>(cells[n])[i] : w.lane<uint32_t>(cells[n])[i]);
  return op + 1;
}

} // namespace cugrt::emulator
