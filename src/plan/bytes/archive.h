// The fields of plans, listed once for writing and for reading.
//
// fields(archive, row) names every field of a row in order. An archive is a function object: the
// writer's turns a field into bytes, the reader's the reverse, so neither can forget a field that
// the other has. A list named by unless_empty is left away where it is empty, so that a plan
// without it is one of the libraries that do not know it. Enumerators are written by name.
#pragma once

#include "plan/format/plan.h"

#include <span>
#include <string_view>
#include <type_traits>

namespace cugrt::plan {

/// Names of an enumeration's values, in order.
template <class E> std::span<const std::string_view> enumerator_names();

#define CUGRT_ENUMERATORS(E, ...)                                                                  \
  template <> inline std::span<const std::string_view> enumerator_names<E>() {                     \
    static constexpr std::string_view kNames[] = {__VA_ARGS__};                                    \
    return kNames;                                                                                 \
  }

CUGRT_ENUMERATORS(ir::CodeKind, "source_file", "source_text", "ptx_file", "cubin_file")
CUGRT_ENUMERATORS(ir::KernelParamKind, "tensor", "scalar", "symbol", "device_symbol",
                  "checked_symbol")
CUGRT_ENUMERATORS(Access, "in", "out", "inout")
CUGRT_ENUMERATORS(ir::SymbolSource, "parameter", "match", "device", "bucket")
CUGRT_ENUMERATORS(ir::ScalarKind, "integer", "floating", "boolean")
CUGRT_ENUMERATORS(ir::ExprKind, "constant", "symbol", "add", "sub", "mul", "floordiv", "ceildiv",
                  "mod", "min", "max", "eq", "ne", "lt", "le", "select")
CUGRT_ENUMERATORS(ParamKind, "tensor", "weight", "scalar", "shape")
CUGRT_ENUMERATORS(SlotKind, "param", "result")
CUGRT_ENUMERATORS(BufferBase, "arena", "slot", "weight", "constant", "dynamic")
CUGRT_ENUMERATORS(ArgumentKind, "buffer", "expr", "host_value", "bits", "checked_symbol")
CUGRT_ENUMERATORS(StepKind, "kernel", "copy", "fill", "empty", "conditional", "set_condition")
CUGRT_ENUMERATORS(ConditionalKind, "if", "while")
CUGRT_ENUMERATORS(HostValueKind, "param", "expr", "literal", "host_result", "object")
CUGRT_ENUMERATORS(ItemKind, "region", "step", "allocate", "release", "host_call", "call", "match",
                  "read", "if", "while", "copy_back", "extern_call")
CUGRT_ENUMERATORS(OperandRef::Kind, "none", "buffer", "host_value", "expr", "string", "dtype",
                  "list")
#undef CUGRT_ENUMERATORS

// Each field of a list, by a macro that comes back to itself as often as the four scans allow: 256
// times.
#define CUGRT_SCAN(...) CUGRT_SCAN3(CUGRT_SCAN3(CUGRT_SCAN3(CUGRT_SCAN3(__VA_ARGS__))))
#define CUGRT_SCAN3(...) CUGRT_SCAN2(CUGRT_SCAN2(CUGRT_SCAN2(CUGRT_SCAN2(__VA_ARGS__))))
#define CUGRT_SCAN2(...) CUGRT_SCAN1(CUGRT_SCAN1(CUGRT_SCAN1(CUGRT_SCAN1(__VA_ARGS__))))
#define CUGRT_SCAN1(...) __VA_ARGS__
#define CUGRT_NONE
#define CUGRT_EACH_FIELD() CUGRT_FIELD
#define CUGRT_FIELD(name, ...)                                                                     \
  a(#name, row.name);                                                                              \
  __VA_OPT__(CUGRT_EACH_FIELD CUGRT_NONE()(__VA_ARGS__))

#define CUGRT_ROW(Type)                                                                            \
  template <class A, class T>                                                                      \
  requires std::is_same_v<std::remove_const_t<T>, Type>                                            \
  void fields(A &a, T &row)
#define CUGRT_FIELDS(Type, ...)                                                                    \
  CUGRT_ROW(Type) { CUGRT_SCAN(CUGRT_FIELD(__VA_ARGS__)) }

CUGRT_FIELDS(SourceLocation, line, column)
CUGRT_FIELDS(Range, begin, count)
CUGRT_FIELDS(ir::Interval, lower, upper)
CUGRT_FIELDS(ir::ExprNode, kind, a, b, c, value)
CUGRT_FIELDS(CodeUnit, kind, name, text, options)
CUGRT_FIELDS(KernelParam, kind, access, dtype, over)
CUGRT_FIELDS(Kernel, name, code, params, entries, clusters, cooperative, programmatic)
CUGRT_ROW(Constant) {
  a("name", row.name);
  a.bytes("bytes", row.bytes);
}
CUGRT_FIELDS(Arena, scope, bytes, lower_bound_bytes, tensor_bytes)
CUGRT_FIELDS(Symbol, name, source, bounds)
CUGRT_FIELDS(Bucket, symbol, of, sizes)
CUGRT_FIELDS(Constraint, expr, most, location)
CUGRT_FIELDS(Param, name, kind, dtype, scalar, known_shape, dims, access, alignment_bytes, slot,
             host_value, scope, location)
CUGRT_FIELDS(FunctionResult, buffer, host_value)
CUGRT_FIELDS(CountedDim, result, dim, count)
CUGRT_FIELDS(Slot, kind, index, access, bytes, alignment_bytes)
CUGRT_FIELDS(Buffer, name, base, index, offset_bytes, bytes, dtype, dims, strides, tensor)
CUGRT_FIELDS(Argument, kind, dtype, index, bits)
CUGRT_FIELDS(LaunchRule, predicate, grid, block, shared_bytes, workspace)
CUGRT_FIELDS(BufferAccess, buffer, access)
CUGRT_FIELDS(Step, kind, name, kernel, arguments, launches, accesses, fill_byte, conditional, when,
             location)
CUGRT_FIELDS(Conditional, kind, bodies)
CUGRT_FIELDS(Edge, from, to)
CUGRT_FIELDS(Region, name, steps, edges, programmatic, key, slots, host_values)
CUGRT_FIELDS(HostValue, kind, scalar, index, bits)
CUGRT_FIELDS(OperandRef, kind, index)
CUGRT_FIELDS(Item, kind, index, name, operands, results, dims, defines, blocks, location)
CUGRT_FIELDS(Block, items, params, results)
CUGRT_ROW(Function) {
  a("name", row.name);
  a("is_private", row.is_private);
  a("symbols", row.symbols);
  a("buckets", row.buckets);
  a("constraints", row.constraints);
  a("params", row.params);
  a("results", row.results);
  a("slots", row.slots);
  a("host_values", row.host_values);
  a("buffers", row.buffers);
  a("arguments", row.arguments);
  a("launches", row.launches);
  a("accesses", row.accesses);
  a("steps", row.steps);
  a("conditionals", row.conditionals);
  a("regions", row.regions);
  a("strings", row.strings);
  a("lists", row.lists);
  a("dynamic_count", row.dynamic_count);
  a("blocks", row.blocks);
  a("location", row.location);
  a.unless_empty("counted_dims", row.counted_dims);
}
/// All of a plan but its expressions, which are rebuilt in their pool.
CUGRT_FIELDS(Plan, target, codes, kernels, constants, arenas, functions)
#undef CUGRT_FIELDS
#undef CUGRT_ROW
#undef CUGRT_FIELD
#undef CUGRT_EACH_FIELD
#undef CUGRT_NONE
#undef CUGRT_SCAN1
#undef CUGRT_SCAN2
#undef CUGRT_SCAN3
#undef CUGRT_SCAN

} // namespace cugrt::plan
