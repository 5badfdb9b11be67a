// Storage planning of unplanned allocations: which ones, then one packing per scope.
#include "plan/memory_plan.h"

#include "plan/in_place.h"
#include "plan/pack.h"
#include "plan/plan.h"
#include "plan/sizes.h"

#include <algorithm>
#include <numeric>
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

/// Packs the planned tensors of one scope: each by itself, and, where the bound says that it may
/// pay, with those that may be written in place as one item with what they are written over. That
/// is kept only where the peak is less.
Status pack_scope(std::span<TensorPlan *const> tensors, ScopePlan &out) {
  std::vector<PackItem> items;
  for (const TensorPlan *tensor : tensors)
    items.push_back({tensor->begin, tensor->end, tensor->bytes, kArenaAlignment});
  CUGRT_ASSIGN(Packing packing, pack(items, planner_pack_options(items.size())));
  CUGRT_ASSIGN(out.lower_bound_bytes, lower_bound_bytes(items));
  std::vector<size_t> item_of(tensors.size());
  std::iota(item_of.begin(), item_of.end(), size_t(0));
  bool in_place = false;
  if (std::any_of(tensors.begin(), tensors.end(),
                  [](const TensorPlan *tensor) { return tensor->over.valid(); })) {
    const std::vector<size_t> first = first_in_place(tensors);
    std::vector<PackItem> joined;
    std::vector<size_t> joined_of(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i)
      if (first[i] == i) {
        joined_of[i] = joined.size();
        joined.push_back(items[i]);
      }
    for (size_t i = 0; i < tensors.size(); ++i) {
      joined_of[i] = joined_of[first[i]];
      joined[joined_of[i]].end = std::max(joined[joined_of[i]].end, items[i].end);
    }
    CUGRT_ASSIGN(out.lower_bound_bytes, lower_bound_bytes(joined));
    if (out.lower_bound_bytes < packing.peak_bytes) {
      CUGRT_ASSIGN(Packing smaller, pack(joined, planner_pack_options(joined.size())));
      in_place = smaller.peak_bytes < packing.peak_bytes;
      if (in_place) {
        packing = std::move(smaller);
        item_of = std::move(joined_of);
      }
    }
  }
  out.peak_bytes = packing.peak_bytes;
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i]->offset_bytes = packing.offsets[item_of[i]];
    out.tensor_bytes += tensors[i]->bytes; // pack() has checked that the sum fits
    if (!in_place)
      tensors[i]->over = {};
  }
  return {};
}

} // namespace

Result<MemoryPlan> plan_memory(const ir::Module &module, const ir::Function &function,
                               std::span<const FunctionSummary> summaries) {
  CUGRT_ASSIGN(Liveness live, analyze_liveness(module, function, summaries));
  std::vector<ir::Interval> bounds = function.symbol_bounds();
  MemoryPlan plan;
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
    plan.tensors.push_back(std::move(tensor));
  }
  std::sort(plan.tensors.begin(), plan.tensors.end(),
            [](const TensorPlan &a, const TensorPlan &b) { return a.tensor < b.tensor; });

  const std::vector<InPlace> in_place = find_in_place(module, function, live);
  const std::vector<uint32_t> users =
      in_place.empty() ? std::vector<uint32_t>() : count_users(function, live);
  for (const InPlace &launch : in_place) {
    // Nobody else may read it: a write in place would wait for the others, which run beside it.
    if (users[launch.from] > 2)
      continue;
    if (live.origins[launch.from].kind != OriginKind::alloc ||
        live.origins[launch.to].kind != OriginKind::alloc)
      continue; // laid into a storage already
    const TensorPlan &from = *plan.find(live.origins[launch.from].value);
    TensorPlan &to = *std::lower_bound(
        plan.tensors.begin(), plan.tensors.end(), live.origins[launch.to].value,
        [](const TensorPlan &tensor, ir::ValueId value) { return tensor.tensor < value; });
    if (from.planned && to.planned)
      to.over = from.tensor;
  }

  for (uint32_t scope = 0; scope < module.types.scope_count(); ++scope) {
    std::vector<TensorPlan *> members;
    for (TensorPlan &tensor : plan.tensors)
      if (tensor.planned && tensor.scope == scope)
        members.push_back(&tensor);
    if (members.empty())
      continue;
    ScopePlan out;
    out.scope = scope;
    CUGRT_TRY(pack_scope(members, out));
    plan.scopes.push_back(out);
  }
  std::sort(plan.scopes.begin(), plan.scopes.end(), [&](const ScopePlan &a, const ScopePlan &b) {
    return module.types.scope_name(a.scope) < module.types.scope_name(b.scope);
  });
  return plan;
}

} // namespace cugrt::plan
