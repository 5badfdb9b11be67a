// Recurrent ops: kernels/recurrent/recurrent.cu.
#include "base/check.h"
#include "base/type/state_scope.h"
#include "ops/emit/op_emitter.h"
#include "ops/table/infer_op.h"
#include "ops/table/op_padding.h"

#include <algorithm>
#include <string>

namespace cugrt::ir {

Status Inference::check_state(size_t i, const Dims &wanted, DType dtype) const {
  if (!has(i))
    return {};
  CUGRT_TRY(check_dtype(i, dtype));
  CUGRT_TRY(check_rank(i, wanted.size()));
  for (size_t d = 0; d < wanted.size(); ++d)
    CUGRT_TRY(check_equal(dims(i)[d], wanted[d], "dimensions of " + number(i) + " and the gates"));
  return {};
}

/// Checks weights of bytes: operands 3 and 4, one for each direction or for each of its columns.
static Status check_weights(const Inference &op, const Dims &weights) {
  CUGRT_TRY(op.check_dtype(0, DType::f32));
  CUGRT_TRY(op.check_byte(1));
  for (size_t i : {2, 3})
    if (op.has(i)) {
      CUGRT_TRY(op.check_dtype(i, i == 2 ? DType::f32 : op.type(1).dtype));
      CUGRT_TRY(op.check_rank(i, op.rank(2)));
      if (op.rank(i) != 1)
        CUGRT_TRY(op.check_rank(i, 2));
      CUGRT_TRY(op.check_equal(op.dims(i)[0], weights[0], "directions"));
      if (op.rank(i) == 2)
        CUGRT_TRY(op.check_equal(op.dims(i)[1], weights[2], "columns of the weights"));
    }
  return {};
}

Types Inference::recurrent() const {
  const bool has_cell = op == Op::lstm || op == Op::lstm_integer;
  const int64_t count = has_cell ? 4 : op == Op::gru ? 3 : 1;
  const size_t states = op == Op::lstm_integer ? 4 : 2; // where what may be absent begins
  CUGRT_TRY(check_float(0));
  CUGRT_TRY(check_rank(0, 4));
  CUGRT_TRY(check_rank(1, 3));
  const ExprId steps = dims(0)[0], batch = dims(0)[1], directions = dims(0)[2];
  const ExprId hidden = dims(1)[1];
  const std::optional<int64_t> size = known(hidden), ways = known(directions);
  if (!ways || *ways < 1 || *ways > 2)
    return wrong("there are one or two directions, not " + text(directions));
  if (!size || *size < 1 || *size > 1024)
    return wrong("the hidden state has a constant number of elements from 1 to 1024, not " +
                 text(hidden));
  const ExprId gates = constant(count * *size);
  CUGRT_TRY(
      check_equal(dims(0)[3], gates, "the gates' elements and what the hidden state asks for"));
  const Dims weights = {directions, hidden, gates};
  for (size_t d = 0; d < 3; ++d)
    CUGRT_TRY(check_equal(dims(1)[d], weights[d], "dimensions of the weights and the gates"));
  CUGRT_TRY(op == Op::lstm_integer ? check_weights(*this, weights) : check_same_dtype(1));
  const Dims state = {directions, batch, hidden};
  const DType dtype = type(0).dtype;
  const bool is_narrow = is_half(dtype);
  // Initial states are f32, or have the gates' dtype.
  const size_t first = has(states) || !has_cell ? states : states + 1;
  const DType first_dtype =
      has(first) && is_narrow && type(first).dtype == DType::f32 ? DType::f32 : dtype;
  CUGRT_TRY(check_state(states, state, first_dtype));
  if (has_cell) {
    CUGRT_TRY(check_state(states + 1, state, first_dtype));
    CUGRT_TRY(check_state(states + 2, {directions, constant(3), hidden}, dtype));
  }
  if (op == Op::gru)
    CUGRT_TRY(check_state(3, {directions, hidden}, dtype));
  const bool wide = op != Op::lstm_integer && op_bool(op, attributes, "wide_states");
  if (wide && !is_narrow)
    return wrong("attribute 'wide_states' is of gates of f16 or bf16");
  const size_t lengths = has_cell ? states + 3 : op == Op::gru ? 4 : 3;
  if (has(lengths)) {
    CUGRT_TRY(check_ids(lengths));
    CUGRT_TRY(check_rank(lengths, 1));
    CUGRT_TRY(check_equal(dims(lengths)[0], batch, "lengths and sequences"));
  }
  if (*ways == 2 && op_bool(op, attributes, "reverse"))
    return wrong("attribute 'reverse' is of one direction; of two, the second is reversed");
  const TypeId last = m.types.tensor(wide ? DType::f32 : dtype, state);
  std::vector<TypeId> types = {m.types.tensor(dtype, {steps, directions, batch, hidden}), last};
  if (has_cell)
    types.push_back(last);
  return types;
}

} // namespace cugrt::ir

namespace cugrt::padding {

/// Gates are [L, B, D, ..], states [D, B, H], lengths [B].
Status OpPadding::recurrent() {
  const size_t batch_of_first = 2;
  for (size_t r = 0; r < results_.size(); ++r) {
    const size_t to = r == 0 ? batch_of_first : 1;
    CUGRT_TRY(carry(0, 1, to, r));
    for (size_t i = 2; i < operands_.size(); ++i)
      if (rank(i) == 1 && has(0) && operands_[i].dims[0] == operands_[0].dims[1])
        CUGRT_TRY(carry(i, 0, to, r));
      else if (rank(i) == 3 && operands_[i].dims[1] == operands_[0].dims[1])
        CUGRT_TRY(carry(i, 1, to, r));
  }
  fills([](size_t, size_t) { return Fill::any; });
  return {};
}

} // namespace cugrt::padding

namespace cugrt::codegen {

namespace {

/// An optional operand of the launch besides gates and weights: a parameter and the option that
/// adds it.
struct Optional {
  size_t operand;
  std::string name, option;
};

std::vector<Optional> optional_operands(ir::Op op) {
  const Optional hidden = {2, "first_hidden", "-DHAS_HIDDEN"};
  if (op == ir::Op::lstm)
    return {hidden,
            {3, "first_cell", "-DHAS_CELL"},
            {4, "peepholes", "-DHAS_PEEPHOLES"},
            {5, "lengths", "-DHAS_LENGTHS"}};
  if (op == ir::Op::lstm_integer)
    return {{3, "zeros", "-DHAS_ZEROS"},
            {4, "first_hidden", "-DHAS_HIDDEN"},
            {5, "first_cell", "-DHAS_CELL"},
            {6, "peepholes", "-DHAS_PEEPHOLES"},
            {7, "lengths", "-DHAS_LENGTHS"}};
  if (op == ir::Op::gru)
    return {hidden, {3, "bias", "-DHAS_BIAS"}, {4, "lengths", "-DHAS_LENGTHS"}};
  CUGRT_CHECK(op == ir::Op::rnn);
  return {hidden, {3, "lengths", "-DHAS_LENGTHS"}};
}

/// How a resident launch is made: kernels/recurrent/resident.cuh.
struct Resident {
  int64_t blocks;    // of both directions
  int64_t sequences; // at most
  int64_t words;     // with its head
};
constexpr int64_t kResidentUnits = 8, kResidentThreads = 32 * kResidentUnits, kResidentHead = 16;
constexpr int64_t kResidentSince = 80;

/// Follows the rule of docs/kernels.md for weights that stay on the chip.
std::optional<Resident> resident_of(OpEmitter &op, const ir::Type &gates, const ir::Type &weights) {
  constexpr int64_t kMostHidden = 768; // beyond, registers do not hold the rows of a warp
  constexpr int64_t kLeastWeightBytes =
      64 << 10;                      // of a direction; fewer are read sooner than exchanged
  constexpr int64_t kBlocksEach = 2; // of a multiprocessor, where registers let them be
  constexpr int64_t kMostSequences = 8, kStateBytes = 40 << 10;
  const Target &target = op.table().choice().target;
  const int64_t directions = *op.exprs().as_constant(weights.dims[0]);
  const int64_t hidden = *op.exprs().as_constant(weights.dims[1]);
  const int64_t columns = *op.exprs().as_constant(weights.dims[2]);
  const int64_t blocks = directions * ((hidden + kResidentUnits - 1) / kResidentUnits);
  if (op.call().op == ir::Op::lstm_integer || gates.dtype == ir::DType::f64 ||
      target.compute_capability < kResidentSince || hidden > kMostHidden ||
      hidden * columns * 4 <= kLeastWeightBytes || blocks > kBlocksEach * target.multiprocessors ||
      (op.builder().in_nested_block() && !target.cooperative_bodies))
    return std::nullopt;
  const int64_t pitch = (hidden + 127) / 128 * 128;
  const ir::Interval batch =
      op.exprs().range(gates.dims[1], op.builder().function().symbol_domain(op.exprs()));
  const int64_t sequences =
      std::min({kMostSequences, kStateBytes / (2 * 4 * pitch), std::max<int64_t>(batch.upper, 1)});
  if (batch.lower > sequences)
    return std::nullopt;
  return Resident{blocks, sequences, kResidentHead + directions * 2 * sequences * pitch};
}

/// The words by which blocks wait for each other, and a symbol of theirs that says where they gave
/// up.
void add_words(OpEmitter &op, KernelLaunch &launch, const Resident &resident) {
  ir::FunctionBuilder &builder = op.builder();
  ir::TypePool &types = builder.module().types;
  const ir::ExprId count = op.constant(resident.words);
  const ir::ValueId storage =
      builder.alloc_storage("state", ir::kStateScope, op.constant(resident.words * 8));
  const ir::ValueId words =
      builder.alloc_tensor("words", storage, op.constant(0),
                           types.tensor(ir::DType::i64, {count}, types.scope(ir::kStateScope)));
  launch.inout("words", words);
  launch.checked_symbol(
      "turn", ir::DType::i64,
      checked_element(op.table(), builder, words, INT64_MAX, "turn", op.call().location));
}

} // namespace

Status emit_recurrent(OpEmitter &op) {
  const ir::Op which = op.call().op;
  const ir::Type gates = op.operand_type(0), weights = op.operand_type(1);
  const int64_t hidden = *op.exprs().as_constant(weights.dims[1]);
  const std::vector<Optional> optional = optional_operands(which);
  const size_t lengths = optional.back().operand;

  const bool of_bytes = which == ir::Op::lstm_integer, has_cell = of_bytes || which == ir::Op::lstm;
  KernelLaunch launch =
      op.floating_launch("recurrent.cu", has_cell ? "lstm" : std::string(op.name()), op.name());
  launch.option(std::string(kRegistersOption) + std::to_string((hidden + 31) / 32 * 32));
  launch.option_if(has_cell, "-DCELL_LSTM");
  if (of_bytes) {
    const bool is_unsigned = weights.dtype == ir::DType::u8;
    launch.option(is_unsigned ? "-DWEIGHTS=u8" : "-DWEIGHTS=i8");
    launch.option_if(op.operand_type(2).dims.size() == 2, "-DEACH_COLUMN");
  }
  launch.option_if(which == ir::Op::gru, "-DCELL_GRU");
  if (which == ir::Op::rnn)
    launch.option("-DACTIVATION=" + ir::op_string(which, op.call().attributes, "activation"));
  launch.option_if(op.flag("reverse"), "-DREVERSE");
  for (const Optional &o : optional)
    if (op.has_operand(o.operand))
      launch.option(o.option);
  const size_t first = which == ir::Op::lstm && !op.has_operand(2) ? 3 : 2;
  launch.option_if(op.has_operand(first) && op.operand_type(first).dtype != gates.dtype,
                   "-DWIDE_FIRST");
  launch.option_if(!of_bytes && op.flag("wide_states"), "-DWIDE_LAST");
  if (op.has_operand(lengths) && op.operand_type(lengths).dtype == ir::DType::i64)
    launch.option("-DWIDE_LENGTHS");
  launch.input("gates", op.operand(0));
  launch.input("recurrent", op.operand(1));
  if (of_bytes)
    launch.input("scales", op.operand(2));
  for (const Optional &o : optional)
    if (op.has_operand(o.operand))
      launch.input(o.name, op.operand(o.operand));
  const std::optional<Resident> resident = resident_of(op, gates, weights);
  if (resident) {
    launch.option("-DRESIDENT");
    launch.option("-DSEQUENCES=" + std::to_string(resident->sequences));
    add_words(op, launch, *resident);
  }
  launch.output("y", op.result(0));
  launch.output("last_hidden", op.result(1));
  if (has_cell)
    launch.output("last_cell", op.result(2));
  launch.count("steps", gates.dims[0]);
  const ir::ExprId batch = launch.count("batch", gates.dims[1]);
  const ir::ExprId directions = launch.size("directions", gates.dims[2]);
  launch.size("hidden", weights.dims[1]);
  const int64_t columns = *op.exprs().as_constant(gates.dims[3]);
  const int64_t threads = std::min<int64_t>((columns + 31) / 32 * 32, 1024);
  if (resident) {
    const std::string entry = has_cell ? "lstm" : std::string(op.name());
    launch.variant(entry + "_resident",
                   op.exprs().make(ir::ExprKind::le, batch, op.constant(resident->sequences)),
                   op.constant(resident->blocks), {kResidentThreads, 1, 1});
    launch.cooperative();
  }
  launch.variant("", {}, op.exprs().mul(batch, directions), {threads, 1, 1});
  return op.emit(launch);
}

} // namespace cugrt::codegen
