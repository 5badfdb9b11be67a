// Ops of a module beside the steps that they became; see step_operations.h.
#include "library/compile/step_operations.h"

#include "plan/bytes/archive.h"

#include <algorithm>
#include <nlohmann/json.hpp>

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
  Attribution(const ir::Module &module, const ir::Function &ops, const plan::Function &function)
      : module_(module), f_(ops), function_(function), step_of_(ops.values.size(), plan::kNone) {
    counted_.steps.resize(function.steps.size());
    for (const ir::Symbol &symbol : ops.symbols) {
      symbols_.push_back(counted_.exprs.symbol({static_cast<uint32_t>(counted_.symbols.size())}));
      counted_.symbols.push_back(symbol.name);
    }
  }

  FunctionOperations run() {
    std::vector<const ir::Binding *> ops;
    collect_ops(f_, f_.body(), ops);
    find_steps(ops);
    // An op without a step of its own is part of the first step that uses it. So is one whose steps
    // only move its operands, as before a convolution whose activation gave the launch its place.
    for (size_t i = ops.size(); i-- > 0;) {
      for (uint32_t r = 0; r < ops[i]->result_count; ++r)
        if (const uint32_t user = step_of_[ops[i]->result(r).index];
            steps_[i] == plan::kNone ||
            (user != plan::kNone && !names(steps_[i], *ops[i]) && names(user, *ops[i])))
          steps_[i] = user;
      for (const ir::Operand &operand : f_.operands_of(*ops[i]))
        if (operand.kind == ir::Operand::Kind::value)
          step_of_[operand.index] = std::min(step_of_[operand.index], steps_[i]);
    }
    for (size_t i = 0; i < ops.size(); ++i) {
      if (steps_[i] != plan::kNone)
        add(*ops[i], counted_.steps[steps_[i]]);
    }
    return std::move(counted_);
  }

private:
  /// Whether the op's name stands in that of the step's kernel as whole words: "mul" not in
  /// "matmul_f32".
  bool names(uint32_t step, const ir::Binding &op) const {
    const std::string &name = function_.steps[step].name; // behind a space, of a value
    const auto words = [](std::string_view text) { return "_" + std::string(text) + "_"; };
    return words(name.substr(0, name.find(' '))).find(words(ir::op_info(ir::op_of(op)).name)) !=
           std::string::npos;
  }

  static Place place_of(SourceLocation location) { return {location.line, location.column}; }

  /// Finds the step of each op that has one. Ops of one place share its steps in order, as those of
  /// a callee that is called several times. An op without a step at its place, which passes made or
  /// joined with later ones, has the first step that writes a buffer with its result's name.
  void find_steps(const std::vector<const ir::Binding *> &ops) {
    std::map<Place, std::vector<uint32_t>> steps;
    std::map<Place, size_t> number, next;    // of ops
    std::map<std::string, uint32_t> written; // by a buffer's name, the first step that writes it
    for (uint32_t s = 0; s < function_.steps.size(); ++s) {
      const plan::Step &step = function_.steps[s];
      counted_.steps[s].known = step.kind != plan::StepKind::kernel;
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
          counted_.steps[writer->second].known = true;
        }
        continue;
      }
      const size_t share = std::max<size_t>(1, found->second.size() / number[place]);
      steps_.back() = found->second[std::min(i * share, found->second.size() - 1)];
      for (const uint32_t step : found->second)
        counted_.steps[step].known = true;
    }
  }

  std::optional<ir::SizedTensor> sized(ir::TypeId id) {
    const ir::Type &type = module_.types[id];
    if (type.kind != ir::TypeKind::tensor)
      return ir::SizedTensor{};
    ir::SizedTensor tensor{true, type.dtype};
    for (const ir::ExprId dim : type.dims)
      tensor.dims.push_back(module_.exprs.copy_to(counted_.exprs, dim, symbols_));
    return type.known_shape ? std::optional(std::move(tensor)) : std::nullopt;
  }

  void add(const ir::Binding &op, FunctionOperations::Step &step) {
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
    for (const ir::OperationTerm &part : operations.terms)
      add(operations.kind, part, step.terms);
  }

  /// Constant sizes are part of the factor, and equal terms one.
  void add(ir::OperationKind kind, const ir::OperationTerm &part,
           std::vector<FunctionOperations::Term> &terms) const {
    FunctionOperations::Term term{kind, part.factor, {}};
    for (const ir::ExprId size : part.sizes)
      if (const std::optional<int64_t> constant = counted_.exprs.as_constant(size))
        term.factor *= double(*constant);
      else
        term.sizes.push_back(size);
    std::sort(term.sizes.begin(), term.sizes.end());
    for (FunctionOperations::Term &other : terms)
      if (other.kind == kind && other.sizes == term.sizes) {
        other.factor += term.factor;
        return;
      }
    if (term.factor != 0)
      terms.push_back(std::move(term));
  }

  const ir::Module &module_;
  const ir::Function &f_;
  const plan::Function &function_;
  FunctionOperations counted_;
  std::vector<uint32_t> steps_;   // of each op
  std::vector<uint32_t> step_of_; // of each value: the first that takes it
  std::vector<ir::ExprId> symbols_;
};

using Json = nlohmann::ordered_json;

Json size_json(const ir::ExprPool &exprs, ir::ExprId id) {
  const ir::ExprNode &node = exprs[id];
  if (node.kind == ir::ExprKind::constant)
    return {plan::enumerator_names<ir::ExprKind>()[0], node.value};
  if (node.kind == ir::ExprKind::symbol)
    return node.value;
  Json json = {plan::enumerator_names<ir::ExprKind>()[size_t(node.kind)]};
  for (const ir::ExprId operand : {node.a, node.b, node.c})
    if (operand.valid())
      json.push_back(size_json(exprs, operand));
  return json;
}

/// Reads the text of one function.
class OperationsReader {
public:
  explicit OperationsReader(const plan::Function &function) : function_(function) {}

  /// False: it is not of the function.
  bool read(const Json &json) {
    if (!json.is_array() || json.size() != 2 || !json[0].is_array() || !json[1].is_array() ||
        json[1].size() != function_.steps.size())
      return false;
    for (const Json &name : json[0]) {
      if (!name.is_string())
        return false;
      counted.symbols.push_back(name);
    }
    for (const Json &step : json[1]) {
      counted.steps.push_back({!step.is_null()});
      if (!step.is_null() && !step.is_array())
        return false;
      for (const Json &term : step)
        if (!read_term(term, counted.steps.back().terms))
          return false;
    }
    return true;
  }

  FunctionOperations counted;

private:
  bool read_term(const Json &json, std::vector<FunctionOperations::Term> &terms) {
    if (!json.is_array() || json.size() < 2 || !json[0].is_number_unsigned() ||
        json[0].get<uint64_t>() >= ir::kOperationKinds || !json[1].is_number())
      return false;
    FunctionOperations::Term term{
        static_cast<ir::OperationKind>(json[0].get<uint64_t>()), json[1].get<double>(), {}};
    for (size_t i = 2; i < json.size(); ++i) {
      const std::optional<ir::ExprId> size = read_size(json[i], 0);
      if (!size)
        return false;
      term.sizes.push_back(*size);
    }
    terms.push_back(std::move(term));
    return true;
  }

  std::optional<ir::ExprId> read_size(const Json &json, uint32_t depth) {
    if (json.is_number_unsigned() && json.get<uint64_t>() < counted.symbols.size())
      return counted.exprs.symbol({json.get<uint32_t>()});
    if (!json.is_array() || json.empty() || !json[0].is_string() ||
        depth == ir::ExprPool::kMaxDepth)
      return std::nullopt;
    const auto names = plan::enumerator_names<ir::ExprKind>();
    const auto name = std::find(names.begin(), names.end(), json[0].get<std::string>());
    const auto kind = static_cast<ir::ExprKind>(name - names.begin());
    if (name == names.end() || kind == ir::ExprKind::symbol ||
        json.size() != (kind == ir::ExprKind::constant ? 2
                        : kind == ir::ExprKind::select ? 4
                                                       : 3))
      return std::nullopt;
    if (kind == ir::ExprKind::constant)
      return json[1].is_number_integer()
                 ? std::optional(counted.exprs.constant(json[1].get<int64_t>()))
                 : std::nullopt;
    ir::ExprId operands[3];
    for (size_t i = 1; i < json.size(); ++i) {
      const std::optional<ir::ExprId> operand = read_size(json[i], depth + 1);
      if (!operand)
        return std::nullopt;
      operands[i - 1] = *operand;
    }
    return counted.exprs.make(kind, operands[0], operands[1], operands[2]);
  }

  const plan::Function &function_;
};

} // namespace

std::vector<StepOperations>
FunctionOperations::at(const std::map<std::string, int64_t> &values) const {
  std::vector<int64_t> given;
  std::vector<bool> is_given;
  for (const std::string &symbol : symbols) {
    const auto found = values.find(symbol);
    is_given.push_back(found != values.end());
    given.push_back(is_given.back() ? found->second : 0);
  }
  std::vector<StepOperations> counts;
  for (const Step &step : steps) {
    StepOperations &of = counts.emplace_back(StepOperations{step.known});
    for (const Term &term : step.terms) {
      double count = term.factor;
      for (const ir::ExprId size : term.sizes) {
        std::vector<ir::SymbolId> used;
        exprs.collect_symbols(size, used);
        const bool known = std::all_of(used.begin(), used.end(),
                                       [&](ir::SymbolId symbol) { return is_given[symbol.index]; });
        const Result<int64_t> value = known ? exprs.evaluate(size, given) : Result<int64_t>(-1);
        of.known = of.known && value.ok() && *value >= 0;
        count *= of.known ? double(*value) : 0;
      }
      of.counts[size_t(term.kind)] += count;
    }
  }
  return counts;
}

FunctionOperations count_step_operations(const ir::Module &module, const ir::Function &ops,
                                         const plan::Function &function) {
  return Attribution(module, ops, function).run();
}

std::vector<FunctionOperations> count_operations(const ir::Module &ops, const plan::Plan &plan) {
  std::vector<FunctionOperations> counted;
  for (const plan::Function &function : plan.functions) {
    const auto found = std::find_if(ops.functions.begin(), ops.functions.end(),
                                    [&](const ir::Function &f) { return f.name == function.name; });
    if (found != ops.functions.end())
      counted.push_back(count_step_operations(ops, *found, function));
    else
      counted.emplace_back().steps.resize(function.steps.size());
  }
  return counted;
}

std::string notes_text(const PackNotes &notes) {
  Json json{{"multiprocessors", notes.multiprocessors}, {"operations", Json::array()}};
  for (const std::vector<FunctionOperations> &functions : notes.operations) {
    Json &plan = json["operations"].emplace_back(Json::array());
    for (const FunctionOperations &function : functions) {
      Json steps = Json::array();
      for (const FunctionOperations::Step &step : function.steps) {
        Json &terms = steps.emplace_back(step.known ? Json::array() : Json());
        for (size_t t = 0; step.known && t < step.terms.size(); ++t) {
          const FunctionOperations::Term &term = step.terms[t];
          constexpr double kWhole = 0x1p53; // up to which whole numbers are written as such
          Json &row = terms.emplace_back(Json::array({size_t(term.kind)}));
          row.push_back(term.factor < kWhole && term.factor == double(uint64_t(term.factor))
                            ? Json(uint64_t(term.factor))
                            : Json(term.factor));
          for (const ir::ExprId size : term.sizes)
            row.push_back(size_json(function.exprs, size));
        }
      }
      plan.push_back(Json::array({function.symbols, std::move(steps)}));
    }
  }
  if (!notes.names.empty())
    json["names"] = names_json(notes.names);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<PackNotes> read_notes(std::string_view text, std::span<const plan::Plan> plans,
                             size_t targets) {
  const auto refused = [] {
    return Status::error(Code::parse_error, "the notes are not those of the pack's plans");
  };
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("multiprocessors") || !json.contains("operations"))
    return refused();
  const Json &counts = json["multiprocessors"], &operations = json["operations"];
  if (!counts.is_array() || counts.size() != targets || !operations.is_array() ||
      operations.size() != plans.size())
    return refused();
  PackNotes notes;
  for (const Json &count : counts) {
    if (!count.is_number_integer())
      return refused();
    notes.multiprocessors.push_back(count);
  }
  for (size_t p = 0; p < plans.size(); ++p) {
    notes.operations.emplace_back();
    if (!operations[p].is_array() || operations[p].size() != plans[p].functions.size())
      return refused();
    for (size_t f = 0; f < plans[p].functions.size(); ++f) {
      OperationsReader reader(plans[p].functions[f]);
      if (!reader.read(operations[p][f]))
        return refused();
      notes.operations.back().push_back(std::move(reader.counted));
    }
  }
  if (json.contains("names") && !read_names(json["names"], plans, notes.names))
    return refused();
  return notes;
}

} // namespace cugrt::runtime
