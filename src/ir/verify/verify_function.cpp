// Verification of functions: names, types, memory, visibility of values, blocks. Symbols are in
// verify_symbols.cpp.
#include "ir/verify/verifier.h"

#include "ir/module/infer.h"
#include "ir/module/names.h"
#include "ir/module/op.h"
#include "ir/text/text.h"

#include <algorithm>
#include <unordered_set>

namespace cugrt::ir {

static constexpr uint32_t kNowhere = UINT32_MAX;

// --- Reporting -----------------------------------------------------------------------------------

bool FunctionVerifier::fail(SourceLocation location, std::string message) {
  if (!location.known())
    message += " (in function @" + f_.name + ")";
  diagnostics_.error(location, std::move(message));
  return false;
}

bool FunctionVerifier::fail(const Binding &b, std::string message) {
  if (!b.location.known()) // built by a pass: the binding is quoted instead
    message += " (in '" + print_binding(module_, f_, b) + "' of function @" + f_.name + ")";
  diagnostics_.error(b.location, std::move(message));
  return false;
}

// --- Values and expressions ----------------------------------------------------------------------

bool FunctionVerifier::use(ValueId value, SourceLocation location, const Binding *b) {
  auto report = [&](std::string message) {
    return b ? fail(*b, std::move(message)) : fail(location, std::move(message));
  };
  if (!defined_[value.index])
    return report("value " + name(value) + " is used before it is defined");
  if (visible_in_[value.index] != current_block_)
    return report("value " + name(value) +
                  " is not visible in this block; list it in 'using' where the block begins, or "
                  "yield it from the block that defines it");
  if (nodes_[node(value)].dead)
    return report("value " + name(value) + " is used after kill");
  return true;
}

bool FunctionVerifier::use_operand(const Operand &operand, SourceLocation location,
                                   const Binding *b) {
  if (operand.kind == Operand::Kind::value)
    return use(operand.value(), location, b);
  if (operand.kind == Operand::Kind::expr)
    return check_expr(operand.expr(), location, "an operand", true);
  return true;
}

/// Every symbol is defined here, and none lives on the device (unless any_symbol).
bool FunctionVerifier::check_expr(ExprId e, SourceLocation location, const char *where,
                                  bool any_symbol) {
  if (m_.exprs.as_constant(e))
    return true;
  scratch_.clear();
  m_.exprs.collect_symbols(e, scratch_);
  for (SymbolId s : scratch_) {
    if (s.index >= f_.symbols.size())
      return fail(location, "symbol number " + std::to_string(s.index) + " does not exist");
    const Symbol &symbol = f_.symbols[s.index];
    if (symbol_state_[s.index] == SymbolState::undefined)
      return fail(location, "symbol '" + symbol.name + "' is used before it is defined");
    if (symbol_state_[s.index] == SymbolState::out_of_scope)
      return fail(location,
                  "symbol '" + symbol.name + "' is used outside of the block that defines it");
    if (symbol.source == SymbolSource::device && !any_symbol)
      return fail(location, "symbol '" + symbol.name +
                                "' is read on the device and cannot stand in " + where +
                                "; use its upper bound " + std::to_string(symbol.bounds.upper));
  }
  return true;
}

bool FunctionVerifier::check_size(ExprId e, SourceLocation location, const char *where) {
  if (m_.exprs.as_constant(e))
    return true;
  if (!check_expr(e, location, where))
    return false;
  if (scratch_.empty()) // check_expr has left the symbols there
    return fail(location,
                text(e) + " in " + where + " divides by zero or does not fit into 64 bits");
  return true;
}

bool FunctionVerifier::check_type(TypeId id, SourceLocation location) {
  if (!id.valid() || id.index >= m_.types.size())
    return fail(location, "a value has no type");
  if (id.index < good_types_.size() && good_types_[id.index])
    return true;
  const Type &t = type(id);
  if (m_.types.nesting(id) > kMaxNesting || m_.types.leaf_count(id) > kMaxOperands)
    return fail(location, "a tuple nests deeper than " + std::to_string(kMaxNesting) +
                              " or has more than " + std::to_string(kMaxOperands) + " parts");
  if (t.dims.size() > kMaxRank || (!t.strides.empty() && t.strides.size() != t.dims.size()))
    return fail(location, "type " + text(id) + " has rank above " + std::to_string(kMaxRank) +
                              " or not as many strides as dimensions");
  if (t.kind == TypeKind::storage && t.dims.size() != 1)
    return fail(location, "a storage type has one size");
  bool constant = t.fields.empty();
  auto all = [&](std::span<const ExprId> list) {
    for (ExprId e : list) {
      auto value = m_.exprs.as_constant(e);
      constant = constant && value;
      if (value && *value < 0 && t.kind != TypeKind::scalar)
        return fail(location, "type " + text(id) + " has a negative size");
      if (!value && !(t.kind == TypeKind::scalar ? check_expr(e, location, "a type")
                                                 : check_size(e, location, "a type")))
        return false;
    }
    return true;
  };
  if (!all(t.dims) || !all(t.strides))
    return false;
  for (TypeId field : t.fields)
    if (!check_type(field, location))
      return false;
  if (constant) {
    if (t.kind == TypeKind::tensor && t.known_shape) {
      const Type tensor = t; // a copy: the size is a new expression
      if (!m_.exprs.as_constant(tensor_bytes(m_.exprs, tensor)))
        return fail(location, "the size of " + text(id) + " does not fit into 64 bits");
    }
    if (id.index >= good_types_.size())
      good_types_.resize(m_.types.size() * 2, 0);
    good_types_[id.index] = 1;
  }
  return true;
}

// --- Memory --------------------------------------------------------------------------------------

uint32_t FunctionVerifier::add_node(bool writable, bool killable) {
  nodes_.push_back({.writable = writable, .killable = killable, .loop_depth = loop_depth_});
  return static_cast<uint32_t>(nodes_.size() - 1);
}

uint32_t FunctionVerifier::add_child(uint32_t parent) {
  uint32_t child = add_node(nodes_[parent].writable, true);
  nodes_[child].next_sibling = nodes_[parent].first_child;
  nodes_[parent].first_child = child;
  return child;
}

/// A node dies with all its parts; each dies once, so that all kills together are linear.
void FunctionVerifier::kill_node(uint32_t first) {
  std::vector<uint32_t> open{first};
  while (!open.empty()) {
    uint32_t n = open.back();
    open.pop_back();
    if (nodes_[n].dead)
      continue;
    nodes_[n].dead = true;
    dead_log_.push_back(n);
    for (uint32_t c = nodes_[n].first_child; c != UINT32_MAX; c = nodes_[c].next_sibling)
      open.push_back(c);
  }
}

void FunctionVerifier::nodes_of_results(const Binding &b) {
  std::span<const Operand> operands = f_.operands_of(b);
  auto first = [&] { return node(operands[0].value()); };
  for (uint32_t i = 0; i < b.result_count; ++i) {
    uint32_t &entry = node_of_[b.result(i).index];
    switch (b.kind) {
    case BindingKind::alias:
    case BindingKind::match_shape:
      entry = first();
      break;
    case BindingKind::alloc_tensor:
    case BindingKind::view:
      entry = add_child(first());
      break;
    case BindingKind::constant:
      entry = add_node(false, false);
      break;
    case BindingKind::tuple:
      entry = add_node(true, false);
      nodes_[entry].fields = b.operands;
      nodes_[entry].is_tuple = true;
      break;
    case BindingKind::tuple_element: {
      const Node &made = nodes_[first()];
      auto index = static_cast<size_t>(*m_.exprs.as_constant(f_.exprs_of(b)[0]));
      const Operand *field = made.is_tuple ? &f_.operands[made.fields.begin + index] : nullptr;
      entry = field && field->kind == Operand::Kind::value ? node(field->value())
                                                           : add_node(true, true);
      break;
    }
    case BindingKind::alloc_storage:
    case BindingKind::alloc:
    case BindingKind::kill:
    case BindingKind::launch:
    case BindingKind::call:
    case BindingKind::host_call:
    case BindingKind::extern_call:
    case BindingKind::shape:
    case BindingKind::literal:
    case BindingKind::read_symbol:
    case BindingKind::if_:
    case BindingKind::while_:
    case BindingKind::op:
      entry = writes_operand(b) ? first() : add_node(true, true);
    }
  }
}

// --- The function --------------------------------------------------------------------------------

bool is_meaningful_attribute(std::string_view name) {
  return name == "num_inputs" || name == "lower_bounds" || name == "upper_bounds" ||
         name == "constraints" || name == "capture_symbols" || name == "buckets" ||
         name == "bucket_symbols";
}

void FunctionVerifier::names() {
  std::unordered_set<std::string_view> seen;
  for (const Value &v : f_.values)
    if (!is_sigil_name(v.name) || !seen.insert(v.name).second)
      fail(v.location, "the name of value '" + v.name + "' is not legal or not unique");
  seen.clear();
  for (const Symbol &s : f_.symbols)
    if (!is_bare_name(s.name) || is_reserved(s.name) || !seen.insert(s.name).second)
      fail(s.location, "the name of symbol '" + s.name + "' is not legal or not unique");
  seen.clear();
  for (const Attribute &a : f_.extra_attributes)
    if (!is_bare_name(a.name) || is_meaningful_attribute(a.name) || !seen.insert(a.name).second)
      fail(f_.location, "the name of attribute '" + a.name + "' is not legal, taken or not unique");
}

void FunctionVerifier::parameter(size_t number) {
  const Parameter &p = f_.params[number];
  const Value &v = f_.value(p.value);
  const Type &t = type(p.value);
  check_type(v.type, v.location);
  bool plain =
      t.kind == TypeKind::tensor || t.kind == TypeKind::scalar || t.kind == TypeKind::shape;
  if (!plain && !f_.is_private)
    fail(v.location, "parameter %" + v.name + " has type " + text(v.type) +
                         "; parameters are tensors, host scalars or shapes (more in private "
                         "functions)");
  if (t.kind == TypeKind::tensor && !t.strides.empty())
    fail(v.location,
         "parameter %" + v.name + " has strides; parameters are contiguous, take a view");
  if (t.kind != TypeKind::tensor && (p.access != Access::in || p.alignment_bytes))
    fail(v.location, "parameter %" + v.name + " is no tensor, so it has no out, inout or align");
  if (p.alignment_bytes & (p.alignment_bytes - 1))
    fail(v.location, "the alignment of parameter %" + v.name + " is no power of two");
  if (f_.is_weight(number) && (t.kind != TypeKind::tensor || p.access != Access::in))
    fail(v.location, "parameter %" + v.name +
                         " is a weight (num_inputs comes before it): weights are tensors that are "
                         "only read");
}

void FunctionVerifier::parameters() {
  if (f_.num_inputs != UINT32_MAX && f_.num_inputs > f_.params.size())
    fail(f_.location, "num_inputs is more than the number of parameters");
  for (size_t i = 0; i < f_.params.size(); ++i) {
    ValueId v = f_.params[i].value;
    parameter(i);
    define(v);
    defined_[v.index] = true;
    // A storage may be written. A private function may end the memory of its arguments.
    TypeKind kind = type(v).kind;
    bool memory = kind == TypeKind::tensor || kind == TypeKind::storage;
    node_of_[v.index] = add_node(f_.params[i].access != Access::in || kind == TypeKind::storage,
                                 f_.is_private && memory);
  }
}

void FunctionVerifier::verify() {
  visible_in_.assign(f_.values.size(), kNowhere);
  defined_.assign(f_.values.size(), false);
  node_of_.assign(f_.values.size(), 0);
  symbol_state_.assign(f_.symbols.size(), SymbolState::undefined);
  read_dtype_.assign(f_.symbols.size(), DType::i64);
  match_of_.assign(f_.symbols.size(), 0);
  names();
  symbol_sources();
  current_block_ = 0;
  parameters();
  for (TypeId t : f_.result_types)
    check_type(t, f_.location);
  block(0, nullptr, {}, 0);
  for (const Constraint &c : f_.constraints)
    constraint_matches(c);
}

// --- Blocks --------------------------------------------------------------------------------------

void FunctionVerifier::block(uint32_t number, const Binding *owner,
                             std::span<const Operand> captures, uint32_t nesting) {
  uint32_t outer = current_block_;
  size_t outer_symbols = scoped_symbols_.size();
  current_block_ = number;
  for (const Operand &o : captures)
    visible_in_[o.index] = number;
  const Block &b = f_.blocks[number];
  if (owner)
    for (uint32_t i = 0; i < b.param_count; ++i) {
      ValueId v{b.first_param + i};
      check_type(f_.value(v).type, owner->location);
      define(v);
      defined_[v.index] = true;
    }
  for (const Binding &inner : b.bindings)
    binding(inner, nesting);
  for (const Operand &o : f_.results_of(b))
    use_operand(o, b.end_location, nullptr);
  if (number == 0)
    results();
  else if (owner->kind == BindingKind::if_)
    yields(*owner, number, {});
  for (const Operand &o : captures)
    visible_in_[o.index] = outer;
  while (scoped_symbols_.size() > outer_symbols) {
    symbol_state_[scoped_symbols_.back().index] = SymbolState::out_of_scope;
    scoped_symbols_.pop_back();
  }
  current_block_ = outer;
}

void FunctionVerifier::results() {
  const Block &body = f_.body();
  std::span<const Operand> list = f_.results_of(body);
  if (list.size() != f_.result_types.size()) {
    fail(body.end_location, "function @" + f_.name + " returns " + std::to_string(list.size()) +
                                " values and declares " + std::to_string(f_.result_types.size()));
    return;
  }
  std::vector<TypeId> types;
  for (size_t i = 0; i < list.size(); ++i) {
    const TypeId t = types.emplace_back(operand_type(m_, f_, list[i]));
    if (!t.valid() || !assignable(t, f_.result_types[i], false))
      fail(body.end_location, "result " + std::to_string(i) + " has type " + text(t) + ", " +
                                  text(f_.result_types[i]) + " is declared");
  }
  counted_dims(types);
}

bool FunctionVerifier::counted_dims(std::span<const TypeId> types) {
  std::vector<bool> is_counted(types.size());
  auto tensor = [&](uint32_t result) -> const Type * {
    const bool there = result < types.size() && types[result].valid();
    return there && type(types[result]).kind == TypeKind::tensor ? &type(types[result]) : nullptr;
  };
  for (const CountedDim &c : f_.counted_dims) {
    const std::string result = "result " + std::to_string(c.result);
    auto refuse = [&](const std::string &why) { return fail(f_.location, "counted_dims: " + why); };
    if (f_.is_private)
      return refuse("@" + f_.name + " is private, and only callers read a count");
    const Type *counted = tensor(c.result), *count = tensor(c.count);
    if (!counted)
      return refuse("there is no " + result + " that is a tensor");
    if (!counted->known_shape || c.dim >= counted->dims.size())
      return refuse(result + " has no dimension " + std::to_string(c.dim));
    if (!counted->strides.empty() || info(counted->dtype).elements_per_block != 1)
      return refuse(result + " is not contiguous, of elements of whole bytes");
    if (is_counted[c.result])
      return refuse(result + " has two counted dimensions");
    is_counted[c.result] = true;
    if (!count || count->dtype != DType::i64 || !count->known_shape)
      return refuse("there is no result " + std::to_string(c.count) + " that is one i64");
    for (ExprId dim : count->dims)
      if (m_.exprs.as_constant(dim) != 1)
        return refuse("result " + std::to_string(c.count) + " has not one element");
  }
  for (const CountedDim &c : f_.counted_dims)
    if (is_counted[c.count])
      return fail(f_.location, "counted_dims: result " + std::to_string(c.count) +
                                   " counts and is counted itself");
  return true;
}

/// Checks that a block's results have the types, by default those of the binding's results.
bool FunctionVerifier::yields(const Binding &b, uint32_t number, std::span<const TypeId> types) {
  std::vector<TypeId> wanted(types.begin(), types.end());
  if (b.kind == BindingKind::if_)
    for (uint32_t i = 0; i < b.result_count; ++i)
      wanted.push_back(f_.value(b.result(i)).type);
  const Block &block = f_.blocks[number];
  std::span<const Operand> list = f_.results_of(block);
  SourceLocation location = block.end_location.known() ? block.end_location : b.location;
  if (list.size() != wanted.size())
    return fail(location, "the block yields " + std::to_string(list.size()) + " values, " +
                              std::to_string(wanted.size()) + " are needed");
  for (size_t i = 0; i < list.size(); ++i) {
    TypeId t = operand_type(m_, f_, list[i]);
    if (!t.valid() || !assignable(t, wanted[i], false))
      return fail(location, "yielded value " + std::to_string(i + 1) + " has type " + text(t) +
                                ", " + text(wanted[i]) + " is needed");
  }
  return true;
}

void FunctionVerifier::binding(const Binding &b, uint32_t nesting) {
  bool good = counts(b) && (b.kind == BindingKind::host_call || no_functions(b, 0));
  if (good)
    for (const Operand &o : f_.operands_of(b))
      good = use_operand(o, b.location, &b) && good;
  for (uint32_t i = 0; i < b.result_count && good; ++i)
    if (b.kind != BindingKind::match_shape)
      good = check_type(f_.value(b.result(i)).type, b.location);
  good = good && rules(b);
  if (good && b.blocks.count)
    nested(b, nesting);
  if (good)
    nodes_of_results(b);
  for (uint32_t i = 0; i < b.result_count; ++i) { // after an error too: one report is enough
    define(b.result(i));
    defined_[b.result(i).index] = true;
    if (!good)
      node_of_[b.result(i).index] = add_node(true, true);
  }
}

void FunctionVerifier::nested(const Binding &b, uint32_t nesting) {
  if (nesting + 1 > kMaxNesting) {
    fail(b, "blocks nest deeper than " + std::to_string(kMaxNesting));
    return;
  }
  b.kind == BindingKind::if_ ? if_blocks(b, nesting + 1) : while_blocks(b, nesting + 1);
}

/// Each branch begins with all memory alive before; memory that either kills is dead afterwards.
void FunctionVerifier::if_blocks(const Binding &b, uint32_t nesting) {
  std::span<const Operand> captures = f_.operands_of(b).subspan(1);
  size_t before = dead_log_.size();
  block(b.blocks.begin, &b, captures, nesting);
  std::vector<uint32_t> killed(dead_log_.begin() + static_cast<ptrdiff_t>(before), dead_log_.end());
  for (uint32_t n : killed)
    nodes_[n].dead = false;
  dead_log_.resize(before);
  block(b.blocks.begin + 1, &b, captures, nesting);
  for (uint32_t n : killed)
    if (!nodes_[n].dead) {
      nodes_[n].dead = true;
      dead_log_.push_back(n);
    }
}

void FunctionVerifier::while_blocks(const Binding &b, uint32_t nesting) {
  std::span<const Operand> operands = f_.operands_of(b);
  std::vector<TypeId> carried;
  ++loop_depth_;
  for (uint32_t number : {b.blocks.begin, b.blocks.begin + 1}) {
    const Block &inner = f_.blocks[number];
    carried.clear();
    for (uint32_t i = 0; i < inner.param_count; ++i) {
      ValueId v{inner.first_param + i};
      carried.push_back(f_.value(v).type);
      const Operand &initial = operands[i];
      bool writable =
          initial.kind != Operand::Kind::value || nodes_[node(initial.value())].writable;
      node_of_[v.index] = add_node(writable, false);
    }
    block(number, &b, operands.subspan(b.carried_count), nesting);
  }
  --loop_depth_;
  yields(b, b.blocks.begin + 1, carried);
  const Block &first = f_.blocks[b.blocks.begin];
  std::span<const Operand> test = f_.results_of(first);
  SourceLocation location = first.end_location.known() ? first.end_location : b.location;
  if (test.size() != 1)
    fail(location, "the condition of a loop yields one value");
  else
    condition(b, test[0], location);
}

} // namespace cugrt::ir
