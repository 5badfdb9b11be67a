// The rules of policy `seed`: the published ones. A binding is lifted when everything that it
// touches is static: weights, storage that can be lifted, and what is made from them.
//
//   binding                     all operands static             else
//   alloc_storage               liftable: stays, static         stays
//   alloc                       -                               stays
//   launch                      opens or joins                  closes
//   alloc_tensor, view, kill    joins open, static              closes
//   alias, tuple, get           joins open, static              closes (constant: never)
//   call, host, extern, read    closes                          closes
//   if, while, match            closes                          closes
//   shape, literal              stays                           stays
//
// A storage can be lifted when its size is constant and nothing of it is returned. The published
// pass does not close regions at `if` and match, and follows results only through aliases and
// tuples; both lose data, so here they close and results are followed through views too.
#include "plan/regions.h"

#include <algorithm>

namespace cugrt::plan {

using ir::BindingKind;
using ir::Operand;

namespace {

class SeedRules final : public RegionRules {
public:
  SeedRules(const ModuleContext &context, uint32_t function)
      : module_(context.module), function_(context.module.functions[function]),
        live_(context.storage.liveness[function]), static_(function_.values.size(), false),
        capturable_(function_.symbols.size(), false), output_storage_(live_.origins.size(), false) {
    for (size_t i = 0; i < function_.symbols.size(); ++i)
      capturable_[i] = function_.symbols[i].capturable;
    for (uint32_t i = 0; i < function_.params.size(); ++i)
      if (function_.is_weight(i))
        weight(function_.params[i].value);
    for (const ir::Block &block : function_.blocks)
      for (const Operand &result : function_.results_of(block))
        if (result.kind == Operand::Kind::value)
          mark_output(result.value());
  }

  bool copies_join() const override { return false; }

  Decision decide(const ir::Binding &b) override {
    switch (b.kind) {
    case BindingKind::alloc_storage:
      return storage(b);
    case BindingKind::alloc:
      return {Verdict::stays, "an unplanned allocation is fresh in each run"};
    case BindingKind::launch: {
      std::string why = not_static(b);
      return why.empty() ? Decision{Verdict::joins, "a launch whose operands are all static"}
                         : Decision{Verdict::closes, std::move(why)};
    }
    case BindingKind::alloc_tensor:
    case BindingKind::view:
    case BindingKind::kill:
    case BindingKind::alias:
    case BindingKind::tuple:
    case BindingKind::tuple_element: {
      std::string why = not_static(b);
      if (!why.empty())
        return {Verdict::closes, std::move(why)};
      for (uint32_t i = 0; i < b.result_count; ++i)
        static_[b.result(i).index] = true;
      return {Verdict::joins_open, "its operands are static: part of a region that is open"};
    }
    case BindingKind::constant:
      static_[b.result().index] = true;
      return {Verdict::joins_open, "a constant is static"};
    case BindingKind::shape:
    case BindingKind::literal:
      return {Verdict::stays, "a host value: no rule"};
    case BindingKind::call:
      return {Verdict::closes, "calls of other functions are never lifted"};
    case BindingKind::host_call:
      return {Verdict::closes, "host builtins are never lifted"};
    case BindingKind::extern_call:
      return {Verdict::closes, "extern \"" + module_.callee_names[b.callee] +
                                   "\" is taken for a host function until it is resolved"};
    case BindingKind::read_symbol:
      return {Verdict::closes, "a value read from device memory is not static"};
    case BindingKind::match_shape:
      return {Verdict::closes, "a match may fail, so nothing moves across it"};
    case BindingKind::if_:
    case BindingKind::while_:
      return {Verdict::closes, "nothing moves across control flow"};
    case BindingKind::op:
      return {Verdict::closes, "a tensor-level op"};
    }
    return {Verdict::closes, ""};
  }

private:
  void weight(ir::ValueId value) {
    static_[value.index] = true;
    std::vector<SymbolId> symbols;
    for (ExprId dim : module_.types[function_.value(value).type].dims)
      module_.exprs.collect_symbols(dim, symbols);
    for (SymbolId symbol : symbols)
      capturable_[symbol.index] = true;
  }

  void mark_output(ir::ValueId value) {
    if (uint32_t origin = live_.origin(value); origin != kNoOrigin)
      if (uint32_t parent = live_.origins[origin].parent; parent != kNoOrigin)
        output_storage_[parent] = true;
    ir::Range fields = live_.fields_of[value.index];
    for (uint32_t i = fields.begin; i < fields.end(); ++i)
      if (live_.fields[i].valid())
        mark_output(live_.fields[i]);
  }

  Decision storage(const ir::Binding &b) {
    std::string name = "%" + function_.value(b.result()).name;
    if (!module_.exprs.as_constant(function_.exprs_of(b)[0]))
      return {Verdict::stays, name + " has a symbolic size, so it cannot be lifted"};
    if (output_storage_[live_.origin(b.result())])
      return {Verdict::stays, name + " holds a result: the next run would overwrite it"};
    static_[b.result().index] = true;
    return {Verdict::stays, name + " has a constant size: lifted"};
  }

  std::string symbol_not_capturable(ExprId expr) const {
    std::vector<SymbolId> symbols;
    module_.exprs.collect_symbols(expr, symbols);
    for (SymbolId symbol : symbols)
      if (!capturable_[symbol.index])
        return "symbol " + function_.symbols[symbol.index].name + " may not be captured";
    return "";
  }

  std::string type_not_static(ir::ValueId value) const {
    const ir::Type &type = module_.types[function_.value(value).type];
    if (!type.known_shape)
      return "the shape of %" + function_.value(value).name + " is not known";
    for (ExprId dim : type.dims)
      if (std::string why = symbol_not_capturable(dim); !why.empty())
        return why;
    return "";
  }

  /// Why one of the operands, or the result's type, is not static; empty when all are.
  std::string not_static(const ir::Binding &b) const {
    for (const Operand &operand : function_.operands_of(b)) {
      std::string why;
      if (operand.kind == Operand::Kind::expr)
        why = symbol_not_capturable(operand.expr());
      else if (operand.kind == Operand::Kind::value)
        why = static_[operand.index]
                  ? type_not_static(operand.value())
                  : "%" + function_.value(operand.value()).name + " is not static";
      if (!why.empty())
        return why;
    }
    for (ExprId expr : function_.exprs_of(b))
      if (std::string why = symbol_not_capturable(expr); !why.empty())
        return why;
    for (uint32_t i = 0; i < b.result_count; ++i)
      if (std::string why = type_not_static(b.result(i)); !why.empty())
        return why;
    return "";
  }

  const ir::Module &module_;
  const ir::Function &function_;
  const Liveness &live_;
  std::vector<bool> static_;         // by value
  std::vector<bool> capturable_;     // by symbol
  std::vector<bool> output_storage_; // by origin
};

} // namespace

std::unique_ptr<RegionRules> make_seed_rules(const ModuleContext &context, uint32_t function) {
  return std::make_unique<SeedRules>(context, function);
}

} // namespace cugrt::plan
