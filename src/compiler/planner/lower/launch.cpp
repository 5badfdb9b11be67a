// Launch steps. A kernel's rules are written over the kernel's symbols; here each symbol is
// replaced by the expression that the launch passes for it, so that the plan's rules are over the
// function's.
#include "compiler/planner/lower/regions.h"

#include "base/type/element.h"
#include "compiler/ir_names.h"
#include "compiler/planner/symbols/sizes.h"
#include "ir/module/module.h"
#include "plan/edges/hazards.h"

#include <llvm/ADT/SmallVector.h>

#include <algorithm>
#include <bit>

namespace cugrt::plan {

using ir::KernelParamKind;

namespace {

class LaunchBuilder {
public:
  LaunchBuilder(ModuleContext &context, uint32_t function, ValueTable &values, Function &out,
                const ir::Binding &binding)
      : context_(context), function_(context.module.functions[function]),
        storage_(context.storage.functions[function]), values_(values), out_(out),
        binding_(binding), kernel_(context.module.kernels[binding.callee]),
        replacement_(context.scratch_exprs), accesses_(context.scratch_accesses) {
    replacement_.assign(kernel_.symbols.size(), {});
    accesses_.clear();
  }

  Result<uint32_t> run(uint32_t time) {
    Step step;
    step.kernel = context_.kernel(binding_.callee);
    step.location = binding_.location;
    step.name = kernel_.name;
    std::span<const Operand> operands = function_.operands_of(binding_);
    if (operands.size() != kernel_.params.size())
      return fail("has " + std::to_string(operands.size()) + " operands for " +
                  std::to_string(kernel_.params.size()) + " parameters");
    step.arguments.begin = uint32_t(out_.arguments.size());
    for (size_t i = 0; i < operands.size(); ++i) {
      CUGRT_ASSIGN(Argument argument, argument_of(kernel_.params[i], operands[i]));
      if (kernel_.params[i].kind == KernelParamKind::tensor && ir::writes(kernel_.params[i].access))
        written_.push_back({uint32_t(i), argument.index});
      out_.arguments.push_back(argument);
    }
    step.arguments.count = uint32_t(operands.size());
    CUGRT_TRY(check_written());
    CUGRT_TRY(launch_rules(step, time));
    step.accesses = {uint32_t(out_.accesses.size()), uint32_t(accesses_.size())};
    out_.accesses.insert(out_.accesses.end(), accesses_.begin(), accesses_.end());
    for (const BufferAccess &access : accesses_)
      if (ir::writes(access.access)) {
        step.name += " %" + out_.buffers[access.buffer].name;
        break;
      }
    out_.steps.push_back(std::move(step));
    return uint32_t(out_.steps.size() - 1);
  }

private:
  Status fail(const std::string &what) const {
    return located(Code::verify_error, function_, binding_.location,
                   "the launch of @" + kernel_.name + " " + what);
  }
  std::string quoted(const ir::KernelParam &param) const { return "parameter " + param.name; }

  void add_access(uint32_t buffer, Access access) {
    for (BufferAccess &known : accesses_)
      if (known.buffer == buffer) {
        if (known.access != access)
          known.access = Access::inout;
        return;
      }
    accesses_.push_back({buffer, access});
  }

  Result<Argument> argument_of(const ir::KernelParam &param, const Operand &operand) {
    switch (param.kind) {
    case KernelParamKind::tensor:
      return tensor_argument(param, operand);
    case KernelParamKind::device_symbol:
    case KernelParamKind::checked_symbol:
      return device_symbol_argument(param, operand);
    case KernelParamKind::scalar:
      break;
    case KernelParamKind::symbol:
      break;
    }
    Result<Argument> argument = scalar_argument(param, operand);
    if (argument.ok() && param.symbol.valid())
      replacement_[param.symbol.index] = expression_of(*argument);
    return argument;
  }

  Result<Argument> tensor_argument(const ir::KernelParam &param, const Operand &operand) {
    if (operand.kind != Operand::Kind::value)
      return fail("needs a tensor for " + quoted(param));
    ir::ValueId value = operand.value();
    if (ir::writes(param.access))
      if (std::string what = values_.write_protection(value); !what.empty())
        return fail("writes %" + function_.value(value).name + ", which is " + what);
    CUGRT_ASSIGN(uint32_t buffer, values_.buffer(value, binding_.location));
    add_access(buffer, param.access);
    return Argument{ArgumentKind::buffer, out_.buffers[buffer].dtype, buffer, 0};
  }

  /// Fails for two outputs that share bytes: their content would be open.
  Status check_written() {
    if (written_.size() < 2)
      return {};
    const std::span<const Operand> operands = function_.operands_of(binding_);
    for (size_t i = 0; i < written_.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (always_overlap(context_.plan.exprs, out_.buffers[written_[j].second],
                           out_.buffers[written_[i].second], values_.bounds(),
                           values_.matched_symbols())) {
          const uint32_t first = written_[j].first, second = written_[i].first;
          return fail("writes %" + function_.value(operands[first].value()).name + " by " +
                      quoted(kernel_.params[first]) + " and %" +
                      function_.value(operands[second].value()).name + " by " +
                      quoted(kernel_.params[second]) + ", which overlap");
        }
    return {};
  }

  Result<Argument> device_symbol_argument(const ir::KernelParam &param, const Operand &operand) {
    const ir::ExprNode *node =
        operand.kind == Operand::Kind::expr ? &context_.module.exprs[operand.expr()] : nullptr;
    if (!node || node->kind != ir::ExprKind::symbol)
      return fail("needs the symbol of a read binding for " + quoted(param));
    SymbolId symbol{uint32_t(node->value)};
    CUGRT_ASSIGN(uint32_t buffer, values_.element(symbol, binding_.location));
    if (out_.buffers[buffer].dtype != param.dtype)
      return fail("reads " + quoted(param) + " as another dtype than the tensor has");
    add_access(buffer, Access::in);
    if (param.symbol.valid()) // launch dimensions take the upper bound: the value is not known here
      replacement_[param.symbol.index] =
          context_.plan.exprs.constant(function_.symbols[symbol.index].bounds.upper);
    if (param.kind == KernelParamKind::checked_symbol)
      return Argument{ArgumentKind::checked_symbol, param.dtype, buffer, symbol.index};
    return Argument{ArgumentKind::buffer, param.dtype, buffer, 0};
  }

  Result<Argument> scalar_argument(const ir::KernelParam &param, const Operand &operand) {
    if (operand.kind == Operand::Kind::literal)
      return literal_argument(param, context_.module.literals[operand.index]);
    if (operand.kind == Operand::Kind::expr)
      return expr_argument(param, operand.expr());
    if (operand.kind == Operand::Kind::none)
      return fail("needs a value for " + quoted(param));
    const ir::Type &type = values_.type(operand.value());
    if (type.kind != ir::TypeKind::scalar)
      return fail("needs a scalar for " + quoted(param));
    if (!type.dims.empty())
      return expr_argument(param, type.dims[0]);
    CUGRT_ASSIGN(OperandRef ref, values_.ref(operand.value(), binding_.location));
    if (ref.kind == OperandRef::Kind::expr)
      return Argument{ArgumentKind::expr, param.dtype, ref.index, 0};
    const HostValue &host = out_.host_values[ref.index];
    if (host.kind != HostValueKind::literal)
      return Argument{ArgumentKind::host_value, param.dtype, ref.index, 0};
    return literal_argument(param, host);
  }

  Result<Argument> expr_argument(const ir::KernelParam &param, ExprId expr) {
    std::vector<SymbolId> symbols; // none of a constant
    context_.module.exprs.collect_symbols(expr, symbols);
    for (SymbolId symbol : symbols)
      if (function_.symbols[symbol.index].source == ir::SymbolSource::device)
        return fail("passes symbol " + function_.symbols[symbol.index].name + " by value for " +
                    quoted(param) +
                    ", but it lives in device memory; declare the parameter "
                    "device_symbol or checked_symbol");
    ExprId copy = context_.copy(expr);
    if (auto constant = context_.plan.exprs.as_constant(copy);
        constant && !ir::scalar_bits(param.dtype, *constant).ok())
      return does_not_fit(param);
    return Argument{ArgumentKind::expr, param.dtype, copy.index, 0};
  }

  Status does_not_fit(const ir::KernelParam &param) const {
    return fail("passes a value for " + quoted(param) + " that does not fit into " +
                std::string(ir::info(param.dtype).name));
  }

  Result<Argument> literal_argument(const ir::KernelParam &param, const ir::AttributeValue &value) {
    if (const bool *b = std::get_if<bool>(&value))
      return bits_argument(param, ir::scalar_bits(param.dtype, int64_t(*b)));
    if (const int64_t *i = std::get_if<int64_t>(&value))
      return bits_argument(param, ir::scalar_bits(param.dtype, *i));
    if (const double *d = std::get_if<double>(&value))
      return bits_argument(param, ir::scalar_bits(param.dtype, *d));
    return does_not_fit(param);
  }

  Result<Argument> literal_argument(const ir::KernelParam &param, const HostValue &literal) {
    return bits_argument(param,
                         literal.scalar == ir::ScalarKind::floating
                             ? ir::scalar_bits(param.dtype, std::bit_cast<double>(literal.bits))
                             : ir::scalar_bits(param.dtype, int64_t(literal.bits)));
  }

  Result<Argument> bits_argument(const ir::KernelParam &param, Result<uint64_t> bits) const {
    if (!bits.ok())
      return does_not_fit(param);
    return Argument{ArgumentKind::bits, param.dtype, 0, *bits};
  }

  /// An expression for a symbol parameter in rules; invalid if only the host knows the value.
  ExprId expression_of(const Argument &argument) {
    if (argument.kind == ArgumentKind::expr)
      return {argument.index};
    if (argument.kind == ArgumentKind::bits)
      return context_.plan.exprs.constant(argument.dtype == ir::DType::i32
                                              ? int64_t(int32_t(argument.bits))
                                              : int64_t(argument.bits));
    return {};
  }

  /// Rules must not use a symbol for which a value is passed that only the host knows.
  Status check_symbols() const {
    if (std::all_of(replacement_.begin(), replacement_.end(), [](ExprId e) { return e.valid(); }))
      return {};
    std::vector<SymbolId> symbols;
    auto collect = [&](ExprId expr) {
      if (expr.valid())
        context_.module.exprs.collect_symbols(expr, symbols);
    };
    for (const ir::KernelVariant &variant : kernel_.variants) {
      for (size_t i = 0; i < 3; ++i) {
        collect(variant.grid[i]);
        collect(variant.block[i]);
      }
      for (ExprId expr : {variant.predicate, variant.shared_bytes, variant.workspace_bytes})
        collect(expr);
    }
    for (SymbolId symbol : symbols)
      if (!replacement_[symbol.index].valid())
        return fail("has launch rules over " + kernel_.symbols[symbol.index] +
                    ", for which it passes a value that is known only during the run; pass an "
                    "expression over symbols");
    return {};
  }

  Status launch_rules(Step &step, uint32_t time) {
    CUGRT_TRY(check_symbols());
    step.launches = {uint32_t(out_.launches.size()), uint32_t(kernel_.variants.size())};
    uint32_t storage_class = storage_.workspace_at(time);
    const LaunchRules &rules = context_.launch_rules(binding_.callee, replacement_);
    for (size_t variant = 0; variant < rules.rules.size(); ++variant) {
      LaunchRule rule = rules.rules[variant];
      ExprId workspace = rules.workspace_bytes[variant];
      if (workspace.valid() && storage_class != kNone) {
        std::string name = kernel_.name + ".workspace";
        rule.workspace = values_.workspace(storage_class, workspace, std::move(name));
        accesses_.push_back({rule.workspace, Access::out});
      }
      out_.launches.push_back(rule);
    }
    return {};
  }

  ModuleContext &context_;
  const ir::Function &function_;
  const FunctionStorage &storage_;
  ValueTable &values_;
  Function &out_;
  const ir::Binding &binding_;
  const ir::Kernel &kernel_;
  std::vector<ExprId> &replacement_; // by kernel symbol
  std::vector<BufferAccess> &accesses_;
  llvm::SmallVector<std::pair<uint32_t, uint32_t>, 4> written_; // operands and their buffers
};

} // namespace

Result<uint32_t> add_kernel_step(ModuleContext &context, uint32_t function, ValueTable &values,
                                 Function &out, const ir::Binding &binding, uint32_t time) {
  return LaunchBuilder(context, function, values, out, binding).run(time);
}

uint32_t add_copy_step(Function &out, uint32_t to, uint32_t from, SourceLocation location) {
  Step step;
  step.kind = StepKind::copy;
  step.name = "copy %" + out.buffers[to].name;
  step.accesses = {uint32_t(out.accesses.size()), 2};
  step.arguments.begin = uint32_t(out.arguments.size());
  step.launches.begin = uint32_t(out.launches.size());
  step.location = location;
  out.accesses.push_back({to, Access::out});
  out.accesses.push_back({from, Access::in});
  out.steps.push_back(std::move(step));
  return uint32_t(out.steps.size() - 1);
}

} // namespace cugrt::plan
