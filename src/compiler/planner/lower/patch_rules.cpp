// The rules of policy `patch`: only true dynamism ends a region.
#include "compiler/ir_names.h"
#include "compiler/planner/lower/regions.h"
#include "compiler/planner/symbols/sizes.h"

namespace cugrt::plan {

namespace {

class PatchRules final : public RegionRules {
public:
  PatchRules(const ModuleContext &context, uint32_t function, const ValueTable &values)
      : context_(context), module_(context.module), function_(context.module.functions[function]),
        index_(function), values_(values) {}

  bool copies_join() const override { return true; }

  Decision decide(const ir::Binding &b) override {
    switch (b.work()) {
    case BindingWork::launches:
      return launch(b);
    case BindingWork::calls:
      return {Verdict::closes, "a call of @" + module_.functions[b.callee].name +
                                   ", whose regions are its own: " + why_it_stays()};
    case BindingWork::calls_host:
      if (b.kind == BindingKind::extern_call)
        return {Verdict::closes, "extern \"" + module_.callee_names[b.callee] +
                                     "\" is taken for a host function until it is resolved"};
      return {Verdict::closes, "host builtin \"" + module_.callee_names[b.callee] +
                                   "\" runs on the host, and everything before it must have ended"};
    case BindingWork::controls:
      return control(b);
    case BindingWork::matches:
      return {Verdict::stays, "shapes are matched on the host before the region is launched"};
    case BindingWork::reads:
      return {Verdict::joins_open, "kernels read the symbol from device memory"};
    case BindingWork::computes:
      return {Verdict::closes, "a tensor-level op"};
    case BindingWork::names:
      if (b.kind != BindingKind::alloc)
        break;
      if (!values_.is_dynamic(b.result()))
        return {Verdict::stays, "a function result: its storage is a slot"};
      return {Verdict::stays,
              "unplanned storage: its address is known only during the run" +
                  unbounded_reason(module_, function_, b.result(), values_.bounds())};
    case BindingWork::kills:
      break;
    }
    return {Verdict::joins_open, "names storage or host values, runs nothing"};
  }

private:
  /// Why the inliner left this call. Its reasons stand in program order, which is the order of the
  /// decisions here, so each call takes the next one.
  std::string why_it_stays() {
    return next_call_ < function_.kept_calls.size() ? function_.kept_calls[next_call_++]
                                                    : "calls are not planned through here";
  }

  Decision control(const ir::Binding &b) const {
    const bool loop = b.kind == BindingKind::while_;
    std::string why_not = check_conditional(context_, index_, values_, b).why_not;
    if (why_not.empty() && symbolic_condition(context_, index_, b).valid())
      return {Verdict::joins, "a branch on symbols: a graph has the steps that its key takes"};
    if (why_not.empty())
      return {Verdict::joins, loop ? "a conditional node, which runs its body while the condition "
                                     "on the device holds"
                                   : "a conditional node, which takes the condition from the "
                                     "device and runs one of its bodies"};
    return {Verdict::closes,
            (loop ? "the host runs the loop, whose blocks have regions of their own: "
                  : "the host runs one of the branches, which have regions of their own: ") +
                why_not};
  }

  Decision launch(const ir::Binding &b) const {
    for (const ir::Operand &operand : function_.operands_of(b))
      if (operand.kind == ir::Operand::Kind::value && values_.is_dynamic(operand.value()))
        return {Verdict::closes,
                "touches %" + function_.value(operand.value()).name +
                    ", which is unplanned: its address is known only during "
                    "the run" +
                    unbounded_reason(module_, function_, operand.value(), values_.bounds())};
    return {Verdict::joins, "a launch on planned storage, slots, weights and constants"};
  }

  const ModuleContext &context_;
  const ir::Module &module_;
  const ir::Function &function_;
  const uint32_t index_;
  const ValueTable &values_;
  size_t next_call_ = 0;
};

} // namespace

std::unique_ptr<RegionRules> make_patch_rules(const ModuleContext &context, uint32_t function,
                                              const ValueTable &values) {
  return std::make_unique<PatchRules>(context, function, values);
}

} // namespace cugrt::plan
