// LiftTransformParams: computes values that depend on weights and constants alone once, when a
// session is opened, instead of in every run:
//
//   func @main(%x: .., %w: ..) {               func @main(%x: .., %w: ..,
//     %h = cast(%w) {dtype = f16}                         %main_transform_params.0: ..) {
//     %y = matmul(%x, %h)                        %y = matmul(%x, %main_transform_params.0)
//     ..                                         ..
//                                              func @main_transform_params(%w: ..) -> (..)
//                                                  attributes {num_inputs = 0} {
//                                                %h = cast(%w) {dtype = f16}
//                                                return %h
//
// If several functions compute the same, the first one's function gives the weight to all of them.
//
// Results that share what they are computed from are one function's. Others are shared out among
// functions that take few bytes each: what a function takes is on the device while it runs only.
//
// A weight that is named as a function that takes weights only, with a number behind it, is that
// function's result (device/code/computed_weights.h). The ops are the same ones on the same
// operands, so results have the same bits.
//
// Lifted are ops of the body, with constant dimensions. A result stays where the function does more
// with it than reading it in ops and launches (returns, carries, ends, writes or renames it), for a
// weight is none of its tensors; so do results that would be views, and what only stretches a
// tensor: they cost no time, and would cost memory.
#include "compiler/ir_names.h"
#include "compiler/passes/all_passes.h"
#include "compiler/passes/mixed_precision.h"
#include "compiler/planner/symbols/sizes.h"
#include "ir/module/function_cloner.h"
#include "ir/module/names.h"
#include "ops/emit/element_ops.h"
#include "ops/table/ops.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <unordered_map>
#include <utility>

namespace cugrt::passes {

namespace {

/// Chooses the bindings of a function that are lifted.
class Choice {
public:
  /// `source` is the module of `function`; `target` has its pools, and gets further expressions.
  Choice(const ir::Module &source, const ir::Function &function, ir::Module &target)
      : module_(target), function_(function), fixed_(function.values.size()),
        made_by_(function.values.size()), read_(function.values.size()),
        pinned_(find_written_values(source, function)) {
    find_fixed();
    find_uses();
    leave_what_stays();
  }

  bool is_lifted(const Binding &binding) const {
    return binding.result_count == 1 && made_by_[binding.first_result] == &binding;
  }
  /// Lifted results that the function reads, in order.
  std::vector<ValueId> results() const {
    std::vector<ValueId> results;
    for (const Binding &binding : function_.body().bindings)
      if (is_lifted(binding) && read_[binding.first_result])
        results.push_back(binding.result());
    return results;
  }

private:
  bool is_plain(ValueId value) const {
    const ir::Type &type = module_.types[function_.value(value).type];
    if (type.kind != ir::TypeKind::tensor && type.kind != ir::TypeKind::shape)
      return false;
    bool plain = type.is_plain();
    for (ir::ExprId dim : type.dims)
      plain = plain && module_.exprs.as_constant(dim);
    return plain;
  }

  void find_fixed() {
    for (size_t p = 0; p < function_.params.size(); ++p)
      if (function_.is_weight(p))
        fixed_[function_.params[p].value.index] = is_plain(function_.params[p].value);
    for (const Binding &binding : function_.body().bindings) {
      const bool is_source =
          binding.kind == BindingKind::constant || binding.kind == BindingKind::shape;
      if (is_source)
        fixed_[binding.first_result] = is_plain(binding.result());
      if (binding.kind != BindingKind::op || binding.result_count != 1 ||
          !is_plain(binding.result()) || !reads_fixed(binding))
        continue;
      fixed_[binding.first_result] = true;
      made_by_[binding.first_result] = &binding;
    }
  }

  /// Some tensor, and nothing that changes.
  bool reads_fixed(const Binding &binding) const {
    bool any = false;
    for (const Operand &operand : function_.operands_of(binding)) {
      if (operand.kind == Operand::Kind::none)
        continue;
      if (operand.kind != Operand::Kind::value || !fixed_[operand.index])
        return false;
      any =
          any || module_.types[function_.value(operand.value()).type].kind == ir::TypeKind::tensor;
    }
    return any;
  }

  void find_uses() {
    for (const ir::Block &block : function_.blocks) {
      for (const Binding &binding : block.bindings)
        if (!is_lifted(binding))
          use(binding);
      for (const Operand &operand : function_.results_of(block))
        if (operand.kind == Operand::Kind::value)
          pinned_[operand.index] = true;
    }
  }

  void use(const Binding &binding) {
    using enum BindingKind;
    const std::span<const Operand> operands = function_.operands_of(binding);
    const size_t carried = binding.kind == while_ ? binding.carried_count : 0;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].kind != Operand::Kind::value)
        continue;
      const bool only_reads = binding.kind == op || binding.kind == launch || binding.kind == if_ ||
                              (binding.kind == while_ && i >= carried);
      read_[operands[i].index] = true;
      if (!only_reads)
        pinned_[operands[i].index] = true;
    }
  }

  /// From the last to the first: a value that is read outside and stays makes its operands read.
  void leave_what_stays() {
    const std::vector<Binding> &bindings = function_.body().bindings;
    for (size_t i = bindings.size(); i-- > 0;) {
      const Binding &binding = bindings[i];
      if (!is_lifted(binding))
        continue;
      const uint32_t result = binding.first_result;
      if (!pinned_[result] && !(read_[result] && costs_nothing(binding)))
        continue;
      made_by_[result] = nullptr;
      for (const Operand &operand : function_.operands_of(binding))
        if (operand.kind == Operand::Kind::value)
          read_[operand.index] = true;
    }
  }

  /// Results that LegalizeOps makes views of their operand, or that are stretched.
  bool costs_nothing(const Binding &binding) {
    std::vector<ir::TypeId> operands;
    for (const Operand &operand : function_.operands_of(binding))
      operands.push_back(operand.kind == Operand::Kind::value
                             ? function_.value(operand.value()).type
                             : ir::TypeId());
    const ir::TypeId result = function_.value(binding.result()).type;
    const auto view = codegen::op_view(module_, ir::op_of(binding), operands, std::span(&result, 1),
                                       function_.attributes_of(binding));
    return ir::op_of(binding) == ir::Op::broadcast_to || (view.ok() && *view);
  }

  ir::Module &module_;
  const ir::Function &function_;
  std::vector<bool> fixed_;              // by value: weights and constants alone decide it
  std::vector<const Binding *> made_by_; // by value: the lifted op
  std::vector<bool> read_, pinned_;      // by value: outside; so that it must stay
};

/// For each value: whether it is a result, or the results are computed from it.
std::vector<bool> find_needed(const ir::Function &function, std::span<const ValueId> results) {
  std::vector<bool> needed(function.values.size());
  for (ValueId result : results)
    needed[result.index] = true;
  const std::vector<Binding> &bindings = function.body().bindings;
  for (size_t i = bindings.size(); i-- > 0;)
    // Computes values here, too, that stay in the function because they cost nothing there.
    if (bindings[i].result_count == 1 && needed[bindings[i].first_result])
      for (const Operand &operand : function.operands_of(bindings[i]))
        if (operand.kind == Operand::Kind::value)
          needed[operand.index] = true;
  return needed;
}

/// Which results are computed by one function: those that share a weight or a step, and others as
/// long as they take at most a kShare-th of all bytes together, or kLeastBytes.
class Parts {
public:
  static constexpr int64_t kShare = 16, kLeastBytes = 1 << 20;

  Parts(const ir::Module &module, const ir::Function &function, std::span<const ValueId> results)
      : results_(results), leader_(function.values.size()), bytes_(function.values.size()) {
    const std::vector<bool> needed = find_needed(function, results);
    std::iota(leader_.begin(), leader_.end(), 0u);
    std::vector<bool> is_plain(function.values.size()); // constants, which join nothing
    for (const Binding &binding : function.body().bindings) {
      if (binding.result_count != 1 || !needed[binding.first_result])
        continue;
      is_plain[binding.first_result] = binding.kind != BindingKind::op;
      for (const Operand &operand : function.operands_of(binding))
        if (operand.kind == Operand::Kind::value && !is_plain[operand.index])
          leader_[leader(operand.index)] = leader(binding.first_result);
    }
    const ir::SymbolDomain domain = function.symbol_domain(module.exprs);
    for (const ir::Parameter &param : function.params) {
      const ir::Type &type = module.types[function.value(param.value).type];
      if (needed[param.value.index] && type.kind == ir::TypeKind::tensor)
        bytes_[leader(param.value.index)] +=
            plan::max_tensor_bytes(module.exprs, type, domain).value_or(0);
    }
  }

  /// The number of each result, from 0 on.
  std::vector<size_t> numbers() {
    std::unordered_map<uint32_t, size_t> parts; // by leader
    int64_t all = 0, taken = 0;
    for (ValueId result : results_)
      if (parts.try_emplace(leader(result.index)).second)
        all += bytes_[leader(result.index)];
    parts.clear();
    const int64_t most = std::max(all / kShare, kLeastBytes);
    size_t part = 0;
    std::vector<size_t> found;
    for (ValueId result : results_) {
      const auto [own, is_new] = parts.try_emplace(leader(result.index), part);
      if (is_new) {
        const int64_t bytes = bytes_[own->first];
        if (taken > 0 && taken + bytes > most) {
          own->second = ++part;
          taken = 0;
        }
        taken += bytes;
      }
      found.push_back(own->second);
    }
    return found;
  }

private:
  uint32_t leader(uint32_t value) {
    while (leader_[value] != value)
      value = leader_[value] = leader_[leader_[value]];
    return value;
  }

  std::span<const ValueId> results_;
  std::vector<uint32_t> leader_; // of values that belong together
  std::vector<int64_t> bytes_;   // by leader: of weights
};

/// A function that computes weights, and the results of another that it gives.
struct Computed {
  std::string name;
  std::vector<ValueId> results{};
};

/// A value that several functions lift alike is one weight of the first one's function.
class SharedWeights {
public:
  /// The name of the weight that each of `results` is; one of a function before this one, or of
  /// that of `transforms` which `parts` says, which gets it as its result. `new_name` gives names
  /// of functions.
  std::vector<std::string> names(const ir::Function &function, std::span<const ValueId> results,
                                 std::span<const size_t> parts,
                                 const std::function<std::string()> &new_name,
                                 std::vector<Computed> &transforms) {
    const std::vector<uint32_t> numbers = number(function);
    std::unordered_map<size_t, size_t> of_parts;
    std::vector<std::string> names;
    for (size_t i = 0; i < results.size(); ++i) {
      std::string &name = names_[numbers[results[i].index]];
      if (name.empty()) {
        const auto [at, is_new] = of_parts.try_emplace(parts[i], transforms.size());
        if (is_new)
          transforms.push_back({new_name()});
        Computed &own = transforms[at->second];
        name = own.name + "." + std::to_string(own.results.size());
        own.results.push_back(results[i]);
      }
      names.push_back(name);
    }
    return names;
  }

private:
  /// A number for each value: equal values have one number, over all functions. Dimensions are
  /// constants, so equal types have equal ids.
  std::vector<uint32_t> number(const ir::Function &function) {
    std::vector<uint32_t> numbers(function.values.size());
    auto give = [&](ValueId value, const std::string &key,
                    std::span<const ir::Attribute> attributes = {}) {
      numbers[value.index] =
          number_of(key + " : " + std::to_string(function.value(value).type.index), attributes);
    };
    for (const ir::Parameter &param : function.params)
      give(param.value, "%" + function.value(param.value).name);
    for (const Binding &binding : function.body().bindings) {
      if (binding.kind == BindingKind::constant)
        give(binding.result(), "constant " + std::to_string(binding.callee));
      else if (binding.kind == BindingKind::shape)
        give(binding.result(), "shape");
      else if (binding.kind == BindingKind::op && binding.result_count == 1)
        give(binding.result(), key_of(function, binding, numbers), function.attributes_of(binding));
      else
        for (uint32_t i = 0; i < binding.result_count; ++i)
          numbers[binding.first_result + i] = count_++; // equal to no other
    }
    return numbers;
  }

  static std::string key_of(const ir::Function &function, const Binding &binding,
                            const std::vector<uint32_t> &numbers) {
    std::string key = "op " + std::to_string(binding.callee);
    for (const Operand &operand : function.operands_of(binding))
      key += operand.kind == Operand::Kind::value ? " " + std::to_string(numbers[operand.index])
                                                  : " none";
    return key;
  }

  uint32_t number_of(const std::string &key, std::span<const ir::Attribute> attributes) {
    auto &alike = known_[key];
    for (const auto &[given, number] : alike)
      if (std::equal(given.begin(), given.end(), attributes.begin(), attributes.end()))
        return number;
    alike.emplace_back(std::vector(attributes.begin(), attributes.end()), count_);
    return count_++;
  }

  /// Keyed by the computation of a value but for its attributes: these, and the value's number.
  std::unordered_map<std::string, std::vector<std::pair<std::vector<ir::Attribute>, uint32_t>>>
      known_;
  uint32_t count_ = 0;
  std::unordered_map<uint32_t, std::string> names_; // of weights, by number
};

/// The function that computes the lifted results.
class Transform {
public:
  Transform(const ir::Function &source, ir::Module &target, const std::string &name)
      : source_(source), builder_(target, name) {}

  ir::Function build(const std::vector<ValueId> &results) {
    const std::vector<bool> needed = find_needed(source_, results);
    ir::Function &function = builder_.function();
    function.num_inputs = 0;
    function.location = source_.location;
    for (const ir::Parameter &param : source_.params)
      if (needed[param.value.index])
        values_[param.value.index] =
            builder_.param(source_.value(param.value).name, source_.value(param.value).type);
    for (const Binding &binding : source_.body().bindings)
      if (binding.result_count == 1 && needed[binding.first_result])
        append(binding);
    std::vector<Operand> returned;
    for (ValueId result : results) {
      returned.push_back(Operand::of(values_.at(result.index)));
      function.result_types.push_back(source_.value(result).type);
    }
    return builder_.finish(returned, source_.location);
  }

private:
  void append(const Binding &binding) {
    std::vector<Operand> operands;
    for (Operand operand : source_.operands_of(binding))
      operands.push_back(
          operand.kind == Operand::Kind::value ? Operand::of(values_.at(operand.index)) : operand);
    Binding made{};
    made.kind = binding.kind;
    made.callee = binding.callee;
    made.location = binding.location;
    const ir::Value &result = source_.value(binding.result());
    values_[binding.first_result] =
        builder_.bind(made, operands, source_.exprs_of(binding), source_.attributes_of(binding),
                      std::span(&result.name, 1), std::span(&result.type, 1));
  }

  const ir::Function &source_;
  ir::FunctionBuilder builder_;
  std::unordered_map<uint32_t, ValueId> values_; // by source value
};

/// The function without lifted bindings, whose results become weights behind its own.
class Rest : public ir::FunctionCloner {
public:
  Rest(const ir::Function &source, ir::Module &target, const Choice &choice,
       const std::vector<ValueId> &results, const std::vector<std::string> &names)
      : FunctionCloner(source, target), choice_(choice), results_(results), names_(names) {}

protected:
  void copy_signature() override {
    FunctionCloner::copy_signature();
    std::unordered_map<std::string, ValueId> params; // a function may compute a weight twice
    for (size_t i = 0; i < results_.size(); ++i) {
      const ir::Value &value = source().value(results_[i]);
      auto [param, is_new] = params.try_emplace(names_[i]);
      if (is_new)
        param->second = builder().param(names_[i], value.type, ir::Access::in, 0, value.location);
      map(results_[i], param->second);
    }
  }
  Status visit(const Binding &binding) override {
    return choice_.is_lifted(binding) ? Status() : copy(binding);
  }

private:
  const Choice &choice_;
  const std::vector<ValueId> &results_;
  const std::vector<std::string> &names_;
};

bool has_param(const ir::Function &function, const std::string &prefix) {
  for (const ir::Parameter &param : function.params)
    if (function.value(param.value).name.starts_with(prefix))
      return true;
  return false;
}

/// Whether it takes weights only: its results are computed once already.
bool takes_weights_only(const ir::Function &function) { return function.num_inputs == 0; }

} // namespace

Result<ir::Module> lift_transform_params(const ir::Module &given, const PassContext &context) {
  if (!context.flag("lift.params"))
    return given;
  CUGRT_ASSIGN(const ir::Module module, lay_out_weights(given, context));
  ir::Module target = ir::without_functions(module);
  std::unordered_map<std::string, uint32_t> names;
  for (const ir::Function &function : module.functions)
    names.insert({function.name, 1});
  std::vector<ir::Function> transforms;
  SharedWeights shared;
  for (const ir::Function &function : module.functions) {
    const Choice choice(module, function, target);
    const std::vector<ValueId> results = choice.results();
    const std::string wanted = function.name + "_transform_params";
    if (function.is_private || takes_weights_only(function) || results.empty() ||
        function.num_inputs > function.params.size() || has_param(function, wanted)) {
      target.functions.push_back(function);
      continue;
    }
    std::vector<Computed> computed;
    const std::vector<std::string> weights = shared.names(
        function, results, Parts(module, function, results).numbers(),
        [&] { return ir::unique_name(names, wanted, "_"); }, computed);
    for (const Computed &one : computed)
      transforms.push_back(Transform(function, target, one.name).build(one.results));
    CUGRT_TRY(Rest(function, target, choice, results, weights).add_function());
  }
  for (ir::Function &transform : transforms)
    target.functions.push_back(std::move(transform));
  return target;
}

} // namespace cugrt::passes
