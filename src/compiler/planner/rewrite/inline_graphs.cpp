// Inlining of lifted functions. They hold no calls and no blocks (the verifier sees to that), so a
// call becomes a run of bindings.
#include "compiler/planner/rewrite/inline_graphs.h"

#include "base/check.h"
#include "compiler/ir_names.h"
#include "compiler/planner/rewrite/inlined_body.h"
#include "compiler/planner/symbols/sizes.h"
#include "ir/module/function_cloner.h"
#include "ir/module/graph_builtins.h"
#include "ir/module/infer.h"
#include "ir/module/module.h"

namespace cugrt::plan {

using ir::GraphBuiltin;

namespace {

/// Copies a function, with the bindings of the functions that it runs in place of the calls.
class GraphInliner : public ir::FunctionCloner {
public:
  /// `numbers`: of the functions that stay, in the target.
  GraphInliner(const ir::Module &source_module, const ir::Function &source, ir::Module &target,
               const std::vector<uint32_t> &numbers)
      : FunctionCloner(source, target), source_module_(source_module), numbers_(numbers),
        bounds_(symbol_domain(target, source)) {}

  Captures take_captures() { return has_graphs_ ? std::move(captures_) : Captures(); }

protected:
  Status visit(const Binding &b) override {
    switch (ir::graph_builtin(source_module_, b)) {
    case GraphBuiltin::get_cached_alloc:
      allocate(b);
      return {};
    case GraphBuiltin::run_or_capture:
      run_graph(b);
      return {};
    case GraphBuiltin::none:
      break;
    }
    captures_.push_back(kNoCapture); // before those of its blocks
    if (b.kind != BindingKind::call)
      return copy(b);
    Binding call = b;
    call.callee = numbers_[b.callee];
    return copy(call);
  }

private:
  void allocate(const Binding &b) {
    has_graphs_ = true;
    for (uint32_t i = 0; i < b.result_count; ++i) {
      const ir::Value &value = source().value(b.result(i));
      const ir::ExprId bytes = module().types[value.type].dims[0];
      map(b.result(i), bind_value(BindingKind::alloc_storage, value.name, {}, std::span(&bytes, 1),
                                  value.type, b.location));
      captures_.push_back(kNoCapture);
    }
  }

  /// The fields of the arguments' tuple: bindings that read them are needed for one that was not
  /// made here, but comes in.
  std::vector<Operand> arguments(const Binding &b) {
    ValueId tuple = mapped(source().operands_of(b)[ir::kGraphArguments].value());
    const ir::Function &made = builder().function();
    const ir::Type type = module().types[made.value(tuple).type];
    std::vector<Operand> fields;
    for (size_t i = 0; i < type.fields.size(); ++i) {
      const ir::ExprId index = module().exprs.constant(int64_t(i));
      fields.push_back(Operand::of(bind_value(BindingKind::tuple_element, "arg", tuple,
                                              std::span(&index, 1), type.fields[i], b.location)));
      captures_.push_back(kNoCapture);
    }
    return fields;
  }

  void run_graph(const Binding &b) {
    has_graphs_ = true;
    const ir::Function &callee = source_module_.functions[ir::graph_function(source(), b)];
    std::vector<Operand> given = arguments(b);
    std::vector<TypeId> types;
    for (const Operand &operand : given)
      types.push_back(ir::operand_type(module(), builder().function(), operand));
    const std::vector<bool> none_given(callee.values.size()); // what it kills nobody needs
    InlinedBody body(module(), builder(), callee, none_given,
                     ir::bind_callee_symbols(module(), callee, types), bounds_, b.call_site);
    for (size_t p = 0; p < callee.params.size(); ++p)
      body.map(callee.params[p].value, given[p]);
    const std::vector<Operand> results = body.run();
    for (uint32_t i = 0; i < b.result_count; ++i)
      map(b.result(i), results[i].value());
    captures_.insert(captures_.end(), callee.body().bindings.size(), next_capture_++);
  }

  const ir::Module &source_module_;
  const std::vector<uint32_t> &numbers_;
  Captures captures_;
  ir::SymbolDomain bounds_; // of the symbols of what is built
  uint32_t next_capture_ = 0;
  bool has_graphs_ = false;
};

/// How functions are named: by calls, by the builtins, or by nothing (but perhaps by a caller of
/// the module).
struct Uses {
  std::vector<bool> called, captured;
  bool any_captured = false;
};

Result<Uses> find_uses(const ir::Module &module) {
  Uses uses;
  uint64_t inlined = 0;
  uses.called.resize(module.functions.size());
  uses.captured.resize(module.functions.size());
  for (const ir::Function &function : module.functions)
    for (const ir::Block &block : function.blocks)
      for (const Binding &b : block.bindings) {
        if (b.kind == BindingKind::call)
          uses.called[b.callee] = true;
        else if (ir::graph_builtin(module, b) != GraphBuiltin::none) {
          const uint32_t callee = ir::graph_function(function, b);
          uses.captured[callee] = true;
          uses.any_captured = true;
          inlined += module.functions[callee].body().bindings.size();
          inlined += module.functions[callee].params.size();
          if (inlined > kMaxInlinedBindings)
            return located(Code::out_of_range, function, b.location,
                           "the functions that are run as graphs have more than " +
                               std::to_string(kMaxInlinedBindings) +
                               " bindings together, counted once for each call; run fewer, or "
                               "shorter ones");
        }
      }
  return uses;
}

} // namespace

Result<std::optional<InlinedGraphs>> inline_graphs(const ir::Module &module) {
  CUGRT_ASSIGN(const Uses uses, find_uses(module));
  if (!uses.any_captured)
    return std::optional<InlinedGraphs>();
  std::vector<uint32_t> numbers(module.functions.size(), UINT32_MAX);
  uint32_t kept = 0;
  for (uint32_t f = 0; f < module.functions.size(); ++f)
    if (!uses.captured[f] || uses.called[f])
      numbers[f] = kept++;
  InlinedGraphs out;
  out.module = ir::without_functions(module);
  for (uint32_t f = 0; f < module.functions.size(); ++f) {
    if (numbers[f] == UINT32_MAX)
      continue;
    GraphInliner inliner(module, module.functions[f], out.module, numbers);
    Result<ir::Function> function = inliner.run();
    CUGRT_CHECK(function.ok()); // nothing that is visited can fail
    out.module.functions.push_back(std::move(function).value());
    out.captures.push_back(inliner.take_captures());
  }
  return std::optional(std::move(out));
}

} // namespace cugrt::plan
