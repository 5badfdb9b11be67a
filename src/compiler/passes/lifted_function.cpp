// Builds lifted functions. Symbols get new numbers, in the order of the shape argument; bindings
// are copied with that substitution. Kills of storages are left out: lifted storages live as long
// as the session.
#include "compiler/passes/lifted_function.h"

#include "base/check.h"
#include "compiler/ir_names.h"
#include "ir/module/builder.h"
#include "ir/module/infer.h"
#include "ir/module/module.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

namespace cugrt::passes {

namespace {

/// For each lifted function and input, the bytes of the smallest storage that any call passes.
std::vector<std::vector<int64_t>> least_storages(const ir::Module &source,
                                                 const plan::PublishedAnalysis &analysis) {
  std::vector<std::vector<int64_t>> least(analysis.lifted.size());
  for (uint32_t f = 0; f < source.functions.size(); ++f)
    for (const plan::PublishedRegion &region : analysis.functions[f].regions) {
      std::vector<int64_t> &list = least[region.lifted];
      list.resize(region.inputs.size(), INT64_MAX);
      for (size_t i = 0; i < list.size(); ++i) {
        const ir::Type &type = source.types[source.functions[f].value(region.inputs[i]).type];
        if (type.kind == ir::TypeKind::storage) // a static one has a constant size
          list[i] = std::min(list[i], *source.exprs.as_constant(type.dims[0]));
      }
    }
  return least;
}

/// Lifts regions of one function. Tables by value are set where a region defines or takes a value,
/// before anything reads them, so they serve one region after the other.
class Lifter {
public:
  Lifter(const ir::Module &source, const ir::Function &function, ir::Module &target)
      : source_(source), function_(function), target_(target),
        bindings_(plan::bindings_in_order(function)), returned_(source, function),
        symbols_(function.symbols.size()), values_(function.values.size()),
        root_(function.values.size()), written_(function.values.size()) {}

  Result<ir::Function> run(const plan::PublishedRegion &region, const std::string &name,
                           std::span<const int64_t> storage_bytes) {
    region_ = &region;
    builder_.emplace(target_, name);
    reserve(region);
    builder_->function().is_private = true;
    builder_->function().location = bindings_[region.bindings.front()]->location;
    CUGRT_TRY(symbols());
    params(storage_bytes);
    for (uint32_t number : region.bindings)
      binding(*bindings_[number]);
    std::vector<Operand> results;
    for (ValueId output : returned_.of(region)) {
      Operand result = Operand::of(values_[output.index]);
      results.push_back(result);
      builder_->function().result_types.push_back(
          ir::operand_type(target_, builder_->function(), result));
    }
    return builder_->finish(results, bindings_[region.bindings.back()]->location);
  }

private:
  void reserve(const plan::PublishedRegion &region) {
    size_t operands = 0, values = region.inputs.size() + 1;
    for (uint32_t number : region.bindings) {
      operands += bindings_[number]->operands.count;
      values += bindings_[number]->result_count;
    }
    builder_->reserve(values, operands + values, region.bindings.size());
  }

  Status symbols() {
    if (region_->symbols.size() > ir::kMaxRank)
      return ir::located(
          Code::unsupported, function_, bindings_[region_->bindings.front()]->location,
          "the region that begins here depends on " + std::to_string(region_->symbols.size()) +
              " symbols, its key is a shape of at most " + std::to_string(ir::kMaxRank) +
              "; take some out of capture_symbols, or give them constant values");
    std::fill(symbols_.begin(), symbols_.end(), ir::ExprId());
    const ir::SymbolDomain domain = function_.symbol_domain(target_.exprs);
    for (ir::SymbolId id : region_->symbols) {
      ir::Symbol symbol;
      symbol.name = function_.symbols[id.index].name;
      symbol.bounds = domain[id.index]; // what constraints say of it alone, too
      symbols_[id.index] = target_.exprs.symbol(builder_->symbol(std::move(symbol)));
    }
    for (const ir::Constraint &constraint : function_.constraints)
      if (ir::is_over(target_.exprs, constraint, region_->symbols))
        builder_->function().constraints.push_back(
            {expr(constraint.expr), constraint.most, constraint.location});
    return {};
  }

  TypeId type(TypeId id) {
    if (region_->symbols.empty()) // then no type depends on one
      return id;
    TypeId mapped = ir::substitute_type(target_, id, symbols_);
    CUGRT_CHECK(mapped.valid()); // every symbol of a region is in its key
    return mapped;
  }

  ir::ExprId expr(ir::ExprId id) {
    return target_.exprs.as_constant(id) ? id : target_.exprs.substitute(id, symbols_);
  }

  bool is_kind(ValueId value, ir::TypeKind kind) const {
    return source_.types[function_.value(value).type].kind == kind;
  }

  void params(std::span<const int64_t> storage_bytes) {
    find_written();
    std::vector<std::pair<ValueId, TypeId>> strided;
    for (size_t i = 0; i < region_->inputs.size(); ++i) {
      ValueId input = region_->inputs[i];
      const ir::Value &value = function_.value(input);
      const ir::Type &source_type = source_.types[value.type];
      TypeId t =
          source_type.kind == ir::TypeKind::storage
              ? target_.types.storage(source_type.scope, target_.exprs.constant(storage_bytes[i]))
              : type(value.type);
      bool writes = written_[input.index] && source_type.kind == ir::TypeKind::tensor;
      const TypeId around = bytes_around(ir::Type(target_.types[t]), target_);
      if (around.valid())
        strided.emplace_back(input, t);
      values_[input.index] = builder_->param(
          around.valid() ? value.name + "_bytes" : value.name, around.valid() ? around : t,
          writes ? ir::Access::inout : ir::Access::in, 0, value.location);
    }
    if (!region_->symbols.empty()) {
      std::vector<ir::ExprId> dims;
      for (ir::SymbolId id : region_->symbols)
        dims.push_back(symbols_[id.index]);
      builder_->param("shape_expr", target_.types.shape(std::move(dims)));
    }
    for (auto [input, t] : strided)
      values_[input.index] = view(values_[input.index], function_.value(input), t);
  }

  ValueId view(ValueId bytes, const ir::Value &value, TypeId t) {
    const Operand operand = Operand::of(bytes);
    const ir::ExprId zero = target_.exprs.constant(0);
    Binding made{};
    made.kind = BindingKind::view;
    made.location = value.location;
    return builder_->bind(made, std::span(&operand, 1), std::span(&zero, 1), {},
                          std::span(&value.name, 1), std::span(&t, 1));
  }

  /// Which inputs a launch of the region writes, through whatever name.
  void find_written() {
    for (ValueId input : region_->inputs) {
      root_[input.index] = input;
      written_[input.index] = false;
    }
    for (uint32_t number : region_->bindings) {
      const Binding &b = *bindings_[number];
      std::span<const Operand> operands = function_.operands_of(b);
      bool names = b.kind == BindingKind::alias || b.kind == BindingKind::view;
      for (uint32_t i = 0; i < b.result_count; ++i)
        root_[b.result(i).index] = names ? root_[operands[0].index] : b.result(i);
      if (b.kind != BindingKind::launch)
        continue;
      for (size_t i = 0; i < operands.size(); ++i)
        if (const ir::KernelParam &p = source_.kernels[b.callee].params[i];
            operands[i].kind == Operand::Kind::value && p.kind == ir::KernelParamKind::tensor &&
            ir::writes(p.access))
          written_[root_[operands[i].index].index] = true;
    }
  }

  void binding(const Binding &b) {
    std::span<const Operand> operands = function_.operands_of(b);
    if (b.kind == BindingKind::kill && is_kind(operands[0].value(), ir::TypeKind::storage))
      return;
    operands_.clear();
    for (const Operand &operand : operands)
      operands_.push_back(operand.kind == Operand::Kind::value ? Operand::of(values_[operand.index])
                          : operand.kind == Operand::Kind::expr ? Operand::of(expr(operand.expr()))
                                                                : operand);
    exprs_.clear();
    for (ir::ExprId e : function_.exprs_of(b))
      exprs_.push_back(expr(e));
    names_.resize(b.result_count);
    types_.resize(b.result_count);
    for (uint32_t i = 0; i < b.result_count; ++i) {
      names_[i] = function_.value(b.result(i)).name;
      types_[i] = result_type(b, operands_, i);
    }
    Binding copied = b;
    copied.call_site = UINT32_MAX; // calls that were inlined are the source function's
    ValueId first =
        builder_->bind(copied, operands_, exprs_, function_.attributes_of(b), names_, types_);
    for (uint32_t i = 0; i < b.result_count; ++i)
      values_[b.result(i).index] = {first.index + i};
  }

  /// Storages have other sizes here, and so have names and tuples of them.
  TypeId result_type(const Binding &b, const std::vector<Operand> &mapped, uint32_t i) {
    auto operand_type = [&](const Operand &operand) {
      return ir::operand_type(target_, builder_->function(), operand);
    };
    if (b.kind == BindingKind::alias)
      return operand_type(mapped[0]);
    if (b.kind == BindingKind::tuple_element) {
      const ir::Type tuple = target_.types[operand_type(mapped[0])];
      return tuple.fields[size_t(*target_.exprs.as_constant(function_.exprs_of(b)[0]))];
    }
    if (b.kind == BindingKind::tuple) {
      std::vector<TypeId> fields;
      for (const Operand &operand : mapped)
        fields.push_back(operand_type(operand));
      return target_.types.tuple(std::move(fields));
    }
    return type(function_.value(b.result(i)).type);
  }

  const ir::Module &source_;
  const ir::Function &function_;
  ir::Module &target_;
  const std::vector<const Binding *> bindings_; // by number
  const ReturnedValues returned_;
  const plan::PublishedRegion *region_ = nullptr;
  std::optional<ir::FunctionBuilder> builder_; // of the function that is built
  std::vector<ir::ExprId> symbols_;            // by symbol of the source function
  std::vector<ValueId> values_;                // by value of the source function
  std::vector<ValueId> root_;                  // likewise: what an alias or view names
  std::vector<bool> written_;                  // by root
  // Operands of the binding that is copied.
  std::vector<Operand> operands_;
  std::vector<ir::ExprId> exprs_;
  std::vector<std::string> names_;
  std::vector<TypeId> types_;
};

} // namespace

ReturnedValues::ReturnedValues(const ir::Module &module, const ir::Function &function)
    : module_(module), function_(function), bindings_(plan::bindings_in_order(function)),
      defined_by_(function.values.size(), UINT32_MAX) {
  for (uint32_t number = 0; number < bindings_.size(); ++number)
    for (uint32_t i = 0; i < bindings_[number]->result_count; ++i)
      defined_by_[bindings_[number]->result(i).index] = number;
}

const Binding *ReturnedValues::remade(const plan::PublishedRegion &region, ValueId value) const {
  if (module_.types[function_.value(value).type].kind != ir::TypeKind::tuple)
    return nullptr;
  const uint32_t number = defined_by_[value.index];
  if (!std::binary_search(region.bindings.begin(), region.bindings.end(), number))
    return nullptr;
  const BindingKind kind = bindings_[number]->kind; // an extern is not repeated
  return kind == BindingKind::tuple || kind == BindingKind::alias ||
                 kind == BindingKind::tuple_element
             ? bindings_[number]
             : nullptr;
}

std::vector<ValueId> ReturnedValues::of(const plan::PublishedRegion &region) const {
  std::vector<ValueId> list;
  std::unordered_set<uint32_t> seen;
  auto add = [&](auto &self, ValueId value) -> void {
    const uint32_t number = defined_by_[value.index];
    if (!std::binary_search(region.bindings.begin(), region.bindings.end(), number) ||
        !seen.insert(value.index).second)
      return; // from outside: the caller has it
    const Binding *tuple = remade(region, value);
    if (!tuple)
      return list.push_back(value);
    for (const Operand &operand : function_.operands_of(*tuple))
      if (operand.kind == Operand::Kind::value)
        self(self, operand.value());
  };
  for (ValueId output : region.outputs)
    add(add, output);
  return list;
}

Result<std::vector<ir::Function>> build_lifted_functions(const ir::Module &source,
                                                         const plan::PublishedAnalysis &analysis,
                                                         ir::Module &target) {
  std::vector<std::vector<int64_t>> storage_bytes = least_storages(source, analysis);
  std::vector<ir::Function> functions;
  std::optional<Lifter> lifter; // of the function that the last region was of
  for (uint32_t l = 0; l < analysis.lifted.size(); ++l) {
    const plan::PublishedLifted &lifted = analysis.lifted[l];
    if (l == 0 || lifted.function != analysis.lifted[l - 1].function)
      lifter.emplace(source, source.functions[lifted.function], target);
    CUGRT_ASSIGN(ir::Function function,
                 lifter->run(analysis.functions[lifted.function].regions[lifted.region],
                             lifted.name, storage_bytes[l]));
    functions.push_back(std::move(function));
  }
  return functions;
}

ir::TypeId bytes_around(const ir::Type &input, ir::Module &target) {
  if (input.kind != ir::TypeKind::tensor || input.strides.empty())
    return {};
  ir::Type bytes;
  bytes.kind = ir::TypeKind::tensor;
  bytes.dtype = ir::DType::u8;
  bytes.scope = input.scope;
  bytes.known_shape = true;
  bytes.dims = {ir::tensor_bytes(target.exprs, input)};
  return target.types.intern(std::move(bytes));
}

ir::TypeId merged_type(const plan::MergedStorage &merged, ir::Module &target) {
  return target.types.storage(merged.scope, target.exprs.constant(merged.bytes));
}

ir::Function build_allocation(const ir::Module &source, const plan::PublishedAnalysis &analysis,
                              ir::Module &target) {
  ir::FunctionBuilder builder(target, analysis.allocation_name);
  builder.function().is_private = true;
  std::vector<Operand> results;
  for (const plan::MergedStorage &merged : analysis.merged) {
    const ir::Function &survivor = source.functions[merged.function];
    const plan::PublishedStorage &storage =
        analysis.functions[merged.function].storages[merged.storage];
    results.push_back(Operand::of(builder.alloc_storage(survivor.value(storage.value).name,
                                                        target.types.scope_name(merged.scope),
                                                        target.exprs.constant(merged.bytes))));
    builder.function().result_types.push_back(merged_type(merged, target));
  }
  return builder.finish(results);
}

} // namespace cugrt::passes
