// Items that the host runs: calls, host functions, branches and loops.
//
// Tensors that leave a block are copied by steps of that block into storage of the construct, so
// the host moves host values only:
//
//   %r = if %c { yield %a } else { yield %b }       while (%c = %a) { ... } do { yield %d }
//     then: ..., copy %r <- %a                        copy %c <- %a; loop
//     else: ..., copy %r <- %b                          body: ..., copy %c <- %d
//
// Carried values that change places (yield %b, %a) are set aside first, all of them, then copied.
#include "compiler/ir_names.h"
#include "compiler/planner/lower/function_planner.h"
#include "ir/module/module.h"
#include "plan/edges/hazards.h"

#include <algorithm>

namespace cugrt::plan {

Status FunctionPlanner::operands(std::span<const Operand> operands, SourceLocation location,
                                 Item &item) {
  for (const Operand &operand : operands) {
    CUGRT_ASSIGN(OperandRef ref, values_.ref(operand, location));
    item.operands.push_back(ref);
  }
  return {};
}

Status FunctionPlanner::result_refs(const Binding &b, Item &item) {
  for (uint32_t i = 0; i < b.result_count; ++i) {
    if (values_.type(b.result(i)).kind != TypeKind::tensor) {
      item.results.push_back(values_.define_host(b.result(i)));
      continue;
    }
    CUGRT_ASSIGN(uint32_t buffer, values_.buffer(b.result(i), b.location));
    item.results.push_back({OperandRef::Kind::buffer, buffer});
  }
  return {};
}

Status FunctionPlanner::copy(uint32_t to, uint32_t from, SourceLocation location) {
  const Buffer &target = out_.buffers[to], &source = out_.buffers[from];
  if (target.base == source.base && target.index == source.index &&
      target.offset_bytes == source.offset_bytes)
    return {};
  const MatchedSymbols &matched = values_.matched_symbols();
  const bool alike = matched.same(target.bytes, source.bytes) ||
                     (target.bytes.valid() && target.dtype == source.dtype &&
                      matched.same(target.dims, source.dims)); // a match's bytes are its source's
  if (!alike || !matched.same(target.strides, source.strides))
    return fail(location, "%" + source.name + " must be copied to %" + target.name +
                              ", but their shapes or strides are not known to be equal");
  bool joins = rules_->copies_join() && target.base != BufferBase::dynamic &&
               source.base != BufferBase::dynamic;
  push_step(add_copy_step(out_, to, from, location), joins);
  return {};
}

// --- Calls and host functions --------------------------------------------------------------------

/// The caller's expressions for the callee's symbols, as far as its parameters define them.
std::vector<ExprId> FunctionPlanner::callee_symbols(const Binding &b) const {
  const Function &callee = context_.plan.functions[b.callee];
  std::vector<ExprId> symbols(callee.symbols.size());
  std::span<const Operand> operands = function_.operands_of(b);
  for (size_t p = 0; p < callee.params.size(); ++p) {
    std::vector<ExprId> actual;
    if (operands[p].kind == Operand::Kind::value)
      actual = values_.type(operands[p].value()).kind == TypeKind::tensor
                   ? values_.shape(operands[p].value()).dims
                   : context_.copy(values_.type(operands[p].value()).dims);
    else if (operands[p].kind == Operand::Kind::expr)
      actual = {context_.copy(operands[p].expr())};
    const std::vector<ExprId> &dims = callee.params[p].dims;
    for (size_t i = 0; i < dims.size() && i < actual.size(); ++i) {
      const ir::ExprNode &node = context_.plan.exprs[dims[i]];
      if (node.kind == ir::ExprKind::symbol && !symbols[size_t(node.value)].valid())
        symbols[size_t(node.value)] = actual[i];
    }
  }
  return symbols;
}

/// Dimensions of a result whose type lacks them, from the callee's results. If only the callee's
/// run knows them, the caller cannot allocate the result.
Status FunctionPlanner::call_shape(const Binding &b, uint32_t result) {
  const Function &callee = context_.plan.functions[b.callee];
  const uint32_t index = callee.results[result].buffer;
  if (index == kNone || values_.shape(b.result(result)).bytes.valid())
    return {};
  const FunctionSummary::Source &source = context_.storage.summaries[b.callee].results[result];
  const Buffer &returned = callee.buffers[index];
  TensorExprs shape{returned.dims, returned.strides, returned.bytes};
  if (!shape.bytes.valid() && source.kind == FunctionSummary::SourceKind::parameter)
    shape = values_.shape(function_.operands_of(b)[source.index].value());
  else if (!substitute(shape, callee_symbols(b)))
    shape.bytes = {};
  if (!shape.bytes.valid())
    return fail(b.location, "only a run of @" + callee.name + " knows the shape of its result " +
                                std::to_string(result) +
                                "; declare dimensions of its parameters from which it follows");
  values_.set_shape(b.result(result), std::move(shape));
  return {};
}

/// False where an expression has symbols that have no replacement.
bool FunctionPlanner::substitute(TensorExprs &shape, std::span<const ExprId> symbols) const {
  std::vector<SymbolId> used;
  auto each = [&](auto visit) {
    std::for_each(shape.dims.begin(), shape.dims.end(), visit);
    std::for_each(shape.strides.begin(), shape.strides.end(), visit);
    if (shape.bytes.valid())
      visit(shape.bytes);
  };
  ir::ExprPool &exprs = context_.plan.exprs;
  each([&](ExprId expr) { exprs.collect_symbols(expr, used); });
  if (std::any_of(used.begin(), used.end(),
                  [&](SymbolId symbol) { return !symbols[symbol.index].valid(); }))
    return false;
  each([&](ExprId &expr) { expr = exprs.substitute(expr, symbols); });
  return true;
}

/// A result that lies in an operand, a constant or another result: where, in the caller's terms.
Status FunctionPlanner::call_alias(const Binding &b, uint32_t result,
                                   const FunctionSummary &summary) {
  const Function &callee = context_.plan.functions[b.callee];
  const FunctionSummary::Source &source = summary.results[result];
  ExprId offset = callee.buffers[callee.results[result].buffer].offset_bytes;
  std::vector<ExprId> symbols = callee_symbols(b);
  std::vector<SymbolId> used;
  context_.plan.exprs.collect_symbols(offset, used);
  for (SymbolId symbol : used)
    if (!symbols[symbol.index].valid())
      return fail(b.location, "result " + std::to_string(result) + " of @" + callee.name +
                                  " lies at an offset over " + callee.symbols[symbol.index].name +
                                  ", which its parameters do not define");
  offset = context_.plan.exprs.substitute(offset, symbols);
  if (source.kind == FunctionSummary::SourceKind::parameter)
    offset = context_.plan.exprs.add(
        offset, values_.offset(function_.operands_of(b)[source.index].value()));
  values_.set_offset(b.result(result), offset);
  return {};
}

Status FunctionPlanner::call(const Binding &b, uint32_t ir_block) {
  const Function &callee = context_.plan.functions[b.callee];
  const FunctionSummary &summary = context_.storage.summaries[b.callee];
  Item item;
  item.kind = ItemKind::call;
  item.index = b.callee;
  item.name = callee.name;
  item.location = b.location;
  CUGRT_TRY(operands(function_.operands_of(b), b.location, item));
  for (uint32_t i = 0; i < b.result_count; ++i) {
    if (values_.type(b.result(i)).kind != TypeKind::tensor)
      continue;
    CUGRT_TRY(call_shape(b, i));
    if (summary.results[i].kind != FunctionSummary::SourceKind::fresh)
      CUGRT_TRY(call_alias(b, i, summary));
    else
      CUGRT_TRY(allocate(b.result(i), ir_block, b.location));
  }
  CUGRT_TRY(result_refs(b, item));
  CUGRT_TRY(check_call_access(b, item));
  push_item(std::move(item));
  return {};
}

/// A callee takes its slots to be disjoint where one is written, and writes what its parameters
/// say.
Status FunctionPlanner::check_call_access(const Binding &b, const Item &item) {
  struct Bound {
    ByteRange range;
    bool written;
    uint32_t buffer;
  };
  const Function &callee = context_.plan.functions[b.callee];
  std::vector<Bound> bound;
  for (const Slot &slot : callee.slots) {
    bool is_param = slot.kind == SlotKind::param;
    OperandRef ref = is_param ? item.operands[slot.index] : item.results[slot.index];
    if (ref.kind != OperandRef::Kind::buffer)
      return fail(b.location, "@" + callee.name + " needs a tensor for parameter " +
                                  std::to_string(slot.index));
    bool written = ir::writes(slot.access);
    if (is_param && written) {
      ir::ValueId value = function_.operands_of(b)[slot.index].value();
      if (std::string what = values_.write_protection(value); !what.empty())
        return fail(b.location, "@" + callee.name + " writes %" + function_.value(value).name +
                                    ", which is " + what);
    }
    const Buffer &buffer = out_.buffers[ref.index];
    bound.push_back(
        {byte_range(context_.plan.exprs, buffer, values_.bounds()), written, ref.index});
  }
  for (size_t i = 0; i < bound.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if ((bound[i].written || bound[j].written) &&
          may_overlap(context_.plan.exprs, out_.buffers[bound[i].buffer],
                      out_.buffers[bound[j].buffer], values_.bounds(), values_.matched_symbols()))
        return fail(b.location, "@" + callee.name + " gets %" + out_.buffers[bound[j].buffer].name +
                                    " and %" + out_.buffers[bound[i].buffer].name +
                                    ", which overlap, and writes one of them");
  return {};
}

Status FunctionPlanner::host(const Binding &b, uint32_t ir_block) {
  Item item;
  item.kind = b.kind == BindingKind::host_call ? ItemKind::host_call : ItemKind::extern_call;
  item.name = context_.module.callee_names[b.callee];
  item.location = b.location;
  CUGRT_TRY(operands(function_.operands_of(b), b.location, item));
  for (uint32_t i = 0; i < b.result_count; ++i)
    if (values_.type(b.result(i)).kind == TypeKind::tensor)
      CUGRT_TRY(allocate(b.result(i), ir_block, b.location));
  CUGRT_TRY(result_refs(b, item));
  push_item(std::move(item));
  return {};
}

// --- Branches ------------------------------------------------------------------------------------

Status FunctionPlanner::branch(const Binding &b, uint32_t ir_block) {
  Item item;
  item.kind = ItemKind::if_;
  item.location = b.location;
  CUGRT_TRY(operands(function_.operands_of(b).first(1), b.location, item));
  for (uint32_t i = 0; i < b.result_count; ++i)
    CUGRT_TRY(allocate(b.result(i), ir_block, b.location));
  CUGRT_TRY(result_refs(b, item));
  item.blocks = {uint32_t(out_.blocks.size()), b.blocks.count};
  out_.blocks.resize(out_.blocks.size() + b.blocks.count);
  for (uint32_t i = 0; i < b.blocks.count; ++i)
    CUGRT_TRY(block(b.blocks.begin + i, item.blocks.begin + i));
  push_item(std::move(item));
  return {};
}

Status FunctionPlanner::yield_branch(const Binding &b, const ir::Block &from, Block &to) {
  std::span<const Operand> yields = function_.results_of(from);
  std::vector<OperandRef> results;
  for (uint32_t i = 0; i < yields.size(); ++i) {
    CUGRT_ASSIGN(OperandRef ref, values_.ref(yields[i], from.end_location));
    if (ref.kind == OperandRef::Kind::buffer) {
      CUGRT_ASSIGN(uint32_t target, values_.buffer(b.result(i), b.location));
      CUGRT_TRY(copy(target, ref.index, from.end_location));
      ref.index = target;
    }
    results.push_back(ref);
  }
  to.results = std::move(results);
  return {};
}

// --- Loops ---------------------------------------------------------------------------------------

Status FunctionPlanner::loop(const Binding &b, uint32_t ir_block) {
  Item item;
  item.kind = ItemKind::while_;
  item.location = b.location;
  std::span<const Operand> initial = function_.operands_of(b).first(b.carried_count);
  CUGRT_TRY(operands(initial, b.location, item));
  std::vector<OperandRef> carried;
  for (uint32_t i = 0; i < b.carried_count; ++i) {
    CUGRT_TRY(allocate(b.result(i), ir_block, b.location));
    if (values_.type(b.result(i)).kind != TypeKind::tensor) {
      carried.push_back(values_.define_host(b.result(i)));
      continue;
    }
    CUGRT_ASSIGN(uint32_t buffer, values_.buffer(b.result(i), b.location));
    CUGRT_TRY(copy(buffer, item.operands[i].index, b.location));
    carried.push_back({OperandRef::Kind::buffer, buffer});
  }
  close_region();
  item.results = carried;
  item.blocks = {uint32_t(out_.blocks.size()), b.blocks.count};
  out_.blocks.resize(out_.blocks.size() + b.blocks.count);
  for (uint32_t i = 0; i < b.blocks.count; ++i) {
    uint32_t from = b.blocks.begin + i;
    for (uint32_t p = 0; p < b.carried_count; ++p)
      if (carried[p].kind == OperandRef::Kind::host_value)
        values_.set_ref({function_.blocks[from].first_param + p}, carried[p]);
    out_.blocks[item.blocks.begin + i].params = carried;
    CUGRT_TRY(block(from, item.blocks.begin + i));
  }
  push_item(std::move(item));
  return {};
}

Status FunctionPlanner::yield_loop(const Binding &b, const ir::Block &from, Block &to) {
  std::span<const Operand> yields = function_.results_of(from);
  bool is_body = &from == &function_.blocks[b.blocks.end() - 1];
  std::vector<OperandRef> results;
  for (const Operand &yield : yields) {
    CUGRT_ASSIGN(OperandRef ref, values_.ref(yield, from.end_location));
    results.push_back(ref);
  }
  if (is_body) {
    std::vector<uint32_t> sources(yields.size(), kNone);
    for (uint32_t i = 0; i < yields.size(); ++i) {
      if (results[i].kind != OperandRef::Kind::buffer)
        continue;
      sources[i] = results[i].index;
      uint32_t swap = storage_.swap_of(b.result(i));
      if (swap == kNone)
        continue;
      CUGRT_ASSIGN(uint32_t target, values_.buffer(b.result(i), b.location));
      uint32_t aside = values_.temporary(swap, target);
      CUGRT_TRY(copy(aside, sources[i], from.end_location));
      sources[i] = aside;
    }
    for (uint32_t i = 0; i < yields.size(); ++i) {
      if (sources[i] == kNone)
        continue;
      CUGRT_ASSIGN(uint32_t target, values_.buffer(b.result(i), b.location));
      CUGRT_TRY(copy(target, sources[i], from.end_location));
      results[i].index = target;
    }
  }
  to.results = std::move(results);
  return {};
}

} // namespace cugrt::plan
