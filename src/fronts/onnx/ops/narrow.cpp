// Numbers of fewer bits than the dtype that holds them; see Narrow. Which inputs may have them, and
// ops that make them.
#include "base/type/element.h"
#include "fronts/onnx/file/block_weights.h"
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
    {"GatherBlockQuantized", false},
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

/// Rounds to the nearest float of 8 bits.
V rounded_to_float8(Call &c, V x, Narrow to, bool saturate) {
  x = c.cast(x, DType::f32);
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

/// The low four bits, with a sign or without: of a float those of the nearest whole number, of two
/// the even one (ONNX, "4 bit integer types", Cast).
V low_bits(Call &c, V x, bool with_sign) {
  if (is_real(c.dtype(x)))
    x = c.op(Op::round, {x});
  x = c.cast(x, DType::i32);
  V low = c.binary(Op::bitwise_and, x, c.like(x, 15));
  if (with_sign)
    low = c.binary(Op::sub, c.binary(Op::bitwise_xor, low, c.like(x, 8)), c.like(x, 8));
  return low;
}

bool is_op(const Node &node, std::string_view op) {
  return node.op == op && (node.domain.empty() || node.domain == "ai.onnx");
}

/// Whether the value is the right operand of a product, and of nothing else, as [k, n] or [n, k].
bool is_right_operand(Call &c, std::string_view value, bool turned) {
  const Node *reader = c.w.only_reader(value);
  if (!reader || reader->inputs.size() < 2)
    return reader && turned && is_op(*reader, "Transpose") && reader->outputs.size() == 1 &&
           Call(c.w, *reader).integers("perm", {1, 0}) == Ints{1, 0} &&
           is_right_operand(c, reader->outputs[0], false);
  if (reader->inputs[1] != value || std::ranges::count(reader->inputs, value) != 1)
    return false;
  return is_op(*reader, "Gemm") ? (Call(c.w, *reader).integer("transB", 0) != 0) == turned
                                : !turned && is_op(*reader, "MatMul");
}

} // namespace

EntryPtr blocks_for_product(Call &c) {
  const int64_t block = c.integer("block_size", 0), of_axis = c.integer("axis", 1);
  const EntryPtr w = c.entry(0), scale = c.entry(1), zero = c.entry(2);
  if (block < 1 || !w || !w->constant || !scale || !scale->constant || (zero && !zero->constant) ||
      c.integer("output_dtype", 0) || c.node.outputs.size() != 1)
    return nullptr;
  const HostTensor &quants = *w->constant, &scales = *scale->constant;
  const std::optional<size_t> axis = ir::normalize_axis(of_axis, 2);
  if (quants.dims.size() != 2 || scales.dims.size() != 2 || !axis ||
      (quants.dtype != DType::i8 && quants.dtype != DType::u8) ||
      (scales.dtype != DType::f32 && !is_half(scales.dtype)) ||
      !is_right_operand(c, c.node.outputs[0], *axis == 1))
    return nullptr;
  const bool by_rows = *axis == 1;
  const int64_t n = quants.dims[1 - *axis], k = quants.dims[*axis],
                length = std::min(block, std::max<int64_t>(k, 1)),
                blocks = (k + length - 1) / length;
  if (scales.dims[*axis] != blocks || scales.dims[1 - *axis] != n ||
      (zero && (zero->constant->dtype != quants.dtype || zero->narrow != w->narrow ||
                zero->constant->dims != scales.dims)))
    return nullptr; // an error that others tell
  BlockWeights made{n, k, length, {}, {}, {}};
  auto in_rows = [&](int64_t columns, const HostTensor &from, auto read) {
    const size_t bytes = ir::info(from.dtype).bytes_per_block;
    for (int64_t r = 0; r < n; ++r)
      for (int64_t at = 0; at < columns; ++at)
        read(from.bytes.data() + size_t(by_rows ? r * columns + at : at * n + r) * bytes);
  };
  bool sound = true;
  in_rows(k, quants, [&](const char *at) {
    made.quants.push_back(int16_t(ir::integer_at(quants.dtype, at)));
  });
  in_rows(blocks, scales, [&](const char *at) {
    made.scales.push_back(float(ir::float_at(scales.dtype, at)));
    sound = sound && made.scales.back() > 0;
  });
  made.zeros.resize(made.scales.size());
  if (zero) {
    size_t next = 0;
    in_rows(blocks, *zero->constant,
            [&](const char *at) { made.zeros[next++] = float(ir::integer_at(quants.dtype, at)); });
  }
  std::optional<HostTensor> tensor = sound ? packed(made) : std::nullopt;
  if (!tensor)
    return nullptr;
  auto entry = std::make_shared<Entry>();
  entry->name = c.node.outputs[0];
  entry->constant = std::move(tensor);
  return entry;
}

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
