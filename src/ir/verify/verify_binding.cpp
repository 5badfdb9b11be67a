// The rules of each kind of binding, except calls.
#include "ir/verify/verifier.h"

#include "ir/module/infer.h"
#include "ir/module/names.h"
#include "ir/module/op.h"

#include <algorithm>

namespace cugrt::ir {

bool FunctionVerifier::counts(const Binding &b) {
  const BindingInfo &want = binding_info(b.kind);
  auto wrong = [](uint32_t wanted, uint32_t got) {
    return wanted != BindingInfo::kMany && wanted != got;
  };
  if (wrong(want.operands, b.operands.count) || wrong(want.exprs, b.exprs.count) ||
      wrong(want.results, b.result_count) || wrong(want.blocks, b.blocks.count)) {
    diagnostics_.error(b.location, "a binding of function @" + f_.name +
                                       " has the wrong number of operands, expressions, results or "
                                       "blocks for its kind");
    return false;
  }
  if (want.flags & kTakesValues)
    for (const Operand &o : f_.operands_of(b))
      if (o.kind != Operand::Kind::value)
        return fail(b, "the operand of this binding is a value");
  return true;
}

bool FunctionVerifier::rules(const Binding &b) {
  using Rule = bool (FunctionVerifier::*)(const Binding &);
  static constexpr Rule kRules[] = {
#define CUGRT_BINDING(name, ...) &FunctionVerifier::name,
#include "ir/module/bindings.def"
#undef CUGRT_BINDING
  };
  return attributes(b) && (this->*kRules[static_cast<size_t>(b.kind)])(b);
}

bool FunctionVerifier::attributes(const Binding &b) {
  std::span<const Attribute> list = f_.attributes_of(b);
  const CalleeKind callee = binding_info(b.kind).callee;
  if (!list.empty() && (callee == CalleeKind::none || callee == CalleeKind::constant))
    return fail(b, "a binding of this kind has no attributes");
  if (b.kind == BindingKind::op)
    return true; // infer_op knows the names
  for (size_t i = 0; i < list.size(); ++i) {
    if (!is_bare_name(list[i].name))
      return fail(b, "attribute '" + list[i].name + "' has no legal name");
    for (size_t j = 0; j < i; ++j)
      if (list[i].name == list[j].name)
        return fail(b, "attribute '" + list[i].name + "' is given twice");
  }
  return true;
}

// --- Storage -------------------------------------------------------------------------------------

bool FunctionVerifier::alloc_storage(const Binding &b) {
  ExprId bytes = f_.exprs_of(b)[0];
  const Type &t = type(b.result());
  if (!check_size(bytes, b.location, "the size of a storage"))
    return false;
  if (t.kind != TypeKind::storage || t.dims[0] != bytes)
    return fail(b, "the result of alloc_storage is a storage of its size");
  if (m_.exprs.range(bytes, bounds_).upper < 0)
    return fail(b, "the size " + text(bytes) + " of this storage is negative");
  return true;
}

/// Whether [begin, begin + bytes) lies in [0, whole), as far as that can be said: at the corners of
/// the symbols' bounds. A part without bytes may lie anywhere, and of negative dimensions there is
/// none.
bool FunctionVerifier::within(const Binding &b, ExprId begin, ExprId bytes, ExprId whole,
                              const char *what, std::span<const ExprId> dims) {
  ExprId end = m_.exprs.add(begin, bytes), room = m_.exprs.sub(whole, end);
  if (m_.exprs.range(room, bounds_).lower >= 0)
    return true;
  for (const std::vector<int64_t> &corner : corners_) {
    if (std::any_of(dims.begin(), dims.end(), [&](ExprId dim) {
          auto value = m_.exprs.evaluate(dim, corner);
          return value.ok() && *value < 0;
        }))
      continue;
    auto size = m_.exprs.evaluate(bytes, corner);
    auto last = m_.exprs.evaluate(end, corner), all = m_.exprs.evaluate(whole, corner);
    if (size.ok() && *size > 0 && !last.ok() && m_.exprs.evaluate(begin, corner).ok())
      return fail(b, "the end of this tensor in " + std::string(what) +
                         " does not fit into 64 bits" +
                         (m_.exprs.as_constant(begin) ? "" : " for symbols at their bounds"));
    if (size.ok() && *size > 0 && last.ok() && all.ok() && *last > *all)
      return fail(b, "this tensor ends at byte " + std::to_string(*last) + " of " + what + " of " +
                         std::to_string(*all) + " bytes" +
                         (m_.exprs.as_constant(room) ? "" : " for symbols at their bounds"));
  }
  return true;
}

bool FunctionVerifier::offset(const Binding &b, ExprId offset, DType dtype) {
  if (!check_size(offset, b.location, "an offset"))
    return false;
  if (m_.exprs.range(offset, bounds_).upper < 0)
    return fail(b, "the offset " + text(offset) + " is negative");
  const DTypeInfo &d = info(dtype);
  auto constant = m_.exprs.as_constant(offset);
  if (constant && d.kind != DTypeKind::block && *constant % d.bytes_per_block != 0)
    return fail(b, "the offset " + std::to_string(*constant) + " is no multiple of the " +
                       std::to_string(d.bytes_per_block) + " bytes of " + std::string(d.name));
  return true;
}

bool FunctionVerifier::alloc_tensor(const Binding &b) {
  const Type storage = type(f_.operands_of(b)[0].value()), t = type(b.result());
  ExprId at = f_.exprs_of(b)[0];
  if (storage.kind != TypeKind::storage)
    return fail(b, "alloc_tensor takes a storage; for a part of a tensor take view");
  if (t.kind != TypeKind::tensor || !t.known_shape || !t.strides.empty())
    return fail(b, "alloc_tensor makes a contiguous tensor with dimensions");
  if (t.scope != storage.scope)
    return fail(b, "the tensor's scope is not its storage's");
  return offset(b, at, t.dtype) &&
         within(b, at, tensor_bytes(m_.exprs, t), storage.dims[0], "a storage", t.dims);
}

bool FunctionVerifier::alloc(const Binding &b) {
  const Type &t = type(b.result());
  return (t.kind == TypeKind::tensor && t.known_shape && t.strides.empty()) ||
         fail(b, "alloc makes a contiguous tensor with dimensions");
}

bool FunctionVerifier::kill(const Binding &b) {
  ValueId v = f_.operands_of(b)[0].value();
  const Type &t = type(v);
  if (t.kind != TypeKind::tensor && t.kind != TypeKind::storage)
    return fail(b, "kill takes a tensor or storage, " + name(v) + " has type " +
                       text(f_.value(v).type));
  const Node &n = nodes_[node(v)];
  if (!n.killable)
    return fail(b, "kill takes what the function allocates; " + name(v) +
                       " is a parameter, a constant or a loop's");
  if (n.loop_depth < loop_depth_)
    return fail(b, name(v) + " is killed in a loop and defined outside of it: the next iteration "
                             "would use it after kill");
  kill_node(node(v));
  return true;
}

bool FunctionVerifier::view(const Binding &b) {
  const Type source = type(f_.operands_of(b)[0].value()), t = type(b.result());
  ExprId at = f_.exprs_of(b)[0];
  if (source.kind != TypeKind::tensor || t.kind != TypeKind::tensor || !t.known_shape)
    return fail(b, "view takes a tensor and makes a tensor with dimensions");
  if (t.scope != source.scope)
    return fail(b, "the view's scope is not its source's");
  if (!offset(b, at, t.dtype))
    return false;
  return !source.known_shape || within(b, at, tensor_bytes(m_.exprs, t),
                                       tensor_bytes(m_.exprs, source), "a source", t.dims);
}

// --- Values --------------------------------------------------------------------------------------

bool FunctionVerifier::alias(const Binding &b) {
  return f_.value(f_.operands_of(b)[0].value()).type == f_.value(b.result()).type ||
         fail(b, "an alias has the type of its operand");
}

bool FunctionVerifier::tuple(const Binding &b) {
  std::vector<TypeId> fields;
  for (const Operand &o : f_.operands_of(b)) {
    if (o.kind == Operand::Kind::none)
      return fail(b, "a field of a tuple may not be absent");
    fields.push_back(operand_type(m_, f_, o));
  }
  return f_.value(b.result()).type == m_.types.tuple(std::move(fields)) ||
         fail(b, "a tuple has the types of its operands");
}

bool FunctionVerifier::tuple_element(const Binding &b) {
  const Type &t = type(f_.operands_of(b)[0].value());
  auto index = m_.exprs.as_constant(f_.exprs_of(b)[0]);
  if (t.kind != TypeKind::tuple || !index || *index < 0 ||
      static_cast<uint64_t>(*index) >= t.fields.size())
    return fail(b, "get takes a tuple and the number of one of its fields");
  return t.fields[static_cast<size_t>(*index)] == f_.value(b.result()).type ||
         fail(b, "get has the type of the field");
}

bool FunctionVerifier::constant(const Binding &b) {
  if (b.callee >= module_.constants.size())
    return fail(f_.location, "a binding names a constant that does not exist");
  return module_.constants[b.callee].type == f_.value(b.result()).type ||
         fail(b, "the result has the type of the constant");
}

bool FunctionVerifier::shape(const Binding &b) {
  std::span<const ExprId> dims = f_.exprs_of(b);
  if (dims.size() > kMaxRank)
    return fail(b, "a shape has at most " + std::to_string(kMaxRank) + " dimensions");
  return f_.value(b.result()).type == m_.types.shape({dims.begin(), dims.end()}) ||
         fail(b, "a shape's type has its elements");
}

bool FunctionVerifier::literal(const Binding &b) {
  const Operand &o = f_.operands_of(b)[0];
  if (o.kind != Operand::Kind::expr && o.kind != Operand::Kind::literal)
    return fail(b, "a literal is a number, expression, string, dtype, true or false");
  if (o.kind == Operand::Kind::expr && !check_expr(o.expr(), b.location, "a literal"))
    return false;
  TypeId t = operand_type(m_, f_, o);
  if (type(t).kind == TypeKind::object)
    return fail(b, "a list is no literal");
  return t == f_.value(b.result()).type || fail(b, "a literal has the type of its value");
}

bool FunctionVerifier::never_equal(ExprId a, ExprId b) const {
  if (a == b)
    return false;
  Interval x = m_.exprs.range(a, bounds_), y = m_.exprs.range(b, bounds_);
  return x.upper < y.lower || y.upper < x.lower;
}

/// Types of one thing that agree in rank and in all dimensions that can be compared.
bool FunctionVerifier::agree(const Binding &b, const Type &t, const Type &with) {
  if (t.kind != with.kind ||
      (t.kind == TypeKind::tensor && (t.dtype != with.dtype || t.scope != with.scope)))
    return fail(b, "the types differ in more than dimensions");
  if (!t.known_shape || !with.known_shape)
    return true;
  if (t.dims.size() != with.dims.size())
    return fail(b, "rank " + std::to_string(t.dims.size()) + " cannot match rank " +
                       std::to_string(with.dims.size()));
  for (size_t i = 0; i < t.dims.size(); ++i)
    if (never_equal(t.dims[i], with.dims[i]))
      return fail(b, "dimension " + std::to_string(i + 1) + " never agrees: " + text(t.dims[i]) +
                         " and " + text(with.dims[i]));
  return t.strides == with.strides || fail(b, "strides differ");
}

/// A match defines a symbol as the dimension that it matched, within whose bounds, which size
/// storage, it is. In the body, drops corners at which the symbol exceeds its own bounds: no run
/// goes on there.
void FunctionVerifier::define_by_match(SymbolId symbol, ExprId dim) {
  bounds_.narrow(symbol.index, m_.exprs.range(dim, bounds_));
  const Interval bounds = f_.symbols[symbol.index].bounds;
  std::erase_if(corners_, [&](std::vector<int64_t> &corner) {
    auto value = m_.exprs.evaluate(dim, corner);
    if (!value.ok())
      return false;
    if (*value < bounds.lower || *value > bounds.upper)
      return current_block_ == 0;
    corner[symbol.index] = *value;
    return false;
  });
}

bool FunctionVerifier::match_shape(const Binding &b) {
  const Type source = type(f_.operands_of(b)[0].value()), t = type(b.result());
  if ((t.kind != TypeKind::tensor && t.kind != TypeKind::shape) || !t.known_shape)
    return fail(b, "match takes a tensor or shape and gives it dimensions");
  std::span<const ExprId> dims = f_.exprs_of(b);
  if (!std::equal(dims.begin(), dims.end(), t.dims.begin(), t.dims.end()))
    return fail(b, "the expressions of match are the dimensions of its type");
  ++match_count_;
  for (size_t i = 0; i < dims.size(); ++i) {
    const ExprNode &n = m_.exprs[dims[i]];
    if (n.kind != ExprKind::symbol || static_cast<uint64_t>(n.value) >= f_.symbols.size())
      continue;
    SymbolId s{static_cast<uint32_t>(n.value)};
    if (f_.symbols[s.index].source == SymbolSource::match &&
        symbol_state_[s.index] == SymbolState::undefined) {
      define_symbol(s);
      match_of_[s.index] = match_count_;
      if (source.known_shape && source.dims.size() == dims.size())
        define_by_match(s, source.dims[i]);
    }
  }
  return check_type(f_.value(b.result()).type, b.location) && agree(b, source, t);
}

bool FunctionVerifier::read_symbol(const Binding &b) {
  ValueId v = f_.operands_of(b)[0].value();
  const Type t = type(v);
  const ExprNode n = m_.exprs[f_.exprs_of(b)[0]];
  auto element = m_.exprs.as_constant(f_.exprs_of(b)[1]);
  if (n.kind != ExprKind::symbol || static_cast<uint64_t>(n.value) >= f_.symbols.size() ||
      f_.symbols[static_cast<size_t>(n.value)].source != SymbolSource::device)
    return fail(b, "read defines a symbol of the device");
  SymbolId s{static_cast<uint32_t>(n.value)};
  if (symbol_state_[s.index] != SymbolState::undefined)
    return fail(b, "symbol '" + f_.symbols[s.index].name + "' is already defined");
  define_symbol(s);
  if (t.kind != TypeKind::tensor || (t.dtype != DType::i32 && t.dtype != DType::i64))
    return fail(b, "read takes a tensor of i32 or i64");
  read_dtype_[s.index] = t.dtype;
  if (!t.known_shape || !t.strides.empty())
    return fail(b, "read takes a contiguous tensor with dimensions");
  if (!element || *element < 0 || *element > INT64_MAX / 8 - 1)
    return fail(b, "the number of the element is a constant that is not negative");
  int64_t size = info(t.dtype).bytes_per_block;
  return within(b, m_.exprs.constant(*element * size), m_.exprs.constant(size),
                tensor_bytes(m_.exprs, t), "a tensor");
}

bool FunctionVerifier::op(const Binding &b) {
  if (b.callee >= op_count())
    return fail(f_.location, "a binding names an op that does not exist");
  std::vector<TypeId> types;
  for (const Operand &o : f_.operands_of(b)) {
    if (o.kind != Operand::Kind::value && o.kind != Operand::Kind::none)
      return fail(b, "ops take values and none");
    types.push_back(operand_type(m_, f_, o));
  }
  std::string name(op_info(op_of(b)).name);
  auto inferred = infer_op(m_, op_of(b), types, f_.attributes_of(b), &f_);
  if (!inferred.ok())
    return fail(b, name + ": " + inferred.status().message());
  if (writes_operand(op_of(b)) && !writable(b, f_.operands_of(b)[0], name))
    return false;
  if (inferred->size() != b.result_count)
    return fail(b, name + " has " + std::to_string(inferred->size()) + " results");
  for (uint32_t i = 0; i < b.result_count; ++i)
    if ((*inferred)[i] != f_.value(b.result(i)).type)
      return fail(b, "result " + name + " has type " + text((*inferred)[i]) + ", not " +
                         text(f_.value(b.result(i)).type));
  return true;
}

// --- Control flow --------------------------------------------------------------------------------

/// A host scalar (bool or int), a symbolic expression, or a device scalar of one element.
bool FunctionVerifier::condition(const Binding &b, const Operand &o, SourceLocation location) {
  if (o.kind == Operand::Kind::expr)
    return check_expr(o.expr(), location, "a condition");
  if (o.kind == Operand::Kind::literal)
    return std::holds_alternative<bool>(m_.literals[o.index]) ||
           fail(location, "a condition is a bool or an integer");
  if (o.kind == Operand::Kind::none)
    return fail(location, "a condition is needed");
  const Type &t = type(o.value());
  if (t.kind == TypeKind::scalar)
    return t.scalar != ScalarKind::floating ||
           fail(location, "a condition is a bool or an integer, not a float");
  bool one = t.kind == TypeKind::tensor && t.known_shape &&
             std::all_of(t.dims.begin(), t.dims.end(),
                         [&](ExprId e) { return m_.exprs.as_constant(e) == 1; });
  bool integral = t.dtype == DType::boolean || t.dtype == DType::i32 || t.dtype == DType::u32;
  return (one && integral) ||
         fail(location, "a condition on the device is one element of bool, i32 or u32");
}

bool FunctionVerifier::if_(const Binding &b) { return control_flow(b); }
bool FunctionVerifier::while_(const Binding &b) { return control_flow(b); }

bool FunctionVerifier::control_flow(const Binding &b) {
  bool is_if = b.kind == BindingKind::if_;
  std::span<const Operand> operands = f_.operands_of(b);
  size_t first_capture = is_if ? 1 : b.carried_count;
  if (operands.size() < first_capture || b.blocks.end() > f_.blocks.size())
    return fail(f_.location, "a binding has too few operands or no blocks");
  for (size_t i = first_capture; i < operands.size(); ++i)
    if (operands[i].kind != Operand::Kind::value)
      return fail(b, "captures are values");
  if (is_if)
    return condition(b, operands[0], b.location);
  const Block &test = f_.blocks[b.blocks.begin], &body = f_.blocks[b.blocks.begin + 1];
  if (test.param_count != b.carried_count || body.param_count != b.carried_count ||
      b.result_count != b.carried_count)
    return fail(b, "a loop's blocks and results are as many as its carried values");
  for (uint32_t i = 0; i < b.carried_count; ++i) {
    TypeId carried = f_.value({test.first_param + i}).type;
    TypeId initial = operand_type(m_, f_, operands[i]);
    if (!initial.valid() || !assignable(initial, carried, false))
      return fail(b, "carried value " + std::to_string(i + 1) + " begins with type " +
                         text(initial) + ", " + text(carried) + " is declared");
    if (f_.value({body.first_param + i}).type != carried || f_.value(b.result(i)).type != carried)
      return fail(b, "a carried value has one type: in the condition, the body and the result");
  }
  return true;
}

} // namespace cugrt::ir
