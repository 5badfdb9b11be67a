// RewriteCudaGraph: static regions become functions, and calls that run them as one graph.
//
//   %s = alloc_storage "global", 64       %s = host "cuda_graph.get_cached_alloc"
//   %a = alloc_tensor %s, 0 : ..              (@cuda_graph_alloc, 0) : storage<"global", 64>
//   launch @first(%x, %a)                 %a = alloc_tensor %s, 0 : ..
//   %t = alloc_storage "global", 64       launch @first(%x, %a)
//   %b = alloc_tensor %t, 0 : ..          %args = tuple(%a, %t)
//   launch @middle(%a, %b)                %b = host "cuda_graph.run_or_capture"
//   %y = alloc : ..                           (@main_cuda_graph_capture, %args, 0) : ..
//   launch @last(%b, %y)                  %y = alloc : ..
//                                         launch @last(%b, %y)
//
// A lifted function's parameters are contiguous: of a tensor with strides it takes the bytes that
// it lies in, and makes the view again.
//
// compiler/planner/published/analysis.h decides on regions. The pass wants storage planned
// (PlanMemory): an unplanned allocation is fresh in each run, so nothing that touches it is static.
#include "compiler/ir_names.h"
#include "compiler/passes/all_passes.h"
#include "compiler/passes/lifted_function.h"
#include "compiler/planner/published/analysis.h"
#include "ir/module/function_cloner.h"
#include "ir/module/graph_builtins.h"
#include "ir/module/infer.h"

#include "base/check.h"

#include <algorithm>
#include <unordered_set>

namespace cugrt::passes {

namespace {

/// Rewrites one function that regions or storages are lifted from.
class Rewriter : public ir::FunctionCloner {
public:
  /// Functions of the target: `allocation`, then the lifted ones from `first_lifted` on.
  Rewriter(const ir::Module &module, const ir::Function &source,
           const plan::PublishedFunction &published, const plan::PublishedAnalysis &analysis,
           std::span<const ir::Function> lifted_functions, ir::Module &target, uint32_t allocation,
           uint32_t first_lifted)
      : FunctionCloner(source, target), published_(published), analysis_(analysis),
        lifted_functions_(lifted_functions), returned_(module, source), allocation_(allocation),
        first_lifted_(first_lifted), lifted_storage_(source.values.size()) {
    for (const plan::PublishedStorage &storage : published.storages)
      lifted_storage_[storage.value.index] = storage.lifted();
  }

protected:
  Status visit(const Binding &b) override {
    const uint32_t number = next_++;
    if (published_.allocates && number == published_.allocation)
      get_storages(b.location);
    const plan::PublishedBinding &found = published_.bindings[number];
    if (found.rule == plan::PublishedRule::names_static)
      note_storages(b);
    if (found.region != UINT32_MAX) {
      const plan::PublishedRegion &region = published_.regions[found.region];
      if (region.bindings.front() == number)
        launch(region, b.location);
      return {};
    }
    if (b.kind == BindingKind::alloc_storage && lifted_storage_[b.first_result])
      return {};
    // A lifted storage lives as long as the session: it has no kill.
    if (b.kind == BindingKind::kill && lifted_storage_[source().operands_of(b)[0].index])
      return {};
    if (b.blocks.count == 0)
      return copy(b);
    constructs_.push_back(number);
    CUGRT_TRY(copy(b));
    constructs_.pop_back();
    return {};
  }

  /// Storages that were allocated in a construct's blocks now come from outside.
  void add_captures(std::vector<Operand> &operands) override {
    // The blocks have been copied: they hold the bindings from the construct's to next_.
    auto first = std::upper_bound(
        published_.storages.begin(), published_.storages.end(), constructs_.back(),
        [](uint32_t number, const plan::PublishedStorage &s) { return number < s.binding; });
    for (; first != published_.storages.end() && first->binding < next_; ++first)
      if (first->merged != UINT32_MAX)
        operands.push_back(Operand::of(mapped(first->value)));
  }

  /// A merged storage may be larger than the storage that it stands for, and so differ in type.
  ir::TypeId result_type(const Binding &b, std::span<const Operand> operands, uint32_t i) override {
    auto type = [&](const Operand &operand) {
      return ir::operand_type(module(), builder().function(), operand);
    };
    if (b.kind == BindingKind::alias)
      return type(operands[0]);
    if (b.kind == BindingKind::tuple_element) {
      const ir::Type &tuple = module().types[type(operands[0])];
      return tuple.fields[size_t(*module().exprs.as_constant(source().exprs_of(b)[0]))];
    }
    if (b.kind != BindingKind::tuple)
      return FunctionCloner::result_type(b, operands, i);
    std::vector<ir::TypeId> fields;
    for (const Operand &operand : operands)
      fields.push_back(type(operand));
    return module().types.tuple(std::move(fields));
  }

private:
  /// A static name of a storage names a lifted one.
  void note_storages(const Binding &b) {
    for (uint32_t i = 0; i < b.result_count; ++i)
      if (type_of(b.result(i)).kind == ir::TypeKind::storage)
        lifted_storage_[b.first_result + i] = true;
  }

  ValueId host(std::string_view name, std::span<const Operand> operands,
               std::span<const std::string> hints, std::span<const ir::TypeId> types,
               SourceLocation location) {
    Binding call{};
    call.kind = BindingKind::host_call;
    call.callee = builder().callee_name(name);
    call.location = location;
    return builder().bind(call, operands, {}, {}, hints, types);
  }

  Operand constant(int64_t value) { return Operand::of(module().exprs.constant(value)); }

  void get_storages(SourceLocation location) {
    std::vector<std::string> hints(analysis_.merged.size(), "other");
    std::vector<ir::TypeId> types;
    for (const plan::MergedStorage &merged : analysis_.merged)
      types.push_back(merged_type(merged, module()));
    for (const plan::PublishedStorage &storage : published_.storages)
      if (storage.merged != UINT32_MAX)
        hints[storage.merged] = source().value(storage.value).name;
    const Operand operands[] = {Operand::of_function(allocation_), constant(0)};
    const ValueId first = host(ir::kGetCachedAlloc, operands, hints, types, location);
    for (const plan::PublishedStorage &storage : published_.storages)
      if (storage.merged != UINT32_MAX)
        map(storage.value, {first.index + storage.merged});
  }

  void launch(const plan::PublishedRegion &region, SourceLocation location) {
    std::vector<Operand> arguments;
    for (ValueId input : region.inputs)
      arguments.push_back(Operand::of(argument(input, location)));
    Operand key;
    if (!region.symbols.empty()) {
      std::vector<ir::ExprId> dims;
      for (ir::SymbolId symbol : region.symbols)
        dims.push_back(module().exprs.symbol(symbol));
      const ir::TypeId type = module().types.shape(dims);
      key = Operand::of(bind_value(BindingKind::shape, "key", {}, dims, type, location));
      arguments.push_back(key);
    }
    std::vector<Operand> operands = {Operand::of_function(first_lifted_ + region.lifted),
                                     tuple(arguments, location), constant(region.capture_index)};
    if (key.kind == Operand::Kind::value)
      operands.push_back(key);
    std::vector<ir::ExprId> symbols;
    for (ir::SymbolId symbol : region.symbols)
      symbols.push_back(module().exprs.symbol(symbol));
    std::vector<std::string> hints;
    std::vector<ir::TypeId> types;
    const std::vector<ValueId> returned = returned_.of(region);
    for (uint32_t i = 0; i < returned.size(); ++i) {
      hints.push_back(source().value(returned[i]).name);
      types.push_back(
          ir::substitute_type(module(), lifted_functions_[region.lifted].result_types[i], symbols));
    }
    const ValueId first = host(ir::kRunOrCapture, operands, hints, types, location);
    for (uint32_t i = 0; i < returned.size(); ++i)
      map(returned[i], {first.index + i});
    std::unordered_set<uint32_t> made;
    for (ValueId output : region.outputs)
      make_tuples(region, output, made);
  }

  ValueId argument(ValueId input, SourceLocation location) {
    const ir::TypeId around = bytes_around(ir::Type(type_of(input)), module());
    if (!around.valid())
      return mapped(input);
    const ir::ExprId zero = module().exprs.constant(0);
    return bind_value(BindingKind::view, source().value(input).name + "_bytes", mapped(input),
                      std::span(&zero, 1), around, location);
  }

  /// A tuple that the region made is made again, from what came back and from outside.
  void make_tuples(const plan::PublishedRegion &region, ValueId value,
                   std::unordered_set<uint32_t> &made) {
    const Binding *tuple = returned_.remade(region, value);
    if (!tuple || !made.insert(value.index).second)
      return;
    for (const Operand &operand : source().operands_of(*tuple))
      if (operand.kind == Operand::Kind::value)
        make_tuples(region, operand.value(), made);
    const Status copied = copy(*tuple);
    CUGRT_CHECK(copied.ok()); // a binding without blocks
  }

  Operand tuple(std::span<const Operand> fields, SourceLocation location) {
    std::vector<ir::TypeId> types;
    for (const Operand &field : fields)
      types.push_back(ir::operand_type(module(), builder().function(), field));
    const ir::TypeId type = module().types.tuple(std::move(types));
    Binding binding{};
    binding.kind = BindingKind::tuple;
    binding.location = location;
    const std::string hint = "args";
    return Operand::of(
        builder().bind(binding, fields, {}, {}, std::span(&hint, 1), std::span(&type, 1)));
  }

  const plan::PublishedFunction &published_;
  const plan::PublishedAnalysis &analysis_;
  const std::span<const ir::Function> lifted_functions_;
  const ReturnedValues returned_;
  const uint32_t allocation_, first_lifted_;
  std::vector<bool> lifted_storage_; // by value of the source, aliases included
  std::vector<uint32_t> constructs_; // numbers of those around
  uint32_t next_ = 0;                // the number of the next binding
};

} // namespace

Result<ir::Module> rewrite_cuda_graph(const ir::Module &module, const PassContext &context) {
  if (!context.flag("backend.use_cuda_graph"))
    return module;
  const plan::PublishedAnalysis analysis = plan::analyze_published(module);
  ir::Module target = ir::without_functions(module);
  const auto count = static_cast<uint32_t>(module.functions.size());
  const uint32_t first_lifted = count + !analysis.merged.empty();
  CUGRT_ASSIGN(std::vector<ir::Function> lifted, build_lifted_functions(module, analysis, target));
  for (uint32_t f = 0; f < count; ++f) {
    Rewriter rewriter(module, module.functions[f], analysis.functions[f], analysis, lifted, target,
                      count, first_lifted);
    CUGRT_ASSIGN(ir::Function rewritten, rewriter.run());
    target.functions.push_back(std::move(rewritten));
  }
  if (!analysis.merged.empty())
    target.functions.push_back(build_allocation(module, analysis, target));
  for (ir::Function &function : lifted)
    target.functions.push_back(std::move(function));
  return target;
}

} // namespace cugrt::passes
