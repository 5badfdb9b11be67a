// Copying functions.
#include "ir/module/function_cloner.h"

#include "base/check.h"

namespace cugrt::ir {

Module without_functions(const Module &module) {
  Module copy;
  copy.exprs = module.exprs;
  copy.types = module.types;
  copy.kernels = module.kernels;
  copy.constants = module.constants;
  copy.literals = module.literals;
  copy.callee_names = module.callee_names;
  return copy;
}

// Calls visit(callee) with a reference to each function number that a function's bindings name.
template <class Visit> static void for_callees(Function &function, Visit visit) {
  for (Block &block : function.blocks)
    for (Binding &binding : block.bindings)
      if (binding.kind == BindingKind::call)
        visit(binding.callee);
  for (Operand &operand : function.operands)
    if (operand.kind == Operand::Kind::function)
      visit(operand.index);
}

std::vector<uint32_t> remove_dead_functions(Module &module) {
  const size_t count = module.functions.size();
  std::vector<bool> live(count, false);
  std::vector<uint32_t> left;
  auto reach = [&](uint32_t function) {
    if (!live[function])
      left.push_back(function);
    live[function] = true;
  };
  for (uint32_t f = 0; f < count; ++f)
    if (!module.functions[f].is_private)
      reach(f);
  while (!left.empty()) {
    Function &function = module.functions[left.back()];
    left.pop_back();
    for_callees(function, [&](uint32_t callee) { reach(callee); });
  }
  std::vector<uint32_t> numbers(count, UINT32_MAX);
  uint32_t kept = 0;
  for (uint32_t f = 0; f < count; ++f) {
    if (!live[f])
      continue;
    numbers[f] = kept++;
    if (numbers[f] != f)
      module.functions[numbers[f]] = std::move(module.functions[f]);
  }
  module.functions.resize(kept);
  if (kept != count)
    for (Function &function : module.functions)
      for_callees(function, [&](uint32_t &callee) { callee = numbers[callee]; });
  return numbers;
}

FunctionCloner::FunctionCloner(const Function &source, Module &target)
    : source_(source), module_(target), builder_(target, source.name),
      values_(source.values.size()) {}

ValueId FunctionCloner::mapped(ValueId value) const {
  CUGRT_CHECK(values_[value.index].valid());
  return values_[value.index];
}

Operand FunctionCloner::mapped(Operand operand) const {
  return operand.kind == Operand::Kind::value ? Operand::of(mapped(operand.value())) : operand;
}

std::vector<Operand> FunctionCloner::mapped(std::span<const Operand> operands) const {
  std::vector<Operand> result;
  result.reserve(operands.size());
  for (const Operand &operand : operands)
    result.push_back(mapped(operand));
  return result;
}

ValueId FunctionCloner::bind_value(BindingKind kind, std::string_view hint, ValueId operand,
                                   std::span<const ExprId> exprs, TypeId type,
                                   SourceLocation location) {
  Binding binding{};
  binding.kind = kind;
  binding.location = location;
  const Operand of = Operand::of(operand);
  const std::string name(hint);
  return builder_.bind(binding, std::span(&of, operand.valid() ? 1 : 0), exprs, {},
                       std::span(&name, 1), std::span(&type, 1));
}

Result<ValueId> FunctionCloner::bind_op(Op op, std::span<const Operand> operands,
                                        std::span<const Attribute> attributes,
                                        std::string_view hint, SourceLocation location) {
  std::vector<TypeId> types;
  for (const Operand &operand : operands)
    types.push_back(operand.kind == Operand::Kind::value
                        ? builder_.function().value(operand.value()).type
                        : TypeId());
  CUGRT_ASSIGN(const std::vector<TypeId> results,
               infer_op(module_, op, types, attributes, &builder_.function()));
  Binding binding{};
  binding.kind = BindingKind::op;
  binding.callee = static_cast<uint32_t>(op);
  binding.location = location;
  const std::string name(hint);
  return builder_.bind(binding, operands, {}, attributes, std::span(&name, 1), results);
}

Status FunctionCloner::copy(const Binding &binding) {
  Binding target = binding;
  CUGRT_TRY(copy_blocks(binding, target));
  operands_.clear();
  for (const Operand &operand : source_.operands_of(binding))
    operands_.push_back(mapped(operand));
  if (binding.blocks.count)
    add_captures(operands_);
  append(target, binding, operands_);
  return {};
}

void FunctionCloner::append(const Binding &target, const Binding &binding,
                            std::span<const Operand> operands) {
  builder_.set_call_site(binding.call_site);
  names_.resize(binding.result_count);
  types_.resize(binding.result_count);
  for (uint32_t i = 0; i < binding.result_count; ++i) {
    names_[i] = source_.value(binding.result(i)).name;
    types_[i] = result_type(binding, operands, i);
  }
  const ValueId first = builder_.bind(target, operands, source_.exprs_of(binding),
                                      source_.attributes_of(binding), names_, types_);
  for (uint32_t i = 0; i < binding.result_count; ++i)
    map(binding.result(i), {first.index + i});
}

Status FunctionCloner::copy_blocks(const Binding &binding, Binding &target) {
  for (uint32_t b = binding.blocks.begin; b < binding.blocks.end(); ++b) {
    const Block &block = source_.blocks[b];
    std::vector<TypeId> types;
    std::vector<std::string> names;
    for (uint32_t i = 0; i < block.param_count; ++i) {
      const Value &param = source_.values[block.first_param + i];
      types.push_back(param.type);
      names.push_back(param.name);
    }
    const uint32_t copied = builder_.begin_block(types, names);
    if (b == binding.blocks.begin)
      target.blocks.begin = copied;
    for (uint32_t i = 0; i < block.param_count; ++i)
      map({block.first_param + i}, builder_.block_param(copied, i));
    CUGRT_TRY(copy_body(b));
    builder_.end_block(mapped(source_.results_of(block)), block.end_location);
  }
  return {};
}

Status FunctionCloner::copy_body(uint32_t block) {
  CUGRT_TRY(enter_block(block));
  for (const Binding &binding : source_.blocks[block].bindings) {
    builder_.set_call_site(binding.call_site);
    CUGRT_TRY(visit(binding));
  }
  return leave_block(block);
}

void FunctionCloner::copy_signature() {
  Function &target = builder_.function();
  target.is_private = source_.is_private;
  target.num_inputs = source_.num_inputs;
  target.result_types = source_.result_types;
  target.counted_dims = source_.counted_dims;
  target.extra_attributes = source_.extra_attributes;
  target.location = source_.location;
  target.call_sites = source_.call_sites;
  target.kept_calls = source_.kept_calls;
  for (const Symbol &symbol : source_.symbols)
    builder_.symbol(symbol);
  target.constraints = source_.constraints;
  copy_params();
}

void FunctionCloner::copy_params() {
  for (const Parameter &param : source_.params) {
    const Value &value = source_.value(param.value);
    map(param.value, builder_.param(value.name, value.type, param.access, param.alignment_bytes,
                                    value.location));
  }
}

Result<Function> FunctionCloner::run() {
  copy_signature();
  CUGRT_TRY(copy_body(0));
  return builder_.finish(mapped(source_.results_of(source_.body())), source_.body().end_location);
}

} // namespace cugrt::ir
