// FuseOpsByPattern: products that read the same few rows become one launch, with a norm before them
// and what stands behind each (product_patterns.h):
//
//   %h = rms_norm(%x, %scale)
//   %g = matmul(%h, %gate) {transpose_b = true}     %y = alloc : tensor<[1, 1536], f16>
//   %u = matmul(%h, %up) {transpose_b = true}       launch
//   @fused_rms_norm_matmul_matmul_silu_mul_f16( %s = silu(%g) %x, .., %scale, .., %gate, %up, ..,
//   %y) %y = mul(%s, %u)
//
// The kernel is generated (compiler/fused/products.h); results have the same bits.
#include "compiler/fused/persistent.h"
#include "compiler/ir_names.h"
#include "compiler/passes/all_passes.h"
#include "compiler/passes/product_patterns.h"
#include "ir/module/function_cloner.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace cugrt::passes {

namespace {

class PatternFuser : public ir::FunctionCloner {
public:
  PatternFuser(const ir::Function &source, ir::Module &target, codegen::KernelTable &table,
               std::span<const ProductMatch *const> matches,
               std::optional<PersistentMatch> persistent, const PassContext &context)
      : FunctionCloner(source, target), table_(table), context_(context),
        persistent_(std::move(persistent)) {
    for (const ProductMatch *match : matches) {
      for (const Binding *binding : match->bindings)
        match_of_[binding] = match;
      for (const Binding *binding : match->after)
        later(waits_for_[binding], match->bindings.back());
    }
    if (persistent_)
      for (const auto &phase : persistent_->phases)
        if (const auto *match = std::get_if<const ProductMatch *>(&phase)) {
          for (const Binding *binding : (*match)->bindings)
            is_of_phase_.insert(binding);
          for (const Binding *binding : (*match)->after)
            later(names_behind_[binding], (*match)->bindings.back());
        }
  }

protected:
  Status enter_block(uint32_t) override { return forget_block(); }
  Status leave_block(uint32_t) override { return forget_block(); }
  Status visit(const Binding &binding) override {
    if (!persistent_)
      return visit_alone(binding);
    const std::vector<const Binding *> &run = persistent_->bindings;
    if (seen_ == run.size() || run[seen_] != &binding)
      return visit_alone(binding);
    if (++seen_ < run.size())
      return {};
    if (Status status = emit_run(); !status.ok()) { // what it has allocated is dead
      context_.note("fusion in @" + source().name + ": not one launch: " + status.message());
      for (const Binding *part : run)
        CUGRT_TRY(visit_alone(*part));
    }
    return {};
  }

private:
  Status visit_alone(const Binding &binding) {
    const auto at = match_of_.find(&binding);
    if (at != match_of_.end() && &binding != at->second->bindings.back())
      return {}; // its match stands where the last one stood
    if (const auto waits = waits_for_.find(&binding); waits != waits_for_.end()) {
      waiting_[waits->second].push_back(&binding);
      return {};
    }
    return place(binding);
  }

  Status place(const Binding &binding) {
    const auto at = match_of_.find(&binding);
    if (at == match_of_.end())
      return copy(binding);
    const ProductMatch &match = *at->second;
    if (Status status = emit(match); !status.ok()) { // the allocations are dead
      context_.note("fusion in @" + source().name + ": not fused after all: " + status.message());
      for (const Binding *part : match.bindings)
        CUGRT_TRY(copy(*part));
    }
    for (const Binding *next : waiting_[&binding])
      CUGRT_TRY(place(*next));
    return {};
  }

  /// Everything from the first phase to the last, as one launch.
  Status emit_run() {
    codegen::PersistentRun run;
    run.location = persistent_->bindings.back()->location;
    size_t next = 0;
    std::vector<const Binding *> behind; // names of what the launch gives
    for (const Binding *binding : persistent_->bindings) {
      if (names_behind_.contains(binding))
        continue; // of what a match gives that ends later
      const auto &phase = persistent_->phases[std::min(next, persistent_->phases.size() - 1)];
      const auto *match = std::get_if<const ProductMatch *>(&phase);
      if (is_of_phase_.contains(binding)) {
        if (!match || binding != (*match)->bindings.back())
          continue;
        const codegen::ProductKernel kernel = kernel_of(**match);
        map_results(**match, kernel);
        if ((*match)->is_sum_read && persistent_->exchanged.contains((*match)->sum->result().index))
          run.exchanged.push_back(kernel.sum->result);
        for (size_t p = 0; p < kernel.parts.size(); ++p)
          if (persistent_->exchanged.contains((*match)->parts[p].result.index))
            run.exchanged.push_back(kernel.parts[p].result);
        run.phases.emplace_back(kernel);
        ++next;
        for (const Binding *name : (*match)->after)
          if (names_behind_.at(name) == binding)
            CUGRT_TRY(place_name(*name, behind));
      } else if (is_op(*binding, Op::cache_write)) {
        const bool goes_on = !run.phases.empty() && written_by_ == run.phases.size();
        if (!goes_on)
          run.phases.emplace_back(codegen::ProductKernel{});
        add_write(std::get<codegen::ProductKernel>(run.phases.back()), *binding);
        written_by_ = run.phases.size();
        ++next;
      } else if (is_op(*binding, Op::attention)) {
        run.phases.emplace_back(attention_of(*binding));
        if (persistent_->exchanged.contains(binding->first_result))
          run.exchanged.push_back(mapped(binding->result()));
        ++next;
      } else {
        CUGRT_TRY(place_name(*binding, behind));
      }
    }
    CUGRT_TRY(codegen::emit_persistent(table_, builder(), run));
    context_.note("fusion in @" + source().name + ": " + std::to_string(run.phases.size()) +
                  " launches: one, whose blocks wait for one another");
    for (const Binding *binding : behind)
      CUGRT_TRY(copy(*binding));
    return {};
  }

  /// Places a binding that only names a value of the run: before the launch, or `behind` it.
  Status place_name(const Binding &binding, std::vector<const Binding *> &behind) {
    if (persistent_->reshaped.contains(binding.first_result))
      map(binding.result(), given(binding, 0));
    else if (persistent_->given.contains(binding.first_result))
      behind.push_back(&binding);
    else
      return copy(binding);
    return {};
  }

  /// Rows of heads that go to a cache where they stand; `to` has others, or none.
  void add_write(codegen::ProductKernel &to, const Binding &write) {
    const ir::Type &x = type_of(source().operands_of(write)[1].value());
    ir::ExprPool &exprs = module().exprs;
    codegen::ProductPart part;
    part.heads = given(write, 1);
    part.head = *exprs.as_constant(x.dims[3]);
    part.columns = *exprs.as_constant(x.dims[2]) * part.head;
    part.append = append_of(write);
    to.rows = exprs.mul(x.dims[0], x.dims[1]);
    to.most_rows = exprs.as_constant(to.rows).value_or(0);
    to.depth = 0;
    to.dtype = x.dtype;
    to.group.location = write.location;
    to.parts.push_back(std::move(part));
    map(write.result(), given(write, 0));
  }

  codegen::AttentionPhase attention_of(const Binding &binding) {
    const auto attributes = source().attributes_of(binding);
    const ir::Value &result = source().value(binding.result());
    map(binding.result(),
        bind_value(ir::BindingKind::alloc, result.name, {}, {}, result.type, binding.location));
    return {.q = given(binding, 0),
            .keys = given(binding, 1),
            .values = given(binding, 2),
            .lengths = given(binding, 3),
            .places = given(binding, 5),
            .result = mapped(binding.result()),
            .causal = ir::op_bool(Op::attention, attributes, "causal"),
            .window = ir::op_integer(Op::attention, attributes, "window"),
            .scale = ir::op_float(Op::attention, attributes, "scale")};
  }

  /// Returns the later one of two bindings of one block.
  static void later(const Binding *&of, const Binding *other) { of = std::max(of, other); }

  Status forget_block() {
    table_.leave_block();
    return {};
  }
  /// An operand in the function that is built; invalid: absent.
  ValueId given(const Binding &binding, size_t i) {
    const std::span<const Operand> operands = source().operands_of(binding);
    return i < operands.size() && operands[i].kind == Operand::Kind::value
               ? mapped(operands[i].value())
               : ValueId();
  }

  codegen::RowNorm norm_of(const Binding &norm) {
    const Op op = ir::op_of(norm);
    return {op, given(norm, 1), given(norm, 2),
            ir::op_float(op, source().attributes_of(norm), "epsilon")};
  }

  codegen::RowSum sum_of(const ProductMatch &match) {
    return {norm_of(*match.summed_norm), mapped(match.residual),
            match.is_sum_read ? allocated(match.sum->result(), match) : ValueId()};
  }

  /// The value that the launch writes for a value of the source.
  ValueId allocated(ValueId result, const ProductMatch &match) {
    const ir::Value &value = source().value(result);
    return bind_value(ir::BindingKind::alloc, value.name, {}, {}, value.type,
                      match.bindings.back()->location);
  }

  codegen::HeadTurn turn_of(const ProductMatch::Part &part) {
    const Binding &rotary = *part.rotary;
    const auto attributes = source().attributes_of(rotary);
    const ir::Type &x = type_of(source().operands_of(rotary)[0].value());
    codegen::HeadTurn turn;
    if (part.head_norm)
      turn.norm = norm_of(*part.head_norm);
    turn.positions = given(rotary, 1);
    turn.cosines = given(rotary, 2);
    turn.sines = given(rotary, 3);
    turn.width = *module().exprs.as_constant(x.dims.back());
    const int64_t dims = ir::op_integer(Op::rotary, attributes, "dims");
    turn.turned = dims == 0 ? turn.width : dims;
    turn.interleaved = ir::op_bool(Op::rotary, attributes, "interleaved");
    turn.base = ir::op_float(Op::rotary, attributes, "base");
    turn.scale = ir::op_float(Op::rotary, attributes, "scale");
    return turn;
  }

  codegen::CacheAppend append_of(const Binding &write) {
    const ir::ExprId each = type_of(source().operands_of(write)[1].value()).dims[1];
    return {given(write, 0), given(write, 2), given(write, 3), given(write, 4), each};
  }

  codegen::ProductPart part_of(const ProductMatch &match, const ProductMatch::Part &part,
                               codegen::FusedGroup &group) {
    codegen::ProductPart made;
    const ValueId w = source().operands_of(*part.products.front())[1].value();
    made.columns = *module().exprs.as_constant(type_of(w).dims[0]);
    for (const Binding *product : part.products) {
      const Op op = ir::op_of(*product);
      const bool repacked =
          op == Op::matmul_blocks && ir::op_bool(op, source().attributes_of(*product), "repacked");
      made.products.push_back({op, repacked, given(*product, 1), given(*product, 2)});
    }
    if (part.rotary)
      made.turn = turn_of(part);
    if (part.append)
      made.append = append_of(*part.append);
    if (!part.ops.empty())
      add_ops(part, made, group);
    return made;
  }

  /// The part's elementwise ops, as of the group.
  void add_ops(const ProductMatch::Part &part, codegen::ProductPart &made,
               codegen::FusedGroup &group) {
    std::unordered_map<uint32_t, uint32_t> known; // by value of the source
    auto value_of = [&](ValueId value, bool is_read) {
      const auto [at, is_new] = known.try_emplace(value.index, uint32_t(group.values.size()));
      if (is_new)
        group.values.push_back({source().value(value).type, is_read ? mapped(value) : ValueId()});
      return at->second;
    };
    for (const Binding *product : part.products)
      made.leaves.push_back(value_of(product->result(), false));
    for (const Binding *binding : part.ops)
      value_of(binding->result(), false);
    for (const Binding *binding : part.ops) {
      codegen::FusedOp op{ir::op_of(*binding), {}, {}, value_of(binding->result(), false)};
      const auto attributes = source().attributes_of(*binding);
      op.attributes.assign(attributes.begin(), attributes.end());
      for (const Operand &operand : source().operands_of(*binding))
        op.operands.push_back(value_of(operand.value(), true));
      made.ops.push_back(uint32_t(group.ops.size()));
      group.ops.push_back(std::move(op));
    }
  }

  codegen::ProductKernel kernel_of(const ProductMatch &match) {
    codegen::ProductKernel kernel;
    kernel.x = mapped(match.x);
    kernel.rows = match.rows;
    kernel.most_rows = match.most_rows;
    kernel.depth = match.depth;
    const Binding &first = *match.parts.front().products.front();
    kernel.dtype = type_of(source().operands_of(first)[0].value()).dtype;
    kernel.is_norm_wide = match.norm && type_of(match.norm->result()).dtype != kernel.dtype;
    kernel.rounds_rows = match.rounding != nullptr;
    kernel.group.location = match.bindings.back()->location;
    if (match.norm)
      kernel.norm = norm_of(*match.norm);
    if (match.sum)
      kernel.sum = sum_of(match);
    for (const Binding *binding : match.bindings)
      if (ir::op_of(*binding) != Op::reshape && !ir::writes_operand(*binding))
        kernel.named.push_back(ir::op_of(*binding));
    for (const ProductMatch::Part &part : match.parts) {
      kernel.parts.push_back(part_of(match, part, kernel.group));
      if (!part.append)
        kernel.parts.back().result = allocated(part.result, match);
    }
    return kernel;
  }

  Status emit(const ProductMatch &match) {
    const codegen::ProductKernel kernel = kernel_of(match);
    CUGRT_TRY(codegen::emit_products(table_, builder(), kernel));
    map_results(match, kernel);
    return {};
  }

  void map_results(const ProductMatch &match, const codegen::ProductKernel &kernel) {
    if (match.is_sum_read)
      map(match.sum->result(), kernel.sum->result);
    for (size_t p = 0; p < match.parts.size(); ++p) {
      const ProductMatch::Part &part = match.parts[p];
      if (part.append)
        map(part.append->result(), given(*part.append, 0));
      else
        map(part.result, kernel.parts[p].result);
    }
  }

  codegen::KernelTable &table_;
  const PassContext &context_;
  const std::optional<PersistentMatch> persistent_;
  size_t seen_ = 0;       // of its bindings
  size_t written_by_ = 0; // the number of phases behind the last that writes caches
  std::unordered_set<const Binding *> is_of_phase_;
  std::unordered_map<const Binding *, const Binding *>
      names_behind_; // of phases: their matches' last
  std::unordered_map<const Binding *, const ProductMatch *> match_of_;
  std::unordered_map<const Binding *, const Binding *>
      waits_for_; // what stands behind a match's last
  std::unordered_map<const Binding *, std::vector<const Binding *>> waiting_;
};

} // namespace

Result<ir::Module> fuse_ops_by_pattern(const ir::Module &module, const PassContext &context) {
  if (!context.flag("fuse.patterns"))
    return module;
  ir::Module target = ir::without_functions(module);
  CUGRT_ASSIGN(codegen::KernelChoice choice, kernel_choice(module, context));
  codegen::KernelTable table(target, module.functions, context.flag("codegen.programmatic"),
                             std::move(choice));
  for (const ir::Function &function : module.functions) {
    ProductMatches found = match_products(target, function, table.choice().matmul == "auto");
    for (const auto &[text, times] : found.notes)
      context.note("fusion in @" + function.name, text, size_t(times));
    const std::vector<ProductMatch> all = std::move(found.matches);
    std::optional<PersistentMatch> persistent;
    if (context.flag("fuse.persistent"))
      persistent = match_persistent(target, function, all, table.choice().target);
    std::vector<const ProductMatch *> alone;
    for (const ProductMatch &match : all)
      if (match.pays)
        alone.push_back(&match);
    CUGRT_TRY(PatternFuser(function, target, table, alone, std::move(persistent), context)
                  .add_function());
  }
  return target;
}

} // namespace cugrt::passes
