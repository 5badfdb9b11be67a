// Storage planning of unplanned allocations: which ones, then one packing per scope.
#include "plan/memory_plan.h"

#include "plan/fronts.h"
#include "plan/in_place.h"
#include "plan/pack.h"
#include "plan/plan.h"
#include "plan/sizes.h"
#include "support/checked_math.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace cugrt::plan {

const TensorPlan *MemoryPlan::find(ir::ValueId tensor) const {
  auto it = std::lower_bound(tensors.begin(), tensors.end(), tensor,
                             [](const TensorPlan &t, ir::ValueId v) { return t.tensor < v; });
  return it != tensors.end() && it->tensor == tensor ? &*it : nullptr;
}

namespace {

/// Why an allocation stays as it is; empty when it is planned.
std::string reason_against(const ir::Module &module, const ir::Function &function,
                           const Origin &origin, std::optional<int64_t> bytes) {
  const ir::Type &type = module.types[function.value(origin.value).type];
  if (origin.returned)
    return "it is a result of the function: its storage is the caller's or a slot";
  if (origin.passed_to_host)
    return "it is passed to a host builtin, which may keep it";
  if (!type.known_shape)
    return "its shape is not known";
  if (!bytes)
    return missing_bound(module.exprs, type.dims, function);
  return "";
}

/// By origin: how many bindings name it as an operand, in whatever way but a kill.
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

/// By tensor: which tensor lies first in the place that it is in, if all that may write in place
/// do.
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

/// The tensors of one scope as they are packed.
struct ScopeItems {
  std::vector<TensorPlan *> tensors;
  std::vector<PackItem> items; // one for each tensor
  /// With those that may be written in place as one item with what they are written over; empty
  /// where there are none.
  std::vector<PackItem> joined;
  std::vector<size_t> joined_of; // by tensor
};

void join_in_place(ScopeItems &scope) {
  const size_t count = scope.tensors.size();
  if (std::none_of(scope.tensors.begin(), scope.tensors.end(),
                   [](const TensorPlan *tensor) { return tensor->over.valid(); }))
    return;
  const std::vector<size_t> first = first_in_place(scope.tensors);
  scope.joined_of.resize(count);
  for (size_t i = 0; i < count; ++i)
    if (first[i] == i) {
      scope.joined_of[i] = scope.joined.size();
      scope.joined.push_back(scope.items[i]);
    }
  for (size_t i = 0; i < count; ++i) {
    scope.joined_of[i] = scope.joined_of[first[i]];
    PackItem &item = scope.joined[scope.joined_of[i]];
    item.end = std::max(item.end, scope.items[i].end);
  }
}

/// By scope number, with lives widened to fronts.
std::vector<ScopeItems> items_of(std::vector<TensorPlan> &tensors, size_t scope_count,
                                 const Fronts &fronts) {
  std::vector<ScopeItems> scopes(scope_count);
  for (TensorPlan &tensor : tensors)
    if (tensor.planned) {
      ScopeItems &scope = scopes[tensor.scope];
      scope.tensors.push_back(&tensor);
      scope.items.push_back(
          {fronts.begin(tensor.begin), fronts.end(tensor.end), tensor.bytes, kArenaAlignment});
    }
  for (ScopeItems &scope : scopes)
    join_in_place(scope);
  return scopes;
}

/// The lower bounds of all scopes together.
Result<int64_t> bound_bytes(std::vector<TensorPlan> &tensors, size_t scope_count,
                            const Fronts &fronts) {
  int64_t sum = 0;
  for (const ScopeItems &scope : items_of(tensors, scope_count, fronts)) {
    CUGRT_ASSIGN(const int64_t bound,
                 lower_bound_bytes(scope.joined.empty() ? scope.items : scope.joined));
    const auto next = checked_add(sum, bound);
    if (!next)
      return Status::error(Code::out_of_range, "storage is larger than 2^63 bytes");
    sum = *next;
  }
  return sum;
}

/// Packs each tensor by itself, and, where the bound says that it may pay, with those that may be
/// written in place. That is kept only where the peak is less.
Status pack_scope(const ScopeItems &scope, ScopePlan &out) {
  CUGRT_ASSIGN(Packing packing, pack(scope.items, planner_pack_options(scope.items.size())));
  CUGRT_ASSIGN(out.lower_bound_bytes, lower_bound_bytes(scope.items));
  bool in_place = false;
  if (!scope.joined.empty()) {
    CUGRT_ASSIGN(out.lower_bound_bytes, lower_bound_bytes(scope.joined));
    if (out.lower_bound_bytes < packing.peak_bytes) {
      CUGRT_ASSIGN(Packing smaller, pack(scope.joined, planner_pack_options(scope.joined.size())));
      in_place = smaller.peak_bytes < packing.peak_bytes;
      if (in_place)
        packing = std::move(smaller);
    }
  }
  out.peak_bytes = packing.peak_bytes;
  for (size_t i = 0; i < scope.tensors.size(); ++i) {
    TensorPlan &tensor = *scope.tensors[i];
    tensor.offset_bytes = packing.offsets[in_place ? scope.joined_of[i] : i];
    out.tensor_bytes += tensor.bytes; // pack() has checked that the sum fits
    if (!in_place)
      tensor.over = {};
  }
  return {};
}

/// Says of tensors what they may be written over.
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

/// Every allocation with its life, why it stays unplanned where it does, and what it may be written
/// over.
std::vector<TensorPlan> tensors_of(const ir::Module &module, const ir::Function &function,
                                   const Liveness &live) {
  const std::vector<ir::Interval> bounds = function.symbol_bounds();
  std::vector<TensorPlan> tensors;
  for (const Origin &origin : live.origins) {
    if (origin.kind != OriginKind::alloc)
      continue;
    const ir::Type &type = module.types[function.value(origin.value).type];
    std::optional<int64_t> bytes = max_tensor_bytes(module.exprs, type, bounds);
    TensorPlan tensor;
    tensor.tensor = origin.value;
    tensor.reason = reason_against(module, function, origin, bytes);
    tensor.planned = tensor.reason.empty();
    tensor.scope = type.scope;
    tensor.bytes = bytes.value_or(0);
    tensor.begin = origin.used() ? origin.begin : origin.defined;
    tensor.end = origin.used() ? origin.end : origin.defined + 1;
    tensors.push_back(std::move(tensor));
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorPlan &a, const TensorPlan &b) { return a.tensor < b.tensor; });
  lay_in_place(module, function, live, tensors);
  return tensors;
}

/// Tensors with their lives, and the fronts that these are widened to.
struct Lives {
  std::vector<TensorPlan> tensors;
  Fronts fronts;
};

/// Looks for the most launches side by side that storage may grow for. `lives` and `plan` hold
/// program order, and keep it where there are none.
Status widen(const ir::Module &module, const ir::Function &function, const Liveness &live,
             std::span<const FunctionSummary> summaries, Reuse reuse, Lives &lives,
             MemoryPlan &plan) {
  const size_t scope_count = module.types.scope_count();
  const SideBySide given(module, function, live);
  std::optional<int64_t> most;
  for (uint32_t lanes : kLanesToTry) {
    Lives wide{{}, given.fronts(lanes)};
    std::optional<ir::Function> moved = given.interleave(lanes, wide.fronts);
    if (moved) {
      CUGRT_ASSIGN(const Liveness of_moved, analyze_liveness(module, *moved, summaries));
      Fronts fronts = SideBySide(module, *moved, of_moved).fronts(lanes);
      if (SideBySide::fewer(fronts, wide.fronts))
        wide = {tensors_of(module, *moved, of_moved), std::move(fronts)};
      else
        moved.reset();
    }
    if (wide.fronts.trivial())
      return {};
    if (!most) {
      CUGRT_ASSIGN(const int64_t smallest, bound_bytes(lives.tensors, scope_count, {}));
      most = most_bytes(reuse, smallest);
    }
    CUGRT_ASSIGN(const int64_t bytes,
                 bound_bytes(moved ? wide.tensors : lives.tensors, scope_count, wide.fronts));
    if (bytes > *most)
      continue;
    if (moved)
      lives.tensors = std::move(wide.tensors);
    lives.fronts = std::move(wide.fronts);
    plan.interleaved = std::move(moved);
    return {};
  }
  return {};
}

} // namespace

Result<MemoryPlan> plan_memory(const ir::Module &module, const ir::Function &function,
                               std::span<const FunctionSummary> summaries, Reuse reuse) {
  CUGRT_ASSIGN(Liveness live, analyze_liveness(module, function, summaries));
  MemoryPlan plan;
  Lives lives{tensors_of(module, function, live), {}};
  if (reuse != Reuse::smallest)
    CUGRT_TRY(widen(module, function, live, summaries, reuse, lives, plan));
  plan.tensors = std::move(lives.tensors);
  const std::vector<ScopeItems> scopes =
      items_of(plan.tensors, module.types.scope_count(), lives.fronts);
  for (uint32_t scope = 0; scope < scopes.size(); ++scope) {
    if (scopes[scope].items.empty())
      continue;
    ScopePlan out;
    out.scope = scope;
    CUGRT_TRY(pack_scope(scopes[scope], out));
    plan.scopes.push_back(out);
  }
  std::sort(plan.scopes.begin(), plan.scopes.end(), [&](const ScopePlan &a, const ScopePlan &b) {
    return module.types.scope_name(a.scope) < module.types.scope_name(b.scope);
  });
  return plan;
}

} // namespace cugrt::plan
