// Widening and packing of a function's classes; then bounds, callees first, and bases, callers
// first: a callee starts above the bytes that are live at its call sites.
#include "compiler/planner/storage/storage.h"

#include "base/checked_math.h"
#include "base/type/state_scope.h"
#include "compiler/ir_names.h"
#include "compiler/planner/symbols/sizes.h"
#include "ir/module/module.h"
#include "plan/symbols/bucket_boxes.h"

#include <algorithm>
#include <map>

namespace cugrt::plan {

namespace {

/// The classes of one scope, with lives widened to fronts.
struct ScopeClasses {
  std::vector<uint32_t> members;
  std::vector<PackingItem> items;
  std::vector<PackingGap> gaps; // of items
  PackingInput input() const { return {items, gaps}; }
};

std::vector<ScopeClasses> classes_of(const FunctionStorage &storage, size_t scope_count,
                                     const Fronts &fronts) {
  std::vector<ScopeClasses> scopes(scope_count);
  size_t gap = 0;
  for (uint32_t c = 0; c < storage.classes.size(); ++c) {
    const StorageClass &k = storage.classes[c];
    ScopeClasses &scope = scopes[k.scope];
    for (; gap < storage.gaps.size() && storage.gaps[gap].item == c; ++gap) {
      const uint32_t begin = fronts.end(storage.gaps[gap].begin),
                     end = fronts.begin(storage.gaps[gap].end);
      if (begin < end)
        scope.gaps.push_back({uint32_t(scope.items.size()), begin, end});
    }
    scope.members.push_back(c);
    scope.items.push_back(
        {fronts.begin(k.item.begin), fronts.end(k.item.end), k.item.bytes, k.item.alignment});
  }
  return scopes;
}

/// The lower bounds of all scopes together.
Result<int64_t> bound_bytes(std::span<const ScopeClasses> scopes) {
  int64_t sum = 0; // of what add_class() has summed up already
  for (const ScopeClasses &scope : scopes) {
    CUGRT_ASSIGN(const int64_t bound, lower_bound_bytes(scope.input()));
    sum += bound;
  }
  return sum;
}

/// Classes with their lives widened to the largest fronts that storage may grow for.
Result<std::vector<ScopeClasses>> widen(const ir::Module &module, const ir::Function &function,
                                        const Liveness &live, Reuse reuse,
                                        const FunctionStorage &storage) {
  const size_t scope_count = module.types.scope_count();
  std::vector<ScopeClasses> in_order = classes_of(storage, scope_count, {});
  if (reuse == Reuse::smallest || storage.classes.size() < 2)
    return in_order;
  const SideBySide given(module, function, live);
  CUGRT_ASSIGN(const int64_t smallest, bound_bytes(in_order));
  for (uint32_t lanes : kLanesToTry) {
    const Fronts fronts = given.fronts(lanes);
    if (fronts.trivial())
      break;
    std::vector<ScopeClasses> wide = classes_of(storage, scope_count, fronts);
    CUGRT_ASSIGN(const int64_t bytes, bound_bytes(wide));
    if (bytes <= most_bytes(reuse, smallest))
      return wide;
  }
  return in_order;
}

/// Packs a function's classes, scope by scope, into shares that begin at 0. Keeps their lives as
/// they were packed.
Status lay_out_scopes(std::span<const ScopeClasses> scopes, FunctionStorage &storage) {
  storage.shares.resize(scopes.size());
  storage.gaps.clear();
  for (uint32_t scope = 0; scope < scopes.size(); ++scope) {
    const ScopeClasses &classes = scopes[scope];
    storage.shares[scope].scope = scope;
    if (classes.items.empty())
      continue;
    CUGRT_ASSIGN(Packing packing,
                 find_packing(classes.input(), planner_packing_options(classes.items.size())));
    for (size_t i = 0; i < classes.members.size(); ++i) {
      StorageClass &k = storage.classes[classes.members[i]];
      k.item = classes.items[i];
      k.offset_bytes = packing.offsets[i];
    }
    for (const PackingGap &gap : classes.gaps)
      storage.gaps.push_back({classes.members[gap.item], gap.begin, gap.end});
    storage.shares[scope].peak_bytes = packing.peak_bytes;
  }
  std::sort(storage.gaps.begin(), storage.gaps.end(), [](const PackingGap &a, const PackingGap &b) {
    return std::pair(a.item, a.begin) < std::pair(b.item, b.begin);
  });
  return {};
}

/// Calls visit(class, begin, end) for the runs of steps in which classes of a scope are alive.
template <class Visit>
void for_each_class_run(const FunctionStorage &storage, uint32_t scope, Visit visit) {
  size_t gap = 0;
  for (uint32_t c = 0; c < storage.classes.size(); ++c) {
    const size_t first = gap;
    while (gap < storage.gaps.size() && storage.gaps[gap].item == c)
      ++gap;
    if (storage.classes[c].scope == scope)
      for_each_run(storage.classes[c].item.begin, storage.classes[c].item.end,
                   std::span(storage.gaps).subspan(first, gap - first),
                   [&](uint32_t begin, uint32_t end) { visit(c, begin, end); });
  }
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
  for_each_class_run(storage, scope, [&](uint32_t c, uint32_t begin, uint32_t end) {
    if (storage.classes[c].item.bytes == 0)
      return;
    events.push_back({begin, true, c});
    events.push_back({end, false, c});
  });
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
        if (module_.types.scope_name(scope) != ir::kStateScope)
          CUGRT_TRY(raise_callees(*f, scope));
    for (uint32_t scope = 0; scope < scopes; ++scope)
      if (module_.types.scope_name(scope) == ir::kStateScope)
        CUGRT_TRY(one_after_the_other(scope));
    return arenas();
  }

private:
  /// The lower bound of any packing: the largest sum of tensors alive at once, callees' too, in the
  /// bucket that needs most.
  void lower_bound(uint32_t f, uint32_t scope) {
    const BucketBoxes boxes = boxes_of(module_, module_.functions[f]);
    int64_t &bound = out_.functions[f].shares[scope].lower_bound_bytes;
    for (size_t box = 0; box < boxes.count(); ++box)
      bound = std::max(bound, lower_bound_in(f, scope, boxes[box]));
  }

  int64_t lower_bound_in(uint32_t f, uint32_t scope, const ir::Domain &domain) const {
    const Liveness &live = out_.liveness[f];
    const FunctionStorage &storage = out_.functions[f];
    const ir::Function &function = module_.functions[f];
    std::vector<Wide> alive(size_t(live.end_time) + 2, 0); // changes, by time
    auto add = [&](uint32_t begin, uint32_t end, int64_t bytes) {
      alive[begin] += bytes;
      alive[end] -= bytes;
    };
    for_each_class_run(storage, scope, [&](uint32_t c, uint32_t begin, uint32_t end) {
      const StorageClass &k = storage.classes[c];
      if (k.origin == kNoOrigin || live.origins[k.origin].kind != OriginKind::storage)
        add(begin, end, k.item.bytes);
    });
    TypeSizes sizes(module_, domain);
    for (uint32_t o = 0; o < live.origins.size(); ++o) {
      const Origin &origin = live.origins[o];
      const ir::TypeId type = function.value(origin.value).type;
      if (origin.kind != OriginKind::tensor || !origin.used() || module_.types[type].scope != scope)
        continue;
      // At the step that writes it in place, it and the overwritten tensor count once.
      const bool over = storage.lies_in_place(o);
      if (auto bytes = sizes.max_bytes(type))
        for_each_run(origin.begin + over, origin.end, live.gaps_of(o),
                     [&](uint32_t begin, uint32_t end) { add(begin, end, *bytes); });
    }
    for (const CallSite &site : sites_[f])
      add(site.time, site.time + 1, out_.functions[site.callee].shares[scope].lower_bound_bytes);
    Wide sum = 0, most = 0;
    for (Wide change : alive)
      most = std::max(most, sum += change);
    return int64_t(std::min<Wide>(most, INT64_MAX));
  }

  Status raise_callees(uint32_t f, uint32_t scope) {
    FunctionStorage &storage = out_.functions[f];
    const ir::Function &function = module_.functions[f];
    const std::vector<CallSite> &sites = sites_[f];
    if (sites.empty())
      return {};
    std::vector<int64_t> tops = tops_at(sites, storage, scope);
    for (size_t i = 0; i < sites.size(); ++i) {
      auto top = checked_add(storage.shares[scope].base_bytes, tops[i]);
      auto base = top ? checked_align(*top, kArenaAlignment) : std::nullopt;
      if (!base)
        return frames_overflow(function);
      int64_t &callee = out_.functions[sites[i].callee].shares[scope].base_bytes;
      callee = std::max(callee, *base);
    }
    return {};
  }

  /// State stays: the shares of all functions lie apart.
  Status one_after_the_other(uint32_t scope) {
    int64_t end = 0;
    for (uint32_t f = 0; f < out_.functions.size(); ++f) {
      Share &share = out_.functions[f].shares[scope];
      auto base = checked_align(end, kArenaAlignment);
      auto sum = base ? checked_add(*base, share.peak_bytes) : std::nullopt;
      if (!sum)
        return frames_overflow(module_.functions[f]);
      share.base_bytes = *base;
      end = *sum;
    }
    return {};
  }

  Status arenas() {
    std::map<std::string, Arena> by_name;
    for (uint32_t f = 0; f < out_.functions.size(); ++f) {
      const FunctionStorage &storage = out_.functions[f];
      const ir::Function &function = module_.functions[f];
      for (const Share &share : storage.shares) {
        if (share.peak_bytes == 0 && !has_class(storage, share.scope))
          continue;
        Arena &arena = by_name[module_.types.scope_name(share.scope)];
        auto end = checked_add(share.base_bytes, share.peak_bytes);
        auto sum = checked_add(arena.tensor_bytes, storage.tensor_bytes_by_scope[share.scope]);
        if (!end)
          return frames_overflow(function);
        if (!sum)
          return located(Code::out_of_range, function, function.location,
                         "the tensors of scope " + module_.types.scope_name(share.scope) +
                             " in all functions add up to more than 2^63 bytes; lower the upper "
                             "bounds of their symbols");
        arena.bytes = std::max(arena.bytes, *end);
        arena.lower_bound_bytes = std::max(arena.lower_bound_bytes, share.lower_bound_bytes);
        arena.tensor_bytes = *sum;
      }
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

  static Status frames_overflow(const ir::Function &function) {
    return located(
        Code::out_of_range, function, function.location,
        "shares of nested calls add up to more than 2^63 bytes; lower the upper bounds of "
        "their symbols");
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

Status fill_shares(const ir::Module &module, const ir::Function &function, const Liveness &live,
                   Reuse reuse, FunctionStorage &storage) {
  CUGRT_ASSIGN(const std::vector<ScopeClasses> scopes,
               widen(module, function, live, reuse, storage));
  return lay_out_scopes(scopes, storage);
}

Status lay_out_shares(const ir::Module &module, ModuleStorage &storage) {
  return Layout(module, storage).run();
}

} // namespace cugrt::plan
