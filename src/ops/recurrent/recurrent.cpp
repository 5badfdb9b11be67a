// Recurrent ops: kernels/recurrent/recurrent.cu.
#include "base/check.h"
#include "base/type/state_scope.h"
#include "ops/emit/op_emitter.h"

#include <algorithm>
#include <string>

namespace cugrt::codegen {

namespace {

/// What the launch takes besides gates and weights, where it is there: a parameter and the option
/// that asks for it.
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

/// Where docs/kernels.md says that the weights stay on the chip.
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
      op.builder().in_nested_block())
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
  if (has_cell)
    launch.option("-DCELL_LSTM");
  if (of_bytes) {
    const bool is_unsigned = weights.dtype == ir::DType::u8;
    launch.option(is_unsigned ? "-DWEIGHTS=u8" : "-DWEIGHTS=i8");
    if (op.operand_type(2).dims.size() == 2)
      launch.option("-DEACH_COLUMN");
  }
  if (which == ir::Op::gru)
    launch.option("-DCELL_GRU");
  if (which == ir::Op::rnn)
    launch.option("-DACTIVATION=" + ir::op_string(which, op.call().attributes, "activation"));
  if (op.flag("reverse"))
    launch.option("-DREVERSE");
  for (const Optional &o : optional)
    if (op.has_operand(o.operand))
      launch.option(o.option);
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
  launch.emit(op.call().location);
  return {};
}

} // namespace cugrt::codegen
