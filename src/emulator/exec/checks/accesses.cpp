// Sets of byte ranges, and what each memory operation adds to them; see accesses.h.
#include "emulator/exec/checks/accesses.h"

#include "emulator/exec/block.h"
#include "emulator/exec/checks/access_rows.h"
#include "emulator/exec/memory.h"
#include "emulator/exec/units/wmma.h"

#include <algorithm>

namespace cugrt::emulator {

void AccessSet::seal(List &list) {
  auto &ranges = list.ranges;
  if (list.sealed == ranges.size())
    return;
  std::sort(ranges.begin(), ranges.end(),
            [](const Range &a, const Range &b) { return a.begin < b.begin; });
  size_t kept = 0;
  for (const Range &range : ranges) {
    if (kept && range.begin <= ranges[kept - 1].end)
      ranges[kept - 1].end = std::max(ranges[kept - 1].end, range.end);
    else
      ranges[kept++] = range;
  }
  ranges.resize(kept);
  list.sealed = kept;
}

// Appends, and seals whenever the list has grown to twice its sealed size.
void AccessSet::add(AccessKind kind, uint64_t begin, uint64_t bytes) {
  constexpr size_t kSlack = 4096;
  List &list = lists_[size_t(kind)];
  if (list.ranges.size() > list.sealed) {
    Range &last = list.ranges.back();
    if (begin <= last.end && last.begin <= begin + bytes) {
      last.begin = std::min(last.begin, begin);
      last.end = std::max(last.end, begin + bytes);
      return;
    }
  }
  if (list.ranges.size() >= 2 * list.sealed + kSlack)
    seal(list);
  list.ranges.push_back({begin, begin + bytes});
}

void AccessSet::add(const AccessSet &other) {
  for (size_t kind = 0; kind < lists_.size(); ++kind)
    for (const Range &range : other.lists_[kind].ranges)
      add(AccessKind(kind), range.begin, range.end - range.begin);
}

void AccessSet::remove(uint64_t begin, uint64_t end) {
  for (List &list : lists_) {
    std::vector<Range> left;
    for (const Range &range : list.ranges) {
      if (range.begin < std::min(range.end, begin))
        left.push_back({range.begin, std::min(range.end, begin)});
      if (std::max(range.begin, end) < range.end)
        left.push_back({std::max(range.begin, end), range.end});
    }
    list = {std::move(left), 0};
  }
}

bool AccessSet::writes(uint64_t begin, uint64_t end) {
  return std::ranges::any_of(
      std::array{AccessKind::write, AccessKind::strong_write}, [&](AccessKind kind) {
        List &list = lists_[size_t(kind)];
        seal(list);
        const auto after = std::ranges::upper_bound(list.ranges, begin, {}, &Range::end);
        return after != list.ranges.end() && after->begin < end;
      });
}

bool AccessSet::empty() const {
  return std::all_of(lists_.begin(), lists_.end(),
                     [](const List &list) { return list.ranges.empty(); });
}

static bool needs_order(AccessKind a, AccessKind b) {
  bool strong = a >= AccessKind::strong_read && b >= AccessKind::strong_read;
  return (is_write(a) || is_write(b)) && !strong;
}

static std::optional<AccessSet::Range> first_overlap(const std::vector<AccessSet::Range> &a,
                                                     const std::vector<AccessSet::Range> &b) {
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    uint64_t begin = std::max(a[i].begin, b[j].begin), end = std::min(a[i].end, b[j].end);
    if (begin < end)
      return AccessSet::Range{begin, end};
    ++(a[i].end < b[j].end ? i : j);
  }
  return std::nullopt;
}

std::optional<AccessSet::Conflict> AccessSet::conflict(AccessSet &other) {
  std::optional<Conflict> found;
  for (size_t i = 0; i < lists_.size(); ++i)
    for (size_t j = 0; j < lists_.size(); ++j) {
      if (!needs_order(AccessKind(i), AccessKind(j)))
        continue;
      seal(lists_[i]);
      seal(other.lists_[j]);
      auto overlap = first_overlap(lists_[i].ranges, other.lists_[j].ranges);
      if (overlap && (!found || overlap->begin < found->bytes.begin))
        found = Conflict{*overlap, AccessKind(i), AccessKind(j)};
    }
  return found;
}

void LoadedBytes::add(uint64_t begin, uint64_t bytes) {
  for (const uint64_t end = begin + bytes; begin < end;) {
    const uint64_t granule = begin / AddressSpace::kAlignment;
    const uint64_t next = std::min(end, (granule + 1) * AddressSpace::kAlignment);
    granules_[granule] += next - begin;
    begin = next;
  }
}

void LoadCount::count(bool on) {
  std::lock_guard lock(mutex_);
  loaded_ = {};
  touched_ = {};
  counts_ = on;
}

void LoadCount::add(const LaunchAccesses &launch) {
  std::lock_guard lock(mutex_);
  loaded_.add(launch.loaded);
  touched_.add(launch.before_wait);
  touched_.add(launch.after_wait);
}

LoadCount::Totals LoadCount::totals() {
  std::lock_guard lock(mutex_);
  Totals totals;
  for (const auto &[granule, bytes] : loaded_.granules()) {
    totals.loaded += bytes;
    const uint64_t begin = granule * AddressSpace::kAlignment;
    if (touched_.writes(begin, begin + AddressSpace::kAlignment))
      continue;
    totals.constant += AddressSpace::kAlignment;
    totals.constant_loaded += bytes;
  }
  return totals;
}

namespace {

bool may_be_global(ptx::Space space) {
  return space == ptx::Space::global || space == ptx::Space::none;
}

/// Target for the addresses that a warp touches.
struct Recorder {
  AccessSet &set;
  LoadedBytes *loaded; // null: is not counted

  void add(AccessKind kind, uint64_t begin, uint64_t bytes) {
    set.add(kind, begin, bytes);
    if (loaded && !is_write(kind))
      loaded->add(begin, bytes);
  }
};

// Records cp.async, whose offset and length are packed in their own way.
void record_copy(const Op *op, const Warp &w, uint32_t lanes, Recorder &out) {
  for (uint32_t i = 0; i < kLanes; ++i) {
    uint32_t bytes = std::min(w.lane<uint32_t>(op->c)[i], op->e);
    if ((lanes >> i & 1) && bytes)
      out.add(AccessKind::read, w.lane<uint64_t>(op->a)[i] + uint64_t(op->imm >> 32), bytes);
  }
}

// Records bulk copies, whose size is a cell.
void record_bulk(const Op *op, const Warp &w, uint32_t lanes, Recorder &out) {
  const bool loads = access_row(op).kind == AccessRow::Kind::bulk_load;
  const uint64_t *addresses = w.lane<uint64_t>(loads ? op->a : op->d);
  const uint32_t *bytes = w.lane<uint32_t>(op->b);
  for (uint32_t i = 0; i < kLanes; ++i)
    if ((lanes >> i & 1) && bytes[i] && addresses[i] < kSharedWindow)
      out.add(loads ? AccessKind::read : AccessKind::write, addresses[i], bytes[i]);
}

// Records wmma.load and wmma.store, element by element.
void record_tile(const Op *op, const Warp &w, uint32_t lanes, Recorder &out) {
  const uint32_t bytes = static_cast<const TileAccess *>(op->extra)->tile.element_bytes;
  const bool stores = access_row(op).kind == AccessRow::Kind::tile_store;
  for_each_tile_access(op, w, lanes, [&](uint32_t, uint32_t, uint32_t, uint64_t address) {
    if (address < kSharedWindow)
      out.add(stores ? AccessKind::write : AccessKind::read, address, bytes);
    return true;
  });
}

} // namespace

void record_access(const Op *op, Warp &w, LaunchAccesses &launch) {
  using Kind = AccessRow::Kind;
  const AccessRow &row = access_row(op);
  bool is_atomic = row.kind == Kind::atomic;
  bool is_copy = row.kind == Kind::async_copy;
  if (row.kind == Kind::none || row.is_matrix() || !(is_copy || may_be_global(access_space(op))))
    return;
  Recorder out{w.block->waited >> w.index & 1 ? launch.after_wait : launch.before_wait,
               launch.counts ? &launch.loaded : nullptr};
  uint32_t lanes = executing_lanes(op, w);
  if (row.kind == Kind::bulk_load || row.kind == Kind::bulk_store)
    return record_bulk(op, w, lanes, out);
  if (is_copy)
    return record_copy(op, w, lanes, out);
  if (row.kind == Kind::tile_load || row.kind == Kind::tile_store)
    return record_tile(op, w, lanes, out);
  bool strong = is_atomic || (op->flags & kFlagVolatile);
  bool writes = row.kind != Kind::load;
  AccessKind kind = writes ? (strong ? AccessKind::strong_write : AccessKind::write)
                           : (strong ? AccessKind::strong_read : AccessKind::read);
  uint64_t addresses[kLanes];
  effective_addresses(op, w, addresses);
  AccessSet::Range joined; // of lanes that follow one another
  auto add_joined = [&] {
    if (joined.begin != joined.end)
      out.add(kind, joined.begin, joined.end - joined.begin);
  };
  for (uint32_t i = 0; i < kLanes; ++i) {
    const uint64_t begin = addresses[i];
    if (!(lanes >> i & 1) || begin >= kSharedWindow)
      continue;
    if (begin < joined.begin || begin > joined.end) {
      add_joined();
      joined = {begin, begin};
    }
    joined.end = std::max(joined.end, begin + row.total_bytes());
  }
  add_joined();
}

} // namespace cugrt::emulator
