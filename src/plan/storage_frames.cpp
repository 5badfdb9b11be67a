// Widening and packing of a function's classes; then bounds, callees first, and bases, callers
// first.
#include "plan/storage_frames.h"

#include "plan/located.h"
#include "plan/sizes.h"
#include "support/checked_math.h"

#include <algorithm>
#include <map>

namespace cugrt::plan {

using ir::Binding;
using ir::BindingKind;

namespace {

/// The lower bounds of all scopes together, with lives widened to fronts.
Result<int64_t> bound_bytes(const FunctionStorage &storage, size_t scope_count,
                            const Fronts &fronts) {
  std::vector<std::vector<PackItem>> items(scope_count);
  for (const StorageClass &k : storage.classes)
    items[k.scope].push_back(
        {fronts.begin(k.item.begin), fronts.end(k.item.end), k.item.bytes, k.item.alignment});
  int64_t sum = 0; // of what add_class() has summed up already
  for (const std::vector<PackItem> &scope : items) {
    CUGRT_ASSIGN(const int64_t bound, lower_bound_bytes(scope));
    sum += bound;
  }
  return sum;
}

/// Widens lives to the largest fronts that storage may grow for.
Status widen(const ir::Module &module, const ir::Function &function, const Liveness &live,
             Reuse reuse, FunctionStorage &storage) {
  const size_t scope_count = module.types.scope_count();
  if (reuse == Reuse::smallest || storage.classes.size() < 2)
    return {};
  const SideBySide given(module, function, live);
  CUGRT_ASSIGN(const int64_t smallest, bound_bytes(storage, scope_count, {}));
  for (uint32_t lanes : kLanesToTry) {
    const Fronts fronts = given.fronts(lanes);
    if (fronts.trivial())
      return {};
    CUGRT_ASSIGN(const int64_t bytes, bound_bytes(storage, scope_count, fronts));
    if (bytes > most_bytes(reuse, smallest))
      continue;
    for (StorageClass &k : storage.classes) {
      k.item.begin = fronts.begin(k.item.begin);
      k.item.end = fronts.end(k.item.end);
    }
    return {};
  }
  return {};
}

/// Packs a function's classes, scope by scope, into frames that begin at 0.
Status pack_scopes(FunctionStorage &storage, size_t scope_count) {
  storage.frames.resize(scope_count);
  std::vector<PackItem> items;
  std::vector<uint32_t> members;
  for (uint32_t scope = 0; scope < scope_count; ++scope) {
    items.clear();
    members.clear();
    storage.frames[scope].scope = scope;
    for (uint32_t c = 0; c < storage.classes.size(); ++c)
      if (storage.classes[c].scope == scope) {
        members.push_back(c);
        items.push_back(storage.classes[c].item);
      }
    if (items.empty())
      continue;
    CUGRT_ASSIGN(Packing packing, pack(items, planner_pack_options(items.size())));
    for (size_t i = 0; i < members.size(); ++i)
      storage.classes[members[i]].offset_bytes = packing.offsets[i];
    storage.frames[scope].peak_bytes = packing.peak_bytes;
  }
  return {};
}

__extension__ typedef __int128 Wide; // sums of nested calls may leave 64 bits

struct Event {
  uint32_t time;
  bool begins;
  uint32_t item;
  friend bool operator<(const Event &a, const Event &b) {
    return std::tuple(a.time, a.begins, a.item) <
           std::tuple(b.time, b.begins, b.item); // ends first
  }
};

struct CallSite {
  uint32_t time, callee;
};

std::vector<CallSite> call_sites(const ir::Function &function, const Liveness &live) {
  std::vector<CallSite> sites;
  for (uint32_t block = 0; block < function.blocks.size(); ++block)
    for (uint32_t i = 0; i < function.blocks[block].bindings.size(); ++i)
      if (const Binding &b = function.blocks[block].bindings[i]; b.kind == BindingKind::call)
        sites.push_back({live.time_of(block, i), b.callee});
  std::sort(sites.begin(), sites.end(),
            [](const CallSite &a, const CallSite &b) { return a.time < b.time; });
  return sites;
}

/// For each call site, the end of the highest byte that is live across it.
std::vector<int64_t> tops_at(std::span<const CallSite> sites, const FunctionStorage &storage,
                             uint32_t scope) {
  std::vector<Event> events;
  for (uint32_t c = 0; c < storage.classes.size(); ++c) {
    const StorageClass &k = storage.classes[c];
    if (k.scope != scope || k.item.bytes == 0)
      continue;
    events.push_back({k.item.begin, true, c});
    events.push_back({k.item.end, false, c});
  }
  std::sort(events.begin(), events.end());
  std::vector<int64_t> tops;
  std::map<int64_t, uint32_t> live_ends; // end in bytes, how many classes
  size_t next = 0;
  for (const CallSite &site : sites) {
    for (; next < events.size() && events[next].time <= site.time; ++next) {
      const StorageClass &k = storage.classes[events[next].item];
      int64_t end = k.offset_bytes + k.item.bytes;
      if (events[next].begins)
        ++live_ends[end];
      else if (--live_ends[end] == 0)
        live_ends.erase(end);
    }
    tops.push_back(live_ends.empty() ? 0 : live_ends.rbegin()->first);
  }
  return tops;
}

class Layout {
public:
  Layout(const ir::Module &module, ModuleStorage &out) : module_(module), out_(out) {}

  Status run() {
    size_t scopes = module_.types.scope_count();
    for (uint32_t f = 0; f < module_.functions.size(); ++f)
      sites_.push_back(call_sites(module_.functions[f], out_.liveness[f]));
    for (uint32_t f : out_.order)
      for (uint32_t scope = 0; scope < scopes; ++scope)
        lower_bound(f, scope);
    for (auto f = out_.order.rbegin(); f != out_.order.rend(); ++f)
      for (uint32_t scope = 0; scope < scopes; ++scope)
        CUGRT_TRY(raise_callees(*f, scope));
    return arenas();
  }

private:
  /// What any packing needs: the largest sum of tensors alive at once, those of callees included.
  void lower_bound(uint32_t f, uint32_t scope) {
    const Liveness &live = out_.liveness[f];
    FunctionStorage &storage = out_.functions[f];
    const ir::Function &function = module_.functions[f];
    std::vector<ir::Interval> bounds = function.symbol_bounds();
    std::vector<Wide> alive(size_t(live.end_time) + 2, 0); // changes, by time
    auto add = [&](uint32_t begin, uint32_t end, int64_t bytes) {
      alive[begin] += bytes;
      alive[end] -= bytes;
    };
    for (const StorageClass &k : storage.classes)
      if (k.scope == scope &&
          (k.origin == kNoOrigin || live.origins[k.origin].kind != OriginKind::storage))
        add(k.item.begin, k.item.end, k.item.bytes);
    for (uint32_t o = 0; o < live.origins.size(); ++o) {
      const Origin &origin = live.origins[o];
      const ir::Type &type = module_.types[function.value(origin.value).type];
      if (origin.kind != OriginKind::tensor || !origin.used() || type.scope != scope)
        continue;
      // Where it is written in place, it and what it is written over are one.
      const bool over = storage.lies_in_place(o);
      if (auto bytes = max_tensor_bytes(module_.exprs, type, bounds))
        add(origin.begin + over, origin.end, *bytes);
    }
    for (const CallSite &site : sites_[f])
      add(site.time, site.time + 1, out_.functions[site.callee].frames[scope].lower_bound_bytes);
    Wide sum = 0, most = 0;
    for (Wide change : alive)
      most = std::max(most, sum += change);
    storage.frames[scope].lower_bound_bytes = int64_t(std::min<Wide>(most, INT64_MAX));
  }

  Status raise_callees(uint32_t f, uint32_t scope) {
    FunctionStorage &storage = out_.functions[f];
    const ir::Function &function = module_.functions[f];
    const std::vector<CallSite> &sites = sites_[f];
    if (sites.empty())
      return {};
    std::vector<int64_t> tops = tops_at(sites, storage, scope);
    for (size_t i = 0; i < sites.size(); ++i) {
      auto top = checked_add(storage.frames[scope].base_bytes, tops[i]);
      auto base = top ? checked_align(*top, kArenaAlignment) : std::nullopt;
      if (!base)
        return located(Code::out_of_range, function, function.location,
                       "frames of nested calls add up to more than 2^63 bytes");
      int64_t &callee = out_.functions[sites[i].callee].frames[scope].base_bytes;
      callee = std::max(callee, *base);
    }
    return {};
  }

  Status arenas() {
    std::map<std::string, Arena> by_name;
    for (const FunctionStorage &storage : out_.functions)
      for (const Frame &frame : storage.frames) {
        if (frame.peak_bytes == 0 && !has_class(storage, frame.scope))
          continue;
        Arena &arena = by_name[module_.types.scope_name(frame.scope)];
        auto end = checked_add(frame.base_bytes, frame.peak_bytes);
        auto sum = checked_add(arena.tensor_bytes, storage.tensor_bytes_by_scope[frame.scope]);
        if (!end || !sum)
          return Status::error(Code::out_of_range, "an arena is larger than 2^63 bytes");
        arena.bytes = std::max(arena.bytes, *end);
        arena.lower_bound_bytes = std::max(arena.lower_bound_bytes, frame.lower_bound_bytes);
        arena.tensor_bytes = *sum;
      }
    out_.arena_of_scope.assign(module_.types.scope_count(), kNone);
    for (auto &[name, arena] : by_name) {
      arena.scope = name;
      // Tensors laid over one another by hand may add up to more than the storage that holds them.
      arena.lower_bound_bytes = std::min(arena.lower_bound_bytes, arena.bytes);
      for (uint32_t scope = 0; scope < out_.arena_of_scope.size(); ++scope)
        if (module_.types.scope_name(scope) == name)
          out_.arena_of_scope[scope] = uint32_t(out_.arenas.size());
      out_.arenas.push_back(std::move(arena));
    }
    return {};
  }

  static bool has_class(const FunctionStorage &storage, uint32_t scope) {
    return std::any_of(storage.classes.begin(), storage.classes.end(),
                       [&](const StorageClass &k) { return k.scope == scope; });
  }

  const ir::Module &module_;
  ModuleStorage &out_;
  std::vector<std::vector<CallSite>> sites_; // by function
};

} // namespace

Status pack_frames(const ir::Module &module, const ir::Function &function, const Liveness &live,
                   Reuse reuse, FunctionStorage &storage) {
  CUGRT_TRY(widen(module, function, live, reuse, storage));
  return pack_scopes(storage, module.types.scope_count());
}

Status lay_out_frames(const ir::Module &module, ModuleStorage &storage) {
  return Layout(module, storage).run();
}

} // namespace cugrt::plan
