// Storage layout, in three passes over the functions, callees first: places of values, one packing
// per function and scope, then shares (storage_shares.cpp).
#include "compiler/planner/storage/storage.h"

#include "base/checked_math.h"
#include "base/type/state_scope.h"
#include "compiler/ir_names.h"
#include "compiler/planner/analysis/liveness.h"
#include "compiler/planner/symbols/sizes.h"
#include "ir/module/module.h"
#include "plan/symbols/bucket_boxes.h"

#include <algorithm>

namespace cugrt::plan {

static uint32_t find(const std::vector<std::pair<uint32_t, uint32_t>> &sorted, uint32_t key) {
  auto it = std::lower_bound(sorted.begin(), sorted.end(), std::pair(key, uint32_t(0)));
  return it != sorted.end() && it->first == key ? it->second : kNone;
}

uint32_t FunctionStorage::workspace_at(uint32_t time) const { return find(workspaces, time); }

uint32_t FunctionStorage::swap_of(ir::ValueId result) const { return find(swaps, result.index); }

bool FunctionStorage::takes_over(uint32_t tensor, uint32_t other) const {
  return std::binary_search(in_place.begin(), in_place.end(), std::pair(tensor, other));
}

bool FunctionStorage::lies_in_place(uint32_t tensor) const {
  return !in_place.empty() && find(in_place, tensor) != kNone;
}

bool needs_temporary(const ir::Function &function, const Liveness &live, const Binding &loop,
                     const Operand &yield, uint32_t i) {
  uint32_t origin = yield.kind == Operand::Kind::value ? live.origin(yield.value()) : kNoOrigin;
  if (origin == kNoOrigin || live.origins[origin].kind != OriginKind::carried)
    return false;
  uint32_t body = loop.blocks.end() - 1;
  for (uint32_t j = 0; j < loop.carried_count; ++j)
    if (live.origin(loop.result(j)) == origin)
      return i != j || live.alias_of[yield.index].index != function.blocks[body].first_param + i;
  return false;
}

/// The most that a kernel's expression comes to over the domain of a function's symbols, of which
/// the kernel is `given` expressions.
static std::optional<int64_t> workspace_within(const ir::ExprPool &exprs, ir::ExprId bytes,
                                               std::span<const ir::ExprId> given,
                                               const ir::SymbolDomain &domain) {
  ir::ExprPool scratch;
  std::vector<ir::ExprId> symbols, arguments;
  for (uint32_t s = 0; s < domain.size(); ++s)
    symbols.push_back(scratch.symbol({s}));
  for (ir::ExprId expr : given) {
    if (!expr.valid())
      return std::nullopt;
    arguments.push_back(exprs.copy_to(scratch, expr, symbols));
  }
  return upper_bound(scratch, exprs.copy_to(scratch, bytes, arguments), domain);
}

std::optional<int64_t> max_workspace_bytes(const ir::Module &module, const ir::Function &function,
                                           const Binding &launch, const ir::SymbolDomain &domain) {
  const ir::Kernel &kernel = module.kernels[launch.callee];
  std::vector<ir::Interval> kernel_bounds(kernel.symbols.size());
  std::vector<ir::ExprId> given(kernel.symbols.size());
  std::span<const Operand> operands = function.operands_of(launch);
  for (size_t i = 0; i < operands.size() && i < kernel.params.size(); ++i) {
    ir::SymbolId symbol = kernel.params[i].symbol;
    if (!symbol.valid())
      continue;
    if (operands[i].kind == Operand::Kind::expr)
      given[symbol.index] = operands[i].expr();
    else if (operands[i].kind == Operand::Kind::value) {
      const ir::Type &type = module.types[function.value(operands[i].value()).type];
      if (!type.dims.empty())
        given[symbol.index] = type.dims[0];
    }
    if (given[symbol.index].valid())
      kernel_bounds[symbol.index] = module.exprs.range(given[symbol.index], domain);
  }
  int64_t most = 0;
  for (const ir::KernelVariant &variant : kernel.variants) {
    if (!variant.workspace_bytes.valid())
      continue;
    auto bytes = upper_bound(module.exprs, variant.workspace_bytes, kernel_bounds);
    if (!domain.limits().empty()) // which tell more of what the symbols have together
      if (auto joint = workspace_within(module.exprs, variant.workspace_bytes, given, domain))
        bytes = std::min(bytes.value_or(INT64_MAX), *joint);
    if (!bytes)
      return std::nullopt;
    most = std::max(most, *bytes);
  }
  return most;
}

namespace {

/// Decides the place of every origin of one function and collects its classes.
class Placement {
public:
  Placement(const ir::Module &module, const ir::Function &function, const Liveness &liveness,
            const FunctionSummary &summary)
      : module_(module), function_(function), live_(liveness), summary_(summary),
        bounds_(symbol_domain(module, function)) {}

  Result<FunctionStorage> run() {
    out_.bases.resize(live_.origins.size());
    out_.tensor_bytes_by_scope.assign(module_.types.scope_count(), 0);
    parameters();
    results();
    CUGRT_TRY(count_tensors());
    for (uint32_t o = 0; o < live_.origins.size(); ++o)
      CUGRT_TRY(place(o));
    CUGRT_TRY(workspaces());
    CUGRT_TRY(swaps());
    gaps();
    out_.in_place = laid_in_place(module_, function_, live_);
    return std::move(out_);
  }

private:
  const ir::Type &type_of(ir::ValueId value) const {
    return module_.types[function_.value(value).type];
  }
  bool is_state(uint32_t scope) const { return module_.types.scope_name(scope) == ir::kStateScope; }

  void parameters() {
    for (uint32_t o = 0; o < live_.origins.size(); ++o) {
      const Origin &origin = live_.origins[o];
      if (origin.kind != OriginKind::parameter)
        continue;
      const ir::Parameter &param = function_.params[origin.index];
      if (function_.is_weight(origin.index) && !function_.is_private) {
        out_.bases[o] = {BufferBase::weight, origin.index};
        continue;
      }
      out_.bases[o] = {BufferBase::slot, uint32_t(out_.slots.size())};
      uint32_t alignment = param.alignment_bytes ? param.alignment_bytes
                                                 : natural_alignment(type_of(param.value).dtype);
      out_.slots.push_back({SlotKind::param, origin.index, param.access, {}, alignment});
    }
  }

  void results() {
    std::span<const Operand> results = function_.results_of(function_.body());
    out_.result_slot_of.assign(results.size(), kNone);
    for (uint32_t i = 0; i < results.size(); ++i) {
      if (results[i].kind != Operand::Kind::value ||
          summary_.results[i].kind != FunctionSummary::SourceKind::fresh)
        continue;
      ir::ValueId value = results[i].value();
      uint32_t origin = live_.origin(value);
      if (origin == kNoOrigin || !type_of(value).known_shape)
        continue;
      out_.result_slot_of[i] = uint32_t(out_.slots.size());
      if (live_.whole[value.index] && may_lie_in_slot(live_.origins[origin]))
        out_.bases[origin] = {BufferBase::slot, uint32_t(out_.slots.size())};
      out_.slots.push_back({SlotKind::result, i, Access::out, {}, kResultAlignment});
    }
  }

  /// Storages are shared by their tensors, so a tensor of one is copied out instead.
  static bool may_lie_in_slot(const Origin &origin) { return origin.kind != OriginKind::tensor; }

  Status count_tensors() {
    TypeSizes sizes(module_, bounds_);
    for (const Origin &origin : live_.origins) {
      if (origin.kind != OriginKind::tensor)
        continue;
      const ir::TypeId type = function_.value(origin.value).type;
      auto bytes = sizes.max_bytes(type);
      if (!bytes)
        continue; // has no place in its storage: an error where its buffer is made
      int64_t &of_scope = out_.tensor_bytes_by_scope[module_.types[type].scope];
      auto sum = checked_add(of_scope, *bytes);
      if (!sum)
        return overflow();
      of_scope = *sum;
    }
    return {};
  }

  Status place(uint32_t o) {
    const Origin &origin = live_.origins[o];
    switch (origin.kind) {
    case OriginKind::parameter:
      return {};
    case OriginKind::constant:
      out_.bases[o] = {BufferBase::constant, origin.index};
      return {};
    case OriginKind::tensor:
      out_.bases[o] = out_.bases[origin.parent];
      return {};
    case OriginKind::storage: {
      const ir::Type &type = type_of(origin.value);
      auto bytes = upper_bound(module_.exprs, type.dims[0], bounds_);
      if (!bytes)
        return located(Code::verify_error, function_, function_.value(origin.value).location,
                       "storage %" + function_.value(origin.value).name + " cannot be sized: " +
                           missing_bound(module_.exprs, type.dims, function_, bounds_));
      return add_class(o, type.scope, *bytes, origin.begin, origin.end, origin.defined);
    }
    case OriginKind::alloc:
    case OriginKind::host_result:
    case OriginKind::call_result:
    case OriginKind::branch_result:
    case OriginKind::carried:
      break;
    }
    if (out_.bases[o].kind == BufferBase::slot)
      return {};
    const ir::Type &type = type_of(origin.value);
    auto bytes = max_tensor_bytes(module_.exprs, type, bounds_);
    if (origin.kind == OriginKind::alloc || !bytes) {
      out_.bases[o] = {BufferBase::dynamic, out_.dynamic_count++};
      return {};
    }
    auto sum = checked_add(out_.tensor_bytes_by_scope[type.scope], *bytes);
    if (!sum)
      return overflow();
    out_.tensor_bytes_by_scope[type.scope] = *sum;
    return add_class(o, type.scope, *bytes, origin.begin, origin.end, origin.defined);
  }

  Status overflow() const {
    return located(Code::out_of_range, function_, function_.location,
                   "the tensors' sizes add up to more than 2^63 bytes; lower the upper bounds of "
                   "their symbols");
  }

  Status add_class(uint32_t origin, uint32_t scope, int64_t bytes, uint32_t begin, uint32_t end,
                   uint32_t defined) {
    if (begin >= end) { // never used
      begin = defined;
      end = defined + 1;
    }
    if (is_state(scope)) {
      begin = 0;
      end = live_.end_time + 1;
    }
    auto sum = checked_add(out_.storage_bytes, bytes);
    if (!sum)
      return overflow();
    out_.storage_bytes = *sum;
    if (origin == kNoOrigin) { // workspaces and temporaries count as tensors
      auto tensors = checked_add(out_.tensor_bytes_by_scope[scope], bytes);
      if (!tensors)
        return overflow();
      out_.tensor_bytes_by_scope[scope] = *tensors;
    }
    if (origin != kNoOrigin)
      out_.bases[origin] = {BufferBase::arena, uint32_t(out_.classes.size())};
    out_.classes.push_back({origin, scope, {begin, end, bytes, kArenaAlignment}, 0});
    return {};
  }

  Status workspaces() {
    for (uint32_t block = 0; block < function_.blocks.size(); ++block)
      for (uint32_t i = 0; i < function_.blocks[block].bindings.size(); ++i) {
        const Binding &b = function_.blocks[block].bindings[i];
        if (b.kind != BindingKind::launch || !has_workspace(module_.kernels[b.callee]))
          continue;
        auto bytes = max_workspace_bytes(module_, function_, b, bounds_);
        if (!bytes)
          return located(Code::verify_error, function_, b.location,
                         "the workspace of kernel @" + module_.kernels[b.callee].name +
                             " cannot be sized: " + missing_workspace_bound(b));
        uint32_t time = live_.time_of(block, i);
        out_.workspaces.push_back({time, uint32_t(out_.classes.size())});
        CUGRT_TRY(add_class(kNoOrigin, 0, *bytes, time, time + 1, time));
      }
    std::sort(out_.workspaces.begin(), out_.workspaces.end());
    return {};
  }

  static bool has_workspace(const ir::Kernel &kernel) {
    return std::any_of(kernel.variants.begin(), kernel.variants.end(),
                       [](const ir::KernelVariant &v) { return v.workspace_bytes.valid(); });
  }

  /// A loop whose body yields one carried value in place of another copies through temporaries.
  Status swaps() {
    for (const ir::Block &block : function_.blocks)
      for (const Binding &b : block.bindings) {
        if (b.kind != BindingKind::while_)
          continue;
        uint32_t body = b.blocks.end() - 1;
        std::span<const Operand> yields = function_.results_of(function_.blocks[body]);
        for (uint32_t i = 0; i < b.carried_count; ++i) {
          if (!needs_temporary(function_, live_, b, yields[i], i))
            continue;
          const ir::Type &type = type_of(b.result(i));
          auto bytes = max_tensor_bytes(module_.exprs, type, bounds_);
          if (!bytes)
            return located(Code::verify_error, function_, b.location,
                           "%" + function_.value(b.result(i)).name +
                               " changes places with another carried value and cannot be sized: " +
                               missing_bound(module_.exprs, type.dims, function_, bounds_));
          uint32_t end = live_.blocks[body].end;
          out_.swaps.push_back({b.result(i).index, uint32_t(out_.classes.size())});
          CUGRT_TRY(add_class(kNoOrigin, type.scope, *bytes, end - 1, end, end - 1));
        }
      }
    std::sort(out_.swaps.begin(), out_.swaps.end());
    return {};
  }

  /// Nothing could lie in the gaps of a storage that stands alone.
  void gaps() {
    if (out_.classes.size() < 2)
      return;
    for (const LifeGap &gap : storage_gaps(live_))
      if (!is_state(out_.classes[out_.bases[gap.origin].index].scope))
        out_.gaps.push_back({out_.bases[gap.origin].index, gap.begin, gap.end});
    std::sort(out_.gaps.begin(), out_.gaps.end(), [](const PackingGap &a, const PackingGap &b) {
      return std::pair(a.item, a.begin) < std::pair(b.item, b.begin);
    });
  }

  std::string missing_workspace_bound(const Binding &launch) const {
    std::vector<ir::ExprId> sizes;
    for (const Operand &operand : function_.operands_of(launch))
      if (operand.kind == Operand::Kind::expr)
        sizes.push_back(operand.expr());
    return missing_bound(module_.exprs, sizes, function_, bounds_);
  }

  const ir::Module &module_;
  const ir::Function &function_;
  const Liveness &live_;
  const FunctionSummary &summary_;
  const ir::SymbolDomain bounds_;
  FunctionStorage out_;
};

} // namespace

Status check_weights(const ir::Module &module) {
  for (const ir::Function &function : module.functions)
    for (const ir::Block &block : function.blocks)
      for (const Binding &b : block.bindings) {
        if (b.kind != BindingKind::call)
          continue;
        const ir::Function &callee = module.functions[b.callee];
        if (!callee.is_private && callee.num_inputs < callee.params.size())
          return located(Code::verify_error, function, b.location,
                         "@" + callee.name +
                             " has weights, which a call cannot bind; make it "
                             "private, so that its weights are operands");
      }
  return {};
}

Result<ModuleStorage> plan_storage(const ir::Module &module, Reuse reuse) {
  ModuleStorage out;
  CUGRT_ASSIGN(out.order, callees_first(module));
  out.summaries.resize(module.functions.size());
  out.liveness.resize(module.functions.size());
  out.functions.resize(module.functions.size());
  for (uint32_t f : out.order) {
    const ir::Function &function = module.functions[f];
    CUGRT_ASSIGN(out.liveness[f], analyze_liveness(module, function, out.summaries));
    out.summaries[f] = summarize(function, out.liveness[f]);
    CUGRT_ASSIGN(out.functions[f],
                 Placement(module, function, out.liveness[f], out.summaries[f]).run());
    CUGRT_TRY(fill_shares(module, function, out.liveness[f], reuse, out.functions[f]));
  }
  CUGRT_TRY(lay_out_shares(module, out));
  return out;
}

} // namespace cugrt::plan
