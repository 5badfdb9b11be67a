// Attention and its caches: kernels/attention/attention.cu, cache_write.cu.
#include "ops/attention/grouped_form.h"
#include "ops/emit/op_emitter.h"
#include "ops/table/infer_op.h"
#include "ops/table/op_padding.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace cugrt::ir {

/// Checks that keys and values have the dtype of the computation, or one for caches.
Status Inference::check_cache(size_t i, size_t computed) const {
  const DType cache = type(i).dtype, dtype = type(computed).dtype;
  if (cache == dtype)
    return {};
  const auto is_one_of_many = [](DType given) { return given == DType::f32 || is_half(given); };
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
    const bool is_narrow = is_half(type(0).dtype);
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

/// The op would also write the added elements.
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

// Allocates the parts that each chunk of each query and head leaves: values, largest score, sum.
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

/// Tensor cores take f16 and bf16, in heads of whole runs of 16 bytes, where queries may be many.
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

/// A launch of attention: which form it takes, then the kernel's options, its arguments in order,
/// and its grids.
class AttentionLaunch {
public:
  explicit AttentionLaunch(OpEmitter &op)
      : op_(op), q_(op.operand_type(0)), keys_(op.operand_type(1)),
        width_(*op.exprs().as_constant(q_.dims[3])), grouped_(grouped_form_of(op, q_, keys_)),
        split_(grouped_ ? std::nullopt : split_of(op, q_, keys_)),
        share_(grouped_ ? grouped_->share : shared_heads(op, q_, keys_)),
        tensor_cores_(grouped_ || split_ ? TensorCores::no : tensor_cores_of(op, q_, width_)),
        launch_(grouped_ ? op.floating_launch("attention_grouped.cu", "attention_grouped")
                         : op.floating_launch("attention.cu",
                                              split_ ? "attention_split" : "attention")) {
    const int64_t step = tensor_cores_ == TensorCores::always ? 16 : 32; // of heads' elements
    widest_ = (width_ + step - 1) / step * step;
    if (!op.has_operand(4))
      return;
    const ir::ExprId scores[] = {q_.dims[0], q_.dims[2], q_.dims[1], keys_.dims[1]};
    mask_strides_ = broadcast_strides(op.exprs(), op.operand_type(4), scores);
  }

  Status emit() {
    form_options();
    operand_options();
    arguments();
    grouped_ ? grouped_grid() : grids();
    return op_.emit(launch_);
  }

private:
  void form_options() {
    launch_.option(std::string(kRegistersOption) + std::to_string(grouped_ ? width_ : widest_));
    launch_.option_if(share_ > 1, "-DSHARE=" + std::to_string(share_));
    if (grouped_) {
      launch_.option("-DQUERIES=" + std::to_string(grouped_->queries));
      launch_.option("-DSTAGES=" + std::to_string(grouped_->stages));
    }
    cache_option(launch_, keys_.dtype, q_.dtype);
    launch_.option_if(tensor_cores_ != TensorCores::no, "-DWITH_MMA");
    launch_.option_if(tensor_cores_ == TensorCores::always, "-DMMA_ALONE");
    if (is_split())
      launch_.option(grouped_ ? "-DSPLIT=" + std::to_string(grouped_->splits) : "-DSPLIT");
  }

  void operand_options() {
    const auto positions_option = [&](size_t i, std::string_view has, std::string_view wide) {
      if (op_.has_operand(i))
        launch_.option(std::string(has));
      if (op_.has_operand(i) && op_.operand_type(i).dtype == ir::DType::i64)
        launch_.option(std::string(wide));
    };
    launch_.option_if(op_.flag("causal"), "-DCAUSAL");
    positions_option(3, "-DHAS_LENGTHS", "-DWIDE_LENGTHS");
    if (op_.has_operand(4)) {
      launch_.option("-DHAS_MASK");
      if (tensor_cores_ != TensorCores::no && mask_strides_[2] == op_.constant(0))
        launch_.option("-DMASK_OF_POSITIONS");
      launch_.option_if(op_.operand_type(4).dtype != q_.dtype, "-DMASK_F32");
    }
    launch_.option_if(rows_apart(), "-DROWS_APART");
    positions_option(5, "-DHAS_PLACES", "-DWIDE_PLACES");
    if (const int64_t window = op_.integer("window"); window > 0)
      launch_.option("-DWINDOW=" + std::to_string(window));
  }

  void arguments() {
    constexpr const char *kOperands[] = {"q", "keys", "values", "lengths", "mask", "places"};
    for (size_t i = 0; i < std::size(kOperands); ++i)
      op_.input_if_given(launch_, kOperands[i], i);
    if (is_split()) {
      launch_.output(
          "parts", alloc_parts(op_, q_, split_ ? split_->splits : op_.constant(grouped_->splits)));
      add_counters(op_, launch_, op_.constant(most_blocks()));
    }
    launch_.output("y", op_.result());
    sequences_ = launch_.count("sequences", q_.dims[0]);
    queries_ = launch_.size("queries", q_.dims[1]);
    heads_ = launch_.size("heads", q_.dims[2]);
    launch_.size("kv_heads", keys_.dims[2]);
    launch_.size("width", q_.dims[3]);
    launch_.count("capacity", keys_.dims[1]);
    if (op_.has_operand(5))
      launch_.count("cache_rows", keys_.dims[0]);
    const double scale = op_.number("scale");
    launch_.scalar("scale", wide_type(q_.dtype),
                   scale == 0 ? 1 / std::sqrt(double(width_)) : scale);
    constexpr std::string_view kAxes[] = {"sequence", "head", "query", "position"};
    for (size_t i = 0; i < mask_strides_.size(); ++i)
      launch_.size("mask_" + std::string(kAxes[i]), mask_strides_[i]);
    if (rows_apart()) {
      launch_.size("q_row", row_distance(op_, q_));
      launch_.size("kv_row", row_distance(op_, keys_));
    }
  }

  /// Blocks of a chunk, or of all positions.
  int64_t most_blocks() {
    ir::ExprPool &exprs = op_.exprs();
    const ir::ExprId groups = exprs.floordiv(q_.dims[2], op_.constant(share_)),
                     each =
                         exprs.ceildiv(q_.dims[1], op_.constant(grouped_ ? grouped_->queries : 1));
    return exprs
        .range(exprs.mul(exprs.mul(q_.dims[0], each), groups),
               op_.builder().function().symbol_domain(exprs))
        .upper;
  }

  void grouped_grid() {
    ir::ExprPool &exprs = op_.exprs();
    const ir::ExprId pieces =
        exprs.mul(exprs.mul(sequences_, exprs.floordiv(heads_, op_.constant(share_))),
                  exprs.mul(exprs.ceildiv(queries_, op_.constant(grouped_->queries)),
                            op_.constant(grouped_->splits)));
    launch_.variant("", {}, is_split() ? exprs.min(pieces, op_.constant(grouped_->blocks)) : pieces,
                    {32 * grouped_->warps, 1, 1}, grouped_->shared_bytes);
  }

  void grids() {
    ir::ExprPool &exprs = op_.exprs();
    const ir::ExprId rows = exprs.mul(sequences_, queries_);
    ir::ExprId whole =
        exprs.mul(rows, share_ > 1 ? exprs.floordiv(heads_, op_.constant(share_)) : heads_);
    if (split_) {
      whole = exprs.mul(whole, launch_.size("splits", split_->splits));
      launch_.size("chunk", split_->chunk);
    }
    if (tensor_cores_ != TensorCores::no)
      launch_.variant("attention_mma",
                      tensor_cores_ == TensorCores::always
                          ? ir::ExprId()
                          : exprs.make(ir::ExprKind::le, op_.constant(kManyQueries), queries_),
                      exprs.mul(exprs.mul(sequences_, heads_),
                                exprs.ceildiv(queries_, op_.constant(kQueriesAtOnce))),
                      {kMmaThreads, 1, 1}, mma_shared_bytes(widest_));
    if (tensor_cores_ != TensorCores::always)
      launch_.variant("", {}, whole, {256, 1, 1});
  }

  bool is_split() const { return split_ || (grouped_ && grouped_->splits > 1); }
  bool rows_apart() const { return !q_.strides.empty() || !keys_.strides.empty(); }

  OpEmitter &op_;
  const ir::Type q_, keys_;
  const int64_t width_; // elements of a head
  const std::optional<GroupedForm> grouped_;
  const std::optional<Split> split_;
  const int64_t share_;
  const TensorCores tensor_cores_;
  KernelLaunch launch_;
  int64_t widest_ = 0; // elements of a head that registers have room for
  std::vector<ir::ExprId> mask_strides_;
  ir::ExprId sequences_, queries_, heads_;
};

} // namespace

CacheSymbols cache_symbols(KernelTable &table, ir::FunctionBuilder &builder, ir::ValueId cache,
                           ir::ValueId positions, ir::ValueId sequences, SourceLocation location) {
  ir::Module &module = builder.module();
  const ir::SymbolDomain bounds = builder.function().symbol_domain(module.exprs);
  const int64_t most = builder.type_of(positions).dtype == ir::DType::i64 ? INT64_MAX : INT32_MAX;
  auto read = [&](ir::ValueId ids, size_t dimension, std::string_view name) {
    const int64_t size = module.exprs.range(builder.type_of(cache).dims[dimension], bounds).upper;
    return checked_element(table, builder, ids, std::clamp<int64_t>(size - 1, 0, most), name,
                           location);
  };
  return {read(positions, 1, "position"),
          sequences.valid() ? read(sequences, 0, "sequence") : ir::ExprId()};
}

Status emit_attention(OpEmitter &op) { return AttentionLaunch(op).emit(); }

Status emit_cache_write(OpEmitter &op) {
  const ir::Type cache = op.operand_type(0), x = op.operand_type(1), ids = op.operand_type(3);
  const CacheSymbols symbols =
      cache_symbols(op.table(), op.builder(), op.operand(0), op.operand(3),
                    op.has_operand(2) ? op.operand(2) : ir::ValueId(), op.call().location);
  KernelLaunch launch = op.launch("cache_write.cu", "cache_write", ir::info(x.dtype).name);
  launch.floating_type(x.dtype);
  cache_option(launch, cache.dtype, x.dtype);
  launch.option_if(ids.dtype == ir::DType::i64, "-DWIDE_IDS");
  launch.option_if(op.has_operand(2), "-DHAS_SEQUENCES");
  launch.option_if(op.has_operand(4), "-DHAS_LENGTHS");
  launch.inout("cache", op.operand(0));
  launch.input("x", op.operand(1));
  launch.input("positions", op.operand(3));
  launch.checked_symbol("position", ids.dtype, symbols.position);
  if (op.has_operand(2)) {
    launch.input("sequences", op.operand(2));
    launch.checked_symbol("sequence", ids.dtype, symbols.sequence);
  }
  op.input_if_given(launch, "lengths", 4);
  const ir::ExprId sequences = launch.count("given", x.dims[0]);
  const ir::ExprId each = launch.size("each", x.dims[1]);
  launch.count("rows", cache.dims[0]);
  launch.count("capacity", cache.dims[1]);
  const ir::ExprId width = launch.size("width", op.count(cache, 2, 4));
  const ir::ExprId elements = op.exprs().mul(op.exprs().mul(sequences, each), width);
  launch.variant("", {}, op.exprs().ceildiv(elements, op.constant(256)), {256, 1, 1});
  return op.emit(launch);
}

} // namespace cugrt::codegen
