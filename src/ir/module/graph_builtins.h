// Host builtins of lifted regions, which RewriteCudaGraph writes and the planner reads.
//
//   %s0, %s1 = host "cuda_graph.get_cached_alloc"(@alloc, 0) : (storage<..>, storage<..>)
//   %args = tuple(%a, %s0, %key)
//   %b = host "cuda_graph.run_or_capture"(@capture, %args, 0, %key) : tensor<..>
//
// get_cached_alloc gives the storages that a function allocates, the same ones each time.
// run_or_capture runs a function on the fields of a tuple as one graph; its results are the
// function's. The number tells the calls of a module apart; the shape, if there is one, is the
// argument of the function's last parameter and the key of its graph.
#pragma once

#include "ir/module/module.h"

namespace cugrt::ir {

enum class GraphBuiltin : uint8_t { none, get_cached_alloc, run_or_capture };

inline constexpr std::string_view kGetCachedAlloc = "cuda_graph.get_cached_alloc";
inline constexpr std::string_view kRunOrCapture = "cuda_graph.run_or_capture";

inline GraphBuiltin graph_builtin(const Module &module, const Binding &b) {
  if (b.kind != BindingKind::host_call)
    return GraphBuiltin::none;
  const std::string &name = module.callee_names[b.callee];
  return name == kGetCachedAlloc ? GraphBuiltin::get_cached_alloc
         : name == kRunOrCapture ? GraphBuiltin::run_or_capture
                                 : GraphBuiltin::none;
}

/// The operands of a call, in order.
enum GraphOperand : uint8_t { kGraphFunction, kGraphArguments, kGraphIndex, kGraphKey };
inline constexpr uint8_t kAllocIndex = 1; // of get_cached_alloc, which takes no arguments

/// The function that a builtin's call names; the verifier has checked that it does.
inline uint32_t graph_function(const Function &function, const Binding &b) {
  return function.operands_of(b)[kGraphFunction].index;
}

/// Functions of the module, by number, that a builtin runs or allocates from. Their parameters may
/// be names for the same bytes.
inline std::vector<bool> functions_run_as_graphs(const Module &module) {
  std::vector<bool> named(module.functions.size());
  for (const Function &function : module.functions)
    for (const Operand &operand : function.operands)
      if (operand.kind == Operand::Kind::function)
        named[operand.index] = true;
  return named;
}

} // namespace cugrt::ir
