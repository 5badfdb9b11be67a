// Comparison of a run with the last binding; see last_binding.h. Every instruction of compare_run()
// is paid on every run, every one of match_run() on runs that bring other addresses.
#include "device/session/last_binding.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace cugrt::runtime {

namespace {

uint64_t dtype_and_rank(const cugrt_tensor &tensor) {
  static_assert(offsetof(cugrt_tensor, rank) == offsetof(cugrt_tensor, dtype) + sizeof(int32_t));
  uint64_t both;
  std::memcpy(&both, &tensor.dtype, sizeof both);
  return both;
}

template <size_t Rank> bool same_dims(const int64_t *a, const int64_t *b) {
  if constexpr (Rank == 0)
    return true;
  else
    return a[Rank - 1] == b[Rank - 1] && same_dims<Rank - 1>(a, b);
}

/// Compares kind, dtype, rank and dimensions, not the address. `last` is a tensor of that rank.
template <size_t Rank> bool same_tensor(const cugrt_value &now, const cugrt_value &last) {
  return now.kind == CUGRT_VALUE_TENSOR &&
         dtype_and_rank(now.as.tensor) == dtype_and_rank(last.as.tensor) &&
         same_dims<Rank>(now.as.tensor.dims, last.as.tensor.dims);
}

/// A loop: a call of the C library would make every run save registers.
bool same_shape(const cugrt_value &now, const cugrt_value &last) {
  if (now.kind != CUGRT_VALUE_SHAPE || now.as.shape.rank != last.as.shape.rank)
    return false;
  for (uint32_t i = 0; i < last.as.shape.rank; ++i)
    if (now.as.shape.dims[i] != last.as.shape.dims[i])
      return false;
  return true;
}

bool same_scalar(const cugrt_value &now, const cugrt_value &last) {
  return now.kind == last.kind && now.as.integer == last.as.integer; // floats by their bits
}

/// Forms of comparison: tensors by rank, 0 to CUGRT_MAX_RANK, then shapes, then scalars by kind,
/// then the arguments' end. The numbers have no gaps, so that switches need no bounds.
constexpr int32_t kShape = CUGRT_MAX_RANK + 1, kScalar = kShape + 1 - CUGRT_VALUE_INT,
                  kEnd = kScalar + CUGRT_VALUE_BOOL + 1;
#define CUGRT_EACH_RANK(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)

int32_t form_of(const cugrt_value &value) {
  if (value.kind == CUGRT_VALUE_TENSOR)
    return static_cast<int32_t>(value.as.tensor.rank);
  return value.kind == CUGRT_VALUE_SHAPE ? kShape : kScalar + value.kind;
}

using LastEntry = LastBinding::Entry;

/// State of match_run(): writes the moves of the run's bases, through two pointers at hand.
struct Mover {
  Mover(LastBinding &last, RunBinding &run)
      : last(last), run(run), next(run.moves.data()), bases(run.bases.data()) {}
  void move(uint32_t base, uint64_t by) {
    bases[base] += by;
    next->input.index = base; // a base, as all are made
    next->by = by;
    ++next;
  }
  LastBinding &last;
  RunBinding &run;
  InputChange *next;
  uint64_t *bases;
};

/// Returns the entry of the first argument that differs from the last run's, or the end's. For
/// tensors, `same_address` compares the address.
template <class SameAddress>
[[gnu::always_inline]] inline LastEntry *first_difference(const cugrt_value *now, LastEntry *entry,
                                                          const SameAddress &same_address) {
  while (true) {
    switch (entry->form) {
#define CUGRT_TENSORS(rank)                                                                        \
  case rank:                                                                                       \
    do {                                                                                           \
      if (!same_tensor<rank>(*now, entry->value) || !same_address(now->as.tensor.address, *entry)) \
        return entry;                                                                              \
      ++now;                                                                                       \
    } while ((++entry)->form == rank);                                                             \
    continue;
      CUGRT_EACH_RANK(CUGRT_TENSORS)
#undef CUGRT_TENSORS
    case kShape:
      if (!same_shape(*now, entry->value))
        return entry;
      break;
    case kScalar + CUGRT_VALUE_INT:
    case kScalar + CUGRT_VALUE_FLOAT:
    case kScalar + CUGRT_VALUE_BOOL:
      if (!same_scalar(*now, entry->value))
        return entry;
      break;
    case kEnd:
      return entry;
    default:
      __builtin_unreachable();
    }
    ++now;
    ++entry;
  }
}

/// Whether the place is apart from all current ones; forgets known places that it overlaps.
bool add_place(LastBinding &last, const RunBinding &run, LastBinding::Place &place,
               uint64_t address) {
  for (const BoundRange &range : last.fixed)
    if ((place.written || range.written) && overlap(address, place.bytes, range.begin, range.bytes))
      return false;
  for (LastEntry &entry : last.entries) {
    LastBinding::Place &other = entry.place;
    if (other.base == kNone || &other == &place || !(place.written || other.written))
      continue;
    uint64_t current = run.bases[other.base];
    if (overlap(address, place.bytes, current, other.bytes))
      return false;
    for (uint64_t &known : other.others)
      if (overlap(address, place.bytes, known, other.bytes))
        known = current;
  }
  return true;
}

/// Checks all current places against each other; no others are known then.
bool check_all(LastBinding &last, const RunBinding &run) {
  last.ranges = last.fixed;
  for (LastEntry &entry : last.entries) {
    LastBinding::Place &place = entry.place;
    if (place.base == kNone)
      continue;
    uint64_t current = run.bases[place.base];
    last.ranges.push_back({current, place.bytes, place.written, place.base});
    place.others.fill(current);
  }
  Overlap overlap;
  return !find_overlap(last.ranges, overlap);
}

/// Searches further; a place that is found, or passes the checks, comes first.
[[gnu::noinline]] bool find_place(LastBinding &last, const RunBinding &run,
                                  LastBinding::Place &place, uint64_t address) {
  if (!place.movable || address % place.alignment_bytes != 0 ||
      (address == 0 && place.bytes != 0) || address + place.bytes < address)
    return false;
  auto known = std::find(place.others.begin(), place.others.end(), address);
  if (known == place.others.end() && !add_place(last, run, place, address))
    last.unchecked = true;
  if (known == place.others.end())
    --known; // the one that was left longest ago makes way
  std::move_backward(place.others.begin(), known, known + 1);
  place.others[0] = address;
  return true;
}

/// Takes another address for a tensor whose shape is the same.
[[gnu::always_inline]] inline bool take(Mover &mover, LastEntry &entry, uint64_t address) {
  LastBinding::Place &place = entry.place;
  uint64_t &last = entry.value.as.tensor.address;
  if (place.others[0] != address && !find_place(mover.last, mover.run, place, address)) [[unlikely]]
    return false;
  place.others[0] = last;
  mover.move(place.base, address - last);
  last = address;
  return true;
}

bool match_results(Mover &mover, std::span<const cugrt_value> results,
                   const std::vector<cugrt_value> &handed_out) {
  if (results.size() != handed_out.size())
    return false;
  LastEntry *next = mover.last.entries.data() + mover.last.argument_count + 1;
  for (size_t i = 0; i < results.size(); ++i) {
    const cugrt_value &now = results[i];
    LastEntry &entry = *next++;
    const cugrt_value &last = entry.value;
    uint64_t address = now.kind == CUGRT_VALUE_TENSOR ? now.as.tensor.address : 0;
    if (last.kind == CUGRT_VALUE_NONE) {
      // Binds nothing: a run's result may come back in the same array.
      if (address != 0 &&
          (handed_out[i].kind != CUGRT_VALUE_TENSOR || address != handed_out[i].as.tensor.address))
        return false;
      continue;
    }
    bool same = address != 0 && dtype_and_rank(now.as.tensor) == dtype_and_rank(last.as.tensor) &&
                std::equal(last.as.tensor.dims, last.as.tensor.dims + last.as.tensor.rank,
                           now.as.tensor.dims);
    if (!same || (address != last.as.tensor.address && !take(mover, entry, address)))
      return false;
  }
  return true;
}

} // namespace

void LastBinding::set(const RunBinding &run, std::span<const cugrt_value> arguments,
                      std::span<const cugrt_value> results, std::span<const Place> places,
                      std::span<const BoundRange> fixed_ranges) {
  argument_count = arguments.size();
  entries.assign(places.size() + 1, {});
  auto set_entry = [&](Entry &entry, const cugrt_value &value, const Place &place) {
    entry.value = value;
    entry.place = place;
    if (place.base != kNone)
      entry.place.others.fill(place.movable ? run.bases[place.base] : value.as.tensor.address);
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    entries[i].form = form_of(arguments[i]);
    set_entry(entries[i], arguments[i], places[i]);
  }
  entries[argument_count].form = kEnd;
  for (size_t i = 0; i < results.size(); ++i)
    set_entry(entries[argument_count + 1 + i], results[i], places[argument_count + i]);
  results_bound = std::any_of(results.begin(), results.end(),
                              [](const auto &value) { return value.kind != CUGRT_VALUE_NONE; });
  fixed.assign(fixed_ranges.begin(), fixed_ranges.end());
}

Comparison compare_run(LastBinding &last, std::span<const cugrt_value> arguments,
                       size_t result_count) {
  if (arguments.size() != last.argument_count) [[unlikely]]
    return {last.entries.data()};
  LastEntry *first_other = first_difference(
      arguments.data(), last.entries.data(),
      [](uint64_t address, LastEntry &entry) { return address == entry.value.as.tensor.address; });
  if (last.results_bound || result_count != 0 || first_other->form != kEnd) [[unlikely]]
    return {first_other};
  return {nullptr};
}

Match match_run(LastBinding &last, Comparison compared, RunBinding &run,
                std::span<const cugrt_value> arguments, std::span<const cugrt_value> results,
                const std::vector<cugrt_value> &handed_out) {
  if (arguments.size() != last.argument_count) [[unlikely]]
    return Match::different;
  last.unchecked = false;
  Mover mover(last, run);
  // Inlined into each loop over tensors: a call costs every argument, moved or not.
  const auto same_or_taken = [&](uint64_t address, LastEntry & entry)
      __attribute__((always_inline)) {
    return address == entry.value.as.tensor.address || take(mover, entry, address);
  };
  const LastEntry *end =
      first_difference(arguments.data() + (compared.first_other - last.entries.data()),
                       compared.first_other, same_or_taken);
  if (end->form != kEnd)
    return Match::different;
  if (results.empty() ? last.results_bound : !match_results(mover, results, handed_out))
      [[unlikely]]
    return Match::different;
  if (mover.next == run.moves.data())
    return Match::same;
  run.end_moves(static_cast<size_t>(mover.next - run.moves.data()));
  return !last.unchecked || check_all(last, run) ? Match::moved : Match::different;
}

} // namespace cugrt::runtime
