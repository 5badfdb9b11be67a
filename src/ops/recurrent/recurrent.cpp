// Recurrent ops: kernels/recurrent/recurrent.cu.
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
  switch (op) {
  case ir::Op::lstm:
    return {hidden,
            {3, "first_cell", "-DHAS_CELL"},
            {4, "peepholes", "-DHAS_PEEPHOLES"},
            {5, "lengths", "-DHAS_LENGTHS"}};
  case ir::Op::lstm_integer:
    return {{3, "zeros", "-DHAS_ZEROS"},
            {4, "first_hidden", "-DHAS_HIDDEN"},
            {5, "first_cell", "-DHAS_CELL"},
            {6, "peepholes", "-DHAS_PEEPHOLES"},
            {7, "lengths", "-DHAS_LENGTHS"}};
  case ir::Op::gru:
    return {hidden, {3, "bias", "-DHAS_BIAS"}, {4, "lengths", "-DHAS_LENGTHS"}};
  default:
    return {hidden, {3, "lengths", "-DHAS_LENGTHS"}};
  }
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
  launch.variant("", {}, op.exprs().mul(batch, directions), {threads, 1, 1});
  launch.emit(op.call().location);
  return {};
}

} // namespace cugrt::codegen
