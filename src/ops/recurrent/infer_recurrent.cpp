// Result types of recurrent ops.
#include "ops/table/infer_op.h"

namespace cugrt::ir {

Status Inference::check_state(size_t i, const Dims &wanted) const {
  if (!has(i))
    return {};
  CUGRT_TRY(check_same_dtype(i));
  CUGRT_TRY(check_rank(i, wanted.size()));
  for (size_t d = 0; d < wanted.size(); ++d)
    CUGRT_TRY(check_equal(dims(i)[d], wanted[d], "dimensions of " + number(i) + " and the gates"));
  return {};
}

/// Of weights of bytes: operands 3 and 4, one for each direction or for each of its columns.
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
  CUGRT_TRY(check_state(states, state));
  if (has_cell) {
    CUGRT_TRY(check_state(states + 1, state));
    CUGRT_TRY(check_state(states + 2, {directions, constant(3), hidden}));
  }
  if (op == Op::gru)
    CUGRT_TRY(check_state(3, {directions, hidden}));
  const size_t lengths = has_cell ? states + 3 : op == Op::gru ? 4 : 3;
  if (has(lengths)) {
    CUGRT_TRY(check_ids(lengths));
    CUGRT_TRY(check_rank(lengths, 1));
    CUGRT_TRY(check_equal(dims(lengths)[0], batch, "lengths and sequences"));
  }
  if (*ways == 2 && op_bool(op, attributes, "reverse"))
    return wrong("attribute 'reverse' is of one direction; of two, the second is reversed");
  const DType dtype = type(0).dtype;
  std::vector<TypeId> types = {m.types.tensor(dtype, {steps, directions, batch, hidden}),
                               m.types.tensor(dtype, state)};
  if (has_cell)
    types.push_back(m.types.tensor(dtype, state));
  return types;
}

} // namespace cugrt::ir
