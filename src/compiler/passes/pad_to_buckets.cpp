// PadToBuckets: functions whose symbols have buckets run at the least bucket that holds what the
// caller brings.
//
//   func @f(%x: tensor<[n, 64], f32>)         func @f<n_bucket, n>(%x: tensor<[n, 64], f32>)
//       -> (tensor<[n, 64], f32>)                 -> (tensor<[n, 64], f32>)
//       attributes {buckets = {n = [8]}} {        attributes {.., bucket_symbols = ..} {
//     %y = relu(%x)                             %x_padded = alloc : tensor<[n_bucket, 64], f32>
//     return %y                                 launch @resize_b32(%x, %x_padded, ..)
//   }                                           %y = relu(%x_padded)
//                                               %y_cut = alloc : tensor<[n, 64], f32>
//                                               launch @resize_b32(%y, %y_cut, ..)
//                                               return %y_cut
//                                             }
//
// So the body sees the bucket alone, in every type and expression; the caller's memory is read and
// written in its own size alone. Only the launches at both ends take n, by value: the key holds the
// bucket. A launch of the module's own kernel is surrounded in the same way: the kernel gets n, and
// tensors of that size. What rows of zeros would change is refused: the symbol in weights, host
// scalars, an expression of a parameter's or result's dimension, host code that would be given
// padded tensors, conditions, and ops that would take what is added for what is there
// (padding_effects.h).
#include "compiler/ir_names.h"
#include "compiler/passes/all_passes.h"
#include "compiler/passes/padding_effects.h"
#include "ir/module/function_cloner.h"
#include "ir/module/infer.h"
#include "ir/module/module.h"
#include "ops/emit/op_emitter.h"

#include <algorithm>

namespace cugrt::passes {

namespace {

using ir::SymbolId;

/// The symbols that have buckets, but no symbol for them yet.
std::vector<SymbolId> symbols_to_pad(const ir::Function &function) {
  std::vector<SymbolId> found;
  std::vector<bool> has(function.symbols.size(), false);
  for (const ir::Symbol &symbol : function.symbols)
    if (symbol.bucket_of < has.size())
      has[symbol.bucket_of] = true;
  for (uint32_t s = 0; s < function.symbols.size(); ++s)
    if (!function.symbols[s].buckets.empty() && !has[s])
      found.push_back({s});
  return found;
}

class Padder : public ir::FunctionCloner {
public:
  Padder(const ir::Function &source, ir::Module &target, codegen::KernelTable &table)
      : FunctionCloner(source, target), table_(table), padded_(source.symbols.size()) {
    for (SymbolId symbol : symbols_to_pad(source))
      padded_[symbol.index] = true;
  }

  /// Call before run(): fails for functions that cannot be padded.
  Status check() const {
    for (size_t p = 0; p < source().params.size(); ++p) {
      const ir::Value &value = source().value(source().params[p].value);
      if (source().is_weight(p) && depends(module().types[value.type]))
        return fail(value.location, "weight %" + value.name + " cannot be padded");
      CUGRT_TRY(check_type(value.type, value.location, "parameter %" + value.name));
    }
    std::span<const ir::Operand> results = source().results_of(source().body());
    for (size_t r = 0; r < results.size(); ++r) {
      const SourceLocation end = source().body().end_location;
      const std::string what = "result " + std::to_string(r);
      if (results[r].kind == ir::Operand::Kind::expr && depends(results[r].expr()))
        return fail(end, what + " depends on a symbol that has buckets; only tensors are padded");
      if (results[r].kind == ir::Operand::Kind::value) // which says more than what is declared
        CUGRT_TRY(check_type(source().value(results[r].value()).type, end, what));
    }
    for (const ir::CountedDim &counted :
         source().counted_dims) // the count would be of padding, too
      if (depends(type_of(results[counted.result].value())))
        return fail(source().body().end_location,
                    "result " + std::to_string(counted.result) +
                        " has a dimension that the device counts, and cannot be padded");
    return {};
  }

  /// Likewise: fails if added elements would change others.
  Status check_effects(const ir::Module &whole) const {
    return check_padding_effects(whole, source(), padded_);
  }

protected:
  void copy_signature() override;
  Status enter_block(uint32_t block) override { return block == 0 ? pad_parameters() : Status(); }
  Status leave_block(uint32_t block) override { return block == 0 ? cut_results() : Status(); }
  Status visit(const ir::Binding &binding) override;

private:
  Status fail(SourceLocation location, const std::string &what) const {
    return ir::located(Code::unsupported, source(), location, what);
  }
  bool depends(ExprId expr) const {
    std::vector<SymbolId> used;
    module().exprs.collect_symbols(expr, used);
    return std::any_of(used.begin(), used.end(), [&](SymbolId s) { return padded_[s.index]; });
  }
  bool depends(const ir::Type &type) const {
    auto any = [&](const std::vector<ExprId> &list) {
      return std::any_of(list.begin(), list.end(), [&](ExprId e) { return depends(e); });
    };
    return any(type.dims) || any(type.strides) ||
           std::any_of(type.fields.begin(), type.fields.end(),
                       [&](TypeId field) { return depends(module().types[field]); });
  }
  Status check_type(TypeId id, SourceLocation location, const std::string &what) const;
  TypeId outside(TypeId id) { return ir::substitute_type(module(), id, outside_); }
  Status pad_parameters();
  Status cut_results();
  Status resize(ValueId &value, TypeId to, ValueId last, const char *suffix,
                SourceLocation location);

  codegen::KernelTable &table_;
  std::vector<bool> padded_;    // by symbol of the source
  std::vector<ExprId> outside_; // by symbol of the source: what stands for it outside of the body
};

Status Padder::check_type(TypeId id, SourceLocation location, const std::string &what) const {
  const ir::Type &type = module().types[id];
  if (!depends(type))
    return {};
  if (type.kind != ir::TypeKind::tensor)
    return fail(location, what + " depends on a symbol that has buckets; only tensors are padded");
  if (!type.strides.empty())
    return fail(location, what + " has strides and cannot be padded");
  if (ir::info(type.dtype).elements_per_block != 1)
    return fail(location, what + " cannot be padded: elements of " +
                              std::string(ir::info(type.dtype).name) + " are no whole bytes");
  for (ExprId dim : type.dims)
    if (depends(dim) && module().exprs[dim].kind != ir::ExprKind::symbol)
      return fail(location, what + " has dimension " +
                                module().exprs.to_string(dim, source().symbol_names()) +
                                "; a symbol that has buckets must stand alone in a dimension");
  return {};
}

/// A symbol of the source becomes its bucket, and keeps its number; a new one takes its name.
void Padder::copy_signature() {
  ir::Function &target = builder().function();
  target.is_private = source().is_private;
  target.num_inputs = source().num_inputs;
  target.extra_attributes = source().extra_attributes;
  target.location = source().location;
  target.call_sites = source().call_sites;
  const std::vector<std::string> names = source().symbol_names();
  auto taken = [&](const std::string &name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  auto added = static_cast<uint32_t>(names.size());
  for (uint32_t s = 0; s < names.size(); ++s) {
    ir::Symbol symbol = source().symbols[s];
    outside_.push_back(module().exprs.symbol({padded_[s] ? added : s}));
    if (padded_[s]) {
      symbol.name += "_bucket";
      while (taken(symbol.name))
        symbol.name += "_";
      symbol.source = ir::SymbolSource::bucket;
      symbol.bounds = ir::bucket_bounds(symbol);
      symbol.buckets.clear();
      symbol.bucket_of = added++;
    }
    builder().symbol(std::move(symbol));
  }
  for (uint32_t s = 0; s < names.size(); ++s)
    if (padded_[s]) {
      ir::Symbol symbol = source().symbols[s];
      symbol.capturable = false;
      builder().symbol(std::move(symbol));
    }
  for (ir::Constraint constraint : source().constraints) { // of what callers bring
    constraint.expr = module().exprs.substitute(constraint.expr, outside_);
    target.constraints.push_back(constraint);
  }
  for (TypeId type : source().result_types)
    target.result_types.push_back(outside(type));
  target.counted_dims = source().counted_dims;
  for (const ir::Parameter &param : source().params) {
    const ir::Value &value = source().value(param.value);
    map(param.value, builder().param(value.name, outside(value.type), param.access,
                                     param.alignment_bytes, value.location));
  }
}

/// Brings `value` to the type `to`, a dimension at a time, into memory of its own or, at last, into
/// `last`.
Status Padder::resize(ValueId &value, TypeId to, ValueId last, const char *suffix,
                      SourceLocation location) {
  // Copies: interning further types may move the pool's.
  ir::Type type = made_type(value);
  const ir::Type target = module().types[to];
  const std::string hint = builder().function().value(value).name + suffix;
  // Uses the buckets' sizes, whichever side has them, so that no other sizes the launch.
  ExprId space = module().exprs.constant(1);
  for (size_t axis = 0; axis < type.dims.size(); ++axis) {
    const ir::ExprNode &node = module().exprs[type.dims[axis]];
    const bool bucket = node.kind == ir::ExprKind::symbol &&
                        static_cast<size_t>(node.value) < padded_.size() &&
                        padded_[static_cast<size_t>(node.value)];
    space = module().exprs.mul(space, bucket ? type.dims[axis] : target.dims[axis]);
  }
  for (size_t axis = 0; axis < type.dims.size(); ++axis) {
    if (type.dims[axis] == target.dims[axis])
      continue;
    type.dims[axis] = target.dims[axis];
    const bool ends = type.dims == target.dims;
    const ValueId next = ends && last.valid() ? last
                                              : bind_value(ir::BindingKind::alloc, hint, {}, {},
                                                           module().types.intern(type), location);
    codegen::emit_resize(table_, builder(), value, next, axis, space, location);
    value = next;
  }
  return {};
}

Status Padder::pad_parameters() {
  for (const ir::Parameter &param : source().params) {
    const ir::Value &value = source().value(param.value);
    if (!depends(module().types[value.type]))
      continue;
    ValueId padded = mapped(param.value);
    if (param.access == ir::Access::out)
      padded = bind_value(ir::BindingKind::alloc, value.name + "_padded", {}, {}, value.type,
                          value.location);
    else
      CUGRT_TRY(resize(padded, value.type, {}, "_padded", value.location));
    map(param.value, padded);
  }
  return {};
}

/// Cuts results into the caller's memory first, then others; a result that is a parameter stays.
Status Padder::cut_results() {
  const SourceLocation end = source().body().end_location;
  for (uint32_t p = 0; p < source().params.size(); ++p) {
    const ir::Parameter &param = source().params[p];
    const ir::Value &value = source().value(param.value);
    if (!depends(module().types[value.type]))
      continue;
    const ValueId given = builder().function().params[p].value;
    ValueId padded = mapped(param.value);
    if (ir::writes(param.access))
      CUGRT_TRY(resize(padded, outside(value.type), given, "_cut", end));
    map(param.value, given);
  }
  std::vector<ValueId> done;
  for (const ir::Operand &result : source().results_of(source().body())) {
    if (result.kind != ir::Operand::Kind::value ||
        std::find(done.begin(), done.end(), result.value()) != done.end())
      continue;
    done.push_back(result.value());
    ValueId value = mapped(result.value());
    const ir::Value &whole = source().value(result.value());
    if (!depends(module().types[whole.type]) ||
        builder().function().value(value).type == outside(whole.type)) // a parameter
      continue;
    CUGRT_TRY(resize(value, outside(whole.type), {}, "_cut", end));
    map(result.value(), value);
  }
  return {};
}

/// A kernel knows no padding: it gets the callers' elements, and its results are padded again.
Status Padder::visit(const ir::Binding &binding) {
  if (binding.kind != ir::BindingKind::launch)
    return copy(binding);
  struct Tensor {
    ir::Operand of;
    ValueId padded, given;
    bool is_written = false;
  };
  std::vector<Tensor> tensors;
  const std::span<const ir::Operand> operands = source().operands_of(binding);
  std::vector<ir::Operand> given = mapped(operands);
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].kind == ir::Operand::Kind::expr)
      given[i] = ir::Operand::of(module().exprs.substitute(operands[i].expr(), outside_));
    if (operands[i].kind != ir::Operand::Kind::value || !depends(type_of(operands[i].value())))
      continue;
    const ir::Access access = module().kernels[binding.callee].params[i].access;
    auto tensor = std::find_if(tensors.begin(), tensors.end(),
                               [&](const Tensor &known) { return known.of == operands[i]; });
    if (tensor == tensors.end()) {
      const ir::Value &value = source().value(operands[i].value());
      Tensor added{operands[i], given[i].value(), given[i].value()};
      if (ir::reads(access))
        CUGRT_TRY(resize(added.given, outside(value.type), {}, "_cut", binding.location));
      else
        added.given = bind_value(ir::BindingKind::alloc, value.name + "_cut", {}, {},
                                 outside(value.type), binding.location);
      tensor = tensors.insert(tensors.end(), added);
    }
    tensor->is_written = tensor->is_written || ir::writes(access);
    given[i] = ir::Operand::of(tensor->given);
  }
  copy_with(binding, given);
  for (Tensor &tensor : tensors)
    if (tensor.is_written)
      CUGRT_TRY(resize(tensor.given, source().value(tensor.of.value()).type, tensor.padded,
                       "_padded", binding.location));
  return {};
}

} // namespace

Result<ir::Module> pad_to_buckets(const ir::Module &module, const PassContext &context) {
  ir::Module target = ir::without_functions(module);
  codegen::KernelTable table(target, module.functions, context.flag("codegen.programmatic"));
  for (const ir::Function &function : module.functions) {
    if (symbols_to_pad(function).empty()) {
      CUGRT_TRY(ir::FunctionCloner(function, target).add_function());
      continue;
    }
    Padder padder(function, target, table);
    CUGRT_TRY(padder.check());
    CUGRT_TRY(padder.check_effects(module));
    CUGRT_TRY(padder.add_function());
  }
  return target;
}

} // namespace cugrt::passes
