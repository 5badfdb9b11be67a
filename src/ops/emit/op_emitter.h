// Emits launches of the library's kernels for tensor-level ops.
//
// Each rule has emit_NAME in the file of its ops: its choice among kernels, the kernels' parameters
// with their access, and their launch rules stand there once. Operands and results are contiguous
// tensors with known shapes; whoever calls has allocated the results.
#pragma once

#include "base/status.h"
#include "ops/emit/index_space.h"
#include "ops/emit/kernel_launch.h"
#include "ops/table/ops.h"

namespace cugrt::codegen {

struct OpCall {
  ir::Op op;
  std::vector<ir::ValueId> operands; // invalid ones are absent
  std::vector<ir::ValueId> results;
  std::span<const ir::Attribute> attributes;
  SourceLocation location;
  const Fusion *fusion = nullptr; // other ops in its kernel; matmul, conv2d, pools, softmax, norms,
                                  // reductions
};

/// Appends the launches that compute `call` to the function. Code::unsupported, naming op and
/// dtype, when there is no kernel for it; nothing has been appended then.
Status emit_op(KernelTable &table, ir::FunctionBuilder &builder, const OpCall &call);

/// Whether products of `dtype` can take the variant that option codegen.matmul names; `tf32`: those
/// of f32 may round their factors.
bool takes_matmul_variant(std::string_view variant, ir::DType dtype, bool tf32);

/// mma.sync takes f16 and bf16 from there on; before, the tiles of matmul.cu are summed without.
inline constexpr int64_t kTensorCoresSince = 80;
inline bool has_tensor_cores(ir::DType dtype, const Target &target) {
  return ir::is_half(dtype) && target.compute_capability >= kTensorCoresSince;
}
/// Whether products of the dtype are to be computed on tensor cores by rounding their factors.
inline bool computes_in_tf32(ir::DType dtype, const KernelChoice &choice) {
  return choice.tf32 && dtype == ir::DType::f32 &&
         choice.target.compute_capability >= kTensorCoresSince;
}
/// STAGES of kernels/shared/byte_tile.cuh: of the largest tile two blocks have them beside each
/// other.
inline int64_t byte_stages(const Target &target) {
  return shared_bytes_of_multiprocessor(target) < 160 << 10 ? 3 : 4;
}
/// Bytes that they take for a tile of so many rows and columns.
inline int64_t byte_stage_bytes(const Target &target, int64_t rows, int64_t columns) {
  constexpr int64_t kDepth = 64;
  return byte_stages(target) * (rows + columns) * kDepth;
}
/// kFormat of the kernels: a name of kernels/linear/block_formats.cuh.
std::string block_format(ir::DType dtype);
/// Whether there is a kernel for the product of `x` with blocks of `w` that are repacked.
bool takes_repacked_blocks(ir::DType x, ir::DType w, const Target &target);

/// kLow of kernels/linear/repacked.cuh: the bits of a quant that lie together with those of its
/// row.
int64_t repacked_low_bits(ir::DType dtype);
/// SLICES of kernels/linear/slices.cuh: the warps that share a column of k elements in blocks as
/// they are stored. Sums of the same depth are in one order so, whichever kernel takes them.
int64_t slices_of_blocks(int64_t depth);
/// The rounds of 128 elements that each of them has.
int64_t rounds_of_blocks(int64_t depth);
/// Most of such rounds that registers hold while they are on their way.
inline constexpr int64_t kMostRoundsAhead = 6;

/// An expression that is 1 if `value` is at most `bound`, else 0.
inline ir::ExprId at_most(ir::ExprPool &exprs, ir::ExprId value, int64_t bound) {
  return exprs.make(ir::ExprKind::le, value, exprs.constant(bound));
}

/// The option of kernels that read positions: whether they are of 64 bits.
void option_for_ids(KernelLaunch &launch, ir::DType ids);

/// Appends a launch that copies `source`, with whatever strides, to the contiguous `target` of the
/// same dimensions and dtype. Code::unsupported for sub-byte and block dtypes.
Status emit_gather(KernelTable &table, ir::FunctionBuilder &builder, ir::ValueId source,
                   ir::ValueId target, SourceLocation location);

/// Appends a launch that gathers y[i] = x[base + offset of i by `walk`], in the least form: a tiled
/// transposition, or any permutation.
void emit_permutation(KernelTable &table, ir::FunctionBuilder &builder, ir::ValueId x,
                      ir::ValueId y, ir::DType dtype, std::vector<Dimension> walk,
                      SourceLocation location, ir::ExprId base = {});

/// Appends a launch that copies contiguous `source` to contiguous `target`, which differs along
/// `axis` only: it is longer by zeros, or cut shorter. Only `space` elements size the launch. The
/// dtype has whole bytes.
void emit_resize(KernelTable &table, ir::FunctionBuilder &builder, ir::ValueId source,
                 ir::ValueId target, size_t axis, ir::ExprId space, SourceLocation location);

/// Context of the families' functions: one call, and the place of its launches.
class OpEmitter {
public:
  OpEmitter(KernelTable &table, ir::FunctionBuilder &builder, const OpCall &call)
      : table_(table), builder_(builder), call_(call) {}

  std::string_view name() const { return ir::op_info(call_.op).name; }
  const OpCall &call() const { return call_; }
  KernelTable &table() { return table_; }
  ir::FunctionBuilder &builder() { return builder_; }
  ir::ExprPool &exprs() { return builder_.module().exprs; }
  ir::ExprId constant(int64_t value) { return exprs().constant(value); }
  /// Product of a tensor's dimensions [begin, end).
  ir::ExprId count(const ir::Type &type, size_t begin = 0, size_t end = SIZE_MAX);

  /// Whether `value` is known to be a multiple of `divisor`, for all symbols.
  bool divides(int64_t divisor, ir::ExprId value) {
    const ir::ExprId rest = exprs().make(ir::ExprKind::mod, value, constant(divisor));
    return exprs().as_constant(rest) == 0;
  }

  /// Whether the operand is known to begin at a multiple of 16 bytes: the function allocates it, or
  /// its callers say so.
  bool begins_aligned(size_t i);

  bool has_operand(size_t i) const {
    return i < call_.operands.size() && call_.operands[i].valid();
  }
  ir::ValueId operand(size_t i) const { return call_.operands[i]; }
  ir::ValueId result(size_t i = 0) const { return call_.results[i]; }
  /// A copy, since interning further types may move the pool's.
  ir::Type type(ir::ValueId value) const { return builder_.type_of(value); }
  /// The operand's type for the op itself, whatever is fused with it.
  ir::Type operand_type(size_t i) const;
  ir::Type result_type(size_t i = 0) const;

  /// Attributes: as given, else the op's default.
  int64_t integer(std::string_view name) const {
    return ir::op_integer(call_.op, call_.attributes, name);
  }
  std::vector<int64_t> integers(std::string_view name) const {
    return ir::op_integers(call_.op, call_.attributes, name);
  }
  double number(std::string_view name) const {
    return ir::op_float(call_.op, call_.attributes, name);
  }
  bool flag(std::string_view name) const { return ir::op_bool(call_.op, call_.attributes, name); }
  /// A word's number in the op's row, by which kernels know it.
  size_t word(std::string_view name) const { return ir::op_word(call_.op, call_.attributes, name); }
  /// An axis attribute, counted from the front.
  size_t axis(size_t rank) const;
  /// For transpose: the operand's axis of each of the result's.
  std::vector<size_t> permutation(size_t rank) const;

  /// The error for a dtype or form that no kernel takes: "conv2d of i32: `what`".
  Status unsupported(ir::DType dtype, std::string_view what) const;
  /// Error unless operand and result dtypes are the same one of f16, bf16, f32 and f64.
  Status require_floating(size_t count = SIZE_MAX) const;
  /// Error unless elements of `dtype` are 1, 2, 4 or 8 whole bytes.
  Status require_whole_bytes(ir::DType dtype) const;

  /// A launch to be filled in and emitted; its kernel is named `entry`, or `entry`_`suffix`.
  KernelLaunch launch(std::string_view source, std::string entry, std::string_view suffix = "");
  /// The same, with the option for an operand's dtype; named `name`_`dtype`, by default by the
  /// entry.
  KernelLaunch floating_launch(std::string_view source, std::string entry,
                               std::string_view name = "", size_t of_operand = 0);
  /// The same with the option for `dtype`, of a kernel over any numbers.
  KernelLaunch number_launch(std::string_view source, std::string entry, ir::DType dtype);
  /// A launch of a kernel that moves elements of `dtype`; named `name`, by default the entry, and
  /// their bits.
  KernelLaunch moving_launch(std::string_view source, std::string entry, ir::DType dtype,
                             std::string_view name = "");
  /// Operand i, where it is given.
  void input_if_given(KernelLaunch &launch, std::string name, size_t i) const {
    if (has_operand(i))
      launch.input(std::move(name), operand(i));
  }
  /// Likewise a zero point, or one for each row, column or channel: then NAME_step is 1.
  void zero_points(KernelLaunch &launch, const std::string &name, size_t i);
  /// Appends the launch at the op's place.
  Status emit(KernelLaunch &launch) {
    launch.emit(call_.location);
    return {};
  }

private:
  KernelTable &table_;
  ir::FunctionBuilder &builder_;
  const OpCall &call_;
};

/// Appends a launch that copies the part of contiguous `whole` from element `begin` of an axis on.
void emit_section(OpEmitter &op, ir::ValueId whole, ir::ValueId part, size_t axis,
                  ir::ExprId begin);

/// Appends a launch that copies a contiguous tensor to another of the same type.
void emit_copy(OpEmitter &op, ir::ValueId source, ir::ValueId target);

/// Gives a launch `count` counters of u32 as `counters`: bounded state of the session, which
/// launches of a block share. They are 0 between launches: the thread that counts last resets
/// them.
void add_counters(OpEmitter &op, KernelLaunch &launch, ir::ExprId count);

/// Gives a launch what blocks that share out tiles of its result need, as `parts` and `counters`:
/// `sums` of `dtype`, 4 bytes each, a tile, those of all its blocks, and how many blocks have
/// ended.
void add_shared_tiles(OpEmitter &op, KernelLaunch &launch, ir::ExprId tiles, int64_t sums,
                      ir::DType dtype = ir::DType::f32);

/// Symbols with which cache_write reports positions, and sequences if these are valid, outside of
/// the cache.
struct CacheSymbols {
  ir::ExprId position, sequence;
};
CacheSymbols cache_symbols(KernelTable &table, ir::FunctionBuilder &builder, ir::ValueId cache,
                           ir::ValueId positions, ir::ValueId sequences, SourceLocation location);

/// Parameters PREFIX0.. of the launch, as many as `values`.
void each_size(KernelLaunch &launch, std::string_view prefix, std::span<const ir::ExprId> values);

/// A convolution of 1 x 1 without strides, padding and groups, as a product of matrices.
Status emit_pointwise_convolution(OpEmitter &op);
/// Whether images of the dtype are to have channels last: tensor cores multiply it.
bool is_laid_out(ir::DType dtype, const KernelChoice &choice);
/// The channels of x with which a conv2d or conv3d of these NC.. and OI.. operands has a form of
/// its own with channels last, on tensor cores or, where each channel is a group, of eight channels
/// a thread: x's own, or more, which are zeros in x and w; none where it has no form. `is_copied`:
/// x is copied anyway, so that zeros cost little.
std::optional<int64_t> channels_laid_out(const ir::Module &module, const ir::Type &x,
                                         const ir::Type &w,
                                         std::span<const ir::Attribute> attributes,
                                         const KernelChoice &choice, bool is_copied);
/// Whether a conv_integer of such OIHW weights has a form on tensor cores with channels last.
bool takes_bytes_last(const ir::Module &module, const ir::Type &w, int64_t groups,
                      const Target &target);
/// A conv2d or conv3d with channels last.
Status emit_convolution_last(OpEmitter &op);

// The rules, by the names in rows, each in the file of its ops.
#define rule(name) Status emit_##name(OpEmitter &op);
#define same(name)
#define CUGRT_OP(name, operands, results, RULE, ...) RULE
#include "ops/table/ops.def"

} // namespace cugrt::codegen
