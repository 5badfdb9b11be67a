// Ops of a module beside the steps that they became; see step_operations.h.
#include "library/compile/step_operations.h"

#include <algorithm>

namespace cugrt::runtime {

namespace {

using Place = std::pair<uint32_t, uint32_t>; // line, column

/// The module's ops in order, those of nested blocks in the place of their binding.
void collect_ops(const ir::Function &function, const ir::Block &block,
                 std::vector<const ir::Binding *> &ops) {
  for (const ir::Binding &binding : block.bindings) {
    if (binding.kind == ir::BindingKind::op)
      ops.push_back(&binding);
    for (uint32_t i = binding.blocks.begin; i < binding.blocks.end(); ++i)
      collect_ops(function, function.blocks[i], ops);
  }
}

class Attribution {
public:
  Attribution(const ir::Module &module, const ir::Function &ops, const plan::Function &function,
              const std::map<std::string, int64_t> &symbols)
      : module_(module), f_(ops), function_(function), counts_(function.steps.size()),
        step_of_(ops.values.size(), plan::kNone) {
    for (const ir::Symbol &symbol : ops.symbols) {
      const auto found = symbols.find(symbol.name);
      is_given_.push_back(found != symbols.end());
      symbols_.push_back(is_given_.back() ? found->second : 0);
    }
  }

  std::vector<StepOperations> run() {
    std::vector<const ir::Binding *> ops;
    collect_ops(f_, f_.body(), ops);
    find_steps(ops);
    // Else an op is part of the first step that uses it.
    for (size_t i = ops.size(); i-- > 0;) {
      for (uint32_t r = 0; r < ops[i]->result_count && steps_[i] == plan::kNone; ++r)
        steps_[i] = step_of_[ops[i]->result(r).index];
      for (const ir::Operand &operand : f_.operands_of(*ops[i]))
        if (operand.kind == ir::Operand::Kind::value)
          step_of_[operand.index] = std::min(step_of_[operand.index], steps_[i]);
    }
    for (size_t i = 0; i < ops.size(); ++i) {
      if (steps_[i] != plan::kNone)
        add(*ops[i], counts_[steps_[i]]);
    }
    return std::move(counts_);
  }

private:
  static Place place_of(SourceLocation location) { return {location.line, location.column}; }

  /// The step of each op that has one. Of a place the steps are shared out among its ops in order,
  /// as a callee's that is called several times. What was made one launch with others, and has the
  /// place of the last of them, goes by the name of its result, as does what a pass made.
  void find_steps(const std::vector<const ir::Binding *> &ops) {
    std::map<Place, std::vector<uint32_t>> steps;
    std::map<Place, size_t> number, next;    // of ops
    std::map<std::string, uint32_t> written; // by a buffer's name, the first step that writes it
    for (uint32_t s = 0; s < function_.steps.size(); ++s) {
      const plan::Step &step = function_.steps[s];
      counts_[s].known = step.kind != plan::StepKind::kernel;
      if (step.location.known())
        steps[place_of(step.location)].push_back(s);
      for (uint32_t a = step.accesses.begin; a < step.accesses.end(); ++a)
        if (ir::writes(function_.accesses[a].access))
          written.try_emplace(function_.buffers[function_.accesses[a].buffer].name, s);
    }
    for (const ir::Binding *op : ops)
      ++number[place_of(op->location)];
    for (const ir::Binding *op : ops) {
      const Place place = place_of(op->location);
      const auto found = steps.find(place);
      const size_t i = next[place]++;
      steps_.push_back(plan::kNone);
      if (found == steps.end()) {
        if (const auto writer = written.find(f_.value(op->result()).name);
            writer != written.end()) {
          steps_.back() = writer->second;
          counts_[writer->second].known = true;
        }
        continue;
      }
      const size_t share = std::max<size_t>(1, found->second.size() / number[place]);
      steps_.back() = found->second[std::min(i * share, found->second.size() - 1)];
      for (const uint32_t step : found->second)
        counts_[step].known = true;
    }
  }

  std::optional<ir::SizedTensor> sized(ir::TypeId id) const {
    const ir::Type &type = module_.types[id];
    if (type.kind != ir::TypeKind::tensor)
      return ir::SizedTensor{};
    ir::SizedTensor tensor{true, type.dtype};
    for (const ir::ExprId dim : type.dims) {
      std::vector<ir::SymbolId> used;
      module_.exprs.collect_symbols(dim, used);
      const bool given = std::all_of(used.begin(), used.end(),
                                     [&](ir::SymbolId symbol) { return is_given_[symbol.index]; });
      const Result<int64_t> size =
          given ? module_.exprs.evaluate(dim, symbols_) : Result<int64_t>(-1);
      if (!size.ok() || *size < 0)
        return std::nullopt;
      tensor.dims.push_back(*size);
    }
    return type.known_shape ? std::optional(std::move(tensor)) : std::nullopt;
  }

  void add(const ir::Binding &op, StepOperations &step) const {
    std::vector<ir::SizedTensor> operands, results;
    auto push = [&](std::vector<ir::SizedTensor> &list, ir::TypeId type) {
      std::optional<ir::SizedTensor> tensor = sized(type);
      step.known = step.known && tensor.has_value();
      list.push_back(tensor ? std::move(*tensor) : ir::SizedTensor{});
    };
    for (const ir::Operand &operand : f_.operands_of(op))
      if (operand.kind == ir::Operand::Kind::value)
        push(operands, f_.value(operand.value()).type);
      else
        operands.emplace_back();
    for (uint32_t r = 0; r < op.result_count; ++r)
      push(results, f_.value(op.result(r)).type);
    if (!step.known)
      return;
    const ir::Operations operations =
        ir::count_operations(ir::op_of(op), operands, results, f_.attributes_of(op));
    step.counts[size_t(operations.kind)] += operations.count;
  }

  const ir::Module &module_;
  const ir::Function &f_;
  const plan::Function &function_;
  std::vector<StepOperations> counts_;
  std::vector<uint32_t> steps_;   // of each op
  std::vector<uint32_t> step_of_; // of each value: the first that takes it
  std::vector<int64_t> symbols_;
  std::vector<bool> is_given_;
};

} // namespace

std::vector<StepOperations> count_step_operations(const ir::Module &module, const ir::Function &ops,
                                                  const plan::Function &function,
                                                  const std::map<std::string, int64_t> &symbols) {
  return Attribution(module, ops, function, symbols).run();
}

} // namespace cugrt::runtime
