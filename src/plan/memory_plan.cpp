// Storage planning of unplanned allocations: which ones, then one packing per scope.
#include "plan/memory_plan.h"

#include "plan/pack.h"
#include "plan/plan.h"
#include "plan/sizes.h"

#include <algorithm>

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

  for (uint32_t scope = 0; scope < module.types.scope_count(); ++scope) {
    std::vector<PackItem> items;
    std::vector<TensorPlan *> members;
    for (TensorPlan &tensor : plan.tensors)
      if (tensor.planned && tensor.scope == scope) {
        members.push_back(&tensor);
        items.push_back({tensor.begin, tensor.end, tensor.bytes, kArenaAlignment});
      }
    if (items.empty())
      continue;
    CUGRT_ASSIGN(Packing packing, pack(items, planner_pack_options(items.size())));
    ScopePlan out;
    out.scope = scope;
    out.peak_bytes = packing.peak_bytes;
    CUGRT_ASSIGN(out.lower_bound_bytes, lower_bound_bytes(items));
    for (size_t i = 0; i < members.size(); ++i) {
      members[i]->offset_bytes = packing.offsets[i];
      out.tensor_bytes += members[i]->bytes; // pack() has checked that the sum fits
    }
    plan.scopes.push_back(out);
  }
  std::sort(plan.scopes.begin(), plan.scopes.end(), [&](const ScopePlan &a, const ScopePlan &b) {
    return module.types.scope_name(a.scope) < module.types.scope_name(b.scope);
  });
  return plan;
}

} // namespace cugrt::plan
