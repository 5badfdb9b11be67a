// Inlines callees first, so that a callee already contains its own callees.
#include "compiler/planner/rewrite/inline_calls.h"

#include "compiler/ir_names.h"
#include "compiler/planner/rewrite/inlined_body.h"
#include "compiler/planner/symbols/sizes.h"
#include "ir/module/function_cloner.h"
#include "ir/module/infer.h"
#include "ir/module/module.h"
#include "ir/text/text.h"
#include "plan/symbols/bucket_boxes.h"

#include <algorithm>

namespace cugrt::plan {
namespace {

struct Callee {
  const ir::Function *function; // inlined itself
  uint32_t steps;
  uint64_t bindings;
  std::vector<bool> given; // by value: it may be a parameter's memory
  bool results_apart;      // no two of its fresh results lie in the same memory
};

uint32_t count_steps(const ir::Function &function) {
  uint32_t steps = 0;
  for (const ir::Block &block : function.blocks)
    for (const Binding &b : block.bindings)
      steps += b.kind == BindingKind::launch || b.kind == BindingKind::op;
  return steps;
}

/// Calls that were inlined count too: an empty callee is not for nothing.
uint64_t count_bindings(const ir::Function &function) {
  uint64_t bindings = function.call_sites.size();
  for (const ir::Block &block : function.blocks)
    bindings += block.bindings.size();
  return bindings;
}

/// Copies a function with its calls planned through.
class Inliner final : public ir::FunctionCloner {
public:
  /// `inlined`: the bindings of the module that come from calls, kept up to date.
  Inliner(const ir::Function &source, ir::Module &target, std::span<const Callee> callees,
          const Liveness &live, bool strict, uint64_t &inlined)
      : FunctionCloner(source, target), printer_(target, source), callees_(callees), live_(live),
        strict_(strict), bounds_(symbol_domain(target, source)), inlined_(inlined),
        steps_(count_steps(source)), bindings_(count_bindings(source)) {}

protected:
  Status enter_block(uint32_t block) override {
    if (block == 0) // what an inliner said before is decided anew
      builder().function().kept_calls.clear();
    return {};
  }

  Status visit(const Binding &b) override {
    if (b.kind != BindingKind::call)
      return copy(b);
    const Callee &callee = callees_[b.callee];
    symbols_.clear();
    std::string why = too_large(callee);
    if (!why.empty() && strict_)
      return located(cugrt::Code::out_of_range, source(), b.location,
                     "the call of @" + callee.function->name + " cannot be inlined: " + why +
                         "; turn `inline.strict` off, and it stays a call");
    if (why.empty())
      why = reason_to_stay(b, callee);
    std::vector<std::string> &kept = builder().function().kept_calls;
    if (!why.empty()) {
      kept.push_back(std::move(why));
      return copy(b);
    }
    steps_ += callee.steps;
    bindings_ += callee.bindings + 1;
    inlined_ += callee.bindings + 1;
    const std::vector<std::string> &left = callee.function->kept_calls;
    kept.insert(kept.end(), left.begin(), left.end());
    inline_call(b, callee);
    return {};
  }

  TypeId result_type(const Binding &b, std::span<const Operand> operands, uint32_t i) override {
    const TypeId named =
        named_type(module(), builder().function(), b, operands, source().exprs_of(b));
    return named.valid() ? named : FunctionCloner::result_type(b, operands, i);
  }

private:
  /// Empty where the caller, and the module, would stay within the limits.
  std::string too_large(const Callee &callee) const {
    const uint32_t most = kMaxInlinedSteps;
    if (steps_ > most || callee.steps > most - steps_)
      return "with its " + std::to_string(callee.steps) +
             " steps the caller would have more than " + std::to_string(most);
    if (bindings_ + callee.bindings + 1 > uint64_t(most) * kBindingsPerStep)
      return "with its " + std::to_string(callee.bindings) +
             " bindings the caller would have more than " +
             std::to_string(uint64_t(most) * kBindingsPerStep);
    if (inlined_ + callee.bindings + 1 > kMaxModuleBindings)
      return "the module would have more than " + std::to_string(kMaxModuleBindings) +
             " bindings that come from calls";
    return "";
  }

  /// Empty where the call can be planned through; then symbols_ hold what its symbols become.
  std::string reason_to_stay(const Binding &b, const Callee &callee) {
    const ir::Function &f = *callee.function;
    if (!f.is_private && f.num_inputs < f.params.size())
      return "it has weights of its own";
    if (!callee.results_apart)
      return "two of its results are copies of the same memory";
    std::vector<TypeId> types;
    std::span<const Operand> operands = source().operands_of(b);
    for (const Operand &operand : operands)
      types.push_back(ir::operand_type(module(), builder().function(), mapped(operand)));
    symbols_ = ir::bind_callee_symbols(module(), f, types);
    if (std::string why = unchecked_symbol(f); !why.empty())
      return why;
    for (size_t p = 0; p < f.params.size(); ++p)
      if (std::string why = unchecked_param(f, p, types[p]); !why.empty())
        return why;
    return writes_shared(operands, f);
  }

  /// A bound of the callee's that the caller does not keep is checked where it is called.
  std::string unchecked_symbol(const ir::Function &f) {
    for (size_t s = 0; s < f.symbols.size(); ++s) {
      const ir::Symbol &symbol = f.symbols[s];
      if (symbol.source != ir::SymbolSource::parameter) {
        symbols_[s] = {}; // made when it is inlined
        continue;
      }
      if (!symbols_[s].valid())
        return "its symbol " + symbol.name + " does not follow from the arguments' types";
      ir::Interval range = module().exprs.range(symbols_[s], bounds_);
      if (range.lower < symbol.bounds.lower || range.upper > symbol.bounds.upper)
        return "the bounds of its symbol " + symbol.name + " are narrower than the caller's";
    }
    for (const ir::Constraint &constraint : f.constraints) {
      const std::string text = "its constraint " +
                               module().exprs.to_string(constraint.expr, f.symbol_names()) +
                               " <= " + std::to_string(constraint.most);
      if (!is_of_parameters(f, constraint))
        return text + " is checked where it matches";
      const ExprId given = module().exprs.substitute(constraint.expr, symbols_);
      if (module().exprs.range(given, bounds_).upper > constraint.most)
        return text + " is narrower than the caller's";
    }
    return "";
  }

  /// Whether the arguments' types alone decide it; else a match of the callee's checks it.
  bool is_of_parameters(const ir::Function &f, const ir::Constraint &constraint) const {
    std::vector<ir::SymbolId> used;
    module().exprs.collect_symbols(constraint.expr, used);
    return std::all_of(used.begin(), used.end(), [&](ir::SymbolId s) {
      return f.symbols[s.index].source == ir::SymbolSource::parameter;
    });
  }

  std::string unchecked_param(const ir::Function &f, size_t p, TypeId argument) {
    const ir::Parameter &param = f.params[p];
    const ir::Value &value = f.value(param.value);
    const ir::Type &type = module().types[value.type];
    if (type.kind == TypeKind::tensor && param.alignment_bytes > natural_alignment(type.dtype))
      return "the alignment of %" + value.name + " is checked where it is called";
    if (!can_be_made(argument, ir::substitute_type(module(), value.type, symbols_)))
      return "the value of %" + value.name + " is checked where it is called";
    return "";
  }

  /// Whether the callee's parameter may be the argument itself, or what matches make of it.
  bool can_be_made(TypeId argument, TypeId wanted) const {
    if (argument == wanted)
      return true;
    const ir::Type &from = module().types[argument], &to = module().types[wanted];
    if (to.kind == TypeKind::object)
      return true;
    if (from.kind != to.kind)
      return false;
    if (from.kind == TypeKind::scalar)
      return to.dims.empty();
    return from.kind == TypeKind::tensor || from.kind == TypeKind::shape;
  }

  /// The argument as the callee's parameter: matched where that has dimensions that are not known
  /// to be the argument's.
  ValueId as_parameter(ValueId argument, TypeId wanted, const Binding &call) {
    const TypeId given = builder().function().value(argument).type;
    const std::string name = builder().function().value(argument).name;
    const ir::Type from = module().types[given], to = module().types[wanted];
    if (given == wanted || from.kind != to.kind)
      return argument;
    if ((to.kind == TypeKind::tensor || to.kind == TypeKind::shape) && to.known_shape)
      return bind_value(BindingKind::match_shape, name, argument, to.dims, wanted, call.location);
    return argument;
  }

  bool is_tensor(ValueId value, const ir::Function &f) const {
    return module().types[f.value(value).type].kind == TypeKind::tensor;
  }

  uint32_t memory_of(const Operand &operand) const {
    uint32_t origin =
        operand.kind == Operand::Kind::value ? live_.origin(operand.value()) : kNoOrigin;
    return origin != kNoOrigin && live_.origins[origin].parent != kNoOrigin
               ? live_.origins[origin].parent
               : origin;
  }

  std::string writes_shared(std::span<const Operand> operands, const ir::Function &f) const {
    for (size_t p = 0; p < f.params.size(); ++p) {
      if (!ir::writes(f.params[p].access))
        continue;
      uint32_t memory = memory_of(operands[p]);
      if (memory == kNoOrigin && is_tensor(f.params[p].value, f))
        return "it writes the result of an op, whose memory is known once ops are kernels";
      if (memory == kNoOrigin)
        continue;
      const Origin &origin = live_.origins[memory];
      if (origin.kind == OriginKind::constant ||
          (origin.kind == OriginKind::parameter &&
           (!ir::writes(source().params[origin.index].access) || source().is_weight(origin.index))))
        return "it writes what its caller may not";
      for (size_t q = 0; q < operands.size(); ++q)
        if (q != p && memory_of(operands[q]) == memory)
          return "it writes memory that two of its arguments lie in";
    }
    return "";
  }

  void inline_call(const Binding &b, const Callee &callee) {
    const ir::Function &f = *callee.function;
    builder().set_call_site(b.call_site);
    std::span<const Operand> operands = source().operands_of(b);
    std::vector<Operand> arguments;
    for (size_t p = 0; p < f.params.size(); ++p) {
      const ir::Value &param = f.value(f.params[p].value);
      const Operand argument = as_value(mapped(operands[p]), param.name);
      const TypeId wanted = ir::substitute_type(module(), param.type, symbols_);
      arguments.push_back(Operand::of(as_parameter(argument.value(), wanted, b)));
    }
    for (size_t s = 0; s < f.symbols.size(); ++s)
      if (f.symbols[s].source == ir::SymbolSource::device) {
        bounds_.add(f.symbols[s].bounds);
        symbols_[s] = module().exprs.symbol(builder().symbol(f.symbols[s]));
      }
    const uint32_t site =
        add_call_site({f.name, printer_.print(b), callee.steps, b.call_site, b.location}, f);
    InlinedBody body(module(), builder(), f, callee.given, symbols_, bounds_, site);
    for (size_t p = 0; p < f.params.size(); ++p)
      body.map(f.params[p].value, arguments[p]);
    std::vector<Operand> results = body.run();
    builder().set_call_site(b.call_site);
    for (uint32_t i = 0; i < b.result_count; ++i)
      map(b.result(i), as_value(results[i], source().value(b.result(i)).name).value());
  }

  /// Those that were inlined into the callee follow.
  uint32_t add_call_site(ir::CallSite call, const ir::Function &callee) {
    std::vector<ir::CallSite> &sites = builder().function().call_sites;
    const auto site = uint32_t(sites.size());
    sites.push_back(std::move(call));
    for (ir::CallSite inner : callee.call_sites) {
      inner.parent = inner.parent == UINT32_MAX ? site : site + 1 + inner.parent;
      sites.push_back(std::move(inner));
    }
    return site;
  }

  /// An expression or literal as a host value.
  Operand as_value(Operand operand, const std::string &name) {
    if (operand.kind == Operand::Kind::value)
      return operand;
    TypeId type = ir::operand_type(module(), builder().function(), operand);
    Binding literal{};
    literal.kind = BindingKind::literal;
    return Operand::of(builder().bind(literal, std::span(&operand, 1), {}, {}, std::span(&name, 1),
                                      std::span(&type, 1)));
  }

  ir::BindingPrinter printer_; // of the source
  const std::span<const Callee> callees_;
  const Liveness &live_;
  const bool strict_;
  ir::SymbolDomain bounds_; // of the symbols of what is built
  uint64_t &inlined_;
  uint32_t steps_;
  uint64_t bindings_;
  std::vector<ExprId> symbols_; // by symbol of the callee that is being looked at
};

bool has_calls(const ir::Module &module) {
  for (const ir::Function &function : module.functions)
    for (const ir::Block &block : function.blocks)
      for (const Binding &b : block.bindings)
        if (b.kind == BindingKind::call)
          return true;
  return false;
}

Callee make_callee(const ir::Function &function, const Liveness &live,
                   const FunctionSummary &summary) {
  std::span<const Operand> results = function.results_of(function.body());
  Callee callee{&function, count_steps(function), count_bindings(function), {}, true};
  for (uint32_t value = 0; value < function.values.size(); ++value)
    callee.given.push_back(live.origin_of[value] == kNoOrigin || // of a tuple that it is given
                           live.origins[live.origin_of[value]].kind == OriginKind::parameter);
  std::vector<uint32_t> memories;
  for (size_t i = 0; i < results.size(); ++i) {
    uint32_t origin =
        results[i].kind == Operand::Kind::value ? live.origin(results[i].value()) : kNoOrigin;
    if (origin == kNoOrigin || summary.results[i].kind != FunctionSummary::SourceKind::fresh)
      continue;
    const Origin &o = live.origins[origin];
    memories.push_back(o.parent == kNoOrigin ? origin : o.parent);
  }
  std::sort(memories.begin(), memories.end());
  callee.results_apart = std::adjacent_find(memories.begin(), memories.end()) == memories.end();
  return callee;
}

} // namespace

Result<std::optional<ir::Module>> inline_calls(const ir::Module &module, bool strict) {
  if (!has_calls(module))
    return std::optional<ir::Module>();
  CUGRT_ASSIGN(std::vector<uint32_t> order, callees_first(module));
  ir::Module out = ir::without_functions(module);
  out.functions.resize(module.functions.size()); // never moved: callees point to them
  uint64_t inlined = 0;
  std::vector<FunctionSummary> summaries(module.functions.size());
  std::vector<Callee> callees(module.functions.size());
  for (uint32_t f : order) {
    const ir::Function &source = module.functions[f];
    CUGRT_ASSIGN(Liveness live, analyze_liveness(module, source, summaries));
    summaries[f] = summarize(source, live);
    CUGRT_ASSIGN(out.functions[f], Inliner(source, out, callees, live, strict, inlined).run());
    const ir::Function &made = out.functions[f];
    CUGRT_ASSIGN(Liveness made_live, analyze_liveness(out, made, summaries));
    callees[f] = make_callee(made, made_live, summaries[f]);
  }
  return std::optional(std::move(out));
}

} // namespace cugrt::plan
