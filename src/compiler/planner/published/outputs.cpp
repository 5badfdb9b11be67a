// Finds the storages that hold results. The caller keeps a result while the next run writes its
// storage, so such a storage is not lifted.
//
// Results are followed back to the allocation by roots: the root of an alias, view, match or tuple
// element is that of the thing it names, the root of a call's result that of the operand which the
// callee returns. What a block of an `if` or `while` yields counts as a result too, as published.
#include "compiler/ir_names.h"
#include "compiler/planner/published/parts.h"

namespace cugrt::plan {

namespace {

/// Values by the allocation that they name.
class Roots {
public:
  Roots(const ir::Module &module, const ir::Function &function,
        std::span<const ResultParameters> callees)
      : module_(module), function_(function), callees_(callees), root_(function.values.size()),
        storage_(function.values.size()), fields_(function.values.size()) {
    for (uint32_t i = 0; i < root_.size(); ++i)
      root_[i] = {i};
    block(0);
  }

  ValueId root(ValueId value) const { return root_[value.index]; }

  /// The roots of everything that a value holds.
  template <class F> void each_leaf(ValueId value, const F &leaf) const {
    ValueId root = root_[value.index];
    if (fields_[root.index].count == 0)
      return leaf(root);
    for (const Operand &field : std::span(function_.operands)
                                    .subspan(fields_[root.index].begin, fields_[root.index].count))
      if (field.kind == Operand::Kind::value)
        each_leaf(field.value(), leaf);
  }

  /// The storage that a root lies in, or is; invalid when it is something else.
  ValueId storage(ValueId root) const {
    if (storage_[root.index].valid())
      return root_[storage_[root.index].index];
    return {};
  }

private:
  // Walks blocks in program order, so that operands are known before values made of them.
  void block(uint32_t number) {
    for (const Binding &b : function_.blocks[number].bindings) {
      binding(b);
      for (uint32_t nested = b.blocks.begin; nested < b.blocks.end(); ++nested)
        block(nested);
    }
  }

  void binding(const Binding &b) {
    std::span<const Operand> operands = function_.operands_of(b);
    switch (b.kind) {
    case BindingKind::alloc_storage:
      storage_[b.result().index] = b.result();
      return;
    case BindingKind::alloc_tensor:
      storage_[b.result().index] = operands[0].value();
      return;
    case BindingKind::alias:
    case BindingKind::view:
    case BindingKind::match_shape:
      root_[b.result().index] = root_[operands[0].index];
      return;
    case BindingKind::tuple:
      fields_[b.result().index] = b.operands;
      return;
    case BindingKind::tuple_element:
      tuple_element(b, operands[0].value());
      return;
    case BindingKind::call:
      for (uint32_t i = 0; i < b.result_count; ++i)
        if (uint32_t p = callees_[b.callee][i]; p < operands.size())
          if (operands[p].kind == Operand::Kind::value)
            root_[b.result(i).index] = root_[operands[p].index];
      return;
    case BindingKind::alloc:
    case BindingKind::kill:
    case BindingKind::launch:
    case BindingKind::host_call:
    case BindingKind::extern_call:
    case BindingKind::constant:
    case BindingKind::shape:
    case BindingKind::literal:
    case BindingKind::read_symbol:
    case BindingKind::if_:
    case BindingKind::while_:
    case BindingKind::op:
      return;
    }
  }

  void tuple_element(const Binding &b, ValueId tuple) {
    ir::Range fields = fields_[root_[tuple.index].index];
    auto index = module_.exprs.as_constant(function_.exprs_of(b)[0]);
    if (!index || *index < 0 || *index >= int64_t(fields.count))
      return;
    const Operand &field = function_.operands[fields.begin + size_t(*index)];
    if (field.kind == Operand::Kind::value)
      root_[b.result().index] = root_[field.index];
  }

  const ir::Module &module_;
  const ir::Function &function_;
  std::span<const ResultParameters> callees_;
  std::vector<ValueId> root_;     // by value
  std::vector<ValueId> storage_;  // by root: the storage as its allocation names it
  std::vector<ir::Range> fields_; // by root, of tuples: Function::operands
};

} // namespace

std::vector<bool> find_result_storages(const ir::Module &module, const ir::Function &function,
                                       std::span<const ResultParameters> callees,
                                       ResultParameters &parameters) {
  Roots roots(module, function, callees);
  std::vector<uint32_t> parameter(function.values.size(), UINT32_MAX);
  for (uint32_t p = 0; p < function.params.size(); ++p)
    parameter[function.params[p].value.index] = p;
  for (const Operand &result : function.results_of(function.body()))
    parameters.push_back(result.kind == Operand::Kind::value
                             ? parameter[roots.root(result.value()).index]
                             : UINT32_MAX);
  std::vector<bool> holds_result(function.values.size());
  auto mark = [&](const Operand &result, bool only_storages) {
    if (result.kind == Operand::Kind::value)
      roots.each_leaf(result.value(), [&](ValueId leaf) {
        ValueId storage = roots.storage(leaf);
        if (storage.valid() && (!only_storages || storage == leaf))
          holds_result[storage.index] = true;
      });
  };
  for (const ir::Block &block : function.blocks) {
    for (const Operand &result : function.results_of(block))
      mark(result, false);
    for (const Binding &b : block.bindings) // a loop's own: no call may give it
      for (uint32_t i = 0; i < b.carried_count; ++i)
        mark(function.operands_of(b)[i], true);
  }
  return holds_result;
}

} // namespace cugrt::plan
