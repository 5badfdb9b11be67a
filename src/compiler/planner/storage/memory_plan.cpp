// Storage planning of unplanned allocations: which ones, then one packing per scope.
#include "compiler/planner/storage/memory_plan.h"

#include "base/checked_math.h"
#include "compiler/planner/analysis/liveness.h"
#include "compiler/planner/packing/packing.h"
#include "compiler/planner/storage/fronts.h"
#include "compiler/planner/symbols/sizes.h"
#include "ir/module/module.h"
#include "plan/format/plan.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace cugrt::plan {

namespace {

/// Why an allocation stays as it is; empty when it is planned.
std::string reason_against(const ir::Module &module, const ir::Function &function,
                           const Origin &origin, std::optional<int64_t> bytes,
                           const ir::SymbolDomain &bounds) {
  const ir::Type &type = module.types[function.value(origin.value).type];
  if (origin.returned_whole) // of a part that is returned a copy is
    return "it is a result of the function: its storage is the caller's or a slot";
  if (origin.passed_to_host)
    return "it is passed to a host builtin, which may keep it";
  if (!type.known_shape)
    return "its shape is not known";
  if (!bytes)
    return missing_bound(module.exprs, type.dims, function, bounds);
  return "";
}

/// For each origin: how many bindings name it as an operand, in any way but a kill.
std::vector<uint32_t> count_users(const ir::Function &function, const Liveness &live) {
  std::vector<uint32_t> users(live.origins.size(), 0), last(live.origins.size(), kNoOrigin);
  uint32_t number = 0;
  for (const ir::Block &block : function.blocks)
    for (const ir::Binding &b : block.bindings) {
      if (b.kind == ir::BindingKind::kill)
        continue;
      for (const ir::Operand &operand : function.operands_of(b)) {
        const uint32_t origin =
            operand.kind == ir::Operand::Kind::value ? live.origin(operand.value()) : kNoOrigin;
        if (origin != kNoOrigin && std::exchange(last[origin], number) != number)
          ++users[origin];
      }
      ++number;
    }
  return users;
}

/// For each tensor: the first tensor in its place, if all launches write in place that
/// may.
std::vector<size_t> first_in_place(std::span<TensorPlan *const> tensors) {
  std::unordered_map<uint32_t, size_t> number; // by value
  std::vector<size_t> order, first(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    number.emplace(tensors[i]->tensor.index, i);
    order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return tensors[a]->begin < tensors[b]->begin; });
  for (size_t i : order) { // what is written over began before
    auto over = tensors[i]->over.valid() ? number.find(tensors[i]->over.index) : number.end();
    first[i] = over == number.end() ? i : first[over->second];
  }
  return first;
}

using Run = std::pair<uint32_t, uint32_t>; // of steps

/// Items to pack.
struct Items {
  std::vector<PackingItem> items;
  std::vector<PackingGap> gaps;
  std::vector<size_t> tensors; // of each item, one of ScopeItems::tensors, whose size it has
  PackingInput input() const { return {items, gaps}; }

  /// `runs`, ascending by begin, are its life; they may overlap.
  void add(std::span<const Run> runs, size_t tensor, int64_t bytes) {
    const auto number = uint32_t(items.size());
    tensors.push_back(tensor);
    uint32_t end = runs.front().second;
    for (const Run &run : runs) {
      if (end < run.first)
        gaps.push_back({number, end, run.first});
      end = std::max(end, run.second);
    }
    items.push_back({runs.front().first, end, bytes, kArenaAlignment});
  }
};

/// The tensors of one scope as they are packed.
struct ScopeItems {
  std::vector<TensorPlan *> tensors;
  Items alone; // one for each tensor
  /// Joins tensors that may be written in place with those that they are written over; empty if
  /// there are none.
  Items joined;
  std::vector<size_t> joined_of; // by tensor
};

/// Tensors with their lives.
struct Lives {
  std::vector<TensorPlan> tensors;
  std::vector<LifeGap> gaps; // TensorPlan::gaps

  /// The steps at which a tensor is alive, ascending; fronts may make them overlap.
  void append_runs(const TensorPlan &tensor, const Fronts &fronts, std::vector<Run> &runs) const {
    for_each_run(tensor.begin, tensor.end,
                 std::span(gaps).subspan(tensor.gaps.begin, tensor.gaps.count),
                 [&](uint32_t begin, uint32_t end) {
                   runs.push_back({fronts.begin(begin), fronts.end(end)});
                 });
  }
};

void join_in_place(const Lives &lives, const Fronts &fronts, ScopeItems &scope) {
  const size_t count = scope.tensors.size();
  if (std::none_of(scope.tensors.begin(), scope.tensors.end(),
                   [](const TensorPlan *tensor) { return tensor->over.valid(); }))
    return;
  const std::vector<size_t> first = first_in_place(scope.tensors);
  std::vector<std::vector<Run>> runs; // by joined item
  scope.joined_of.resize(count);
  for (size_t i = 0; i < count; ++i)
    if (first[i] == i) {
      scope.joined_of[i] = runs.size();
      runs.emplace_back();
    }
  for (size_t i = 0; i < count; ++i) {
    scope.joined_of[i] = scope.joined_of[first[i]];
    lives.append_runs(*scope.tensors[i], fronts, runs[scope.joined_of[i]]);
  }
  for (size_t i = 0; i < count; ++i)
    if (first[i] == i) {
      std::vector<Run> &life = runs[scope.joined_of[i]];
      std::sort(life.begin(), life.end());
      scope.joined.add(life, i, scope.tensors[i]->bytes);
    }
}

/// Indexed by scope number, with lives widened to fronts.
std::vector<ScopeItems> items_of(Lives &lives, const Fronts &fronts, size_t scope_count) {
  std::vector<ScopeItems> scopes(scope_count);
  std::vector<Run> runs;
  for (TensorPlan &tensor : lives.tensors)
    if (tensor.planned) {
      ScopeItems &scope = scopes[tensor.scope];
      scope.tensors.push_back(&tensor);
      runs.clear();
      lives.append_runs(tensor, fronts, runs);
      scope.alone.add(runs, scope.tensors.size() - 1, tensor.bytes);
    }
  for (ScopeItems &scope : scopes)
    join_in_place(lives, fronts, scope);
  return scopes;
}

/// The lower bounds of all scopes together.
Result<int64_t> bound_bytes(std::span<const ScopeItems> scopes) {
  int64_t sum = 0;
  for (const ScopeItems &scope : scopes) {
    CUGRT_ASSIGN(
        const int64_t bound,
        lower_bound_bytes(scope.joined_of.empty() ? scope.alone.input() : scope.joined.input()));
    const auto next = checked_add(sum, bound);
    if (!next)
      return Status::error(Code::out_of_range, "storage is larger than 2^63 bytes");
    sum = *next;
  }
  return sum;
}

Result<Packing> packing_of(const Items &items, Effort effort) {
  return find_packing(items.input(), planner_packing_options(items.items.size(), effort));
}

/// Packs each tensor by itself, and, where the bound says that it may pay, with those that may be
/// written in place. That is kept only where the peak is less.
Status lay_out_scope(const ScopeItems &scope, Effort effort, ScopePlan &out) {
  CUGRT_ASSIGN(Packing packing, packing_of(scope.alone, effort));
  CUGRT_ASSIGN(out.lower_bound_bytes, lower_bound_bytes(scope.alone.input()));
  bool in_place = false;
  if (!scope.joined_of.empty()) {
    CUGRT_ASSIGN(out.lower_bound_bytes, lower_bound_bytes(scope.joined.input()));
    if (out.lower_bound_bytes < packing.peak_bytes) {
      CUGRT_ASSIGN(Packing smaller, packing_of(scope.joined, effort));
      in_place = smaller.peak_bytes < packing.peak_bytes;
      if (in_place)
        packing = std::move(smaller);
    }
  }
  out.peak_bytes = packing.peak_bytes;
  for (size_t i = 0; i < scope.tensors.size(); ++i) {
    TensorPlan &tensor = *scope.tensors[i];
    tensor.offset_bytes = packing.offsets[in_place ? scope.joined_of[i] : i];
    out.tensor_bytes += tensor.bytes; // find_packing() has checked that the sum fits
    if (!in_place)
      tensor.over = {};
  }
  return {};
}

/// Packings of one list of items, each with the sizes of a box.
struct BoxPackings {
  int64_t peak_bytes = 0;        // of the largest
  std::vector<Packing> packings; // by box
};

/// Finds offsets for each bucket, where that saves more than a page.
class Tables {
public:
  Tables(const ir::Module &module, const ir::Function &function, Effort effort, MemoryPlan &plan)
      : module_(module), function_(function), effort_(effort), plan_(plan) {}

  /// Call after lay_out_scope().
  Status improve(const ScopeItems &scope, ScopePlan &out) {
    const Items &fewest = scope.joined_of.empty() ? scope.alone : scope.joined;
    CUGRT_ASSIGN(out.lower_bound_bytes, bound_of(scope, fewest));
    if (out.peak_bytes - out.lower_bound_bytes <= kPageBytes)
      return {};
    CUGRT_ASSIGN(BoxPackings best, lay_out_boxes(scope, scope.alone));
    bool in_place = false;
    if (!scope.joined_of.empty()) {
      CUGRT_ASSIGN(BoxPackings joined, lay_out_boxes(scope, scope.joined));
      in_place = joined.peak_bytes < best.peak_bytes;
      if (in_place)
        best = std::move(joined);
    }
    if (out.peak_bytes - best.peak_bytes <= kPageBytes)
      return {};
    out.peak_bytes = best.peak_bytes;
    for (size_t i = 0; i < scope.tensors.size(); ++i) {
      TensorPlan &tensor = *scope.tensors[i];
      tensor.over = in_place ? may_be_over_[tensor.tensor.index] : ir::ValueId{};
      tensor.table = uint32_t(plan_.table_offsets.size());
      for (const Packing &packing : best.packings)
        plan_.table_offsets.push_back(packing.offsets[in_place ? scope.joined_of[i] : i]);
    }
    return {};
  }

  /// Call before lay_out_scope(), which forgets it if nothing is written in place.
  void remember_over(const ScopeItems &scope) {
    for (const TensorPlan *tensor : scope.tensors)
      if (tensor->over.valid())
        may_be_over_[tensor->tensor.index] = tensor->over;
  }

private:
  Items in_box(const ScopeItems &scope, const Items &items, size_t box) const {
    Items sized = items;
    for (size_t i = 0; i < sized.items.size(); ++i) {
      const ir::ValueId tensor = scope.tensors[items.tensors[i]]->tensor;
      const ir::Type &type = module_.types[function_.value(tensor).type];
      if (auto bytes = max_tensor_bytes(module_.exprs, type, plan_.boxes[box]))
        sized.items[i].bytes = *bytes;
    }
    return sized;
  }

  Result<int64_t> bound_of(const ScopeItems &scope, const Items &items) const {
    int64_t bound = 0;
    for (size_t box = 0; box < plan_.boxes.count(); ++box) {
      CUGRT_ASSIGN(const int64_t in_it, lower_bound_bytes(in_box(scope, items, box).input()));
      bound = std::max(bound, in_it);
    }
    return bound;
  }

  Result<BoxPackings> lay_out_boxes(const ScopeItems &scope, const Items &items) const {
    BoxPackings out;
    for (size_t box = 0; box < plan_.boxes.count(); ++box) {
      CUGRT_ASSIGN(Packing packing, packing_of(in_box(scope, items, box), effort_));
      out.peak_bytes = std::max(out.peak_bytes, packing.peak_bytes);
      out.packings.push_back(std::move(packing));
    }
    return out;
  }

  const ir::Module &module_;
  const ir::Function &function_;
  const Effort effort_;
  MemoryPlan &plan_;
  std::map<uint32_t, ir::ValueId> may_be_over_; // by value
};

/// Finds the tensors that each tensor may be written over.
void lay_in_place(const ir::Module &module, const ir::Function &function, const Liveness &live,
                  std::vector<TensorPlan> &tensors) {
  const std::vector<InPlace> in_place = find_in_place(module, function, live);
  if (in_place.empty())
    return;
  const std::vector<uint32_t> users = count_users(function, live);
  auto find = [&](uint32_t origin) {
    return std::lower_bound(
        tensors.begin(), tensors.end(), live.origins[origin].value,
        [](const TensorPlan &tensor, ir::ValueId value) { return tensor.tensor < value; });
  };
  for (const InPlace &launch : in_place) {
    // Nobody else may read it: a write in place would wait for the others, which run beside it.
    if (users[launch.from] > 2)
      continue;
    if (live.origins[launch.from].kind != OriginKind::alloc ||
        live.origins[launch.to].kind != OriginKind::alloc)
      continue; // laid into a storage already
    const auto from = find(launch.from), to = find(launch.to);
    if (from->planned && to->planned)
      to->over = from->tensor;
  }
}

/// Lists every allocation with its life, why it stays unplanned if it does, and the tensors that it
/// may be written over.
Lives lives_of(const ir::Module &module, const ir::Function &function, const Liveness &live) {
  const ir::SymbolDomain bounds = symbol_domain(module, function);
  TypeSizes sizes(module, bounds);
  Lives lives;
  lives.tensors.reserve(live.origins.size());
  for (uint32_t o = 0; o < live.origins.size(); ++o) {
    const Origin &origin = live.origins[o];
    if (origin.kind != OriginKind::alloc)
      continue;
    const ir::TypeId type = function.value(origin.value).type;
    const std::optional<int64_t> bytes = sizes.max_bytes(type);
    TensorPlan &tensor = lives.tensors.emplace_back();
    tensor.tensor = origin.value;
    tensor.reason = reason_against(module, function, origin, bytes, bounds);
    tensor.planned = tensor.reason.empty();
    tensor.scope = module.types[type].scope;
    tensor.bytes = bytes.value_or(0);
    tensor.begin = origin.used() ? origin.begin : origin.defined;
    tensor.end = origin.used() ? origin.end : origin.defined + 1;
    const auto gaps = live.gaps_of(o);
    tensor.gaps = {uint32_t(lives.gaps.size()), uint32_t(gaps.size())};
    lives.gaps.insert(lives.gaps.end(), gaps.begin(), gaps.end());
  }
  const auto by_value = [](const TensorPlan &a, const TensorPlan &b) {
    return a.tensor < b.tensor;
  };
  if (!std::is_sorted(lives.tensors.begin(), lives.tensors.end(), by_value))
    std::sort(lives.tensors.begin(), lives.tensors.end(), by_value);
  lay_in_place(module, function, live, lives.tensors);
  return lives;
}

/// Looks for the most launches side by side that the limit on storage allows, and returns their
/// items. `lives` and `plan` hold program order, and keep it if there are none.
Result<std::vector<ScopeItems>> widen(const ir::Module &module, const ir::Function &function,
                                      const Liveness &live,
                                      std::span<const FunctionSummary> summaries, Reuse reuse,
                                      Lives &lives, MemoryPlan &plan) {
  const size_t scope_count = module.types.scope_count();
  const SideBySide given(module, function, live);
  std::optional<int64_t> most;
  for (uint32_t lanes : kLanesToTry) {
    Lives moved_lives;
    Fronts fronts = given.fronts(lanes);
    std::optional<ir::Function> moved = given.interleave(lanes, fronts);
    if (moved) {
      CUGRT_ASSIGN(const Liveness of_moved, analyze_liveness(module, *moved, summaries));
      Fronts of_fewer = SideBySide(module, *moved, of_moved).fronts(lanes);
      if (SideBySide::fewer(of_fewer, fronts)) {
        moved_lives = lives_of(module, *moved, of_moved);
        fronts = std::move(of_fewer);
      } else {
        moved.reset();
      }
    }
    if (fronts.trivial())
      break;
    std::vector<ScopeItems> wide = items_of(moved ? moved_lives : lives, fronts, scope_count);
    CUGRT_ASSIGN(const int64_t bytes, bound_bytes(wide));
    if (bytes > most_bytes(reuse, 0) && !most) { // else whatever it takes in program order
      CUGRT_ASSIGN(const int64_t smallest, bound_bytes(items_of(lives, {}, scope_count)));
      most = most_bytes(reuse, smallest);
    }
    if (most && bytes > *most)
      continue;
    if (moved)
      lives = std::move(moved_lives); // items point to its tensors, which stay where they are
    plan.interleaved = std::move(moved);
    return wide;
  }
  return items_of(lives, {}, scope_count);
}

Result<MemoryPlan> plan_tensors(const ir::Module &module, const ir::Function &function,
                                std::span<const FunctionSummary> summaries,
                                const MemoryOptions &options) {
  CUGRT_ASSIGN(Liveness live, analyze_liveness(module, function, summaries));
  MemoryPlan plan;
  Lives lives = lives_of(module, function, live);
  std::vector<ScopeItems> scopes;
  if (options.reuse == Reuse::smallest)
    scopes = items_of(lives, {}, module.types.scope_count());
  else {
    CUGRT_ASSIGN(scopes, widen(module, function, live, summaries, options.reuse, lives, plan));
  }
  if (options.tables)
    plan.boxes = boxes_of(module, function);
  Tables by_bucket(module, function, options.effort, plan);
  for (uint32_t scope = 0; scope < scopes.size(); ++scope) {
    if (scopes[scope].tensors.empty())
      continue;
    ScopePlan out;
    out.scope = scope;
    by_bucket.remember_over(scopes[scope]);
    CUGRT_TRY(lay_out_scope(scopes[scope], options.effort, out));
    if (plan.boxes.count() > 1)
      CUGRT_TRY(by_bucket.improve(scopes[scope], out));
    plan.scopes.push_back(out);
  }
  std::sort(plan.scopes.begin(), plan.scopes.end(), [&](const ScopePlan &a, const ScopePlan &b) {
    return module.types.scope_name(a.scope) < module.types.scope_name(b.scope);
  });
  plan.tensors = std::move(lives.tensors);
  plan.gaps = std::move(lives.gaps);
  return plan;
}

} // namespace

Result<MemoryPlan> plan_memory(const ir::Module &module, const ir::Function &function,
                               std::span<const FunctionSummary> summaries,
                               const MemoryOptions &options) {
  Result<MemoryPlan> plan = plan_tensors(module, function, summaries, options);
  if (!plan.ok() && plan.status().location().empty()) // the packer knows no functions
    return located(plan.status().code(), function, function.location, plan.status().message());
  return plan;
}

} // namespace cugrt::plan
