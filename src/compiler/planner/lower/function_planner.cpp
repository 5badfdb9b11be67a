// The walk over a function's blocks: signature, steps, storage and host values.
#include "compiler/planner/lower/function_planner.h"

#include "base/check.h"
#include "compiler/ir_names.h"
#include "compiler/planner/symbols/sizes.h"
#include "ir/module/module.h"
#include "ir/text/text.h"

#include <algorithm>

namespace cugrt::plan {

FunctionPlanner::FunctionPlanner(ModuleContext &context, uint32_t function, ModuleStorage &storage)
    : context_(context), all_storage_(storage), index_(function),
      function_(context.module.functions[function]), live_(context.storage.liveness[function]),
      storage_(context.storage.functions[function]), values_(context, function, out_),
      rules_(make_region_rules(context, function, values_)),
      symbol_defined_(function_.symbols.size(), false), steps_before_(live_.end_time + 1, 0) {}

Status FunctionPlanner::fail(SourceLocation location, const std::string &message) const {
  return located(cugrt::Code::verify_error, function_, location, message);
}

Status FunctionPlanner::run() {
  out_.name = function_.name;
  out_.is_private = function_.is_private;
  out_.location = function_.location;
  out_.dynamic_count = storage_.dynamic_count;
  out_.blocks.resize(1);
  reserve();
  CUGRT_TRY(signature());
  CUGRT_TRY(block(0, 0));
  CUGRT_TRY(check_storage_overlap());
  steps_before_[live_.end_time] = uint32_t(out_.steps.size());
  if (!context_.report)
    give_up_tables();
  new_numbers_ = finish_regions(context_, index_, out_);
  for (uint32_t site = 0; site < function_.call_sites.size(); ++site)
    note_call_site(site); // those without bindings
  storage_notes();
  context_.plan.functions[index_] = std::move(out_);
  return {};
}

/// Frees tables: regions only need the planned function, and room of their own.
void FunctionPlanner::give_up_tables() {
  values_.clear();
  steps_before_ = {};
  all_storage_.liveness[index_] = {};
  all_storage_.functions[index_] = {};
}

/// Tables that grow by doubling would take up to three times their size.
void FunctionPlanner::reserve() {
  size_t steps = 0, arguments = 0, launches = 0;
  for (const ir::Block &block : function_.blocks)
    for (const Binding &b : block.bindings)
      if (b.kind == BindingKind::launch) {
        ++steps;
        arguments += b.operands.count;
        launches += context_.module.kernels[b.callee].variants.size();
      }
  out_.steps.reserve(steps);
  out_.arguments.reserve(arguments);
  out_.accesses.reserve(arguments);
  out_.launches.reserve(launches);
  out_.buffers.reserve(live_.origins.size());
}

// --- Signature -----------------------------------------------------------------------------------

Status FunctionPlanner::signature() {
  const std::vector<ir::Interval> bounds = proven_bounds(context_.module, function_);
  for (uint32_t s = 0; s < function_.symbols.size(); ++s)
    out_.symbols.push_back({function_.symbols[s].name, function_.symbols[s].source, bounds[s]});
  for (uint32_t s = 0; s < function_.symbols.size(); ++s)
    if (uint32_t of = function_.symbols[s].bucket_of; of != kNone)
      out_.buckets.push_back({SymbolId{s}, SymbolId{of}, function_.symbols[of].buckets});
  for (const Constraint &constraint : function_.constraints)
    out_.constraints.push_back(
        {context_.copy(constraint.expr), constraint.most, constraint.location});
  out_.counted_dims = function_.counted_dims;
  out_.slots = storage_.slots;
  for (uint32_t i = 0; i < function_.params.size(); ++i)
    CUGRT_TRY(parameter(i));
  for (uint32_t s = 0; s < out_.slots.size(); ++s)
    if (out_.slots[s].kind == SlotKind::param)
      finish_slot(s);
  return {};
}

/// A parameter's slot as storage has made it gets its bytes, now that the plan has the expressions
/// of the dimensions; a result's gets them when the result is planned.
void FunctionPlanner::finish_slot(uint32_t slot) {
  Param &param = out_.params[out_.slots[slot].index];
  param.slot = slot;
  if (!param.known_shape)
    return;
  ir::Type type = values_.type(function_.params[out_.slots[slot].index].value);
  type.dims = param.dims;
  out_.slots[slot].bytes = ir::tensor_bytes(context_.plan.exprs, type);
}

Status FunctionPlanner::parameter(uint32_t index) {
  const ir::Parameter &param = function_.params[index];
  const ir::Value &value = function_.value(param.value);
  const ir::Type &type = values_.type(param.value);
  Param out;
  out.name = value.name;
  out.location = value.location;
  out.dims = context_.copy(type.dims);
  out.known_shape = type.known_shape;
  out.access = param.access;
  if (type.kind == TypeKind::tensor) {
    bool weight = function_.is_weight(index) && !function_.is_private;
    if (weight && ir::writes(param.access))
      return fail(value.location, "weight %" + value.name +
                                      " is written; weights are constant, "
                                      "so make it a per-call input");
    if (!type.strides.empty())
      return fail(value.location, "parameter %" + value.name +
                                      " has strides; parameters are "
                                      "contiguous: take a view of it");
    out.kind = weight ? ParamKind::weight : ParamKind::tensor;
    out.dtype = type.dtype;
    out.scope = context_.module.types.scope_name(type.scope);
    out.alignment_bytes =
        param.alignment_bytes ? param.alignment_bytes : natural_alignment(type.dtype);
  } else if (type.kind == TypeKind::scalar) {
    out.kind = ParamKind::scalar;
    out.scalar = type.scalar;
    out.host_value = values_.add_host_value({HostValueKind::param, type.scalar, index, 0});
    values_.set_ref(param.value, {OperandRef::Kind::host_value, out.host_value});
  } else if (type.kind == TypeKind::shape && type.known_shape) {
    out.kind = ParamKind::shape;
    std::vector<OperandRef> list;
    for (ExprId dim : out.dims)
      list.push_back({OperandRef::Kind::expr, dim.index});
    values_.set_ref(param.value, {OperandRef::Kind::list, values_.add_list(std::move(list))});
  } else {
    return fail(value.location, "parameter %" + value.name +
                                    " is no tensor, host scalar or shape "
                                    "of known rank");
  }
  out_.params.push_back(std::move(out));
  return {};
}

Status FunctionPlanner::results() {
  std::span<const Operand> results = function_.results_of(function_.body());
  SourceLocation location = function_.body().end_location;
  for (uint32_t i = 0; i < results.size(); ++i) {
    if (results[i].kind == Operand::Kind::value &&
        values_.type(results[i].value()).kind == TypeKind::tensor) {
      CUGRT_TRY(tensor_result(i, results[i].value()));
      continue;
    }
    CUGRT_ASSIGN(OperandRef ref, values_.ref(results[i], location));
    if (ref.kind == OperandRef::Kind::expr)
      ref = {OperandRef::Kind::host_value,
             values_.add_host_value({HostValueKind::expr, ir::ScalarKind::integer, ref.index, 0})};
    if (ref.kind != OperandRef::Kind::host_value)
      return fail(location, "result " + std::to_string(i) +
                                " is neither a tensor nor a host "
                                "scalar; return the fields of tuples and the elements of shapes");
    out_.results.push_back({kNone, ref.index});
  }
  return {};
}

Status FunctionPlanner::tensor_result(uint32_t index, ir::ValueId value) {
  SourceLocation location = function_.body().end_location;
  const FunctionSummary::Source &source = context_.storage.summaries[index_].results[index];
  CUGRT_ASSIGN(uint32_t buffer, values_.buffer(value, location));
  uint32_t slot = storage_.result_slot_of[index];
  if (source.kind == FunctionSummary::SourceKind::result) {
    // Part of another result, which is whole: at the same place in that result's slot.
    uint32_t owner = storage_.result_slot_of[source.index];
    if (owner != kNone) {
      std::string name = out_.buffers[buffer].name;
      const ir::ValueId whole = function_.results_of(function_.body())[source.index].value();
      buffer = values_.result_slot(
          owner, buffer, context_.plan.exprs.sub(values_.offset(value), values_.offset(whole)));
      out_.buffers[buffer].name = std::move(name);
    }
  } else if (slot != kNone) {
    const Buffer &from = out_.buffers[buffer];
    out_.slots[slot].bytes = from.bytes;
    if (from.base != BufferBase::slot || from.index != slot) {
      uint32_t to = values_.result_slot(slot, buffer, context_.plan.exprs.constant(0));
      CUGRT_TRY(copy(to, buffer, location));
      buffer = to;
    }
  }
  out_.results.push_back({buffer, kNone});
  return {};
}

// --- The walk ------------------------------------------------------------------------------------

Status FunctionPlanner::block(uint32_t ir_block, uint32_t plan_block) {
  uint32_t outer = std::exchange(block_, plan_block);
  const ir::Block &block = function_.blocks[ir_block];
  for (uint32_t i = 0; i < block.bindings.size(); ++i) {
    CUGRT_TRY(binding(ir_block, i));
    bool last = i + 1 == block.bindings.size();
    release(ir_block, last ? live_.blocks[ir_block].end - 1 : live_.time_of(ir_block, i + 1));
  }
  mark_time(live_.blocks[ir_block].end - 1);
  if (ir_block == 0)
    CUGRT_TRY(results());
  else {
    const BlockPlace &place = live_.blocks[ir_block];
    const Binding &owner = function_.blocks[place.parent].bindings[place.parent_binding];
    Block &out = out_.blocks[plan_block];
    CUGRT_TRY(owner.kind == BindingKind::if_ ? yield_branch(owner, block, out)
                                             : yield_loop(owner, block, out));
    if (owner.kind == BindingKind::while_ && ir_block == owner.blocks.begin)
      keep_condition(out.results[0]);
  }
  release(ir_block, live_.blocks[ir_block].end);
  close_region();
  block_ = outer;
  return {};
}

Status FunctionPlanner::binding(uint32_t ir_block, uint32_t index) {
  const Binding &b = function_.blocks[ir_block].bindings[index];
  mark_time(live_.time_of(ir_block, index));
  bool control = b.kind == BindingKind::if_ || b.kind == BindingKind::while_;
  Decision decision = control && body_depth_ + again_ > 0
                          ? Decision{Verdict::joins, "within a conditional node"}
                          : rules_->decide(b);
  if (context_.report && context_.moves)
    if (auto moved = (*context_.moves)[index_].find({ir_block, index});
        moved != (*context_.moves)[index_].end())
      decision.reason = decision.reason.text() + "; moved above " + moved->second +
                        ", on which it does not depend";
  if (!context_.options.regions && decision.verdict <= Verdict::joins_open)
    decision = {Verdict::closes, "regions are switched off"};
  if (b.kind == BindingKind::launch) {
    CUGRT_ASSIGN(uint32_t step, add_kernel_step(context_, index_, values_, out_, b,
                                                live_.time_of(ir_block, index)));
    if (decision.verdict == Verdict::opens)
      close_region();
    push_step(step, decision.verdict <= Verdict::joins);
    const bool full = region_is_full(1);
    if (full && context_.report)
      decision.reason = decision.reason.text() + "; the region ends here, as one may have " +
                        std::to_string(context_.options.max_region_nodes) + " steps";
    note(b, decision, open_region_);
    if (full)
      close_region();
    return {};
  }
  if (control && decision.verdict == Verdict::joins) {
    CUGRT_TRY(conditional(b));
    note(b, decision, open_region_);
    return {};
  }
  bool first_copies_join = b.kind == BindingKind::while_;
  if (decision.verdict == Verdict::closes && !first_copies_join)
    close_region();
  note(b, decision, decision.verdict == Verdict::joins_open ? open_region_ : kNone);
  return define(b, ir_block);
}

Status FunctionPlanner::define(const Binding &b, uint32_t ir_block) {
  std::span<const Operand> operands = function_.operands_of(b);
  std::span<const ExprId> exprs = function_.exprs_of(b);
  switch (b.kind) {
  case BindingKind::alloc:
    return allocate(b.result(), ir_block, b.location);
  case BindingKind::alloc_tensor:
    values_.set_offset(b.result(), context_.copy(exprs[0]));
    return {};
  case BindingKind::view:
    values_.set_view(b.result(), operands[0].value(), context_.copy(exprs[0]));
    return {};
  case BindingKind::shape: {
    std::vector<OperandRef> list;
    for (ExprId expr : exprs)
      list.push_back({OperandRef::Kind::expr, context_.copy(expr).index});
    values_.set_ref(b.result(), {OperandRef::Kind::list, values_.add_list(std::move(list))});
    return {};
  }
  case BindingKind::literal: {
    CUGRT_ASSIGN(OperandRef ref, values_.ref(operands[0], b.location));
    values_.set_ref(b.result(), ref);
    return {};
  }
  case BindingKind::match_shape:
    return match(b);
  case BindingKind::read_symbol:
    return read_symbol(b);
  case BindingKind::call:
    return call(b, ir_block);
  case BindingKind::host_call:
  case BindingKind::extern_call:
    return host(b, ir_block);
  case BindingKind::if_:
    return branch(b, ir_block);
  case BindingKind::while_:
    return loop(b, ir_block);
  case BindingKind::op:
    return fail(b.location, "'" + ir::print_binding(context_.module, function_, b) +
                                "' is a tensor-level op that was not legalized; run the passes "
                                "that lower ops to kernels first");
  case BindingKind::launch:
  case BindingKind::alloc_storage:
  case BindingKind::kill:
  case BindingKind::alias: // the liveness analysis knows what these name
  case BindingKind::tuple:
  case BindingKind::constant:
    return {};
  case BindingKind::tuple_element:
    return field(b);
  }
  return {};
}

/// A field that is no value, but an expression or a literal, has no other name than its tuple's.
Status FunctionPlanner::field(const Binding &b) {
  const ir::ValueId tuple = live_.alias_of[function_.operands_of(b)[0].index];
  const int64_t index = *context_.module.exprs.as_constant(function_.exprs_of(b)[0]);
  const Operand field = live_.fields[live_.fields_of[tuple.index].begin + uint32_t(index)];
  if (field.kind == Operand::Kind::value)
    return {};
  CUGRT_ASSIGN(OperandRef ref, values_.ref(field, b.location));
  values_.set_ref(b.result(), ref);
  return {};
}

Status FunctionPlanner::match(const Binding &b) {
  Item item;
  item.kind = ItemKind::match;
  item.location = b.location;
  const Operand &operand = function_.operands_of(b)[0];
  CUGRT_ASSIGN(OperandRef ref, values_.ref(operand, b.location));
  item.operands.push_back(ref);
  const ir::Type &type = values_.type(b.result());
  item.dims = context_.copy(type.dims);
  const ir::Type &source = values_.type(operand.value());
  const std::vector<ExprId> known = source.kind == TypeKind::tensor
                                        ? values_.shape(operand.value()).dims
                                        : context_.copy(source.dims);
  std::vector<bool> defined(function_.symbols.size(), false);
  for (size_t i = 0; i < type.dims.size(); ++i) {
    const ir::ExprNode &node = context_.module.exprs[type.dims[i]];
    if (node.kind != ir::ExprKind::symbol)
      continue;
    SymbolId symbol{uint32_t(node.value)};
    if (function_.symbols[symbol.index].source != ir::SymbolSource::match ||
        symbol_defined_[symbol.index] || defined[symbol.index])
      continue;
    defined[symbol.index] = true;
    item.defines.push_back(symbol);
    if (known.size() == type.dims.size())
      values_.set_matched(symbol, known[i]);
  }
  for (SymbolId symbol : item.defines)
    symbol_defined_[symbol.index] = true;
  if (type.kind == TypeKind::tensor) {
    values_.set_match(b.result(), operand.value());
  } else {
    std::vector<OperandRef> list;
    for (ExprId dim : item.dims)
      list.push_back({OperandRef::Kind::expr, dim.index});
    values_.set_ref(b.result(), {OperandRef::Kind::list, values_.add_list(std::move(list))});
  }
  if (open_region_ == kNone) {
    push_item(std::move(item));
    return {};
  }
  items().insert(items().begin() + ptrdiff_t(open_item_), std::move(item));
  ++open_item_;
  return {};
}

Status FunctionPlanner::read_symbol(const Binding &b) {
  ir::ValueId tensor = function_.operands_of(b)[0].value();
  std::span<const ExprId> exprs = function_.exprs_of(b);
  SymbolId symbol{uint32_t(context_.module.exprs[exprs[0]].value)};
  values_.set_element(symbol, tensor, context_.copy(exprs[1]));
  if (again_ > 0)
    return {};
  Item item;
  item.kind = ItemKind::read;
  item.location = b.location;
  CUGRT_ASSIGN(uint32_t buffer, values_.element(symbol, b.location));
  item.operands.push_back({OperandRef::Kind::buffer, buffer});
  item.dims.push_back(context_.copy(exprs[0]));
  push_item(std::move(item));
  return {};
}

// --- Steps, regions, allocations -----------------------------------------------------------------

void FunctionPlanner::push_step(uint32_t step, bool joins) {
  out_.steps[step].when = when_;
  if (!joins || !context_.options.regions) {
    close_region();
    push_item({.kind = ItemKind::step, .index = step, .location = out_.steps[step].location});
    return;
  }
  if (open_region_ == kNone) {
    open_region_ = uint32_t(out_.regions.size());
    open_item_ = items().size();
    Region region;
    region.name = function_.name + "_region" + std::to_string(open_region_);
    region.steps = {step, 0};
    out_.regions.push_back(std::move(region));
    push_item(
        {.kind = ItemKind::region, .index = open_region_, .location = out_.steps[step].location});
  }
  ++out_.regions[open_region_].steps.count;
}

Status FunctionPlanner::allocate(ir::ValueId value, uint32_t ir_block, SourceLocation location) {
  uint32_t origin = live_.origin(value);
  if (origin == kNoOrigin || live_.origins[origin].value != value || !values_.is_dynamic(value) ||
      !live_.origins[origin].used())
    return {};
  CUGRT_ASSIGN(uint32_t buffer, values_.buffer(value, location));
  const Origin &o = live_.origins[origin];
  bool returned_as_is = o.returned && !out_.buffers[buffer].bytes.valid();
  if (!returned_as_is)
    dynamic_.push_back({ir_block, o.end, buffer});
  if (!out_.buffers[buffer].bytes.valid())
    return {}; // the host call that returns it makes it
  push_item({.kind = ItemKind::allocate, .index = buffer, .location = location});
  return {};
}

void FunctionPlanner::release(uint32_t ir_block, uint32_t until_time) {
  size_t kept = 0;
  for (const Dynamic &dynamic : dynamic_) {
    if (dynamic.block != ir_block || dynamic.end > until_time) {
      dynamic_[kept++] = dynamic;
      continue;
    }
    push_item({.kind = ItemKind::release, .index = dynamic.buffer});
  }
  dynamic_.resize(kept);
}

/// The host reads a loop's condition after the block that makes it. An allocation of its own is
/// given back when the next iteration makes it anew, or the next run begins.
void FunctionPlanner::keep_condition(const OperandRef &condition) {
  if (condition.kind == OperandRef::Kind::buffer)
    std::erase_if(dynamic_, [&](const Dynamic &dynamic) {
      return out_.buffers[dynamic.buffer].tensor == out_.buffers[condition.index].tensor;
    });
}

void FunctionPlanner::mark_time(uint32_t time) {
  if (again_ == 0)
    steps_before_[time] = uint32_t(out_.steps.size());
}

} // namespace cugrt::plan
