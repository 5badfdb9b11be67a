// FuseOps: ops that can be one kernel become a private function, and a call of it:
//
//   %m = matmul(%x, %w)               %y = call @fused_matmul_add_relu(%x, %w, %b)
//   %a = add(%m, %b)
//   %y = relu(%a)
//
// Which ops these are stands in op_groups.h. A group is called where its last op stood, so that
// what its other ops read is read later than before: groups lie within a run of bindings that write
// nothing and end nothing. Groups that are written alike are one function. The first symbols that a
// group needs follow from its parameters' types; for the others it takes a shape, its last
// parameter.
#include "compiler/fused/fused_group.h"
#include "compiler/ir_names.h"
#include "compiler/passes/all_passes.h"
#include "compiler/passes/op_groups.h"
#include "compiler/passes/spread_values.h"
#include "ir/module/function_cloner.h"
#include "ir/module/infer.h"
#include "ir/module/names.h"
#include "ops/emit/element_ops.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

namespace cugrt::passes {

namespace {

using ir::TypeKind;

constexpr uint32_t kNoValue = UINT32_MAX;

// --- Groups of a function ------------------------------------------------------------------------

/// The ops of a function as a graph, and its groups of more than one.
class Groups {
public:
  Groups(const ir::Module &module, const ir::Function &function, const GroupOptions &options)
      : module_(module), function_(function), options_(options), spread_(module, function),
        uses_(function), node_of_(function.values.size(), kNoValue) {
    number(0);
    use_block(0);
    last_ = group_ops(graph_, options);
    members_.resize(last_.size());
    for (uint32_t n = 0; n < last_.size(); ++n)
      members_[last_[n]].push_back(bindings_[n]);
  }

  /// The bindings of the op's group, in order; the op alone if it is not fused.
  std::span<const Binding *const> group(const Binding &op) const {
    return members_[last_[node_of_[op.first_result]]];
  }

private:
  void number(uint32_t block) {
    ++run_;
    for (const Binding &binding : function_.blocks[block].bindings) {
      for (uint32_t b = binding.blocks.begin; b < binding.blocks.end(); ++b)
        number(b);
      if (ir::may_write(binding))
        ++run_;
      if (binding.kind != BindingKind::op)
        continue;
      for (uint32_t i = 0; i < binding.result_count; ++i)
        node_of_[binding.first_result + i] = uint32_t(graph_.nodes.size());
      graph_.nodes.push_back({pattern(binding)});
      bindings_.push_back(&binding);
      runs_.push_back(run_);
    }
    ++run_;
  }

  void use_block(uint32_t block) {
    for (const Binding &binding : function_.blocks[block].bindings) {
      const uint32_t user =
          binding.kind == BindingKind::op ? node_of_[binding.first_result] : kNoValue;
      use(function_.operands_of(binding), user);
      for (uint32_t b = binding.blocks.begin; b < binding.blocks.end(); ++b)
        use_block(b);
    }
    use(function_.results_of(function_.blocks[block]), kNoValue);
  }

  void use(std::span<const Operand> operands, uint32_t user) {
    for (const Operand &operand : operands) {
      const uint32_t node =
          operand.kind == Operand::Kind::value ? node_of_[operand.index] : kNoValue;
      if (node == kNoValue)
        continue;
      if (user != kNoValue && runs_[user] == runs_[node])
        graph_.nodes[node].used_by.push_back(user);
      else
        graph_.nodes[node].used_outside = true;
    }
  }

  /// Opaque where no kernel can be generated: several results, strides, unknown shapes.
  ir::OpPattern pattern(const Binding &binding) const {
    const ir::Op op = ir::op_of(binding);
    std::vector<ir::TypeId> operands;
    for (const Operand &operand : function_.operands_of(binding)) {
      operands.push_back(operand.kind == Operand::Kind::value
                             ? function_.value(operand.value()).type
                             : ir::TypeId());
      if (operands.back().valid() && !module_.types[operands.back()].is_plain())
        return ir::OpPattern::opaque;
    }
    const ir::TypeId result = function_.value(binding.result()).type;
    if (binding.result_count != 1 || !module_.types[result].is_plain() ||
        !codegen::can_fuse(module_, op, operands, result))
      return ir::OpPattern::opaque;
    // The published rules have no such ops, or have them alone.
    if (is_part(op, ir::OpPart::of_index) ||
        codegen::repeats_elements(op, function_.attributes_of(binding)))
      return options_.after_reductions ? ir::OpPattern::injective : ir::OpPattern::opaque;
    if (keeps_axes(binding) || keeps_all(binding))
      return ir::OpPattern::elementwise;
    if (options_.after_reductions &&
        (spread_.only_chooses(binding) || is_moved_for_elements(binding)))
      return ir::OpPattern::broadcast;
    const bool counts_as_reduction = op == ir::Op::reduce_mean || is_part(op, ir::OpPart::searches);
    if (counts_as_reduction && options_.after_reductions)
      return ir::OpPattern::reduction;
    if (op == ir::Op::reshape && is_one_element(module_.types[operands[0]]) &&
        is_one_element(module_.types[result]))
      return ir::OpPattern::broadcast;
    return ir::op_pattern(module_, op, operands, result);
  }

  /// A slice, or a transposition that no reduction reads behind them, that elementwise ops alone
  /// read.
  bool is_moved_for_elements(const Binding &binding) const {
    const auto &readers = uses_.readers(binding.result());
    return only_moves(binding) && !readers.empty() &&
           (ir::op_of(binding) == ir::Op::slice || !spread_.is_reduced(binding.result())) &&
           std::ranges::all_of(readers, [](const Binding *reader) {
             return reader->kind == BindingKind::op &&
                    ir::op_info(ir::op_of(*reader)).pattern <= ir::OpPattern::broadcast;
           });
  }

  bool is_one_element(const ir::Type &type) const {
    return std::all_of(type.dims.begin(), type.dims.end(),
                       [&](ir::ExprId dim) { return module_.exprs.as_constant(dim) == 1; });
  }

  /// A slice that leaves out nothing.
  bool keeps_all(const Binding &binding) const {
    if (ir::op_of(binding) != ir::Op::slice)
      return false;
    const std::vector<int64_t> steps =
        ir::op_integers(ir::Op::slice, function_.attributes_of(binding), "steps");
    return function_.value(function_.operands_of(binding)[0].value()).type ==
               function_.value(binding.result()).type &&
           std::all_of(steps.begin(), steps.end(), [](int64_t step) { return step == 1; });
  }

  /// A transposition that moves nothing.
  bool keeps_axes(const Binding &binding) const {
    if (ir::op_of(binding) != ir::Op::transpose)
      return false;
    const std::span<const ir::Attribute> attributes = function_.attributes_of(binding);
    const std::vector<int64_t> axes = ir::op_integers(ir::Op::transpose, attributes, "axes");
    const size_t rank = module_.types[function_.value(binding.result()).type].dims.size();
    for (size_t i = 0; i < axes.size(); ++i)
      if (ir::normalize_axis(axes[i], rank) != i)
        return false;
    return !axes.empty() || rank < 2;
  }

  const ir::Module &module_;
  const ir::Function &function_;
  const GroupOptions &options_;
  const SpreadValues spread_;
  const ValueUses uses_;
  OpGraph graph_;
  std::vector<uint32_t> node_of_;         // by value: the op that makes it
  std::vector<const Binding *> bindings_; // by node, as the two below
  std::vector<uint32_t> runs_;            // of bindings that are passive
  std::vector<uint32_t> last_;
  std::vector<std::vector<const Binding *>> members_; // by last node
  uint32_t run_ = 0;
};

// --- Groups as functions -------------------------------------------------------------------------

/// Makes one group a function of `target`.
class GroupFunction {
public:
  GroupFunction(const ir::Function &source, ir::Module &target,
                std::span<const Binding *const> group)
      : source_(source), target_(target), group_(group), symbols_(source.symbols.size()) {}

  ir::Function build() {
    std::vector<ir::Op> ops;
    for (const Binding *binding : group_)
      ops.push_back(ir::op_of(*binding));
    builder_.emplace(target_, codegen::fused_name(ops));
    ir::Function &function = builder_->function();
    function.is_private = true;
    function.extra_attributes.push_back({std::string(kPrimitive), true});
    function.location = group_.back()->location;
    find_inputs();
    params();
    for (const Binding *binding : group_)
      append(*binding);
    const Operand result = Operand::of(values_[group_.back()->result().index]);
    function.result_types = {type(group_.back()->result())};
    return builder_->finish(std::span(&result, 1), group_.back()->location);
  }

  /// Values that the caller passes, and symbols of the shape that it passes last (may be none).
  const std::vector<ValueId> &inputs() const { return inputs_; }
  const std::vector<ir::SymbolId> &shape() const { return shape_; }

private:
  void find_inputs() {
    std::unordered_set<uint32_t> known; // made inside, or an input already
    for (const Binding *binding : group_) {
      for (const Operand &operand : source_.operands_of(*binding))
        if (operand.kind == Operand::Kind::value && !is_shape(operand.value()) &&
            known.insert(operand.index).second) // shapes are made again inside
          inputs_.push_back(operand.value());
      known.insert(binding->first_result);
    }
  }

  /// Symbols are numbered in the order of the parameters' types, then of those inside; the ones
  /// that stand alone in no parameter come as a shape.
  void params() {
    std::vector<ir::SymbolId> used;
    std::vector<bool> defined(symbols_.size());
    for (ValueId input : inputs_)
      for (ir::ExprId dim : target_.types[source_.value(input).type].dims) {
        target_.exprs.collect_symbols(dim, used);
        std::vector<ir::SymbolId> alone;
        target_.exprs.collect_symbols(dim, alone);
        if (alone.size() == 1 && dim == target_.exprs.symbol(alone[0]))
          defined[alone[0].index] = true;
      }
    for (const Binding *binding : group_)
      for (ir::ExprId dim : target_.types[source_.value(binding->result()).type].dims)
        target_.exprs.collect_symbols(dim, used);
    for (ir::SymbolId symbol : used) {
      const ir::Symbol &from = source_.symbols[symbol.index];
      ir::Symbol copy;
      copy.name = from.name;
      copy.bounds = from.bounds;
      copy.location = from.location;
      symbols_[symbol.index] = target_.exprs.symbol(builder_->symbol(std::move(copy)));
      if (!defined[symbol.index])
        shape_.push_back(symbol);
    }
    for (size_t i = 0; i < inputs_.size(); ++i)
      values_[inputs_[i].index] = builder_->param("p" + std::to_string(i), type(inputs_[i]));
    if (shape_.empty())
      return;
    std::vector<ir::ExprId> dims;
    for (ir::SymbolId symbol : shape_)
      dims.push_back(symbols_[symbol.index]);
    builder_->param("shape_expr", target_.types.shape(dims));
  }

  bool is_shape(ValueId value) const {
    return target_.types[source_.value(value).type].kind == TypeKind::shape;
  }

  void append(const Binding &binding) {
    std::vector<Operand> operands;
    for (Operand operand : source_.operands_of(binding)) {
      if (operand.kind == Operand::Kind::value)
        operand = Operand::of(is_shape(operand.value()) ? shape_like(operand.value())
                                                        : values_[operand.index]);
      operands.push_back(operand);
    }
    Binding made{};
    made.kind = BindingKind::op;
    made.callee = binding.callee;
    made.location = binding.location;
    const std::string name(ir::op_info(ir::op_of(binding)).name);
    const ir::TypeId result = type(binding.result());
    values_[binding.first_result] =
        builder_->bind(made, operands, {}, source_.attributes_of(binding), std::span(&name, 1),
                       std::span(&result, 1));
  }

  ValueId shape_like(ValueId value) {
    const ir::TypeId result = type(value);
    const std::vector<ir::ExprId> dims = target_.types[result].dims;
    Binding shape{};
    shape.kind = BindingKind::shape;
    const std::string name = "shape";
    return builder_->bind(shape, {}, dims, {}, std::span(&name, 1), std::span(&result, 1));
  }

  ir::TypeId type(ValueId value) {
    return ir::substitute_type(target_, source_.value(value).type, symbols_);
  }

  const ir::Function &source_;
  ir::Module &target_;
  const std::span<const Binding *const> group_;
  std::optional<ir::FunctionBuilder> builder_;
  std::vector<ValueId> inputs_;
  std::vector<ir::SymbolId> shape_;
  std::unordered_map<uint32_t, ValueId> values_; // by source value
  std::vector<ir::ExprId> symbols_;              // by source symbol
};

/// The functions of groups; those that are alike are one.
class GroupTable {
public:
  explicit GroupTable(const ir::Module &source) : source_(source) {
    for (const ir::Function &function : source.functions)
      names_.insert({function.name, 1});
    for (const ir::Kernel &kernel : source.kernels)
      names_.insert({kernel.name, 1});
    for (const ir::Constant &constant : source.constants)
      names_.insert({constant.name, 1});
  }

  /// Its number in the module.
  uint32_t add(ir::Function function) {
    std::string key = function.name;
    for (const ir::Value &value : function.values)
      key += " " + std::to_string(value.type.index);
    std::vector<uint32_t> &alike = by_key_[key];
    for (uint32_t known : alike)
      if (are_alike(functions_[known], function))
        return number(known);
    alike.push_back(uint32_t(functions_.size()));
    function.name = ir::unique_name(names_, function.name, "");
    functions_.push_back(std::move(function));
    return number(alike.back());
  }

  std::vector<ir::Function> take() { return std::move(functions_); }

private:
  uint32_t number(uint32_t index) const { return uint32_t(source_.functions.size()) + index; }

  /// But for names and places. Values are numbered in one order, parameters first.
  static bool are_alike(const ir::Function &a, const ir::Function &b) {
    auto same = [](const auto &p, const auto &q, auto equal) {
      return std::equal(p.begin(), p.end(), q.begin(), q.end(), equal);
    };
    return a.operands == b.operands && a.exprs == b.exprs && a.attributes == b.attributes &&
           same(a.symbols, b.symbols,
                [](const ir::Symbol &p, const ir::Symbol &q) {
                  return p.name == q.name && p.bounds == q.bounds;
                }) &&
           same(a.values, b.values,
                [](const ir::Value &p, const ir::Value &q) { return p.type == q.type; }) &&
           same(a.body().bindings, b.body().bindings, [](const Binding &p, const Binding &q) {
             return p.kind == q.kind && p.callee == q.callee && p.operands == q.operands &&
                    p.attributes == q.attributes;
           });
  }

  const ir::Module &source_;
  std::vector<ir::Function> functions_;
  /// Keyed by the wanted name and the values' types.
  std::unordered_map<std::string, std::vector<uint32_t>> by_key_;
  std::unordered_map<std::string, uint32_t> names_; // taken, with the next number to try
};

class Fuser : public ir::FunctionCloner {
public:
  Fuser(const ir::Module &module, const ir::Function &source, ir::Module &target,
        const GroupOptions &options, GroupTable &table)
      : FunctionCloner(source, target), groups_(module, source, options), table_(table) {}

protected:
  Status visit(const Binding &binding) override {
    if (binding.kind != BindingKind::op)
      return copy(binding);
    const std::span<const Binding *const> group = groups_.group(binding);
    if (group.size() < 2)
      return copy(binding);
    if (group.back() == &binding)
      call(group);
    return {};
  }

private:
  void call(std::span<const Binding *const> group) {
    GroupFunction made(source(), module(), group);
    ir::Function function = made.build();
    std::vector<Operand> operands;
    for (ValueId input : made.inputs())
      operands.push_back(Operand::of(mapped(input)));
    if (!made.shape().empty())
      operands.push_back(Operand::of(shape(made.shape())));
    Binding binding{};
    binding.kind = BindingKind::call;
    binding.callee = table_.add(std::move(function));
    binding.location = group.back()->location;
    const ir::Value &result = source().value(group.back()->result());
    map(group.back()->result(),
        builder().bind(binding, operands, {}, {}, std::span(&result.name, 1),
                       std::span(&result.type, 1)));
  }

  ValueId shape(const std::vector<ir::SymbolId> &symbols) {
    std::vector<ir::ExprId> dims;
    for (ir::SymbolId symbol : symbols)
      dims.push_back(module().exprs.symbol(symbol));
    return bind_value(BindingKind::shape, "shape", {}, dims, module().types.shape(dims), {});
  }

  const Groups groups_;
  GroupTable &table_;
};

/// FuseKernels cuts a group that is more than one kernel takes.
constexpr uint32_t kMostOpsWithCuts = 4096;

bool has_ops(const ir::Function &function) {
  for (const ir::Block &block : function.blocks)
    for (const Binding &binding : block.bindings)
      if (binding.kind == BindingKind::op)
        return true;
  return false;
}

/// Models have slices of slices of slices. A long chain of them, each read by other ops too, must
/// not become as many as its length squared.
constexpr int kMostRoundsOfSlices = 3;

/// The module with a slice that joins no kernel, but with other slices, for each op that reads it;
/// in rounds, since what these are slices of is read by more ops then.
Result<ir::Module> spread_lone_slices(ir::Module module, const GroupOptions &options) {
  for (int round = 0; round < kMostRoundsOfSlices; ++round) {
    std::map<const ir::Function *, Groups> groups;
    const auto slices_of_kernel = [&](const ir::Function &function, const Binding &slice) {
      const Groups &own = groups.try_emplace(&function, module, function, options).first->second;
      const auto group = own.group(slice);
      const bool is_lone = group.back() == &slice &&
                           std::ranges::all_of(group, [](auto *op) { return only_moves(*op); });
      return is_lone ? group.size() : 0;
    };
    CUGRT_ASSIGN(std::optional<ir::Module> spread, spread_slices(module, slices_of_kernel));
    if (!spread)
      break;
    module = std::move(*spread);
  }
  return module;
}

Result<ir::Module> fuse(const ir::Module &module, const GroupOptions &options) {
  ir::Module target = ir::without_functions(module);
  GroupTable table(module);
  for (const ir::Function &function : module.functions)
    if (has_ops(function) && !is_fused_group(module, function))
      CUGRT_TRY(Fuser(module, function, target, options, table).add_function());
    else
      target.functions.push_back(function);
  for (ir::Function &function : table.take())
    target.functions.push_back(std::move(function));
  return target;
}

} // namespace

Result<ir::Module> fuse_ops(const ir::Module &module, const PassContext &context) {
  if (!context.flag("fuse.ops"))
    return module;
  GroupOptions options;
  options.after_reductions = context.choice("fuse.rules") == "extended";
  if (!options.after_reductions)
    return fuse(module, options);
  options.max_ops = kMostOpsWithCuts;
  CUGRT_ASSIGN(const ir::Module narrowed, narrow_reductions(module));
  CUGRT_ASSIGN(ir::Module sliced, slice_splits(narrowed, context));
  CUGRT_ASSIGN(const ir::Module spread, spread_lone_slices(std::move(sliced), options));
  return fuse(spread, options);
}

} // namespace cugrt::passes
