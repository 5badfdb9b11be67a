// Checks whether bodies may have an item; see regions.h.
#include "compiler/ir_names.h"
#include "compiler/planner/lower/regions.h"

#include <algorithm>

namespace cugrt::plan {

namespace {

/// Walks over the blocks; the first thing that needs the host is the reason.
class Check {
public:
  Check(const ModuleContext &context, uint32_t function, const ValueTable &values)
      : context_(context), index_(function), function_(context.module.functions[function]),
        values_(values) {}

  ConditionalCheck run(const Binding &binding) {
    construct(binding, 1);
    if (result_.why_not.empty() && result_.steps > context_.options.max_region_nodes)
      refuse("it has more steps than a region may have");
    return std::move(result_);
  }

private:
  void refuse(std::string why) {
    if (result_.why_not.empty())
      result_.why_not = std::move(why);
  }
  bool is_tensor(ir::ValueId value) const { return values_.type(value).kind == TypeKind::tensor; }
  bool is_device_scalar(const Operand &o) const {
    return o.kind == Operand::Kind::value && is_tensor(o.value());
  }

  /// `times`: how often the construct's steps are planned.
  void construct(const Binding &b, uint64_t times) {
    bool loop = b.kind == BindingKind::while_;
    if (++depth_ > kMaxConditionalNesting)
      refuse("branches and loops are nested too deeply");
    const ir::ExprId by_symbol = symbolic_condition(context_, index_, b);
    if (by_symbol.valid() && context_.module.exprs.depth(by_symbol) > kMaxConditionDepth)
      refuse("its condition is nested too deeply");
    const ir::Block &test = function_.blocks[b.blocks.begin];
    std::span<const Operand> condition =
        loop ? function_.results_of(test) : function_.operands_of(b).first(1);
    if (!by_symbol.valid() && (condition.size() != 1 || !is_device_scalar(condition[0])))
      refuse(loop ? "its condition is a host scalar" : "the condition is a host scalar");
    for (uint32_t i = 0; i < b.result_count; ++i)
      if (!is_tensor(b.result(i)))
        refuse("%" + function_.value(b.result(i)).name + " is no tensor but a value of the host");
      else if (values_.is_dynamic(b.result(i)))
        refuse("%" + function_.value(b.result(i)).name + " is unplanned");
    for (uint32_t i = 0; i < (loop ? b.carried_count : 0); ++i)
      if (Operand o = function_.operands_of(b)[i];
          o.kind == Operand::Kind::value && values_.is_dynamic(o.value()))
        refuse("%" + function_.value(o.value()).name + " is unplanned");
    // A condition or a step each for the construct, a copy for each value that leaves a block, two
    // where carried values change places; a loop's first copies and its condition come twice.
    add(times, 2 + 3 * uint64_t(b.result_count) * (loop ? 1 : b.blocks.count));
    for (uint32_t block = b.blocks.begin; block < b.blocks.end(); ++block)
      this->block(block, loop && block == b.blocks.begin ? times * 2 : times);
    --depth_;
  }

  void block(uint32_t index, uint64_t times) {
    const ir::Block &block = function_.blocks[index];
    for (const Binding &b : block.bindings) {
      if (!result_.why_not.empty())
        return;
      binding(b, times);
    }
    for (const Operand &yield : function_.results_of(block))
      if (yield.kind == Operand::Kind::value && values_.is_dynamic(yield.value()))
        refuse("%" + function_.value(yield.value()).name + " is unplanned");
  }

  void binding(const Binding &b, uint64_t times) {
    switch (b.work()) {
    case BindingWork::launches:
      return launch(b, times);
    case BindingWork::controls:
      return construct(b, times);
    case BindingWork::calls:
      return refuse("@" + context_.module.functions[b.callee].name + " is called in it");
    case BindingWork::calls_host:
      return refuse("\"" + context_.module.callee_names[b.callee] + "\" runs on the host");
    case BindingWork::matches:
      return refuse("a shape is matched in it, which the host does");
    case BindingWork::computes:
      return refuse("a tensor-level op");
    case BindingWork::names:
      if ((b.kind == BindingKind::alloc || b.kind == BindingKind::alloc_tensor) &&
          values_.is_dynamic(b.result()))
        refuse("%" + function_.value(b.result()).name + " is unplanned");
      return;
    case BindingWork::kills:
    case BindingWork::reads:
      return;
    }
  }

  void launch(const Binding &b, uint64_t times) {
    add(times, 1);
    for (const Operand &operand : function_.operands_of(b))
      if (operand.kind == Operand::Kind::value && values_.is_dynamic(operand.value()))
        return refuse("%" + function_.value(operand.value()).name + " is unplanned");
    const ir::Kernel &kernel = context_.module.kernels[b.callee];
    if (!context_.options.cooperative_bodies &&
        std::any_of(kernel.variants.begin(), kernel.variants.end(),
                    [](const ir::KernelVariant &v) { return v.cooperative; }))
      refuse("@" + kernel.name +
             " is launched cooperatively, which bodies of conditional nodes do not take");
  }

  void add(uint64_t times, uint64_t steps) {
    constexpr uint64_t kMany = kMaxRegionNodes + 1; // no need to count further
    result_.steps =
        std::min(kMany, result_.steps + std::min(kMany, times) * std::min(kMany, steps));
  }

  // The conditions of branches within each other make one expression, whose depth is bounded.
  static constexpr uint32_t kMaxConditionDepth = 64;

  const ModuleContext &context_;
  const uint32_t index_;
  const ir::Function &function_;
  const ValueTable &values_;
  uint32_t depth_ = 0;
  ConditionalCheck result_;
};

} // namespace

ir::ExprId symbolic_condition(const ModuleContext &context, uint32_t function,
                              const Binding &binding) {
  if (binding.kind != BindingKind::if_)
    return {};
  const ir::Function &f = context.module.functions[function];
  const Operand &condition = f.operands_of(binding)[0];
  if (condition.kind == Operand::Kind::expr)
    return condition.expr();
  if (condition.kind != Operand::Kind::value)
    return {};
  const ir::Type &type = context.module.types[f.value(condition.value()).type];
  if (type.kind != TypeKind::scalar || type.dims.size() != 1)
    return {};
  const bool is_param =
      std::any_of(f.params.begin(), f.params.end(),
                  [&](const ir::Parameter &param) { return param.value == condition.value(); });
  return is_param ? type.dims[0] : ir::ExprId{};
}

ConditionalCheck check_conditional(const ModuleContext &context, uint32_t function,
                                   const ValueTable &values, const Binding &binding) {
  if (!context.options.conditional_nodes)
    return {"conditional nodes are switched off", 0};
  return Check(context, function, values).run(binding);
}

} // namespace cugrt::plan
