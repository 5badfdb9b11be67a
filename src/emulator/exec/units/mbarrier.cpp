// Arrivals, expected bytes and questions at mbarrier objects; see mbarrier.h.
#include "emulator/exec/units/mbarrier.h"

#include "emulator/exec/memory.h"
#include "emulator/exec/opcodes/handlers.h"
#include "emulator/exec/units/async_copy.h"
#include "emulator/exec/units/cluster.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace cugrt::emulator {

namespace {

constexpr u32 kCountBits = 20, kMaxCount = (1u << kCountBits) - 1;

/// A barrier's parts.
struct State {
  u32 expected = 0, pending = 0;
  s32 bytes = 0; // the tx-count
  bool odd = false;

  u64 packed() const {
    constexpr u64 kIsBarrier = u64(1) << 62;
    return kIsBarrier | u64(odd) << 61 | u64(u32(bytes) & (2 * kMaxCount + 1)) << 40 |
           u64(pending) << 20 | expected;
  }
  static std::optional<State> of(u64 word) {
    if (word >> 62 != 1)
      return std::nullopt;
    State s;
    s.expected = u32(word) & kMaxCount;
    s.pending = u32(word >> 20) & kMaxCount;
    s.bytes = s32(u32(word >> 40) << 11) >> 11;
    s.odd = word >> 61 & 1;
    return s;
  }
  bool fits() const { return bytes >= -s32(kMaxCount) && bytes <= s32(kMaxCount); }
  void complete_if_due() {
    if (pending || bytes)
      return;
    odd = !odd;
    pending = expected;
  }
};

std::optional<State> read(const std::byte *place) {
  u64 word;
  std::memcpy(&word, place, sizeof word);
  return State::of(word);
}
void write(std::byte *place, const State &state) {
  const u64 word = state.packed();
  std::memcpy(place, &word, sizeof word);
}

constexpr const char *kNoBarrier = "no mbarrier object is there";

/// visit(place, lane) returns the problem, or nothing. Returns the next operation, or the end.
template <class Visit> const Op *visit_barriers(const Op *op, Warp &w, Visit visit) {
  u64 addresses[kLanes];
  std::byte *places[kLanes];
  effective_addresses(op, w, addresses);
  if (!find_barriers(op, w, addresses, places))
    return w.stop;
  for (u32 i : lanes_of(w.mask))
    if (std::string wrong = visit(places[i], i); !wrong.empty())
      return raise_fault(w, op, FaultKind::illegal_instruction, i, wrong);
  return op + 1;
}

/// change(state, lane) returns the problem, or null.
template <class Change> const Op *change_barriers(const Op *op, Warp &w, Change change) {
  return visit_barriers(op, w, [&](std::byte *place, u32 lane) -> std::string {
    auto state = read(place);
    if (!state)
      return kNoBarrier;
    if (const char *wrong = change(*state, lane))
      return wrong;
    if (!state->fits())
      return "more bytes than a barrier counts";
    write(place, *state);
    return {};
  });
}

const Op *init_barrier(const Op *op, Warp &w) {
  return visit_barriers(op, w, [&](std::byte *place, u32 lane) -> std::string {
    const u32 count = w.lane<u32>(op->b)[lane];
    if (count == 0 || count > kMaxCount)
      return "a barrier of " + std::to_string(count) + " arrivals";
    State state;
    state.expected = state.pending = count;
    write(place, state);
    return {};
  });
}

const Op *end_barrier(const Op *op, Warp &w) {
  return visit_barriers(op, w, [](std::byte *place, u32) {
    std::memset(place, 0, sizeof(u64));
    return std::string();
  });
}

/// 0 expect_tx, 1 complete_tx: b bytes.
template <int Kind> const Op *count_bytes(const Op *op, Warp &w) {
  const u32 *bytes = w.lane<u32>(op->b);
  return change_barriers(op, w, [&](State &state, u32 lane) -> const char * {
    state.bytes += Kind == 0 ? s32(bytes[lane]) : -s32(bytes[lane]);
    if (Kind == 1)
      state.complete_if_due();
    return nullptr;
  });
}

/// Counts b arrivals, after c bytes more are expected; d gets the barrier's old state. With Drops,
/// later phases expect as many arrivals less; with Completes false, this may not end the phase.
template <bool Drops, bool Completes> const Op *arrive_at_barrier(const Op *op, Warp &w) {
  const u32 *count = w.lane<u32>(op->b), *bytes = w.lane<u32>(op->c);
  u64 *d = w.lane<u64>(op->d);
  return change_barriers(op, w, [&](State &state, u32 lane) -> const char * {
    state.bytes += s32(bytes[lane]);
    const u64 before = state.packed();
    if (count[lane] > state.pending)
      return "more arrivals than the phase of the barrier waits for";
    if (Drops)
      state.expected -= std::min(count[lane], state.expected);
    state.pending -= count[lane];
    if (Completes)
      state.complete_if_due();
    else if (state.pending == 0 && state.bytes == 0)
      return "an arrival with .noComplete completes the phase";
    d[lane] = before;
    return nullptr;
  });
}

/// b a state that an arrival gave, or the parity of a phase: whether that phase is complete.
template <bool Parity> const Op *ask_barrier(const Op *op, Warp &w) {
  return visit_barriers(op, w, [&](std::byte *place, u32 lane) -> std::string {
    land_at_barrier(*w.block->cluster, place);
    const auto state = read(place);
    if (!state)
      return kNoBarrier;
    const bool odd = Parity ? w.lane<u32>(op->b)[lane] & 1 : w.lane<u64>(op->b)[lane] >> 61 & 1;
    w.lane<u32>(op->d)[lane] = state->odd != odd ? ~0u : 0;
    w.polled |= state->odd == odd;
    return {};
  });
}

const Op *pending_count(const Op *op, Warp &w) {
  const u64 *a = w.lane<u64>(op->a);
  u32 *d = w.lane<u32>(op->d);
  for (u32 i : lanes_of(w.mask))
    d[i] = u32(a[i] >> 20) & kMaxCount;
  return op + 1;
}

/// The lane's copies by cp.async arrive when they have landed. Unless the phase counts on it
/// (.noinc, here kFlagAcquire), it waits for one arrival more.
const Op *arrive_with_copies(const Op *op, Warp &w) {
  return visit_barriers(op, w, [&](std::byte *place, u32 lane) -> std::string {
    auto state = read(place);
    if (!state)
      return kNoBarrier;
    if (!(op->flags & kFlagAcquire))
      ++state->pending;
    write(place, *state);
    w.block->cluster->arrivals.push_back({place, &w, lane});
    return {};
  });
}

} // namespace

bool find_barriers(const Op *op, Warp &w, uint64_t *addresses, std::byte **out) {
  const auto space = ptx::Space(op->space());
  for (u32 i = 0; i < kLanes; ++i) {
    u64 address = addresses[i];
    if ((w.mask >> i & 1) && resolve(space, address) != ptx::Space::shared) {
      raise_fault(w, op, FaultKind::illegal_address, i, "a barrier that is not in shared memory");
      return false;
    }
  }
  return translate(op, w, space, addresses, sizeof(u64), sizeof(u64), out);
}

void land_at_barrier(Cluster &cluster, const std::byte *barrier) {
  if (cluster.copies.empty() && cluster.arrivals.empty())
    return;
  Draws *draws = cluster.blocks[0]->draws;
  auto lands = [&](const std::byte *at) { return at == barrier && !(draws && draws->once_in(2)); };
  auto change = [](std::byte *place, auto with) {
    if (auto state = read(place)) { // one that is no barrier any more waits for nothing
      with(*state);
      state->complete_if_due();
      write(place, *state);
    }
  };
  std::vector<BulkCopy> copies;
  std::swap(copies, cluster.copies);
  for (const BulkCopy &copy : copies) {
    if (!lands(copy.barrier)) {
      cluster.copies.push_back(copy);
      continue;
    }
    land(copy);
    change(copy.barrier, [&](State &state) { state.bytes -= s32(copy.bytes); });
  }
  std::vector<PendingArrival> arrivals;
  std::swap(arrivals, cluster.arrivals);
  for (const PendingArrival &arrival : arrivals) {
    if (!lands(arrival.barrier)) {
      cluster.arrivals.push_back(arrival);
      continue;
    }
    land_copies(*arrival.warp, 1u << arrival.lane, 0, true);
    change(arrival.barrier, [](State &state) { state.pending -= state.pending != 0; });
  }
}

void fill_barriers(HandlerTable &table) {
#define BARRIER(id, names, cls, cells, ...) table[size_t(OpId::id)] = {__VA_ARGS__, __VA_ARGS__};
#include "emulator/exec/opcodes/opcodes.def"
}

} // namespace cugrt::emulator
