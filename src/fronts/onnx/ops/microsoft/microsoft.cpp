// Ops of domain com.microsoft, which ONNX Runtime's tools write in place of ONNX's ops: products
// and convolutions with the ops behind them, forms of Gelu and of layer norms, weights of few bits.
#include "base/type/element.h"
#include "fronts/onnx/call.h"
#include "fronts/onnx/file/block_weights.h"
#include "fronts/onnx/ops/integers.h"

#include <limits>

namespace cugrt::onnx {

namespace {

/// The result of ONNX's op on the node.
V by_standard(Call &c, std::string_view op) {
  if (Handler handler = find_handler("", op); handler && c.wants(0))
    handler(c);
  const EntryPtr made = c.wants(0) ? c.w.find(c.node.outputs[0]) : nullptr;
  return made ? c.w.device(*made) : V();
}

template <size_t kSize> void standard(Call &c, const char (&op)[kSize]) {
  if (Handler handler = find_handler("", op))
    handler(c);
}

/// The activation that the node names, if it names one, with its own parameters before ONNX's.
V with_activation(Call &c, V y, std::optional<double> alpha, std::optional<double> beta) {
  const std::string name = c.text("activation", "");
  if (name.empty())
    return y;
  if (name == "Clip") {
    const double infinity = std::numeric_limits<double>::infinity();
    return c.op(Op::clip, {y},
                {attr("min", alpha.value_or(-infinity)), attr("max", beta.value_or(infinity))});
  }
  const Activation *known = find_activation(name);
  Activation made = known ? *known : Activation{};
  if (alpha)
    made.alpha = alpha;
  if (beta)
    made.beta = beta;
  if (!known || (made.parameters > 0 && !made.alpha) || (made.parameters > 1 && !made.beta))
    c.unsupported("activation " + name + (known ? " without its parameters" : ""));
  return activated(c, made, y);
}

void fused_convolution(Call &c) {
  V y = by_standard(c, "Conv");
  if (c.has(3)) // summed before the activation
    y = c.binary(Op::add, y, c.value(3));
  const AttributeView *own = c.attribute("activation_params");
  auto parameter = [&](size_t i) {
    return own && i < own->numbers.size() ? std::optional<double>(own->numbers[i]) : std::nullopt;
  };
  c.result(with_activation(c, y, parameter(0), parameter(1)));
}

void fused_gemm(Call &c) {
  V y = by_standard(c, "Gemm");
  auto parameter = [&](const char *name) {
    return c.attribute(name) ? std::optional<double>(c.number(name, 0)) : std::nullopt;
  };
  c.result(with_activation(c, y, parameter("activation_alpha"), parameter("activation_beta")));
}

void fused_matmul(Call &c) {
  V a = c.value(0), b = c.value(1);
  if (c.integer("transBatchA", 0) || c.integer("transBatchB", 0))
    return c.unsupported("factors whose batch comes behind their rows");
  auto turned = [&](V x, const char *name) {
    if (!c.integer(name, 0) || c.rank(x) < 2)
      return x;
    Ints axes;
    for (size_t i = 0; i < c.rank(x); ++i)
      axes.push_back(int64_t(i));
    std::swap(axes.back(), axes[axes.size() - 2]);
    return c.transpose(x, axes);
  };
  V y = c.matmul(turned(a, "transA"), turned(b, "transB"));
  if (const double alpha = c.number("alpha", 1); alpha != 1)
    y = c.binary(Op::mul, y, c.like(y, alpha));
  c.result(y);
}

void microsoft_gelu(Call &c) {
  V x = c.value(0);
  if (c.has(1))
    x = c.binary(Op::add, x, c.value(1));
  const bool fast = c.node.op == "FastGelu";
  c.result(c.op(Op::gelu, {x}, {attr("approximate", std::string(fast ? "tanh" : "none"))}));
}

void quick_gelu(Call &c) {
  V x = c.value(0);
  c.result(c.binary(
      Op::mul, x, c.op(Op::sigmoid, {c.binary(Op::mul, x, c.like(x, c.number("alpha", 1.702)))})));
}

/// The norm of input + skip (+ bias), whose sum is the fourth result.
void skip_norm(Call &c) {
  const bool simple = c.node.op == "SkipSimplifiedLayerNormalization";
  V input = c.value(0);
  V sum = c.binary(Op::add, input, c.stretch(c.value(1), c.dims(input)));
  if (const size_t bias = simple ? 3 : 4; c.has(bias))
    sum = c.binary(Op::add, sum, c.value(bias));
  if (c.wants(1) || c.wants(2))
    return c.unsupported("mean and deviation as results");
  const double epsilon = c.number("epsilon", 1e-12);
  V y = simple ? c.op(Op::rms_norm, {sum, c.value(2)}, {attr("epsilon", epsilon)})
               : c.op(Op::layer_norm, {sum, c.value(2), c.has(3) ? c.value(3) : V()},
                      {attr("epsilon", epsilon)});
  c.result(y, 0);
  c.result(sum, 3);
}

/// The norm by groups of an image, or of its sum with a skip (and a bias), whose channels are last
/// unless the node says otherwise; the sum is the second result.
void image_norm(Call &c) {
  V x = c.value(0);
  if (c.rank(x) != 4)
    return c.unsupported("an image of other than four dimensions");
  const int64_t activation = c.integer("activation", 0);
  if (activation != 0 && activation != 1)
    return c.unsupported("activation " + std::to_string(activation));
  const bool last = c.integer("channels_last", 1) != 0;
  auto of_channels = [&](V v, E batch) { // [batch, 1, 1, channels], or with the channels first
    const E one = c.constant(1), channels = c.dims(v).back();
    return c.reshape(v, last ? Dims{batch, one, one, channels} : Dims{batch, channels, one, one});
  };
  if (c.has(3)) {
    V skip = c.value(3);
    skip = c.rank(skip) == 2 ? of_channels(skip, c.dims(skip)[0]) : skip;
    x = c.binary(Op::add, x, c.stretch(skip, c.dims(x)));
    if (c.has(4))
      x = c.binary(Op::add, x, of_channels(c.value(4), c.constant(1)));
    c.result(x, 1);
  }
  const DType dtype = c.dtype(x); // scale and bias may be wider
  V y = group_normed(c, last ? c.transpose(x, {0, 3, 1, 2}) : x, c.cast(c.value(1), dtype),
                     c.cast(c.value(2), dtype), c.integer("groups", 1));
  y = last ? c.transpose(y, {0, 2, 3, 1}) : y;
  c.result(activation ? c.op(Op::silu, {y}) : y);
}

/// Sums of rows of two or three tables, and their norm.
void embedding_norm(Call &c) {
  V ids = c.value(0), words = c.value(2), places = c.value(3);
  if (c.rank(ids) != 2)
    return c.unsupported("ids of other than two dimensions");
  if (c.wants(1) && c.has(7))
    return c.unsupported("lengths made of a mask");
  c.ignore({"mask_index_type"}); // of a result that is zeros without a mask
  c.ignore_input(7), c.ignore_input(4);
  const Dims d = c.dims(ids);
  V sum = c.gather(words, ids, 0);
  if (c.has(8))
    sum = c.binary(Op::add, sum, c.gather(places, c.value(8), 0));
  else
    sum = c.binary(Op::add, sum, c.slice(places, 0, c.constant(0), d[1]));
  if (c.has(1))
    sum = c.binary(Op::add, sum, c.gather(c.value(4), c.value(1), 0));
  V y = c.op(Op::layer_norm, {sum, c.value(5), c.value(6)},
             {attr("epsilon", c.number("epsilon", 1e-12))});
  c.result(y, 0);
  if (c.wants(1))
    c.result(c.broadcast(c.scalar(DType::i32, 0), {d[0]}), 1);
  c.result(sum, 2);
}

/// Weights of `bits` a number, packed along the rows of a byte from the lowest bit on: [rows, n]
/// i32 of u8 [rows, bytes].
V unpacked(Call &c, V bytes, int64_t bits, E n) {
  const Dims d = c.dims(bytes);
  if (bits == 8)
    return c.cast(c.slice(bytes, 1, c.constant(0), n), DType::i32);
  V wide = c.reshape(c.cast(bytes, DType::i32), {d[0], d[1], c.constant(1)});
  Host shifts{DType::i32, {8 / bits}, {}, {}};
  for (int64_t at = 0; at < 8; at += bits)
    shifts.ints.push_back(c.constant(at));
  const Dims each = {d[0], d[1], c.constant(8 / bits)};
  V parts = c.op("bitwise_and", {c.op("shift_right", {c.broadcast(wide, each),
                                                      c.broadcast(c.w.materialize(shifts), each)}),
                                 c.broadcast(c.scalar(DType::i32, double((1 << bits) - 1)), each)});
  return c.slice(c.reshape(parts, {d[0], c.w.exprs().mul(d[1], c.constant(8 / bits))}), 1,
                 c.constant(0), n);
}

/// The constant weights of a MatMulNBits in a block format; none: they are none, or no format holds
/// them exactly.
std::optional<HostTensor> packed_n_bits(Call &c, int64_t n, int64_t k, int64_t bits,
                                        int64_t block) {
  const EntryPtr b = c.entry(1), scale = c.entry(2), zero = c.entry(3);
  if (!b || !b->constant || !scale || !scale->constant || (zero && !zero->constant) ||
      !is_real(scale->constant->dtype) || scale->constant->dtype == DType::f64)
    return {};
  const int64_t blocks = (k + block - 1) / block, row_bytes = blocks * block * bits / 8,
                zero_bytes = (blocks * bits + 7) / 8;
  const std::string_view bytes = b->constant->bytes, scales = scale->constant->bytes;
  const size_t scale_bytes = ir::info(scale->constant->dtype).bytes_per_block;
  if (int64_t(bytes.size()) != n * row_bytes || scales.size() != size_t(n * blocks) * scale_bytes)
    return {}; // before anything is made of what the attributes say
  BlockWeights made{n,  k,  block,
                    {}, {}, std::vector<float>(size_t(n * blocks), float(1 << (bits - 1)))};
  for (int64_t r = 0; r < n; ++r) {
    const std::vector<int16_t> row =
        numbers_of_bits(bytes.substr(size_t(r * row_bytes), size_t(row_bytes)), bits, size_t(k));
    made.quants.insert(made.quants.end(), row.begin(), row.end());
  }
  for (size_t at = 0; at < scales.size(); at += scale_bytes)
    made.scales.push_back(float(ir::float_at(scale->constant->dtype, scales.data() + at)));
  if (zero) {
    const HostTensor &given = *zero->constant;
    const size_t each = ir::info(given.dtype).bytes_per_block;
    if (given.bytes.size() !=
        (is_real(given.dtype) ? made.zeros.size() * each : size_t(n * zero_bytes)))
      return {};
    for (int64_t r = 0; r < n; ++r) {
      const std::vector<int16_t> row =
          is_real(given.dtype)
              ? std::vector<int16_t>()
              : numbers_of_bits(given.bytes.substr(size_t(r * zero_bytes), size_t(zero_bytes)),
                                bits, size_t(blocks));
      for (int64_t at = 0; at < blocks; ++at)
        made.zeros[size_t(r * blocks + at)] =
            is_real(given.dtype)
                ? float(ir::float_at(given.dtype,
                                     given.bytes.data() + size_t(r * blocks + at) * each))
                : row[size_t(at)];
    }
  }
  return packed(made);
}

/// A times the transpose of B [N, K], which is kept in blocks of few bits with a scale and a zero
/// point each.
void matmul_n_bits(Call &c) {
  const int64_t n = c.integer("N", 0), k = c.integer("K", 0), bits = c.integer("bits", 4),
                block = c.integer("block_size", 0);
  if (n < 1 || k < 1 || block < 1 || (bits != 2 && bits != 4 && bits != 8))
    return c.unsupported("weights of other than 2, 4 or 8 bits");
  V a = c.value(0);
  c.ignore({"accuracy_level"}); // how far A may be rounded: it is not
  c.expect("weight_prepacked", 0);
  if (c.has(4))
    return c.unsupported("groups that are told one by one (g_idx)");
  const int64_t blocks = (k + block - 1) / block;
  if (const std::optional<HostTensor> tensor = packed_n_bits(c, n, k, bits, block)) {
    V y = c.op(Op::matmul_blocks, {a, c.w.constant_tensor(std::string(c.node.inputs[1]), *tensor)});
    return c.result(c.has(5) ? c.binary(Op::add, y, c.stretch(c.value(5), c.dims(y))) : y);
  }
  V b = c.value(1), scales = c.value(2), zero = c.value(3);
  const E rows = c.constant(n), count = c.constant(blocks), size = c.constant(block),
          padded = c.constant(blocks * block), one = c.constant(1);
  V w = unpacked(c, c.reshape(b, {rows, c.constant(blocks * block * bits / 8)}), bits, padded);
  const DType dtype = c.dtype(a);
  w = c.cast(c.reshape(w, {rows, count, size}), dtype);
  V middle = c.scalar(dtype, double(1 << (bits - 1)));
  if (zero.valid() && is_real(c.dtype(zero)))
    middle = c.reshape(c.cast(zero, dtype), {rows, count, one});
  else if (zero.valid())
    middle =
        c.reshape(c.cast(unpacked(c, c.reshape(zero, {rows, c.constant((blocks * bits + 7) / 8)}),
                                  bits, count),
                         dtype),
                  {rows, count, one});
  w = c.binary(Op::mul, c.binary(Op::sub, w, middle),
               c.reshape(c.cast(scales, dtype), {rows, count, one}));
  w = c.slice(c.reshape(w, {rows, padded}), 1, c.constant(0), c.constant(k));
  V y = c.matmul(a, c.transpose(w, {1, 0}));
  c.result(c.has(5) ? c.binary(Op::add, y, c.value(5)) : y);
}

/// Parts of a table of few bits a number, as in Gather, which is held in blocks along an axis with
/// a scale and a zero point each. Bytes have the numbers packed along the last axis.
void gather_blocks(Call &c) {
  const int64_t bits = c.integer("bits", 4), block = c.integer("block_size", 128);
  V x = c.value(0), ids = positions(c, 1), scales = c.value(2), zero = c.value(3);
  if (block < 1 || block > INT32_MAX || is_real(c.dtype(x)))
    return c.unsupported("blocks of " + std::to_string(block) + ", or numbers that are floats");
  const bool packed = c.dtype(x) == DType::u8 && c.entry(0)->narrow == Narrow::none;
  const size_t rank = c.rank(x), from = c.axis(c.integer("gather_axis", 0), rank);
  size_t along_axis = c.axis(c.integer("quantize_axis", 1), rank);
  if (packed && ((bits != 2 && bits != 4 && bits != 8) || from != 0 || along_axis + 1 != rank ||
                 from == along_axis))
    return c.unsupported("a table of bytes that is not gathered by rows, in blocks within them");
  auto part = [&](V table) { return table.valid() ? c.gather(table, ids, from) : table; };
  auto spread_bits = [&](V bytes, E n) { // along the last axis
    Dims dims = c.dims(bytes);
    const E last = dims[dims.size() - 1];
    dims[dims.size() - 1] = n;
    return c.reshape(
        unpacked(c, c.reshape(bytes, {c.product(dims.first(dims.size() - 1)), last}), bits, n),
        dims);
  };
  const bool before = from != along_axis;
  if (before) {
    x = part(x), scales = part(scales), zero = part(zero);
    along_axis = along_axis > from ? along_axis - 1 + c.rank(ids) : along_axis;
  }
  if (packed) {
    const E bytes = c.dims(x)[along_axis];
    x = spread_bits(x, c.w.exprs().mul(bytes, c.constant(8 / bits)));
    zero = zero.valid() ? spread_bits(zero, c.dims(scales)[along_axis])
                        : c.scalar(DType::i32, double(1 << (bits - 1)));
  }
  V y = dequantize(c, x, along(c, scales, x, int64_t(along_axis), block),
                   along(c, zero, x, int64_t(along_axis), block));
  c.result(before ? y : part(y));
}

void bias_split_gelu(Call &c) { // a half of input + bias times the Gelu of the other
  V x = c.value(0);
  x = c.binary(Op::add, x, c.value(1));
  const size_t last = c.rank(x) - 1;
  const E half = c.w.exprs().floordiv(c.dims(x)[last], c.constant(2));
  c.result(c.binary(
      Op::mul, c.slice(x, last, c.constant(0), half),
      c.op(Op::gelu, {c.slice(x, last, half, half)}, {attr("approximate", std::string("none"))})));
}

void bias_add(Call &c) { // input + bias + skip
  c.result(c.binary(Op::add, c.binary(Op::add, c.value(0), c.value(1)), c.value(2)));
}

} // namespace

void add_microsoft(HandlerTable &table) {
#define CUGRT_SAME_unary(name, op)
#define CUGRT_SAME_two(name, op)
#define CUGRT_SAME_own(name, op)
#define CUGRT_SAME_microsoft(name, op) table[name] = unary<Op::op>;
#define CUGRT_SAME_OP(name, op, importer) CUGRT_SAME_##importer(#name, op)
#include "fronts/onnx/same_ops.def"
#undef CUGRT_SAME_OP
#undef CUGRT_SAME_microsoft
#undef CUGRT_SAME_own
#undef CUGRT_SAME_two
#undef CUGRT_SAME_unary
  table["FusedConv"] = fused_convolution;
  table["FusedGemm"] = fused_gemm;
  table["FusedMatMul"] = table["TransposeMatMul"] = fused_matmul;
  table["Gelu"] = table["BiasGelu"] = table["FastGelu"] = microsoft_gelu;
  table["QuickGelu"] = quick_gelu;
  table["SkipLayerNormalization"] = table["SkipSimplifiedLayerNormalization"] = skip_norm;
  table["EmbedLayerNormalization"] = embedding_norm;
  table["MatMulNBits"] = matmul_n_bits;
  table["GatherBlockQuantized"] = gather_blocks;
  table["GroupNorm"] = table["SkipGroupNorm"] = image_norm;
  table["BiasSplitGelu"] = bias_split_gelu;
  table["BiasAdd"] = bias_add;
  table["NhwcConv"] = [](Call &c) { standard(c, "Conv"); };
  table["QuantizeLinear"] = [](Call &c) { standard(c, "QuantizeLinear"); };
  table["DequantizeLinear"] = [](Call &c) { standard(c, "DequantizeLinear"); };
}

} // namespace cugrt::onnx
