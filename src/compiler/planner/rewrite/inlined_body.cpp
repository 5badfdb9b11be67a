// Copying of a callee's bindings; see inlined_body.h.
#include "compiler/planner/rewrite/inlined_body.h"
#include "compiler/ir_names.h"

namespace cugrt::plan {

/// The type of what an alias, a tuple or its field names, where that is known more exactly than the
/// source says; invalid for all other bindings.
TypeId named_type(ir::Module &module, const ir::Function &function, const Binding &b,
                  std::span<const Operand> operands, std::span<const ExprId> exprs) {
  if (b.kind == BindingKind::tuple) {
    ir::Type tuple;
    tuple.kind = TypeKind::tuple;
    for (const Operand &operand : operands)
      tuple.fields.push_back(ir::operand_type(module, function, operand));
    return module.types.intern(std::move(tuple));
  }
  if (b.kind == BindingKind::alias)
    return ir::operand_type(module, function, operands[0]);
  if (b.kind != BindingKind::tuple_element)
    return {};
  const ir::Type &tuple = module.types[ir::operand_type(module, function, operands[0])];
  std::optional<int64_t> index = module.exprs.as_constant(exprs[0]);
  return index && *index >= 0 && uint64_t(*index) < tuple.fields.size()
             ? tuple.fields[size_t(*index)]
             : TypeId();
}

std::vector<Operand> InlinedBody::run() {
  for (const Binding &b : callee_.body().bindings)
    binding(b);
  return mapped(callee_.results_of(callee_.body()));
}

Operand InlinedBody::mapped(const Operand &operand) {
  if (operand.kind == Operand::Kind::value)
    return values_[operand.index];
  return operand.kind == Operand::Kind::expr ? Operand::of(expr(operand.expr())) : operand;
}

std::vector<Operand> InlinedBody::mapped(std::span<const Operand> operands) {
  std::vector<Operand> out;
  for (const Operand &operand : operands)
    out.push_back(mapped(operand));
  return out;
}

void InlinedBody::binding(const Binding &b) {
  if (b.kind == BindingKind::kill && given_[callee_.operands_of(b)[0].index])
    return; // the callee needs it no longer, its caller may
  builder_.set_call_site(site_of(b.call_site));
  Binding out = b;
  blocks(b, out);
  out.call_site = site_of(b.call_site);
  std::vector<Operand> operands = mapped(callee_.operands_of(b));
  if (b.kind == BindingKind::match_shape)
    define_symbols(b, operands[0]);
  std::vector<ExprId> exprs;
  for (ExprId e : callee_.exprs_of(b))
    exprs.push_back(expr(e));
  std::vector<std::string> names;
  std::vector<TypeId> types;
  for (uint32_t i = 0; i < b.result_count; ++i) {
    names.push_back(callee_.value(b.result(i)).name);
    TypeId named = named_type(module_, builder_.function(), b, operands, exprs);
    types.push_back(named.valid() ? named : type(b.result(i)));
  }
  ValueId first = builder_.bind(out, operands, exprs, callee_.attributes_of(b), names, types);
  for (uint32_t i = 0; i < b.result_count; ++i)
    map(b.result(i), Operand::of(ValueId{first.index + i}));
}

void InlinedBody::define_symbols(const Binding &b, const Operand &operand) {
  const std::vector<ExprId> known =
      module_.types[ir::operand_type(module_, builder_.function(), operand)].dims;
  const std::vector<ExprId> dims = module_.types[callee_.value(b.result()).type].dims;
  for (size_t i = 0; i < dims.size(); ++i) {
    const ir::ExprNode &node = module_.exprs[dims[i]];
    if (node.kind != ir::ExprKind::symbol || symbols_[size_t(node.value)].valid())
      continue;
    const ir::Symbol &symbol = callee_.symbols[size_t(node.value)];
    ExprId &becomes = symbols_[size_t(node.value)];
    if (i < known.size() && known.size() == dims.size()) {
      const ir::Interval range = module_.exprs.range(known[i], bounds_);
      if (symbol.bounds.lower <= range.lower && range.upper <= symbol.bounds.upper) {
        becomes = known[i];
        continue;
      }
    }
    bounds_.add(symbol.bounds);
    becomes = module_.exprs.symbol(builder_.symbol(symbol));
  }
}

void InlinedBody::blocks(const Binding &b, Binding &out) {
  for (uint32_t n = b.blocks.begin; n < b.blocks.end(); ++n) {
    const ir::Block &block = callee_.blocks[n];
    std::vector<TypeId> types;
    std::vector<std::string> names;
    for (uint32_t i = 0; i < block.param_count; ++i) {
      types.push_back(type({block.first_param + i}));
      names.push_back(callee_.values[block.first_param + i].name);
    }
    uint32_t copied = builder_.begin_block(types, names);
    if (n == b.blocks.begin)
      out.blocks.begin = copied;
    for (uint32_t i = 0; i < block.param_count; ++i)
      map({block.first_param + i}, Operand::of(builder_.block_param(copied, i)));
    for (const Binding &inner : block.bindings)
      binding(inner);
    builder_.end_block(mapped(callee_.results_of(block)), block.end_location);
  }
}

} // namespace cugrt::plan
