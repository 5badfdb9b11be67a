// The rules of launches and calls.
#include "ir/verify/verifier.h"

#include "base/type/element.h"
#include "ir/module/infer.h"

#include <algorithm>

namespace cugrt::ir {

bool FunctionVerifier::assignable(TypeId from, TypeId to, bool at_run) const {
  if (from == to)
    return true;
  const Type &a = type(from), &b = type(to);
  if (b.kind == TypeKind::object)
    return true;
  if (a.kind != b.kind)
    return false;
  auto dims_agree = [&] {
    if (a.dims.size() != b.dims.size())
      return false;
    for (size_t i = 0; i < a.dims.size(); ++i)
      if (at_run ? never_equal(a.dims[i], b.dims[i]) : a.dims[i] != b.dims[i])
        return false;
    return true;
  };
  switch (a.kind) {
  case TypeKind::tensor:
    if (a.dtype != b.dtype || a.scope != b.scope || a.strides != b.strides)
      return false;
    return !b.known_shape || (a.known_shape && dims_agree());
  case TypeKind::shape:
    return !b.known_shape || (a.known_shape && dims_agree());
  case TypeKind::scalar: // an unnamed integer may stand where the runtime compares or binds it
    return a.scalar == b.scalar && (b.dims.empty() || (at_run && a.dims.empty()) || dims_agree());
  case TypeKind::tuple:
    if (a.fields.size() != b.fields.size())
      return false;
    for (size_t i = 0; i < a.fields.size(); ++i)
      if (!assignable(a.fields[i], b.fields[i], at_run))
        return false;
    return true;
  case TypeKind::storage: // a larger one does as well where a function is given it
    return a.scope == b.scope &&
           (a.dims == b.dims || (at_run && m_.exprs.range(a.dims[0], bounds_).lower >=
                                               m_.exprs.range(b.dims[0], bounds_).upper));
  case TypeKind::string:
  case TypeKind::dtype:
  case TypeKind::object:
    break;
  }
  return true;
}

bool FunctionVerifier::writable(const Binding &b, const Operand &o, const std::string &who) {
  if (o.kind == Operand::Kind::value && nodes_[node(o.value())].writable)
    return true;
  std::string what = o.kind == Operand::Kind::value ? name(o.value()) : "its operand";
  return fail(b, who + " writes " + what +
                     ", which is only read here; declare the parameter inout or write elsewhere");
}

// --- Launches ------------------------------------------------------------------------------------

bool FunctionVerifier::tensor_operand(const Binding &b, const KernelParam &p, const Operand &o) {
  const Type *t = value_type(o);
  if (!t || t->kind != TypeKind::tensor)
    return fail(b, "parameter '" + p.name + "' takes a tensor");
  if (!p.any_dtype && t->dtype != p.dtype)
    return fail(b, "parameter '" + p.name + "' takes " + std::string(info(p.dtype).name) + ", " +
                       name(o.value()) + " is " + std::string(info(t->dtype).name));
  return !writes(p.access) || writable(b, o, "parameter '" + p.name + "'");
}

bool FunctionVerifier::scalar_operand(const Binding &b, const KernelParam &p, const Operand &o) {
  if (o.kind == Operand::Kind::expr && !check_expr(o.expr(), b.location, "a host scalar"))
    return false;
  TypeId id = operand_type(m_, f_, o);
  if (!id.valid() || type(id).kind != TypeKind::scalar)
    return fail(b, "parameter '" + p.name + "' takes a host scalar");
  ScalarKind kind = type(id).scalar;
  if (kind == ScalarKind::floating && info(p.dtype).kind != DTypeKind::floating)
    return fail(b, "parameter '" + p.name + "' takes " + std::string(info(p.dtype).name) +
                       ", not a float");
  return true;
}

bool FunctionVerifier::device_symbol_operand(const Binding &b, const KernelParam &p,
                                             const Operand &o) {
  const ExprNode *n = o.kind == Operand::Kind::expr ? &m_.exprs[o.expr()] : nullptr;
  bool device = n && n->kind == ExprKind::symbol &&
                f_.symbols[static_cast<size_t>(n->value)].source == SymbolSource::device;
  if (!device)
    return fail(b, "parameter '" + p.name + "' takes a symbol that a read binding defines");
  DType read = read_dtype_[static_cast<size_t>(n->value)];
  if (read != p.dtype)
    return fail(b, "parameter '" + p.name + "' takes " + std::string(info(p.dtype).name) +
                       ", the symbol is read as " + std::string(info(read).name));
  // Kernels replace a value out of the bounds by one of them.
  const Symbol &symbol = f_.symbols[static_cast<size_t>(n->value)];
  return p.kind != KernelParamKind::checked_symbol ||
         (integer_fits(read, symbol.bounds.lower) && integer_fits(read, symbol.bounds.upper)) ||
         fail(b, "parameter '" + p.name + "' takes " + std::string(info(read).name) +
                     ", which the bounds of symbol '" + symbol.name + "' do not fit into");
}

bool FunctionVerifier::launch_operand(const Binding &b, const Kernel &k, size_t i) {
  const KernelParam &p = k.params[i];
  const Operand &o = f_.operands_of(b)[i];
  switch (p.kind) {
  case KernelParamKind::tensor:
    return tensor_operand(b, p, o);
  case KernelParamKind::scalar:
    return scalar_operand(b, p, o);
  case KernelParamKind::device_symbol:
  case KernelParamKind::checked_symbol:
    return device_symbol_operand(b, p, o);
  case KernelParamKind::symbol:
    break;
  }
  if (o.kind != Operand::Kind::expr)
    return fail(b, "parameter '" + p.name + "' takes an expression over symbols");
  return check_expr(o.expr(), b.location, "a launch");
}

bool FunctionVerifier::launch(const Binding &b) {
  if (b.callee >= module_.kernels.size())
    return fail(f_.location, "a binding names a kernel that does not exist");
  const Kernel &k = module_.kernels[b.callee];
  if (b.operands.count != k.params.size())
    return fail(b, "kernel @" + k.name + " takes " + std::to_string(k.params.size()) +
                       " operands, not " + std::to_string(b.operands.count));
  for (size_t i = 0; i < k.params.size(); ++i)
    if (!launch_operand(b, k, i))
      return false;
  return true;
}

// --- Calls ---------------------------------------------------------------------------------------

/// Like assignable at run, for a parameter's type in the callee's symbols. Where arguments do not
/// determine one (an unnamed integer was passed for it), the runtime binds it and compares.
bool FunctionVerifier::argument_fits(TypeId given, TypeId parameter,
                                     std::span<const ExprId> symbols) {
  TypeId wanted = substitute_type(m_, parameter, symbols);
  if (wanted.valid())
    return assignable(given, wanted, true);
  Type loose = type(parameter);
  const Type a = type(given);
  if (loose.kind != a.kind || loose.dims.size() != a.dims.size())
    return loose.kind == TypeKind::scalar && a.kind == TypeKind::scalar && loose.scalar == a.scalar;
  for (size_t i = 0; i < loose.dims.size(); ++i) {
    scratch_.clear();
    m_.exprs.collect_symbols(loose.dims[i], scratch_);
    bool known = std::all_of(scratch_.begin(), scratch_.end(), [&](SymbolId s) {
      return s.index < symbols.size() && symbols[s.index].valid();
    });
    loose.dims[i] = known ? m_.exprs.substitute(loose.dims[i], symbols) : a.dims[i];
  }
  return loose.kind != TypeKind::tuple &&
         assignable(given, m_.types.intern(std::move(loose)), true);
}

bool FunctionVerifier::call_operand(const Binding &b, const Function &callee, size_t i,
                                    std::span<const ExprId> symbols) {
  const Parameter &p = callee.params[i];
  const Value &v = callee.value(p.value);
  const Operand &o = f_.operands_of(b)[i];
  if (o.kind == Operand::Kind::expr && !check_expr(o.expr(), b.location, "a call"))
    return false;
  TypeId given = operand_type(m_, f_, o);
  if (!given.valid())
    return fail(b, "parameter %" + v.name + " of @" + callee.name + " may not be absent");
  if (!argument_fits(given, v.type, symbols))
    return fail(b, "parameter %" + v.name + " of @" + callee.name + " has type " +
                       print_type(m_, &callee, v.type) + ", the argument " + text(given));
  return !writes(p.access) || writable(b, o, "@" + callee.name);
}

bool FunctionVerifier::call(const Binding &b) {
  if (b.callee >= module_.functions.size())
    return fail(f_.location, "a binding names a function that does not exist");
  const Function &callee = module_.functions[b.callee];
  auto is_storage = [&](TypeId t) { return type(t).kind == TypeKind::storage; };
  if (std::any_of(callee.params.begin(), callee.params.end(),
                  [&](const Parameter &p) { return is_storage(callee.value(p.value).type); }) ||
      std::any_of(callee.result_types.begin(), callee.result_types.end(), is_storage))
    return fail(b, "function @" + callee.name +
                       " takes or gives storages; it is run by cuda_graph.run_or_capture or "
                       "cuda_graph.get_cached_alloc");
  if (std::any_of(callee.symbols.begin(), callee.symbols.end(),
                  [](const Symbol &s) { return !s.buckets.empty(); }))
    return fail(b, "function @" + callee.name +
                       " has buckets, which pad what callers outside of the module bring; call a "
                       "private function that does what both do");
  if (b.operands.count != callee.params.size())
    return fail(b, "function @" + callee.name + " takes " + std::to_string(callee.params.size()) +
                       " operands, not " + std::to_string(b.operands.count));
  std::vector<TypeId> arguments;
  for (const Operand &o : f_.operands_of(b))
    arguments.push_back(operand_type(m_, f_, o));
  std::vector<ExprId> symbols = bind_callee_symbols(m_, callee, arguments);
  for (size_t i = 0; i < callee.params.size(); ++i)
    if (!call_operand(b, callee, i, symbols))
      return false;
  for (size_t s = 0; s < callee.symbols.size(); ++s)
    if (symbols[s].valid() && !may_be_within(b, callee, s, symbols[s]))
      return false;
  for (const Constraint &constraint : callee.constraints)
    if (!may_be_kept(b, callee, constraint, symbols))
      return false;
  return callee_results(b, callee, symbols);
}

/// Whether a call may keep a constraint of its callee.
bool FunctionVerifier::may_be_kept(const Binding &b, const Function &callee,
                                   const Constraint &constraint, std::span<const ExprId> symbols) {
  std::vector<SymbolId> used;
  m_.exprs.collect_symbols(constraint.expr, used);
  for (SymbolId s : used)
    if (s.index >= symbols.size() || !symbols[s.index].valid())
      return true;
  const Interval range = m_.exprs.range(m_.exprs.substitute(constraint.expr, symbols), bounds_);
  return range.lower <= constraint.most ||
         fail(b, "constraint '" + m_.exprs.to_string(constraint.expr, callee.symbol_names()) +
                     " <= " + std::to_string(constraint.most) + "' of @" + callee.name +
                     " cannot be kept: with what it is given here its left side is at least " +
                     std::to_string(range.lower));
}

/// Bounds that some values keep are checked when the function is called.
bool FunctionVerifier::may_be_within(const Binding &b, const Function &callee, size_t symbol,
                                     ExprId given) {
  const Symbol &s = callee.symbols[symbol];
  const Interval range = m_.exprs.range(given, bounds_);
  if (range.lower <= s.bounds.upper && s.bounds.lower <= range.upper)
    return true;
  auto text = [](const Interval &i) {
    return "[" + std::to_string(i.lower) + ", " + std::to_string(i.upper) + "]";
  };
  return fail(b, "the bounds of symbol '" + s.name + "' of @" + callee.name + " contradict: " +
                     text(s.bounds) + " there, and what it is given here lies in " + text(range));
}

bool FunctionVerifier::callee_results(const Binding &b, const Function &callee,
                                      std::span<const ExprId> symbols) {
  if (b.result_count != callee.result_types.size())
    return fail(b, "function @" + callee.name + " has " +
                       std::to_string(callee.result_types.size()) + " results");
  for (uint32_t i = 0; i < b.result_count; ++i) {
    TypeId t = substitute_type(m_, callee.result_types[i], symbols);
    if (!t.valid() || t != f_.value(b.result(i)).type)
      return fail(b, "result " + std::to_string(i) + " of @" + callee.name + " has type " +
                         print_type(m_, &callee, callee.result_types[i]) + ", not " +
                         text(f_.value(b.result(i)).type));
  }
  return true;
}

bool FunctionVerifier::extern_call(const Binding &b) { return host_or_extern(b); }

bool FunctionVerifier::host_or_extern(const Binding &b) {
  if (b.callee >= module_.callee_names.size() || module_.callee_names[b.callee].empty())
    return fail(b, "a host or extern call needs the name of a function");
  for (const Operand &o : f_.operands_of(b))
    if (o.kind == Operand::Kind::expr && !check_expr(o.expr(), b.location, "a call"))
      return false;
  return true;
}

} // namespace cugrt::ir
