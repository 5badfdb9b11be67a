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

#define CUGRT_FIELDS(Type)                                                                         \
  template <class A, class T>                                                                      \
  requires std::is_same_v<std::remove_const_t<T>, Type>                                            \
  void fields(A &a, T &row)

CUGRT_FIELDS(SourceLocation) {
  a("line", row.line);
  a("column", row.column);
}
CUGRT_FIELDS(Range) {
  a("begin", row.begin);
  a("count", row.count);
}
CUGRT_FIELDS(ir::Interval) {
  a("lower", row.lower);
  a("upper", row.upper);
}
CUGRT_FIELDS(ir::ExprNode) {
  a("kind", row.kind);
  a("a", row.a);
  a("b", row.b);
  a("c", row.c);
  a("value", row.value);
}
CUGRT_FIELDS(CodeUnit) {
  a("kind", row.kind);
  a("name", row.name);
  a("text", row.text);
  a("options", row.options);
}
CUGRT_FIELDS(KernelParam) {
  a("kind", row.kind);
  a("access", row.access);
  a("dtype", row.dtype);
  a("over", row.over);
}
CUGRT_FIELDS(Kernel) {
  a("name", row.name);
  a("code", row.code);
  a("params", row.params);
  a("entries", row.entries);
  a("clusters", row.clusters);
  a("cooperative", row.cooperative);
  a("programmatic", row.programmatic);
}
CUGRT_FIELDS(Constant) {
  a("name", row.name);
  a.bytes("bytes", row.bytes);
}
CUGRT_FIELDS(Arena) {
  a("scope", row.scope);
  a("bytes", row.bytes);
  a("lower_bound_bytes", row.lower_bound_bytes);
  a("tensor_bytes", row.tensor_bytes);
}
CUGRT_FIELDS(Symbol) {
  a("name", row.name);
  a("source", row.source);
  a("bounds", row.bounds);
}
CUGRT_FIELDS(Bucket) {
  a("symbol", row.symbol);
  a("of", row.of);
  a("sizes", row.sizes);
}
CUGRT_FIELDS(Constraint) {
  a("expr", row.expr);
  a("most", row.most);
  a("location", row.location);
}
CUGRT_FIELDS(Param) {
  a("name", row.name);
  a("kind", row.kind);
  a("dtype", row.dtype);
  a("scalar", row.scalar);
  a("known_shape", row.known_shape);
  a("dims", row.dims);
  a("access", row.access);
  a("alignment_bytes", row.alignment_bytes);
  a("slot", row.slot);
  a("host_value", row.host_value);
  a("scope", row.scope);
  a("location", row.location);
}
CUGRT_FIELDS(FunctionResult) {
  a("buffer", row.buffer);
  a("host_value", row.host_value);
}
CUGRT_FIELDS(CountedDim) {
  a("result", row.result);
  a("dim", row.dim);
  a("count", row.count);
}
CUGRT_FIELDS(Slot) {
  a("kind", row.kind);
  a("index", row.index);
  a("access", row.access);
  a("bytes", row.bytes);
  a("alignment_bytes", row.alignment_bytes);
}
CUGRT_FIELDS(Buffer) {
  a("name", row.name);
  a("base", row.base);
  a("index", row.index);
  a("offset_bytes", row.offset_bytes);
  a("bytes", row.bytes);
  a("dtype", row.dtype);
  a("dims", row.dims);
  a("strides", row.strides);
  a("tensor", row.tensor);
}
CUGRT_FIELDS(Argument) {
  a("kind", row.kind);
  a("dtype", row.dtype);
  a("index", row.index);
  a("bits", row.bits);
}
CUGRT_FIELDS(LaunchRule) {
  a("predicate", row.predicate);
  a("grid", row.grid);
  a("block", row.block);
  a("shared_bytes", row.shared_bytes);
  a("workspace", row.workspace);
}
CUGRT_FIELDS(BufferAccess) {
  a("buffer", row.buffer);
  a("access", row.access);
}
CUGRT_FIELDS(Step) {
  a("kind", row.kind);
  a("name", row.name);
  a("kernel", row.kernel);
  a("arguments", row.arguments);
  a("launches", row.launches);
  a("accesses", row.accesses);
  a("fill_byte", row.fill_byte);
  a("conditional", row.conditional);
  a("when", row.when);
  a("location", row.location);
}
CUGRT_FIELDS(Conditional) {
  a("kind", row.kind);
  a("bodies", row.bodies);
}
CUGRT_FIELDS(Edge) {
  a("from", row.from);
  a("to", row.to);
}
CUGRT_FIELDS(Region) {
  a("name", row.name);
  a("steps", row.steps);
  a("edges", row.edges);
  a("programmatic", row.programmatic);
  a("key", row.key);
  a("slots", row.slots);
  a("host_values", row.host_values);
}
CUGRT_FIELDS(HostValue) {
  a("kind", row.kind);
  a("scalar", row.scalar);
  a("index", row.index);
  a("bits", row.bits);
}
CUGRT_FIELDS(OperandRef) {
  a("kind", row.kind);
  a("index", row.index);
}
CUGRT_FIELDS(Item) {
  a("kind", row.kind);
  a("index", row.index);
  a("name", row.name);
  a("operands", row.operands);
  a("results", row.results);
  a("dims", row.dims);
  a("defines", row.defines);
  a("blocks", row.blocks);
  a("location", row.location);
}
CUGRT_FIELDS(Block) {
  a("items", row.items);
  a("params", row.params);
  a("results", row.results);
}
CUGRT_FIELDS(Function) {
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
CUGRT_FIELDS(Plan) {
  a("target", row.target);
  a("codes", row.codes);
  a("kernels", row.kernels);
  a("constants", row.constants);
  a("arenas", row.arenas);
  a("functions", row.functions);
}
#undef CUGRT_FIELDS

} // namespace cugrt::plan
