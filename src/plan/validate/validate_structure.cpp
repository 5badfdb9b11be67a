// Structure of plans. After this check a plan may be walked without further care for its indices.
#include "plan/validate/validate_parts.h"

#include <algorithm>
#include <set>

namespace cugrt::plan {
namespace {

bool power_of_two(uint64_t n) { return n != 0 && (n & (n - 1)) == 0; }

class FunctionCheck {
public:
  /// `checked[e]` is `mark` for expressions that were found right for this function.
  FunctionCheck(const Plan &plan, const Function &function, std::vector<uint32_t> &checked,
                uint32_t mark)
      : plan_(plan), f_(function), checked_(checked), mark_(mark) {}

  Status run() {
    CUGRT_TRY(signature());
    CUGRT_TRY(host_values());
    CUGRT_TRY(buffers());
    CUGRT_TRY(arguments());
    CUGRT_TRY(steps());
    CUGRT_TRY(regions());
    CUGRT_TRY(lists());
    step_runs_.assign(f_.steps.size(), 0);
    block_runs_.assign(f_.blocks.size(), 0);
    if (f_.blocks.empty())
      return fail("has no body");
    CUGRT_TRY(block(0, 0));
    if (std::any_of(step_runs_.begin(), step_runs_.end(), [](uint8_t n) { return n != 1; }))
      return fail("a step is not run exactly once");
    if (std::any_of(block_runs_.begin(), block_runs_.end(), [](uint8_t n) { return n != 1; }))
      return fail("a block is not run from exactly one place");
    return {};
  }

private:
  Status fail(const std::string &what) const { return plan_error(f_, what); }

  /// An expression over the function's symbols.
  Status expr(ExprId id, bool optional = false) {
    if (!id.valid() && optional)
      return {};
    if (id.index >= plan_.exprs.size())
      return fail("an expression does not exist");
    if (checked_[id.index] == mark_)
      return {};
    std::vector<SymbolId> symbols;
    plan_.exprs.collect_symbols(id, symbols);
    for (SymbolId symbol : symbols)
      if (symbol.index >= f_.symbols.size())
        return fail("an expression has a symbol that is not the function's");
    checked_[id.index] = mark_;
    return {};
  }
  Status exprs(const std::vector<ExprId> &ids) {
    for (ExprId id : ids)
      CUGRT_TRY(expr(id));
    return {};
  }
  /// At most as many as values of the public API have room for.
  Status dims(const std::vector<ExprId> &ids, const std::string &of) {
    if (ids.size() > ir::kMaxRank)
      return fail(of + " has more than " + std::to_string(ir::kMaxRank) + " dimensions");
    return exprs(ids);
  }
  template <class T> Status index(uint32_t i, const std::vector<T> &table, const char *what) const {
    return i < table.size() ? Status() : fail(std::string(what) + " does not exist");
  }
  template <class T> Status range(Range r, const std::vector<T> &table, const char *what) const {
    return r.begin <= table.size() && r.count <= table.size() - r.begin
               ? Status()
               : fail(std::string(what) + " do not exist");
  }

  Status signature() {
    for (const Symbol &symbol : f_.symbols)
      if (symbol.bounds.lower > symbol.bounds.upper)
        return fail("symbol " + symbol.name + " has contradictory bounds");
    for (const Constraint &constraint : f_.constraints)
      CUGRT_TRY(expr(constraint.expr));
    CUGRT_TRY(validate_symbols(plan_, f_));
    for (const Param &param : f_.params) {
      CUGRT_TRY(dims(param.dims, "parameter %" + param.name));
      bool tensor = param.kind == ParamKind::tensor;
      if (!power_of_two(param.alignment_bytes))
        return fail("parameter %" + param.name + " has no alignment");
      if (tensor != (param.slot != kNone) ||
          (param.kind == ParamKind::scalar) != (param.host_value != kNone))
        return fail("parameter %" + param.name + " has no slot or host value, or one too many");
      if (param.slot != kNone)
        CUGRT_TRY(index(param.slot, f_.slots, "a slot"));
      if (param.host_value != kNone)
        CUGRT_TRY(index(param.host_value, f_.host_values, "a host value"));
    }
    for (uint32_t s = 0; s < f_.slots.size(); ++s) {
      const Slot &slot = f_.slots[s];
      CUGRT_TRY(expr(slot.bytes, true));
      if (!power_of_two(slot.alignment_bytes))
        return fail("a slot has no alignment");
      if (slot.kind == SlotKind::param) {
        CUGRT_TRY(index(slot.index, f_.params, "a slot's parameter"));
        if (f_.params[slot.index].slot != s)
          return fail("a slot is not its parameter's");
      } else {
        CUGRT_TRY(index(slot.index, f_.results, "a slot's result"));
      }
    }
    for (const FunctionResult &result : f_.results) {
      if ((result.buffer == kNone) == (result.host_value == kNone))
        return fail("a result is not one of a buffer and a host value");
      if (result.buffer != kNone)
        CUGRT_TRY(index(result.buffer, f_.buffers, "a result's buffer"));
      else
        CUGRT_TRY(index(result.host_value, f_.host_values, "a result's host value"));
    }
    return {};
  }

  Status host_values() {
    for (const HostValue &value : f_.host_values) {
      if (value.kind == HostValueKind::param)
        CUGRT_TRY(index(value.index, f_.params, "a host value's parameter"));
      if (value.kind == HostValueKind::expr)
        CUGRT_TRY(expr({value.index}));
    }
    return {};
  }

  Status buffers() {
    for (const Buffer &buffer : f_.buffers) {
      switch (buffer.base) {
      case BufferBase::arena:
        CUGRT_TRY(index(buffer.index, plan_.arenas, "an arena"));
        break;
      case BufferBase::slot:
        CUGRT_TRY(index(buffer.index, f_.slots, "a slot"));
        break;
      case BufferBase::weight:
        CUGRT_TRY(index(buffer.index, f_.params, "a weight"));
        if (f_.params[buffer.index].kind != ParamKind::weight)
          return fail("buffer %" + buffer.name + " is of a parameter that is no weight");
        break;
      case BufferBase::constant:
        CUGRT_TRY(index(buffer.index, plan_.constants, "a constant"));
        break;
      case BufferBase::dynamic:
        if (buffer.index >= f_.dynamic_count)
          return fail("an allocation does not exist");
        break;
      }
      CUGRT_TRY(expr(buffer.offset_bytes));
      CUGRT_TRY(expr(buffer.bytes, true));
      CUGRT_TRY(dims(buffer.dims, "buffer %" + buffer.name));
      CUGRT_TRY(exprs(buffer.strides));
      if (!buffer.strides.empty() && buffer.strides.size() != buffer.dims.size())
        return fail("buffer %" + buffer.name + " has another number of strides than dimensions");
    }
    return {};
  }

  Status arguments() {
    for (const Argument &argument : f_.arguments) {
      if (argument.names_buffer())
        CUGRT_TRY(index(argument.index, f_.buffers, "an argument's buffer"));
      if (argument.kind == ArgumentKind::checked_symbol)
        CUGRT_TRY(validate_checked_symbol(plan_, f_, argument));
      else if (argument.kind == ArgumentKind::expr)
        CUGRT_TRY(expr({argument.index}));
      else if (argument.kind == ArgumentKind::host_value)
        CUGRT_TRY(index(argument.index, f_.host_values, "an argument's host value"));
    }
    for (const LaunchRule &rule : f_.launches) {
      CUGRT_TRY(expr(rule.predicate, true));
      CUGRT_TRY(expr(rule.shared_bytes, true));
      for (size_t d = 0; d < 3; ++d) {
        CUGRT_TRY(expr(rule.grid[d]));
        CUGRT_TRY(expr(rule.block[d]));
      }
      if (rule.workspace != kNone)
        CUGRT_TRY(index(rule.workspace, f_.buffers, "a workspace"));
    }
    for (const BufferAccess &access : f_.accesses)
      CUGRT_TRY(index(access.buffer, f_.buffers, "an access's buffer"));
    return {};
  }

  Status steps() {
    uint32_t arguments = 0, launches = 0, accesses = 0;
    for (const Step &step : f_.steps) {
      if (step.arguments.begin != arguments || step.launches.begin != launches ||
          step.accesses.begin != accesses)
        return fail("the arguments, launch rules or accesses of steps do not follow one another");
      arguments = step.arguments.end();
      launches = step.launches.end();
      accesses = step.accesses.end();
      CUGRT_TRY(range(step.arguments, f_.arguments, "a step's arguments"));
      CUGRT_TRY(range(step.launches, f_.launches, "a step's launch rules"));
      CUGRT_TRY(range(step.accesses, f_.accesses, "a step's accesses"));
      CUGRT_TRY(expr(step.when, true));
      if (step.kind == StepKind::kernel) {
        CUGRT_TRY(index(step.kernel, plan_.kernels, "a step's kernel"));
        CUGRT_TRY(kernel_step(step, plan_.kernels[step.kernel]));
        continue;
      }
      if (step.kind == StepKind::conditional || step.kind == StepKind::set_condition) {
        CUGRT_TRY(condition_step(step));
        continue;
      }
      uint32_t count = step.kind == StepKind::copy ? 2 : step.kind == StepKind::fill ? 1 : 0;
      if (step.accesses.count != count || step.arguments.count || step.launches.count)
        return fail("step '" + step.name + "' has arguments or accesses that its kind has not");
      for (uint32_t i = 0; i < count; ++i) {
        const BufferAccess &access = f_.accesses[step.accesses.begin + i];
        if (access.access != (i == 0 ? Access::out : Access::in) ||
            !f_.buffers[access.buffer].bytes.valid())
          return fail("step '" + step.name + "' copies or fills what has no size or direction");
      }
    }
    return {};
  }

  /// Checks a step that reads a condition; RegionLevelCheck checks its place.
  Status condition_step(const Step &step) const {
    CUGRT_TRY(index(step.conditional, f_.conditionals, "a step's conditional"));
    bool sets = step.kind == StepKind::set_condition;
    if (step.arguments.count || step.launches.count || step.accesses.count == 0 ||
        (sets && step.accesses.count != 1) || !ir::reads(f_.accesses[step.accesses.begin].access))
      return fail("step '" + step.name + "' does not read a condition, or does more");
    const Buffer &condition = f_.buffers[f_.accesses[step.accesses.begin].buffer];
    if (!condition.bytes.valid() ||
        plan_.exprs.as_constant(condition.bytes) !=
            std::optional<int64_t>(ir::info(condition.dtype).bytes_per_block))
      return fail("step '" + step.name + "' reads a condition that is no scalar");
    const Conditional &conditional = f_.conditionals[step.conditional];
    const bool loop = conditional.kind == ConditionalKind::while_;
    if (conditional.bodies.empty() || conditional.bodies.size() > (loop ? 1 : 2) ||
        std::count(conditional.bodies.begin(), conditional.bodies.end(), 0) || (sets && !loop))
      return fail("step '" + step.name + "' has too few bodies or too many");
    return {};
  }

  Status kernel_step(const Step &step, const Kernel &kernel) const {
    if (step.arguments.count != kernel.params.size() ||
        step.launches.count != kernel.entries.size())
      return fail("step '" + step.name + "' does not fit its kernel");
    for (size_t p = 0; p < kernel.params.size(); ++p) {
      ir::KernelParamKind kind = kernel.params[p].kind;
      bool pointer =
          kind == ir::KernelParamKind::tensor || kind == ir::KernelParamKind::device_symbol;
      const Argument &argument = f_.arguments[step.arguments.begin + p];
      if (pointer != (argument.kind == ArgumentKind::buffer))
        return fail("step '" + step.name + "' passes a value for a pointer, or the reverse");
      const bool checked = kind == ir::KernelParamKind::checked_symbol;
      if (checked != (argument.kind == ArgumentKind::checked_symbol) ||
          (checked && argument.dtype != kernel.params[p].dtype))
        return fail("step '" + step.name + "' passes another symbol than its kernel reads");
    }
    return {};
  }

  Status regions() {
    RegionLevelCheck levels(plan_, f_);
    for (const Region &region : f_.regions) {
      CUGRT_TRY(range(region.steps, f_.steps, "a region's steps"));
      if (region.steps.count == 0 || region.steps.count > kMaxRegionNodes)
        return fail("region " + region.name + " has no steps, or too many");
      for (const Edge &edge : region.edges)
        if (edge.from >= edge.to || edge.to >= region.steps.count)
          return fail("region " + region.name + " has an edge that leads backwards or out of it");
      if (!std::is_sorted(region.edges.begin(), region.edges.end()))
        return fail("region " + region.name + " has edges out of order");
      for (SymbolId symbol : region.key)
        CUGRT_TRY(index(symbol.index, f_.symbols, "a key's symbol"));
      for (uint32_t slot : region.slots)
        CUGRT_TRY(index(slot, f_.slots, "a region's slot"));
      for (uint32_t value : region.host_values)
        CUGRT_TRY(index(value, f_.host_values, "a region's host value"));
      CUGRT_TRY(levels.region(region));
    }
    return levels.conditionals();
  }

  Status lists() {
    std::vector<uint32_t> depth(f_.lists.size(), 1);
    for (uint32_t i = 0; i < f_.lists.size(); ++i)
      for (const OperandRef &element : f_.lists[i]) {
        CUGRT_TRY(operand(element));
        if (element.kind != OperandRef::Kind::list)
          continue;
        if (element.index >= i)
          return fail("a list holds one that is not made before it");
        depth[i] = std::max(depth[i], depth[element.index] + 1);
        if (depth[i] > kMaxPlanNesting)
          return fail("lists are nested too deeply");
      }
    return {};
  }

  Status operand(const OperandRef &ref) {
    switch (ref.kind) {
    case OperandRef::Kind::none:
      return {};
    case OperandRef::Kind::buffer:
      return index(ref.index, f_.buffers, "an operand's buffer");
    case OperandRef::Kind::host_value:
      return index(ref.index, f_.host_values, "a host value");
    case OperandRef::Kind::expr:
      return expr({ref.index});
    case OperandRef::Kind::string:
      return index(ref.index, f_.strings, "a string");
    case OperandRef::Kind::dtype:
      return ref.index <= uint32_t(ir::DType::iq4_nl) ? Status() : fail("a dtype does not exist");
    case OperandRef::Kind::list:
      return index(ref.index, f_.lists, "a list");
    }
    return fail("an operand has no kind");
  }
  Status operands(const std::vector<OperandRef> &refs) {
    for (const OperandRef &ref : refs)
      CUGRT_TRY(operand(ref));
    return {};
  }

  Status block(uint32_t i, uint32_t depth) {
    if (depth > kMaxPlanNesting)
      return fail("blocks are nested too deeply");
    if (block_runs_[i]++)
      return fail("a block is not run from exactly one place");
    const Block &block = f_.blocks[i];
    for (const Item &item : block.items) {
      CUGRT_TRY(operands(item.operands));
      CUGRT_TRY(operands(item.results));
      CUGRT_TRY(dims(item.dims, "an item"));
      for (SymbolId symbol : item.defines)
        CUGRT_TRY(index(symbol.index, f_.symbols, "a symbol that a match defines"));
      CUGRT_TRY(this->item(item, depth));
    }
    CUGRT_TRY(operands(block.params));
    return operands(block.results);
  }

  Status item(const Item &item, uint32_t depth) {
    using Kind = OperandRef::Kind;
    auto is = [&](size_t i, Kind kind) {
      return i < item.operands.size() && item.operands[i].kind == kind;
    };
    switch (item.kind) {
    case ItemKind::step:
      CUGRT_TRY(index(item.index, f_.steps, "a step"));
      if (f_.steps[item.index].conditional != kNone)
        return fail("a conditional stands outside of a region");
      return run(item.index);
    case ItemKind::region: {
      CUGRT_TRY(index(item.index, f_.regions, "a region"));
      Range steps = f_.regions[item.index].steps;
      for (uint32_t s = steps.begin; s < steps.end(); ++s)
        CUGRT_TRY(run(s));
      return {};
    }
    case ItemKind::allocate:
    case ItemKind::release:
      CUGRT_TRY(index(item.index, f_.buffers, "an allocation's buffer"));
      if (f_.buffers[item.index].base != BufferBase::dynamic)
        return fail("what is allocated or released is not dynamic");
      return {};
    case ItemKind::host_call:
    case ItemKind::extern_call:
      return {};
    case ItemKind::call:
      return call(item);
    case ItemKind::match:
      return item.operands.size() == 1 ? Status() : fail("a match of nothing");
    case ItemKind::read:
      return is(0, Kind::buffer) && item.dims.size() == 1 ? Status() : fail("a read of nothing");
    case ItemKind::copy_back:
      return is(0, Kind::buffer) && is(1, Kind::buffer) ? Status() : fail("a copy of no buffers");
    case ItemKind::if_:
    case ItemKind::while_:
      break;
    }
    CUGRT_TRY(range(item.blocks, f_.blocks, "an item's blocks"));
    if (item.blocks.count != 2)
      return fail("a branch or a loop has two blocks");
    for (uint32_t b = item.blocks.begin; b < item.blocks.end(); ++b)
      CUGRT_TRY(block(b, depth + 1));
    return construct(item);
  }

  Status construct(const Item &item) const {
    const Block &first = f_.blocks[item.blocks.begin], &second = f_.blocks[item.blocks.begin + 1];
    if (item.kind == ItemKind::if_)
      return item.operands.size() == 1 && first.results.size() == item.results.size() &&
                     second.results.size() == item.results.size()
                 ? Status()
                 : fail("a branch yields another number of values than it has results");
    size_t carried = item.operands.size();
    return item.results.size() == carried && first.params.size() == carried &&
                   second.params.size() == carried && second.results.size() == carried &&
                   first.results.size() == 1
               ? Status()
               : fail("a loop's blocks have another number of values than it carries");
  }

  Status call(const Item &item) const {
    CUGRT_TRY(index(item.index, plan_.functions, "a callee"));
    const Function &callee = plan_.functions[item.index];
    if (item.operands.size() != callee.params.size() ||
        item.results.size() != callee.results.size())
      return fail("the call of @" + callee.name + " does not fit it");
    for (size_t i = 0; i < callee.params.size(); ++i)
      if (callee.params[i].kind == ParamKind::weight ||
          (callee.params[i].kind == ParamKind::tensor &&
           item.operands[i].kind != OperandRef::Kind::buffer))
        return fail("the call of @" + callee.name + " passes no tensor for a slot");
    for (size_t i = 0; i < callee.results.size(); ++i)
      if ((callee.results[i].buffer != kNone) != (item.results[i].kind == OperandRef::Kind::buffer))
        return fail("the call of @" + callee.name + " takes a tensor for a host value");
    return {};
  }

  Status run(uint32_t step) { return step_runs_[step]++ ? fail("a step is run twice") : Status(); }

  const Plan &plan_;
  const Function &f_;
  std::vector<uint32_t> &checked_;
  uint32_t mark_;
  std::vector<uint8_t> step_runs_, block_runs_;
};

Status no_recursion(const Plan &plan) {
  // Functions without callees first, then those whose callees are done, and so on.
  std::vector<std::set<uint32_t>> callees(plan.functions.size());
  std::vector<std::vector<uint32_t>> callers(plan.functions.size());
  for (uint32_t f = 0; f < plan.functions.size(); ++f)
    for (const Block &block : plan.functions[f].blocks)
      for (const Item &item : block.items)
        if (item.kind == ItemKind::call && callees[f].insert(item.index).second)
          callers[item.index].push_back(f);
  std::vector<uint32_t> ready;
  for (uint32_t f = 0; f < plan.functions.size(); ++f)
    if (callees[f].empty())
      ready.push_back(f);
  size_t done = 0;
  for (; done < ready.size(); ++done)
    for (uint32_t caller : callers[ready[done]])
      if (callees[caller].erase(ready[done]) && callees[caller].empty())
        ready.push_back(caller);
  return done == plan.functions.size()
             ? Status()
             : Status::error(cugrt::Code::parse_error,
                             "plan: functions call one another in a ring");
}

Status tables(const Plan &plan) {
  auto fail = [](const std::string &what) {
    return Status::error(cugrt::Code::parse_error, "plan: " + what);
  };
  for (const Kernel &kernel : plan.kernels) {
    size_t variants = kernel.entries.size();
    if (kernel.code >= plan.codes.size())
      return fail("the code of kernel @" + kernel.name + " does not exist");
    if (variants == 0 || kernel.clusters.size() != variants ||
        kernel.cooperative.size() != variants || kernel.programmatic.size() != variants)
      return fail("the variants of kernel @" + kernel.name + " are incomplete");
    for (const KernelParam &param : kernel.params)
      for (uint32_t read : param.over)
        if (read >= kernel.params.size() || param.kind != ir::KernelParamKind::tensor ||
            kernel.params[read].kind != ir::KernelParamKind::tensor ||
            param.access != Access::out || kernel.params[read].access != Access::in)
          return fail("kernel @" + kernel.name +
                      " writes over a parameter that is none, or none that it reads");
  }
  for (const Arena &arena : plan.arenas)
    if (arena.bytes < 0 || arena.lower_bound_bytes < 0 || arena.lower_bound_bytes > arena.bytes ||
        arena.tensor_bytes < 0)
      return fail("arena " + arena.scope + " has sizes that cannot be");
  return {};
}

} // namespace

Status validate_structure(const Plan &plan) {
  CUGRT_TRY(tables(plan));
  std::vector<uint32_t> checked(plan.exprs.size(), kNone);
  for (uint32_t f = 0; f < plan.functions.size(); ++f)
    CUGRT_TRY(FunctionCheck(plan, plan.functions[f], checked, f).run());
  return no_recursion(plan);
}

} // namespace cugrt::plan
