// The rules of the builtins of lifted regions (ir/module/graph_builtins.h), and of the functions
// that they name.
#include "ir/module/graph_builtins.h"
#include "ir/module/infer.h"
#include "ir/verify/verifier.h"

namespace cugrt::ir {

bool FunctionVerifier::host_call(const Binding &b) {
  if (!host_or_extern(b))
    return false;
  switch (graph_builtin(module_, b)) {
  case GraphBuiltin::get_cached_alloc:
    return get_cached_alloc(b);
  case GraphBuiltin::run_or_capture:
    return run_or_capture(b);
  case GraphBuiltin::none:
    break;
  }
  return no_functions(b, 0);
}

/// Functions are operands of the builtins only, and there the first.
bool FunctionVerifier::no_functions(const Binding &b, size_t from) {
  for (const Operand &o : f_.operands_of(b).subspan(from))
    if (o.kind == Operand::Kind::function)
      return fail(b, "only the first operand of cuda_graph.run_or_capture and "
                     "cuda_graph.get_cached_alloc is a function");
  return true;
}

bool FunctionVerifier::graph_operands(const Binding &b, size_t index) {
  std::span<const Operand> operands = f_.operands_of(b);
  if (operands.size() <= index)
    return fail(b, "this call has too few operands: a function, " +
                       std::string(index == kGraphIndex ? "a tuple of its arguments, " : "") +
                       "and a number");
  if (operands[kGraphFunction].kind != Operand::Kind::function)
    return fail(b, "the first operand is the function to run");
  if (operands[kGraphFunction].index >= module_.functions.size())
    return fail(b, "this names a function that does not exist");
  const Operand &number = operands[index];
  auto value = number.kind == Operand::Kind::expr ? m_.exprs.as_constant(number.expr())
                                                  : std::optional<int64_t>();
  if (!value || *value < 0)
    return fail(b, "the number of the call is a constant that is not negative");
  const Function &callee = module_.functions[operands[kGraphFunction].index];
  if (&callee == &f_)
    return fail(b, "function @" + f_.name + " cannot capture itself");
  if (!callee.is_private)
    return fail(b, "function @" + callee.name + " is public; only private functions are captured");
  return no_functions(b, 1);
}

bool FunctionVerifier::get_cached_alloc(const Binding &b) {
  if (!graph_operands(b, kAllocIndex))
    return false;
  const Function &callee = module_.functions[graph_function(f_, b)];
  if (b.operands.count != kAllocIndex + 1)
    return fail(b, "cuda_graph.get_cached_alloc takes a function and a number");
  if (!callee.params.empty())
    return fail(b, "function @" + callee.name +
                       " has parameters; what is allocated depends on "
                       "nothing");
  for (const Binding &inner : callee.body().bindings)
    if (inner.kind != BindingKind::alloc_storage)
      return fail(b, "function @" + callee.name + " does more than allocate storages");
  for (TypeId result : callee.result_types)
    if (type(result).kind != TypeKind::storage || !m_.exprs.as_constant(type(result).dims[0]))
      return fail(b, "function @" + callee.name + " returns more than storages of constant sizes");
  return callee_results(b, callee, {});
}

bool FunctionVerifier::run_or_capture(const Binding &b) {
  if (!graph_operands(b, kGraphIndex))
    return false;
  std::span<const Operand> operands = f_.operands_of(b);
  const Function &callee = module_.functions[graph_function(f_, b)];
  for (const Binding &inner : callee.body().bindings)
    if (!(binding_info(inner.kind).flags & kMayBeCaptured))
      return fail(b, "function @" + callee.name +
                         " cannot be captured: it holds more than launches, externs, tensors of "
                         "storages that it is given, and names for them");
  const Type *tuple = value_type(operands[kGraphArguments]);
  if (!tuple || tuple->kind != TypeKind::tuple)
    return fail(b, "the second operand is a tuple of the function's arguments");
  const std::vector<TypeId> arguments = tuple->fields;
  if (arguments.size() != callee.params.size())
    return fail(b, "function @" + callee.name + " takes " + std::to_string(callee.params.size()) +
                       " arguments, not " + std::to_string(arguments.size()));
  for (const Operand &result : callee.results_of(callee.body()))
    if (result.kind != Operand::Kind::value)
      return fail(b, "function @" + callee.name +
                         " returns a host value; only what it was given "
                         "or made can come out of a graph");
  std::vector<ExprId> symbols = bind_callee_symbols(m_, callee, arguments);
  for (size_t i = 0; i < symbols.size(); ++i)
    if (!symbols[i].valid())
      return fail(b, "the arguments do not determine symbol '" + callee.symbols[i].name + "' of @" +
                         callee.name);
  const Node &made = nodes_[node(operands[kGraphArguments].value())];
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Parameter &p = callee.params[i];
    const Value &v = callee.value(p.value);
    if (!argument_fits(arguments[i], v.type, symbols))
      return fail(b, "parameter %" + v.name + " of @" + callee.name + " has type " +
                         print_type(m_, &callee, v.type) + ", the argument " + text(arguments[i]));
    if (writes(p.access) && made.is_tuple &&
        !writable(b, f_.operands[made.fields.begin + i], "@" + callee.name))
      return false;
  }
  return graph_key(b, callee, arguments) && callee_results(b, callee, symbols);
}

/// The key is the last parameter's argument, if it is a shape; else there is none.
bool FunctionVerifier::graph_key(const Binding &b, const Function &callee,
                                 std::span<const TypeId> arguments) {
  std::span<const Operand> operands = f_.operands_of(b);
  bool wanted = !arguments.empty() && type(arguments.back()).kind == TypeKind::shape;
  if (operands.size() != (wanted ? kGraphKey + 1 : kGraphKey))
    return fail(b, wanted ? "the shape that @" + callee.name +
                                " takes last is also the key of its graphs: the fourth operand"
                          : "@" + callee.name + " takes no shape at the end, so there is no key");
  return !wanted || operand_type(m_, f_, operands[kGraphKey]) == arguments.back() ||
         fail(b, "the key is not the shape that @" + callee.name + " is given");
}

} // namespace cugrt::ir
