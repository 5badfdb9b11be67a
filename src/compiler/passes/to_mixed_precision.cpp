// ToMixedPrecision: f32 tensor-level ops are computed in f16 or bf16 where the table of ops allows
// it (mixed_precision.h says which), with casts between.
//
//   func @main(%x: tensor<[8, 64], f32>, %w: tensor<[64, 64], f32>) -> (tensor<[8, 64], f32>) {
//     %x_f16 = cast(%x) {dtype = f16}
//     %w_f16 = cast(%w) {dtype = f16}
//     %y = matmul(%x_f16, %w_f16)
//     %y_f32 = cast(%y) {dtype = f32}
//     %s = softmax(%y_f32)
//
// A value is cast at most once, in the block that defines it: at once where nothing reads it as it
// is, else before the first binding there that needs the copy, itself or in its blocks. A value
// that something may write is cast where it is read instead, each time. Constants get a second
// constant, and go where nothing names them any more. In it a number that is too large becomes the
// largest finite one: -1e9, written for what a softmax is not to see, would be -infinity in f16,
// and a row of nothing else NaN.
#include "base/type/element.h"
#include "compiler/ir_names.h"
#include "compiler/passes/all_passes.h"
#include "compiler/passes/mixed_precision.h"
#include "ir/module/function_cloner.h"
#include "ir/module/names.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

namespace cugrt::passes {

// --- The table -----------------------------------------------------------------------------------

PrecisionTable::PrecisionTable() {
  for (size_t op = 0; op < ir::op_count(); ++op)
    rows_.push_back(ir::op_info(static_cast<ir::Op>(op)).precision);
}

Result<PrecisionTable> PrecisionTable::make(const PassContext &context) {
  struct List {
    const char *option;
    Precision precision;
  };
  constexpr List kLists[] = {{"mixed.allow", Precision::allow},
                             {"mixed.follow", Precision::follow},
                             {"mixed.deny", Precision::deny}};
  PrecisionTable table;
  std::vector<const char *> named(table.rows_.size());
  for (const List &list : kLists)
    for (ir::Op op : context.ops(list.option)) {
      const char *&by = named[static_cast<size_t>(op)];
      if (by && by != list.option)
        return Status::error(Code::invalid_argument, "op " + std::string(ir::op_info(op).name) +
                                                         " is in " + by + " and in " + list.option +
                                                         "; leave it in one of them");
      by = list.option;
      table.rows_[static_cast<size_t>(op)] = list.precision;
    }
  return table;
}

namespace {

/// The number itself, or of one that rounding to `dtype` makes infinite the largest finite one of
/// its sign.
double saturated(ir::DType dtype, double value) {
  const double largest = dtype == ir::DType::f16 ? 65504.0 : 0x1.fep127; // the other is bf16
  std::string bytes;
  return ir::append_float(dtype, value, bytes) ? value : std::copysign(largest, value);
}

/// Constants in the narrow dtype, made once for the module.
class NarrowConstants {
public:
  NarrowConstants(ir::Module &module, ir::DType dtype) : module_(module), dtype_(dtype) {
    for (const ir::Constant &constant : module.constants)
      names_.try_emplace(constant.name, 1);
  }

  uint32_t narrow(uint32_t constant) {
    auto [made, added] =
        made_.try_emplace(constant, static_cast<uint32_t>(module_.constants.size()));
    if (added)
      module_.constants.push_back(convert(module_.constants[constant]));
    return made->second;
  }

private:
  ir::Constant convert(const ir::Constant &from) {
    const ir::Type type = module_.types[from.type];
    const std::string name = from.name + "_" + std::string(ir::info(dtype_).name);
    ir::Constant to{.name = ir::unique_name(names_, name, "_"),
                    .type = module_.types.tensor(dtype_, type.dims),
                    .bytes = {},
                    .location = from.location};
    const size_t step = ir::info(type.dtype).bytes_per_block;
    to.bytes.reserve(from.bytes.size() / step * ir::info(dtype_).bytes_per_block);
    for (size_t at = 0; at < from.bytes.size(); at += step)
      ir::append_float(dtype_, saturated(dtype_, ir::float_at(type.dtype, &from.bytes[at])),
                       to.bytes);
    return to;
  }

  ir::Module &module_;
  ir::DType dtype_;
  std::map<uint32_t, uint32_t> made_;
  std::unordered_map<std::string, uint32_t> names_; // of constants (ir::unique_name)
};

class Narrower : public ir::FunctionCloner {
public:
  Narrower(const ir::Module &source_module, const ir::Function &source, ir::Module &target,
           const PrecisionTable &table, ir::DType dtype, NarrowConstants &constants)
      : FunctionCloner(source, target), dtype_(dtype), constants_(constants),
        choices_(source_module, source, target, table, dtype), versions_(source.values.size()),
        constant_of_(source.values.size(), UINT32_MAX) {}

protected:
  Status enter_block(uint32_t block) override;
  Status leave_block(uint32_t block) override;
  Status visit(const Binding &binding) override;
  void add_captures(std::vector<Operand> &operands) override;

private:
  /// Versions of a source value in the target: as f32, and narrow.
  struct Versions {
    ValueId f32, narrow;
    ValueId &in(bool is_narrow) { return is_narrow ? narrow : f32; }
  };
  struct Need {
    bool f32 = false, narrow = false;
  };
  /// Keyed by outer value, in order: the versions that a construct's blocks use.
  using Needs = std::map<ValueId, Need>;

  ValueId version(ValueId value, bool narrow, SourceLocation location);
  ValueId cast(ValueId value, bool narrow, SourceLocation location);
  void defined(ValueId value, bool narrow);
  void defined_results(const Binding &binding, SourceLocation location);
  Operand read(const Operand &operand, const Binding &reader, bool narrow);
  void saturate_pad(std::vector<ir::Attribute> &attributes) const;
  Status rewrite_op(const Binding &binding);
  Status copy_construct(const Binding &binding);
  void collect_needs(uint32_t block, Needs &needs) const;

  ir::DType dtype_;
  NarrowConstants &constants_;
  PrecisionChoices choices_;
  std::vector<Versions> versions_;             // by value of the source
  std::vector<uint32_t> constant_of_;          // likewise: the constant that it is
  std::vector<std::vector<ValueId>> captures_; // of the constructs being copied: narrow copies
};

// --- Versions ------------------------------------------------------------------------------------

ValueId Narrower::cast(ValueId value, bool narrow, SourceLocation location) {
  const ir::DType to = narrow ? dtype_ : ir::DType::f32;
  const std::string hint = source().value(value).name + "_" + std::string(ir::info(to).name);
  const ir::Type &type = type_of(value);
  const ir::TypeId result = module().types.tensor(to, type.dims);
  if (narrow && constant_of_[value.index] != UINT32_MAX) {
    Binding constant{};
    constant.kind = BindingKind::constant;
    constant.callee = constants_.narrow(constant_of_[value.index]);
    constant.location = location;
    return builder().bind(constant, {}, {}, {}, std::span(&hint, 1), std::span(&result, 1));
  }
  Binding op{};
  op.kind = BindingKind::op;
  op.callee = static_cast<uint32_t>(ir::Op::cast);
  op.location = location;
  const Operand operand = Operand::of(versions_[value.index].in(!narrow));
  const ir::Attribute dtype{"dtype", ir::DTypeLiteral(to)};
  return builder().bind(op, std::span(&operand, 1), {}, std::span(&dtype, 1), std::span(&hint, 1),
                        std::span(&result, 1));
}

/// The value in a dtype; a cast is made at the end of the open block where there is none yet.
ValueId Narrower::version(ValueId value, bool narrow, SourceLocation location) {
  ValueId &known = versions_[value.index].in(narrow);
  if (known.valid())
    return known;
  const ValueId made = cast(value, narrow, location);
  if (choices_.is_written(value))
    return made;
  known = made;
  if (!narrow)
    map(value, made);
  return made;
}

/// `value` has just been mapped.
void Narrower::defined(ValueId value, bool narrow) {
  if (choices_.is_f32(value))
    versions_[value.index].in(narrow) = mapped(value);
}

void Narrower::defined_results(const Binding &binding, SourceLocation location) {
  for (uint32_t i = 0; i < binding.result_count; ++i) {
    const ValueId result = binding.result(i);
    if (!choices_.is_f32(result))
      continue;
    defined(result, choices_.is_narrow(result));
    if (choices_.is_narrow(result) || choices_.is_written(result))
      continue;
    if (choices_.only_narrow(result) || choices_.is_rounded(result))
      version(result, true, location);
    if (choices_.is_rounded(result)) {
      versions_[result.index].f32 = ValueId();
      version(result, false, location);
    }
  }
}

// --- Blocks --------------------------------------------------------------------------------------

Status Narrower::enter_block(uint32_t block) {
  if (block == 0) {
    for (const ir::Parameter &param : source().params)
      defined(param.value, false);
    return {};
  }
  const ir::Block &entered = source().blocks[block];
  for (uint32_t i = 0; i < entered.param_count; ++i)
    defined({entered.first_param + i}, false);
  return {};
}

Status Narrower::leave_block(uint32_t block) {
  const ir::Block &left = source().blocks[block];
  for (const Operand &result : source().results_of(left))
    if (result.kind == Operand::Kind::value && choices_.is_f32(result.value()))
      version(result.value(), false, left.end_location);
  return {};
}

/// Values that are used in a block, its nested ones too; those that it defines are among them.
void Narrower::collect_needs(uint32_t number, Needs &needs) const {
  const ir::Block &block = source().blocks[number];
  auto use = [&](ValueId value, bool narrow) {
    (narrow ? needs[value].narrow : needs[value].f32) = true;
  };
  for (const Binding &binding : block.bindings) {
    choices_.for_uses(binding, use);
    for (uint32_t b = binding.blocks.begin; b < binding.blocks.end(); ++b)
      collect_needs(b, needs);
  }
  for (const Operand &result : source().results_of(block))
    if (result.kind == Operand::Kind::value && choices_.is_f32(result.value()))
      use(result.value(), false);
}

Status Narrower::copy_construct(const Binding &binding) {
  const auto operands = source().operands_of(binding);
  const size_t own = choices_.own_operands(binding);
  for (const Operand &operand : operands.first(own))
    read(operand, binding, false);
  Needs needs;
  for (uint32_t b = binding.blocks.begin; b < binding.blocks.end(); ++b)
    collect_needs(b, needs);
  captures_.emplace_back();
  std::vector<ValueId> only_narrow;
  for (const Operand &operand : operands.subspan(own)) {
    if (operand.kind != Operand::Kind::value || !choices_.is_f32(operand.value()) ||
        choices_.is_written(operand.value()))
      continue;
    const ValueId value = operand.value();
    const Need need = needs[value];
    if (need.f32)
      version(value, false, binding.location);
    if (!need.narrow)
      continue;
    version(value, true, binding.location);
    (need.f32 ? captures_.back() : only_narrow).push_back(value);
  }
  // Blocks find their versions by themselves; the mapping here is for the construct's captures.
  std::vector<ValueId> before;
  for (ValueId value : only_narrow) {
    before.push_back(mapped(value));
    map(value, versions_[value.index].narrow);
  }
  CUGRT_TRY(copy(binding));
  captures_.pop_back();
  for (size_t i = 0; i < only_narrow.size(); ++i)
    map(only_narrow[i], before[i]);
  return {};
}

void Narrower::add_captures(std::vector<Operand> &operands) {
  for (ValueId value : captures_.back())
    operands.push_back(Operand::of(versions_[value.index].narrow));
}

// --- Bindings ------------------------------------------------------------------------------------

/// An operand as `reader` takes it.
Operand Narrower::read(const Operand &operand, const Binding &reader, bool narrow) {
  if (operand.kind != Operand::Kind::value || !choices_.is_f32(operand.value()))
    return mapped(operand);
  return Operand::of(version(operand.value(), narrow, reader.location));
}

/// The value that a pad puts around is a constant too.
void Narrower::saturate_pad(std::vector<ir::Attribute> &attributes) const {
  const double given = ir::op_float(ir::Op::pad, attributes, "value");
  const double value = saturated(dtype_, given);
  for (ir::Attribute &attribute : attributes)
    if (attribute.name == "value" && value != given)
      attribute.value = value;
}

/// An op, or another name for a value: its results have the dtypes that were chosen.
Status Narrower::rewrite_op(const Binding &binding) {
  std::vector<Operand> operands;
  for (const Operand &operand : source().operands_of(binding)) {
    const bool narrow =
        binding.kind == BindingKind::op
            ? choices_.is_narrow_op(binding) && !choices_.stays_f32(binding, operands.size())
            : choices_.is_narrow(operand.value());
    operands.push_back(read(operand, binding, narrow));
  }
  std::vector<std::string> names;
  std::vector<ir::TypeId> types;
  for (uint32_t i = 0; i < binding.result_count; ++i) {
    const ValueId result = binding.result(i);
    names.push_back(source().value(result).name);
    types.push_back(choices_.is_narrow(result) ? choices_.narrow_type(result)
                                               : source().value(result).type);
  }
  const auto given = source().attributes_of(binding);
  std::vector<ir::Attribute> attributes(given.begin(), given.end());
  if (is_op(binding, ir::Op::pad) && choices_.is_narrow_op(binding))
    saturate_pad(attributes);
  if (choices_.has_wide_states(binding))
    attributes.push_back({"wide_states", true});
  const ValueId first =
      builder().bind(binding, operands, source().exprs_of(binding), attributes, names, types);
  for (uint32_t i = 0; i < binding.result_count; ++i)
    map(binding.result(i), {first.index + i});
  defined_results(binding, binding.location);
  return {};
}

Status Narrower::visit(const Binding &binding) {
  if (binding.kind == BindingKind::op || choices_.renames(binding))
    return rewrite_op(binding);
  if (binding.kind == BindingKind::constant && choices_.is_f32(binding.result())) {
    constant_of_[binding.first_result] = binding.callee;
    if (choices_.only_narrow(binding.result()) && !choices_.is_written(binding.result())) {
      map(binding.result(), version(binding.result(), true, binding.location));
      return {};
    }
  }
  if (binding.blocks.count) {
    CUGRT_TRY(copy_construct(binding));
  } else {
    choices_.for_uses(binding,
                      [&](ValueId value, bool) { version(value, false, binding.location); });
    CUGRT_TRY(copy(binding));
  }
  defined_results(binding, binding.location);
  return {};
}

// --- The module ----------------------------------------------------------------------------------

/// Constants that functions named before and do not name now.
void remove_constants(ir::Module &module, const std::vector<bool> &named_before) {
  std::vector<bool> named(module.constants.size());
  auto for_constants = [&](auto visit) {
    for (ir::Function &function : module.functions)
      for (ir::Block &block : function.blocks)
        for (Binding &binding : block.bindings)
          if (binding.kind == BindingKind::constant)
            visit(binding.callee);
  };
  for_constants([&](uint32_t &constant) { named[constant] = true; });
  std::vector<uint32_t> numbers(module.constants.size());
  std::vector<ir::Constant> kept;
  for (uint32_t c = 0; c < module.constants.size(); ++c) {
    numbers[c] = static_cast<uint32_t>(kept.size());
    if (named[c] || c >= named_before.size() || !named_before[c])
      kept.push_back(std::move(module.constants[c]));
  }
  module.constants = std::move(kept);
  for_constants([&](uint32_t &constant) { constant = numbers[constant]; });
}

Result<ir::Module> narrow_module(const ir::Module &module, const PassContext &context,
                                 bool narrows_moves) {
  CUGRT_ASSIGN(PrecisionTable table, PrecisionTable::make(context));
  table.narrows_moves = narrows_moves;
  const std::string_view dtype = context.choice("mixed.dtype");
  if (dtype == "none" || dtype == "tf32") // which products of f32 are computed in (KernelChoice)
    return module;
  const ir::DType narrow = *ir::dtype_from_name(dtype);
  std::vector<bool> named(module.constants.size());
  for (const ir::Function &function : module.functions)
    for (const ir::Block &block : function.blocks)
      for (const Binding &binding : block.bindings)
        if (binding.kind == BindingKind::constant)
          named[binding.callee] = true;
  ir::Module target = ir::without_functions(module);
  NarrowConstants constants(target, narrow);
  for (const ir::Function &function : module.functions)
    CUGRT_TRY(Narrower(module, function, target, table, narrow, constants).add_function());
  remove_constants(target, named);
  return target;
}

} // namespace

Result<ir::Module> to_mixed_precision(const ir::Module &module, const PassContext &context) {
  if (context.choice("mixed.dtype") == "none")
    return narrow_module(module, context, true);
  CUGRT_ASSIGN(std::optional<ir::Module> sliced, slice_sums(module));
  if (sliced) {
    CUGRT_ASSIGN(sliced, eliminate_dead_bindings(*sliced, context));
  }
  return narrow_module(sliced ? *sliced : module, context, true);
}

Result<ir::Module> to_published_mixed_precision(const ir::Module &module,
                                                const PassContext &context) {
  return narrow_module(module, context, false);
}

} // namespace cugrt::passes
