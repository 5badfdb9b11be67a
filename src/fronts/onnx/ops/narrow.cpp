// Numbers of fewer bits than what they are held as; see Narrow. Which inputs may have such, and
// what becomes one.
#include "fronts/onnx/ops/integers.h"

#include <algorithm>

namespace cugrt::onnx {

namespace {

/// Ops that ONNX's documents give inputs of narrow dtypes and that compute right with what these
/// are held as. `moves`: result 0 has the dtype of input 0.
struct NarrowOp {
  std::string_view op;
  bool moves;
};
constexpr NarrowOp kNarrowOps[] = {
    {"Cast", false},
    {"CastLike", false},
    {"ConstantOfShape", false},
    {"DequantizeLinear", false},
    {"Flatten", true},
    {"Identity", true},
    {"IsInf", false},
    {"IsNaN", false},
    {"Loop", false},
    {"Optional", true},
    {"OptionalGetElement", true},
    {"OptionalHasElement", false},
    {"Pad", true},
    {"QuantizeLinear", false},
    {"Reshape", true},
    {"SequenceConstruct", false},
    {"SequenceInsert", false},
    {"Shape", false},
    {"Size", false},
    {"Squeeze", true},
    {"Transpose", true},
    {"Unsqueeze", true},
};

const NarrowOp *narrow_op(std::string_view op) {
  const auto *found = std::find_if(std::begin(kNarrowOps), std::end(kNarrowOps),
                                   [&](const NarrowOp &one) { return one.op == op; });
  return found == std::end(kNarrowOps) ? nullptr : found;
}

/// To the nearest float of 8 bits.
V rounded_to_float8(Call &c, V x, Narrow to, bool saturate) {
  x = c.cast(x, DType::f32);
  if (c.failed())
    return {};
  const bool wide_exponent = to == Narrow::float8e5m2;
  const char *beyond = saturate        ? "-DBEYOND=LARGEST"
                       : wide_exponent ? "-DBEYOND=__uint_as_float(0x7f800000u)"
                                       : "-DBEYOND=__uint_as_float(0x7fffffffu)";
  KernelCall call;
  call.source = "float8.cu", call.entry = "float8";
  if (wide_exponent)
    call.options = {"-DFRACTION=2", "-DLEAST=-14", "-DLARGEST=57344.0f", beyond};
  else
    call.options = {"-DFRACTION=3", "-DLEAST=-6", "-DLARGEST=448.0f", beyond};
  call.inputs = {x};
  call.outputs = {c.w.tensor_type(DType::f32, c.dims(x))};
  call.sizes = {c.product(c.dims(x))};
  call.over_elements();
  return c.cast(c.w.launch(call)[0], DType::f16);
}

/// The low four bits, with a sign or without.
V low_bits(Call &c, V x, bool with_sign) {
  x = c.cast(x, DType::i32);
  V low = c.binary(Op::bitwise_and, x, c.like(x, 15));
  if (with_sign)
    low = c.binary(Op::sub, c.binary(Op::bitwise_xor, low, c.like(x, 8)), c.like(x, 8));
  return low;
}

} // namespace

V narrowed(Call &c, V x, Narrow to) {
  c.ignore({"saturate", "round_mode"}); // of other narrow dtypes
  switch (to) {
  case Narrow::none:
    break;
  case Narrow::float8e4m3fn:
  case Narrow::float8e5m2:
    return rounded_to_float8(c, x, to, c.integer("saturate", 1) != 0);
  case Narrow::uint4:
  case Narrow::int4:
    return c.cast(low_bits(c, x, to == Narrow::int4), held_as(to));
  }
  return x;
}

void check_narrow(Call &c) {
  const bool known = narrow_op(c.node.op) != nullptr;
  for (size_t i = 0; i < c.input_count() && !known; ++i)
    if (const EntryPtr entry = c.entry(i); entry && entry->narrow != Narrow::none)
      return c.unsupported("its input " + std::to_string(i) + " has dtype " +
                           dtype_name(entry->narrow) + ", which the op does not take");
}

void keep_narrow(Call &c) {
  const NarrowOp *op = narrow_op(c.node.op);
  const EntryPtr from = op && op->moves && c.wants(0) ? c.entry(0) : nullptr;
  if (from && from->narrow != Narrow::none)
    c.w.find(c.node.outputs[0])->narrow = from->narrow;
}

} // namespace cugrt::onnx
