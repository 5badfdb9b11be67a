// Reports a plan: its memory at given symbols, and the parts that it was made from; see
// module_report.h.
#include "library/report/module_report.h"

#include "base/diagnostics.h"
#include "compiler/passes/pass.h"
#include "compiler/planner/symbols/sizes.h"
#include "device/code/computed_weights.h"
#include "library/report/plan_report.h"

#include <algorithm>

namespace cugrt::runtime {

namespace {

/// Values for a function's symbols: those that were given, else upper bounds.
struct SymbolValues {
  std::vector<int64_t> values;
  std::vector<bool> known;
  /// The values that constraints leave to the symbols: their upper bounds are then not reached
  /// together.
  std::optional<ir::SymbolDomain> domain{};
};

Result<SymbolValues> symbol_values(const plan::Plan &plan, const plan::Function &function,
                                   std::span<const cugrt_symbol_value> given) {
  SymbolValues result;
  std::vector<ir::Interval> box;
  for (const plan::Symbol &symbol : function.symbols) {
    auto found = std::find_if(given.begin(), given.end(), [&](const cugrt_symbol_value &value) {
      return value.name == symbol.name;
    });
    bool is_given = found != given.end();
    result.values.push_back(is_given ? found->value : symbol.bounds.upper);
    result.known.push_back(is_given || symbol.bounds.upper != INT64_MAX);
    box.push_back(is_given ? ir::Interval{found->value, found->value} : symbol.bounds);
  }
  const std::vector<ir::JointLimit> limits = ir::limits_of(plan.exprs, function.constraints);
  if (!limits.empty() && !ir::tighten(box, limits))
    return Status::error(Code::out_of_range, "the values of the symbols of function @" +
                                                 function.name + " break its constraints");
  if (!limits.empty())
    for (size_t s = 0; s < box.size(); ++s) {
      result.values[s] = box[s].upper;
      result.known[s] = box[s].upper != INT64_MAX;
    }
  for (const plan::Bucket &bucket : function.buckets) {
    if (box[bucket.symbol.index].lower == box[bucket.symbol.index].upper)
      continue; // given
    const ir::Interval of = box[bucket.of.index];
    ir::Interval &bounds = box[bucket.symbol.index];
    bounds = {ir::round_up_to_bucket(bucket.sizes, of.lower),
              ir::round_up_to_bucket(bucket.sizes, of.upper)};
    result.values[bucket.symbol.index] =
        ir::round_up_to_bucket(bucket.sizes, result.values[bucket.of.index]);
  }
  if (!limits.empty())
    result.domain.emplace(std::move(box), limits);
  return result;
}

/// The expression's value, or nothing where it needs a symbol without a value.
Result<std::optional<uint64_t>> evaluate(const plan::Plan &plan, const SymbolValues &symbols,
                                         ExprId expr) {
  if (!expr.valid())
    return std::optional<uint64_t>();
  if (symbols.domain) {
    const auto most = plan::upper_bound(plan.exprs, expr, *symbols.domain);
    return most ? std::optional(static_cast<uint64_t>(*most)) : std::nullopt;
  }
  std::vector<ir::SymbolId> used;
  plan.exprs.collect_symbols(expr, used);
  for (ir::SymbolId symbol : used)
    if (!symbols.known[symbol.index])
      return std::optional<uint64_t>();
  CUGRT_ASSIGN(int64_t value, plan.exprs.evaluate(expr, symbols.values));
  return std::optional(static_cast<uint64_t>(std::max<int64_t>(value, 0)));
}

Status add(std::optional<uint64_t> &sum, const std::optional<uint64_t> &part) {
  if (!sum || !part)
    sum.reset();
  else if (__builtin_add_overflow(*sum, *part, &*sum))
    return Status::error(Code::out_of_range, "the memory needed overflows 64 bits");
  return {};
}

Result<std::optional<uint64_t>> tensor_param_bytes(const plan::Plan &plan, const plan::Param &param,
                                                   const SymbolValues &symbols) {
  if (symbols.domain) {
    ir::Type type;
    type.kind = ir::TypeKind::tensor;
    type.dtype = param.dtype;
    type.dims = param.dims;
    const auto most = plan::max_tensor_bytes(plan.exprs, type, *symbols.domain);
    return most ? std::optional(static_cast<uint64_t>(*most)) : std::nullopt;
  }
  cugrt_tensor tensor{};
  tensor.dtype = static_cast<int32_t>(param.dtype);
  tensor.rank = static_cast<uint32_t>(param.dims.size());
  for (size_t i = 0; i < param.dims.size(); ++i) {
    CUGRT_ASSIGN(std::optional<uint64_t> dim, evaluate(plan, symbols, param.dims[i]));
    if (!dim)
      return std::optional<uint64_t>();
    tensor.dims[i] = static_cast<int64_t>(*dim);
  }
  CUGRT_ASSIGN(uint64_t bytes, tensor_bytes(tensor));
  return std::optional(bytes);
}

/// The error of an overflowing size of `what`, at the largest or at the given
/// values.
Status overflows(const plan::Function &function, const std::string &what, SourceLocation location) {
  return Status::error(Code::out_of_range,
                       "in @" + function.name + ": the size of " + what +
                           " overflows 64 bits at the symbols' upper bounds; lower them")
      .at(std::to_string(location.line) + ":" + std::to_string(location.column));
}

/// The place where an unplanned tensor is allocated; unknown for results of host calls.
SourceLocation allocation_of(const plan::Function &function, uint32_t buffer) {
  for (const plan::Block &block : function.blocks)
    for (const plan::Item &item : block.items)
      if (item.kind == plan::ItemKind::allocate && item.index == buffer)
        return item.location;
  return function.location;
}

/// Adds the bytes of a function's own unplanned tensors.
Status add_unplanned(const plan::Plan &plan, const plan::Function &function,
                     const SymbolValues &symbols, std::optional<uint64_t> &sum) {
  std::vector<bool> seen(function.dynamic_count);
  for (uint32_t b = 0; b < function.buffers.size(); ++b) {
    const plan::Buffer &buffer = function.buffers[b];
    if (buffer.base != plan::BufferBase::dynamic || seen[buffer.index])
      continue;
    seen[buffer.index] = true;
    const auto bytes = evaluate(plan, symbols, buffer.bytes);
    if (!bytes.ok())
      return overflows(function, "%" + buffer.name, allocation_of(function, b));
    CUGRT_TRY(add(sum, *bytes));
  }
  return {};
}

/// The functions that a function calls, itself or through others, once each.
std::vector<const plan::Function *> callees_of(const plan::Plan &plan,
                                               const plan::Function &function) {
  std::vector<const plan::Function *> found;
  std::vector<bool> known(plan.functions.size());
  auto look = [&](const plan::Function &caller) {
    for (const plan::Block &block : caller.blocks)
      for (const plan::Item &item : block.items)
        if (item.kind == plan::ItemKind::call && !known[item.index]) {
          known[item.index] = true;
          found.push_back(&plan.functions[item.index]);
        }
  };
  look(function);
  for (size_t i = 0; i < found.size(); ++i)
    look(*found[i]);
  return found;
}

/// Bytes of the tensors that a step reads and of those that it writes, each once; 0 if one has no
/// size.
uint64_t bytes_of(const plan::Plan &plan, const plan::Function &function, const plan::Step &step,
                  const SymbolValues &symbols) {
  std::optional<uint64_t> bytes = 0;
  std::vector<std::pair<uint32_t, bool>> seen;
  for (uint32_t a = step.accesses.begin; a < step.accesses.end(); ++a) {
    const plan::BufferAccess &access = function.accesses[a];
    const auto size = evaluate(plan, symbols, function.buffers[access.buffer].bytes);
    for (const bool writes : {false, true})
      if ((writes ? ir::writes(access.access) : ir::reads(access.access)) &&
          std::find(seen.begin(), seen.end(), std::pair(access.buffer, writes)) == seen.end()) {
        seen.emplace_back(access.buffer, writes);
        if (!size.ok() || !add(bytes, *size).ok() || !bytes)
          return 0;
      }
  }
  return *bytes;
}

void find_longest(const plan::Plan &plan, const plan::Function &function,
                  const SymbolValues &symbols, MemoryRow &row) {
  for (const plan::Step &step : function.steps)
    if (step.kind == plan::StepKind::kernel)
      if (const uint64_t bytes = bytes_of(plan, function, step, symbols);
          bytes > row.longest_bytes) {
        row.longest = step.name;
        row.longest_bytes = bytes;
      }
}

/// `recipes`: null: does not list computed weights.
Result<MemoryRow> memory_of(const plan::Plan &plan, const plan::Function &function,
                            std::span<const cugrt_symbol_value> given, WeightRecipes *recipes) {
  CUGRT_ASSIGN(SymbolValues symbols, symbol_values(plan, function, given));
  MemoryRow row;
  row.function = function.name;
  row.constraints = constraint_texts(plan, function);
  for (size_t i = 0; i < function.symbols.size(); ++i)
    if (function.symbols[i].source != ir::SymbolSource::device)
      row.symbols.push_back({function.symbols[i].name,
                             symbols.known[i] ? std::optional(symbols.values[i]) : std::nullopt});
  const std::vector<bool> read = weights_read(function);
  row.of_weights =
      functions_of_weights(plan)[static_cast<size_t>(&function - plan.functions.data())];
  for (size_t i = 0; i < function.params.size(); ++i) {
    const plan::Param &param = function.params[i];
    if (param.kind != plan::ParamKind::tensor && !read[i])
      continue;
    std::optional<uint64_t> bytes;
    if (param.known_shape) {
      auto sized = tensor_param_bytes(plan, param, symbols);
      if (!sized.ok())
        return overflows(function, "parameter %" + param.name, param.location);
      bytes = *sized;
      if (const auto from = computed_weight(plan, param); bytes && from && recipes) {
        if (auto recipe = recipes->of(*from))
          row.computed_weights.push_back({param.name, *bytes, std::move(*recipe)});
      } else if (bytes && param.kind == plan::ParamKind::weight && !row.of_weights && !from) {
        row.given_weights.emplace_back(param.name, *bytes);
      }
    }
    CUGRT_TRY(add(param.kind == plan::ParamKind::weight ? row.weights : row.arguments, bytes));
  }
  for (const plan::Slot &slot : function.slots) {
    if (slot.kind != plan::SlotKind::result)
      continue;
    const auto bytes = evaluate(plan, symbols, slot.bytes);
    if (!bytes.ok())
      return overflows(function, "result " + std::to_string(slot.index), function.location);
    CUGRT_TRY(add(row.results, *bytes));
  }
  CUGRT_TRY(add_unplanned(plan, function, symbols, row.dynamic));
  find_longest(plan, function, symbols, row);
  for (const plan::Function *callee : callees_of(plan, function)) {
    CUGRT_ASSIGN(const SymbolValues of_callee, symbol_values(plan, *callee, given));
    find_longest(plan, *callee, of_callee, row);
    CUGRT_TRY(add_unplanned(plan, *callee, of_callee, row.dynamic));
  }
  for (const plan::Arena &arena : plan.arenas)
    CUGRT_TRY(add(row.arena, static_cast<uint64_t>(arena.bytes)));
  for (const auto *part : {&row.arena, &row.arguments, &row.weights, &row.results, &row.dynamic})
    CUGRT_TRY(add(row.total, *part));
  return row;
}

Status check_symbol_names(const plan::Plan &plan, std::span<const cugrt_symbol_value> given) {
  for (const cugrt_symbol_value &value : given) {
    if (!value.name)
      return Status::error(Code::invalid_argument, "a symbol's name is null");
    bool known = false;
    for (const plan::Function &function : plan.functions)
      for (const plan::Symbol &symbol : function.symbols) {
        if (symbol.name != value.name)
          continue;
        known = true;
        if (value.value < symbol.bounds.lower || value.value > symbol.bounds.upper)
          return Status::error(Code::out_of_range,
                               "symbol " + symbol.name + " of function @" + function.name +
                                   " is bounded by " + std::to_string(symbol.bounds.lower) +
                                   " and " + std::to_string(symbol.bounds.upper) + ", got " +
                                   std::to_string(value.value));
      }
    if (!known)
      return Status::error(Code::not_found,
                           std::string("no function has a symbol '") + value.name + "'");
  }
  return {};
}

KernelCounts count_kernels(const ir::Module &module) {
  KernelCounts counts;
  std::vector<bool> used(module.kernels.size());
  for (const ir::Function &function : module.functions)
    for (const ir::Block &block : function.blocks)
      for (const ir::Binding &binding : block.bindings)
        if (binding.kind == ir::BindingKind::launch) {
          counts.launches += function.num_inputs != 0; // else of weights alone: no run has it
          used[binding.callee] = true;
        }
  counts.kernels = uint32_t(std::count(used.begin(), used.end(), true));
  return counts;
}

/// At the given symbols, else at their upper bounds.
Result<std::vector<std::vector<StepOperations>>>
operations_at(const std::vector<FunctionOperations> &functions, const plan::Plan &plan,
              std::span<const cugrt_symbol_value> given) {
  std::vector<std::vector<StepOperations>> counts;
  for (size_t f = 0; f < functions.size(); ++f) {
    const plan::Function &function = plan.functions[f];
    CUGRT_ASSIGN(const SymbolValues symbols, symbol_values(plan, function, given));
    std::map<std::string, int64_t> values;
    for (size_t s = 0; s < function.symbols.size(); ++s)
      if (symbols.known[s])
        values[function.symbols[s].name] = symbols.values[s];
    counts.push_back(functions[f].at(values));
  }
  return counts;
}

/// The report that `options` ask for, of what `view` holds but its memory.
Result<std::string> show(PlanView view, const PlanReportOptions &options) {
  CUGRT_TRY(check_symbol_names(view.plan, options.symbols));
  WeightRecipes recipes(
      view.plan, options.code ? options.code : [&](uint32_t kernel) {
        const plan::CodeUnit &unit = view.plan.codes[view.plan.kernels[kernel].code];
        Digester digester;
        digester.field(uint64_t(unit.kind)).field(unit.text.empty() ? unit.name : unit.text);
        for (const std::string &option : unit.options)
          digester.field(option);
        return digester.finish();
      });
  for (const plan::Function &function : view.plan.functions) {
    if (function.is_private)
      continue;
    CUGRT_ASSIGN(MemoryRow row,
                 memory_of(view.plan, function, options.symbols,
                           options.format == CUGRT_REPORT_JSON ? &recipes : nullptr));
    view.memory.push_back(std::move(row));
  }
  switch (options.format) {
  case CUGRT_REPORT_TEXT:
    return plan_text(view);
  case CUGRT_REPORT_JSON:
    return plan_json(view);
  case CUGRT_REPORT_DOT:
    return plan_dot(view);
  case CUGRT_REPORT_SVG:
    return plan_svg(view);
  case CUGRT_REPORT_HTML:
    return plan_page(view);
  default:
    return Status::error(Code::invalid_argument,
                         "unknown report format " + std::to_string(options.format));
  }
}

} // namespace

Result<std::string> plan_report(const ir::Module &module, const std::string &name,
                                const PlanReportOptions &options) {
  plan::PlanReport report;
  std::vector<std::string> fusion;
  CUGRT_ASSIGN(const ir::Module lowered, lower(module, name, options.planning, false, &fusion));
  CUGRT_ASSIGN(const ir::Module unfused, lower(module, name, options.planning, true));
  auto plan = plan::make_plan(lowered, planner_options(options.planning), &report);
  if (!plan.ok())
    return in_source(plan.take_status(), name, options.planning.source);
  CUGRT_ASSIGN(const ir::Module used,
               passes::find_pass("EliminateDeadBindings")->run(module, passes::PassContext()));
  note_untold(module, used, *plan, report);
  std::vector<std::vector<StepOperations>> operations;
  if (options.format == CUGRT_REPORT_JSON) {
    CUGRT_TRY(check_symbol_names(*plan, options.symbols));
    CUGRT_ASSIGN(const ir::Module ops, ops_before_fusion(module, name, options.planning));
    CUGRT_ASSIGN(operations, operations_at(count_operations(ops, *plan), *plan, options.symbols));
  }
  auto shown = show({name,
                     *plan,
                     report,
                     true,
                     {},
                     count_kernels(lowered),
                     count_kernels(unfused),
                     std::move(fusion),
                     std::move(operations)},
                    options);
  if (!shown.ok() && !shown.status().location().empty())
    return in_source(shown.take_status(), name, options.planning.source);
  return shown;
}

Result<std::string> plan_report(const plan::Plan &plan, const std::string &name,
                                const PlanReportOptions &options,
                                const std::vector<FunctionOperations> &operations) {
  if (options.format == CUGRT_REPORT_SVG)
    return Status::error(Code::unsupported, "a pack does not say when its tensors are used; draw "
                                            "the storage of the module that it was made from");
  const plan::PlanReport no_notes;
  CUGRT_TRY(check_symbol_names(plan, options.symbols));
  CUGRT_ASSIGN(auto counted, operations_at(operations, plan, options.symbols));
  return show({name, plan, no_notes, false, {}, {}, {}, {}, std::move(counted)}, options);
}

} // namespace cugrt::runtime
