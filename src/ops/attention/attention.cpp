// Attention and its caches: kernels/attention/attention.cu, cache_write.cu.
#include "ops/attention/grouped_form.h"
#include "ops/emit/op_emitter.h"
#include "ops/table/infer_op.h"
#include "ops/table/op_padding.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace cugrt::ir {

/// Of keys and values as they are computed, or of a dtype of their own.
Status Inference::check_cache(size_t i, size_t computed) const {
  const DType cache = type(i).dtype, dtype = type(computed).dtype;
  if (cache == dtype)
    return {};
  const auto is_one_of_many = [](DType given) {
    return given == DType::f32 || given == DType::f16 || given == DType::bf16;
  };
  if (!is_one_of_many(dtype) || (!is_one_of_many(cache) && cache != DType::q8_0))
    return wrong("keys and values of " + std::string(info(cache).name) + " do not go with " +
                 std::string(info(dtype).name) + "; they are of its dtype, f32, f16, bf16 or q8_0");
  const std::optional<int64_t> width = known(dims(i)[3]);
  if (cache == DType::q8_0 && (!width || *width % info(cache).elements_per_block != 0))
    return wrong("heads in q8_0 have a multiple of 32 elements");
  return {};
}

Types Inference::attention() const {
  CUGRT_TRY(check_float(0));
  for (size_t i = 0; i < 3; ++i)
    CUGRT_TRY(check_rank(i, 4));
  CUGRT_TRY(check_cache(1, 0));
  if (type(2).dtype != type(1).dtype)
    return wrong("keys and values are of one dtype");
  const Dims q = dims(0), keys = dims(1), values = dims(2);
  for (size_t i = 0; i < 4; ++i)
    CUGRT_TRY(check_equal(keys[i], values[i], "dimensions of keys and values"));
  if (!has(5))
    CUGRT_TRY(check_equal(q[0], keys[0], "sequences of queries and keys"));
  CUGRT_TRY(check_equal(q[3], keys[3], "elements of a head in queries and keys"));
  const std::optional<int64_t> heads = known(q[2]), kv_heads = known(keys[2]), width = known(q[3]);
  if (!heads || !kv_heads || !width || *heads < 1 || *kv_heads < 1 || *heads % *kv_heads != 0)
    return wrong("heads and their elements are constants, and the heads of keys and values divide "
                 "those of the queries");
  if (*width < 1 || *width > 1024)
    return wrong("a head has from 1 to 1024 elements, not " + std::to_string(*width));
  if (!std::isfinite(op_float(op, attributes, "scale")))
    return wrong("attribute 'scale' is finite");
  if (has(3)) {
    CUGRT_TRY(check_ids(3));
    CUGRT_TRY(check_rank(3, 1));
    CUGRT_TRY(check_equal(dims(3)[0], q[0], "lengths and sequences"));
  }
  if (has(4)) {
    const bool is_narrow = type(0).dtype == DType::f16 || type(0).dtype == DType::bf16;
    if (!is_narrow || type(4).dtype != DType::f32)
      CUGRT_TRY(check_same_dtype(4));
    const Dims scores = {q[0], q[2], q[1], keys[1]};
    CUGRT_ASSIGN(const Dims out, broadcast(dims(4), scores));
    if (out != scores)
      return wrong("the mask does not stretch to [sequences, heads, queries, positions]");
  }
  if (has(5)) {
    CUGRT_TRY(check_ids(5));
    CUGRT_TRY(check_rank(5, 1));
    CUGRT_TRY(check_equal(dims(5)[0], q[0], "places and sequences"));
  }
  const int64_t window = op_integer(op, attributes, "window");
  if (window < 0 || (window > 0 && !op_bool(op, attributes, "causal")))
    return wrong("attribute 'window' is not negative, and goes with 'causal'");
  return one(type(0).dtype, q);
}

Types Inference::cache_write() const {
  CUGRT_TRY(check_float(1));
  for (size_t i = 0; i < 2; ++i)
    CUGRT_TRY(check_rank(i, 4));
  CUGRT_TRY(check_cache(0, 1));
  if (!type(0).strides.empty())
    return wrong("the cache is written in place, and contiguous");
  const Dims cache = dims(0), x = dims(1);
  CUGRT_TRY(check_equal(cache[2], x[2], "heads of the cache and of what is written"));
  CUGRT_TRY(check_equal(cache[3], x[3], "elements of a head"));
  if (!has(2))
    CUGRT_TRY(check_equal(cache[0], x[0], "sequences of the cache and of what is written"));
  // The first position is read for the session's flag.
  if (range_of(x[0]).lower < 1)
    return wrong("writes rows of at least one sequence; give the symbol a lower bound");
  for (size_t i = 2; i < 5; ++i) {
    if (!has(i))
      continue;
    CUGRT_TRY(check_ids(i));
    if (type(i).dtype != type(3).dtype)
      return wrong("sequences, positions and lengths are of one dtype");
    CUGRT_TRY(check_rank(i, 1));
    CUGRT_TRY(check_equal(dims(i)[0], x[0], "sequences of " + number(i)));
  }
  return one(type(0).dtype, cache);
}

} // namespace cugrt::ir

namespace cugrt::padding {

/// Queries [B, Q, H, D] stand at the last positions, and see all of them but those that the mask,
/// or their own place, keeps from them. Lengths keep nothing: one beyond the end is limited to it,
/// which would be the bucket's, and causal queries count from there.
Status OpPadding::attention() {
  const bool places = has(5);
  const bool aligned = !has(3) && operands_[0].dims[1] == operands_[1].dims[1];
  const bool causal = flag("causal");
  for (size_t i : {0, 1, 2})
    if (has(i) && (i == 0 || !places))
      CUGRT_TRY(carry(i, 0, 0));
  CUGRT_TRY(carry(3, 0, 0));
  CUGRT_TRY(carry(5, 0, 0));
  if (causal && !aligned && is_padded(0, 1))
    return refuse(0, 1, "counts");
  if (causal && !aligned && is_padded(1, 1))
    return refuse(1, 1, "counts");
  CUGRT_TRY(follow(0, 1, 1));
  const size_t mask = rank(4);
  constexpr size_t kTo[] = {0, 2, 1}; // of the mask's [B, H, Q, P]
  for (size_t d = 0; d + 1 < mask; ++d)
    CUGRT_TRY(carry(4, d, kTo[d + 4 - mask]));
  const bool hidden = causal && aligned;
  for (size_t i : {1, 2}) {
    if (!is_padded(i, 1))
      continue;
    if (operands_[i].facts.dims[1].parts.size() > 1)
      return refuse(i, 1, "sees");
    if (!hidden && (mask == 0 || !is_padded(4, mask - 1)))
      return refuse(i, 1, "sees", true);
    if (!hidden && !padding::is_number(operands_[i].facts.dims[1].fill))
      return refuse(i, 1, "sees");
    covered_[i][1] = true;
  }
  if (mask && !hidden)
    CUGRT_TRY(take(4, mask - 1, Fill::lowest));
  if (mask && is_padded(4, mask - 1)) {
    if (operands_[4].facts.dims[mask - 1].parts.size() > 1)
      return refuse(4, mask - 1, "sees");
    covered_[4][mask - 1] = true;
  }
  fills([](size_t, size_t) { return Fill::any; });
  return {};
}

/// What is added would be written too.
Status OpPadding::cache_write() { return {}; }

} // namespace cugrt::padding

namespace cugrt::codegen {

namespace {

// --- Attention over a cache that is split --------------------------------------------------------

// A block a query and head leaves most of a device idle where there are few of them for each
// multiprocessor, and a long cache makes each one's work long. Then the cache is cut into chunks of
// at least kChunk positions, at most kMaxSplits of them (attention.cu's kMostSplits): what pays for
// a block and for joining them depends on no device, and on no other sequence. Blocks of chunks
// that a sequence has not come to leave at once. What the symbols' bounds do not limit is many.
// Queries of one row of the cache, beside each other as sequences, count as one: each of them has
// the order of sums that it has alone.
constexpr int64_t kChunk = 64, kMaxSplits = 32;
constexpr int64_t kAtOnce = 32; // positions that a block works at; a chunk is a multiple of it

struct Split {
  ir::ExprId splits, chunk; // over the function's symbols
};

std::optional<Split> split_of(OpEmitter &op, const ir::Type &q, const ir::Type &keys) {
  ir::ExprPool &exprs = op.exprs();
  const ir::ExprId capacity = keys.dims[1];
  const ir::SymbolDomain bounds = op.builder().function().symbol_domain(exprs);
  const ir::ExprId rows = exprs.mul(exprs.min(q.dims[0], keys.dims[0]), op.count(q, 1, 3));
  const KernelChoice &choice = op.table().choice();
  const bool is_few =
      exprs.range(rows, bounds).upper <= kFewBlocksEach * choice.target.multiprocessors;
  const bool is_long = exprs.range(capacity, bounds).upper >= kLongCache;
  if (choice.attention == "whole" || exprs.range(op.count(q, 0, 3), bounds).upper > kMostCounters ||
      (choice.attention == "auto" && !(is_few && is_long)))
    return std::nullopt;
  const ir::ExprId even = exprs.mul(exprs.ceildiv(capacity, exprs.constant(kMaxSplits * kAtOnce)),
                                    exprs.constant(kAtOnce));
  const ir::ExprId chunk = exprs.max(even, exprs.constant(kChunk));
  // One also of an empty cache: what joins them reads the first.
  return Split{exprs.max(exprs.ceildiv(capacity, chunk), exprs.constant(1)), chunk};
}

// What each chunk of each query and head leaves: values, largest score, sum.
ir::ValueId alloc_parts(OpEmitter &op, const ir::Type &q, ir::ExprId splits) {
  const std::vector<ir::ExprId> dims = {op.count(q, 0, 3), splits,
                                        op.exprs().add(q.dims[3], op.constant(2))};
  return op.builder().alloc("parts", op.builder().module().types.tensor(wide_type(q.dtype), dims));
}

/// The option for keys and values of a dtype of their own (kernels/shared/cached.cuh).
void cache_option(KernelLaunch &launch, ir::DType cache, ir::DType computed) {
  if (cache != computed)
    launch.option(cache == ir::DType::f16    ? "-DCACHE_F16"
                  : cache == ir::DType::bf16 ? "-DCACHE_BF16"
                  : cache == ir::DType::q8_0 ? "-DCACHE_Q8_0"
                                             : "-DCACHE_F32");
}

/// Where queries may be many, tensor cores: f16 and bf16, in heads of whole runs of 16 bytes.
enum class TensorCores { no, from_many_queries, always };

constexpr int64_t kQueriesAtOnce = 64, kMmaThreads = 128, kMostMmaWidth = 256;

/// kMmaBytes of kernels/attention/attention_mma.cuh, for heads of at most `width` elements.
int64_t mma_shared_bytes(int64_t width) {
  const int64_t positions = width > 192   ? 16
                            : width > 128 ? 32
                                          : 64,
                waiting = std::max<int64_t>(width / 16 - 8, 0) * kMmaThreads * 16;
  return 4 * positions * 2 * (width + 8) + waiting;
}

TensorCores tensor_cores_of(OpEmitter &op, const ir::Type &q, int64_t width) {
  if (!has_tensor_cores(q.dtype, op.table().choice().target) || width % 8 != 0 ||
      width > kMostMmaWidth)
    return TensorCores::no;
  const ir::Interval queries =
      op.exprs().range(q.dims[1], op.builder().function().symbol_domain(op.exprs()));
  return queries.upper < kManyQueries    ? TensorCores::no
         : queries.lower >= kManyQueries ? TensorCores::always
                                         : TensorCores::from_many_queries;
}

/// The heads of a query that a block takes at once: of those that share keys and values, as many as
/// registers hold and as divide them.
int64_t shared_heads(OpEmitter &op, const ir::Type &q, const ir::Type &keys) {
  constexpr int64_t kMostShared = 4;
  const std::optional<int64_t> heads = op.exprs().as_constant(q.dims[2]);
  const std::optional<int64_t> kv_heads = op.exprs().as_constant(keys.dims[2]);
  int64_t share = 1;
  if (heads && kv_heads && *kv_heads > 0)
    for (int64_t s = 2; s <= kMostShared; ++s)
      share = *heads / *kv_heads % s == 0 ? s : share;
  return share;
}

/// Elements from a row of [.., .., H, D] to the next.
ir::ExprId row_distance(OpEmitter &op, const ir::Type &rows) {
  return rows.strides.empty() ? op.count(rows, 2) : rows.strides[1];
}

std::optional<GroupedForm> grouped_form_of(OpEmitter &op, const ir::Type &q, const ir::Type &keys) {
  ir::ExprPool &exprs = op.exprs();
  const ir::SymbolDomain bounds = op.builder().function().symbol_domain(exprs);
  auto most = [&](ir::ExprId size) { return exprs.range(size, bounds).upper; };
  return grouped_form({.dtype = q.dtype,
                       .cache = keys.dtype,
                       .sequences = most(q.dims[0]),
                       .queries = most(q.dims[1]),
                       .capacity = most(keys.dims[1]),
                       .heads = most(q.dims[2]),
                       .kv_heads = most(keys.dims[2]),
                       .width = most(q.dims[3]),
                       .window = op.integer("window"),
                       .has_mask = op.has_operand(4)},
                      op.table().choice());
}

} // namespace

CacheSymbols cache_symbols(KernelTable &table, ir::FunctionBuilder &builder, ir::ValueId cache,
                           ir::ValueId positions, ir::ValueId sequences, SourceLocation location) {
  ir::Module &module = builder.module();
  auto type = [&](ir::ValueId value) { return module.types[builder.function().value(value).type]; };
  const ir::SymbolDomain bounds = builder.function().symbol_domain(module.exprs);
  const int64_t most = type(positions).dtype == ir::DType::i64 ? INT64_MAX : INT32_MAX;
  auto read = [&](ir::ValueId ids, size_t dimension, std::string_view name) {
    const int64_t size = module.exprs.range(type(cache).dims[dimension], bounds).upper;
    return checked_element(table, builder, ids, std::clamp<int64_t>(size - 1, 0, most), name,
                           location);
  };
  return {read(positions, 1, "position"),
          sequences.valid() ? read(sequences, 0, "sequence") : ir::ExprId()};
}

Status emit_attention(OpEmitter &op) {
  const ir::Type q = op.operand_type(0), keys = op.operand_type(1);
  const bool has_lengths = op.has_operand(3), has_mask = op.has_operand(4),
             has_places = op.has_operand(5);
  const int64_t window = op.integer("window");
  const int64_t width = *op.exprs().as_constant(q.dims[3]);
  const double scale = op.number("scale");
  ir::ExprPool &exprs = op.exprs();
  const ir::SymbolDomain bounds = op.builder().function().symbol_domain(exprs);

  const std::optional<GroupedForm> grouped = grouped_form_of(op, q, keys);
  const std::optional<Split> split = grouped ? std::nullopt : split_of(op, q, keys);
  const bool is_split = split || (grouped && grouped->splits > 1);
  const int64_t share = grouped ? grouped->share : shared_heads(op, q, keys);
  const TensorCores tensor_cores =
      grouped || split ? TensorCores::no : tensor_cores_of(op, q, width);
  const int64_t step = tensor_cores == TensorCores::always ? 16 : 32, // of heads' elements
      widest = (width + step - 1) / step * step;

  KernelLaunch launch =
      grouped ? op.floating_launch("attention_grouped.cu", "attention_grouped")
              : op.floating_launch("attention.cu", split ? "attention_split" : "attention");
  launch.option(std::string(kRegistersOption) + std::to_string(grouped ? width : widest));
  if (share > 1)
    launch.option("-DSHARE=" + std::to_string(share));
  if (grouped) {
    launch.option("-DQUERIES=" + std::to_string(grouped->queries));
    launch.option("-DSTAGES=" + std::to_string(grouped->stages));
  }
  cache_option(launch, keys.dtype, q.dtype);
  if (tensor_cores != TensorCores::no)
    launch.option("-DWITH_MMA");
  if (tensor_cores == TensorCores::always)
    launch.option("-DMMA_ALONE");
  if (is_split)
    launch.option(grouped ? "-DSPLIT=" + std::to_string(grouped->splits) : "-DSPLIT");
  if (op.flag("causal"))
    launch.option("-DCAUSAL");
  if (has_lengths)
    launch.option("-DHAS_LENGTHS");
  if (has_lengths && op.operand_type(3).dtype == ir::DType::i64)
    launch.option("-DWIDE_LENGTHS");
  std::vector<ir::ExprId> mask_strides;
  if (has_mask) {
    const ir::ExprId scores[] = {q.dims[0], q.dims[2], q.dims[1], keys.dims[1]};
    mask_strides = broadcast_strides(exprs, op.operand_type(4), scores);
    launch.option("-DHAS_MASK");
  }
  if (has_mask && tensor_cores != TensorCores::no && mask_strides[2] == op.constant(0))
    launch.option("-DMASK_OF_POSITIONS");
  if (has_mask && op.operand_type(4).dtype != q.dtype)
    launch.option("-DMASK_F32");
  const bool rows_apart = !q.strides.empty() || !keys.strides.empty();
  if (rows_apart)
    launch.option("-DROWS_APART");
  if (has_places)
    launch.option("-DHAS_PLACES");
  if (has_places && op.operand_type(5).dtype == ir::DType::i64)
    launch.option("-DWIDE_PLACES");
  if (window > 0)
    launch.option("-DWINDOW=" + std::to_string(window));
  // Blocks of a chunk, or of all positions.
  const ir::ExprId groups = exprs.floordiv(q.dims[2], op.constant(share)),
                   each = exprs.ceildiv(q.dims[1], op.constant(grouped ? grouped->queries : 1)),
                   blocks = exprs.mul(exprs.mul(q.dims[0], each), groups);
  launch.input("q", op.operand(0));
  launch.input("keys", op.operand(1));
  launch.input("values", op.operand(2));
  if (has_lengths)
    launch.input("lengths", op.operand(3));
  if (has_mask)
    launch.input("mask", op.operand(4));
  if (has_places)
    launch.input("places", op.operand(5));
  if (is_split) {
    launch.output("parts",
                  alloc_parts(op, q, split ? split->splits : op.constant(grouped->splits)));
    add_counters(op, launch, op.constant(exprs.range(blocks, bounds).upper));
  }
  launch.output("y", op.result());
  const ir::ExprId sequences = launch.count("sequences", q.dims[0]);
  const ir::ExprId queries = launch.size("queries", q.dims[1]);
  const ir::ExprId heads = launch.size("heads", q.dims[2]);
  launch.size("kv_heads", keys.dims[2]);
  launch.size("width", q.dims[3]);
  launch.count("capacity", keys.dims[1]);
  if (has_places)
    launch.count("cache_rows", keys.dims[0]);
  launch.scalar("scale", wide_type(q.dtype), scale == 0 ? 1 / std::sqrt(double(width)) : scale);
  if (has_mask) {
    constexpr std::string_view kNames[] = {"sequence", "head", "query", "position"};
    for (size_t i = 0; i < 4; ++i)
      launch.size("mask_" + std::string(kNames[i]), mask_strides[i]);
  }
  if (rows_apart) {
    launch.size("q_row", row_distance(op, q));
    launch.size("kv_row", row_distance(op, keys));
  }
  const ir::ExprId rows = exprs.mul(sequences, queries);
  if (grouped) {
    const ir::ExprId pieces =
        exprs.mul(exprs.mul(sequences, exprs.floordiv(heads, op.constant(share))),
                  exprs.mul(exprs.ceildiv(queries, op.constant(grouped->queries)),
                            op.constant(grouped->splits)));
    launch.variant("", {}, is_split ? exprs.min(pieces, op.constant(grouped->blocks)) : pieces,
                   {32 * grouped->warps, 1, 1}, grouped->shared_bytes);
  } else {
    ir::ExprId whole = share > 1 ? exprs.mul(rows, exprs.floordiv(heads, op.constant(share)))
                                 : exprs.mul(rows, heads);
    if (split) {
      whole = exprs.mul(whole, launch.size("splits", split->splits));
      launch.size("chunk", split->chunk);
    }
    if (tensor_cores != TensorCores::no)
      launch.variant("attention_mma",
                     tensor_cores == TensorCores::always
                         ? ir::ExprId()
                         : exprs.make(ir::ExprKind::le, op.constant(kManyQueries), queries),
                     exprs.mul(exprs.mul(sequences, heads),
                               exprs.ceildiv(queries, op.constant(kQueriesAtOnce))),
                     {kMmaThreads, 1, 1}, mma_shared_bytes(widest));
    if (tensor_cores != TensorCores::always)
      launch.variant("", {}, whole, {256, 1, 1});
  }
  launch.emit(op.call().location);
  return {};
}

Status emit_cache_write(OpEmitter &op) {
  const ir::Type cache = op.operand_type(0), x = op.operand_type(1), ids = op.operand_type(3);
  const CacheSymbols symbols =
      cache_symbols(op.table(), op.builder(), op.operand(0), op.operand(3),
                    op.has_operand(2) ? op.operand(2) : ir::ValueId(), op.call().location);
  KernelLaunch launch = op.launch("cache_write.cu", "cache_write", ir::info(x.dtype).name);
  launch.floating_type(x.dtype);
  cache_option(launch, cache.dtype, x.dtype);
  if (ids.dtype == ir::DType::i64)
    launch.option("-DWIDE_IDS");
  if (op.has_operand(2))
    launch.option("-DHAS_SEQUENCES");
  if (op.has_operand(4))
    launch.option("-DHAS_LENGTHS");
  launch.inout("cache", op.operand(0));
  launch.input("x", op.operand(1));
  launch.input("positions", op.operand(3));
  launch.checked_symbol("position", ids.dtype, symbols.position);
  if (op.has_operand(2)) {
    launch.input("sequences", op.operand(2));
    launch.checked_symbol("sequence", ids.dtype, symbols.sequence);
  }
  if (op.has_operand(4))
    launch.input("lengths", op.operand(4));
  const ir::ExprId sequences = launch.count("given", x.dims[0]);
  const ir::ExprId each = launch.size("each", x.dims[1]);
  launch.count("rows", cache.dims[0]);
  launch.count("capacity", cache.dims[1]);
  const ir::ExprId width = launch.size("width", op.count(cache, 2, 4));
  const ir::ExprId elements = op.exprs().mul(op.exprs().mul(sequences, each), width);
  launch.variant("", {}, op.exprs().ceildiv(elements, op.constant(256)), {256, 1, 1});
  launch.emit(op.call().location);
  return {};
}

} // namespace cugrt::codegen
