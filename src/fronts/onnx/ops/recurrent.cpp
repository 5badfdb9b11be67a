// LSTM, GRU and RNN whose number of steps is known: unrolled, one product for the inputs of all
// steps and one a step for the hidden state.
#include "fronts/onnx/call.h"

#include <algorithm>
#include <optional>

namespace cugrt::onnx {

namespace {

class Recurrent {
public:
  explicit Recurrent(Call &c) : c(c) {}
  void run();

private:
  void read_activations();
  V activate(size_t number, V x);
  V part(V x, size_t axis, int64_t index) {
    return c.slice(x, axis, c.w.exprs().mul(c.constant(index), hidden_), hidden_);
  }
  V limited(V x) {
    return clip_ > 0 ? c.op(Op::clip, {x}, {attr("min", -clip_), attr("max", clip_)}) : x;
  }
  V peephole(V gate, V state, int64_t index);
  void lstm(V x, V &h, V &cell);
  void gru(V x, V &h);
  void direction(size_t d);
  bool one_launch();
  V initial(size_t input);
  V of_direction(V x, size_t d, Dims dims);

  Call &c;
  E hidden_, batch_;
  bool batch_first_ = false; // of inputs, states and results
  int64_t steps_ = 0, gates_ = 1;
  double clip_ = 0;
  size_t here_ = 0, directions_ = 1; // the direction, of so many
  std::vector<Activation> activations_;
  V x_, w_, r_, bias_x_, bias_h_, peepholes_, lengths_, first_h_, first_cell_;
  std::vector<V> all_h_, last_h_, last_c_;
  std::vector<std::vector<V>> outputs_; // by direction, by time
};

/// Reads each activation's name and its parameters: the next of their lists, or ONNX's own.
void Recurrent::read_activations() {
  const std::string_view op = c.node.op;
  const std::vector<std::string_view> own =
      op == "LSTM"  ? std::vector<std::string_view>{"Sigmoid", "Tanh", "Tanh"}
      : op == "GRU" ? std::vector<std::string_view>{"Sigmoid", "Tanh"}
                    : std::vector<std::string_view>{"Tanh"};
  const AttributeView *names = c.attribute("activations"),
                      *alphas = c.attribute("activation_alpha"),
                      *betas = c.attribute("activation_beta");
  size_t next_alpha = 0, next_beta = 0;
  auto next = [](const AttributeView *list, size_t &at, std::optional<double> otherwise) {
    return list && at < list->numbers.size() ? std::optional<double>(list->numbers[at++])
                                             : otherwise;
  };
  for (size_t i = 0; i < directions_ * own.size(); ++i) {
    const std::string_view name =
        names && i < names->texts.size() ? names->texts[i] : own[i % own.size()];
    const Activation *known = find_activation(name);
    if (!known)
      return c.unsupported("activation " + std::string(name));
    Activation made = *known;
    if (made.parameters > 0)
      made.alpha = next(alphas, next_alpha, made.alpha);
    if (made.parameters > 1)
      made.beta = next(betas, next_beta, made.beta);
    if ((made.parameters > 0 && !made.alpha) || (made.parameters > 1 && !made.beta))
      return c.w.fail(Code::parse_error,
                      "activation " + std::string(name) + " without its parameters");
    activations_.push_back(made);
  }
}

/// The activation of that number: of a direction as many as the op has.
V Recurrent::activate(size_t number, V x) {
  const size_t each = activations_.size() / directions_;
  return activated(c, activations_.at(here_ * each + number), x);
}

/// States [directions, batch, hidden] that are given, else invalid.
V Recurrent::initial(size_t input) {
  V states = c.value(input);
  return states.valid() && batch_first_ ? c.transpose(states, {1, 0, 2}) : states;
}

V Recurrent::of_direction(V x, size_t d, Dims dims) {
  if (!x.valid())
    return {};
  return c.reshape(c.slice(x, 0, c.constant(int64_t(d)), c.constant(1)), dims);
}

V Recurrent::peephole(V gate, V state, int64_t index) {
  if (!peepholes_.valid())
    return gate;
  return c.binary(Op::add, gate, c.binary(Op::mul, state, part(peepholes_, 0, index)));
}

void Recurrent::lstm(V x, V &h, V &cell) { // gates in order i, o, f, c
  V sum = c.binary(Op::add, x, c.matmul(h, r_));
  V i = activate(0, limited(peephole(part(sum, 1, 0), cell, 0)));
  V f = c.integer("input_forget", 0) ? c.binary(Op::sub, c.like(i, 1), i)
                                     : activate(0, limited(peephole(part(sum, 1, 2), cell, 2)));
  V next = c.binary(Op::add, c.binary(Op::mul, f, cell),
                    c.binary(Op::mul, i, activate(1, limited(part(sum, 1, 3)))));
  V o = activate(0, limited(peephole(part(sum, 1, 1), next, 1)));
  cell = next;
  h = c.binary(Op::mul, o, activate(2, next));
}

void Recurrent::gru(V x, V &h) { // gates in order z, r, h
  ir::ExprPool &exprs = c.w.exprs();
  const E two = exprs.mul(hidden_, c.constant(2));
  if (c.integer("linear_before_reset", 0)) {
    V of_h = c.matmul(h, r_);
    if (bias_h_.valid())
      of_h = c.binary(Op::add, of_h, bias_h_);
    V z = activate(0, limited(c.binary(Op::add, part(x, 1, 0), part(of_h, 1, 0))));
    V r = activate(0, limited(c.binary(Op::add, part(x, 1, 1), part(of_h, 1, 1))));
    V n = activate(
        1, limited(c.binary(Op::add, part(x, 1, 2), c.binary(Op::mul, r, part(of_h, 1, 2)))));
    h = c.binary(Op::add, c.binary(Op::mul, c.binary(Op::sub, c.like(z, 1), z), n),
                 c.binary(Op::mul, z, h));
    return;
  }
  V zr = c.binary(Op::add, c.slice(x, 1, c.constant(0), two),
                  c.matmul(h, c.slice(r_, 1, c.constant(0), two)));
  V z = activate(0, limited(part(zr, 1, 0))), r = activate(0, limited(part(zr, 1, 1)));
  V of_h = c.matmul(c.binary(Op::mul, r, h), part(r_, 1, 2));
  V n = activate(1, limited(c.binary(Op::add, part(x, 1, 2), of_h)));
  h = c.binary(Op::add, c.binary(Op::mul, c.binary(Op::sub, c.like(z, 1), z), n),
               c.binary(Op::mul, z, h));
}

void Recurrent::direction(size_t d) {
  here_ = d;
  const bool backwards = c.text("direction", "forward") == "reverse" || d == 1;
  ir::ExprPool &exprs = c.w.exprs();
  const E wide = exprs.mul(hidden_, c.constant(gates_));
  const Dims weight = c.dims(c.value(1));
  const DType dtype = c.dtype(x_);
  w_ = c.transpose(of_direction(c.value(1), d, {wide, weight.back()}), {1, 0});
  r_ = c.transpose(of_direction(c.value(2), d, {wide, hidden_}), {1, 0});
  bias_x_ = bias_h_ = {};
  if (c.has(3)) {
    V both = of_direction(c.value(3), d, {exprs.mul(wide, c.constant(2))});
    bias_x_ = c.slice(both, 0, c.constant(0), wide), bias_h_ = c.slice(both, 0, wide, wide);
    // But for GRU's reset of the linear part both biases are added at once.
    if (!(c.node.op == "GRU" && c.integer("linear_before_reset", 0)))
      bias_x_ = c.binary(Op::add, bias_x_, bias_h_);
  }
  peepholes_ =
      c.node.op == "LSTM" ? of_direction(c.value(7), d, {exprs.mul(hidden_, c.constant(3))}) : V();
  const Dims state = {batch_, hidden_};
  V zeros = c.broadcast(c.scalar(dtype, 0), state);
  V h = first_h_.valid() ? of_direction(first_h_, d, state) : zeros;
  V cell = first_cell_.valid() ? of_direction(first_cell_, d, state) : zeros;
  V inputs = c.matmul(x_, w_); // [steps, batch, gates * hidden]
  if (bias_x_.valid())
    inputs = c.binary(Op::add, inputs, bias_x_);
  std::vector<V> outputs(static_cast<size_t>(steps_));
  for (int64_t i = 0; i < steps_; ++i) {
    const int64_t t = backwards ? steps_ - 1 - i : i;
    V x = c.reshape(c.slice(inputs, 0, c.constant(t), c.constant(1)), {batch_, wide});
    V next_h = h, next_c = cell;
    if (c.node.op == "LSTM")
      lstm(x, next_h, next_c);
    else if (c.node.op == "GRU")
      gru(x, next_h);
    else
      next_h = activate(0, limited(c.binary(Op::add, x, c.matmul(h, r_))));
    V out = next_h;
    if (lengths_.valid()) { // beyond a sequence's end: outputs are 0, states stay
      V runs = c.binary(Op::greater, lengths_, c.scalar(c.dtype(lengths_), double(t)));
      runs = c.reshape(runs, {batch_, c.constant(1)});
      out = c.op(Op::where, {runs, next_h, zeros});
      next_h = c.op(Op::where, {runs, next_h, h});
      next_c = c.op(Op::where, {runs, next_c, cell});
    }
    h = next_h, cell = next_c;
    outputs[size_t(t)] = out;
  }
  outputs_.push_back(std::move(outputs));
  last_h_.push_back(h);
  last_c_.push_back(cell);
}

/// The whole sequence by the device's op, where there is one and it has the activations.
bool Recurrent::one_launch() {
  const bool is_lstm = c.node.op == "LSTM", is_gru = c.node.op == "GRU";
  const std::string_view name = is_lstm ? "lstm" : is_gru ? "gru" : "rnn";
  std::string activation = "tanh";
  if (!ir::op_from_name(name) || clip_ > 0 || c.integer("input_forget", 0))
    return false;
  if (const AttributeView *given = c.attribute("activations"))
    for (size_t i = 0; i < given->texts.size(); ++i) {
      const Activation *known = find_activation(given->texts[i]);
      const std::string_view one = known ? known->name : "";
      if (is_lstm || is_gru) {
        if (one != (i % (is_lstm ? 3 : 2) == 0 ? "Sigmoid" : "Tanh"))
          return false;
      } else if (known != find_activation(given->texts[0]) ||
                 (one != "Tanh" && one != "Relu" && one != "Sigmoid")) {
        return false;
      } else {
        activation = one == "Tanh" ? "tanh" : one == "Relu" ? "relu" : "sigmoid";
      }
    }
  c.ignore({"activation_alpha", "activation_beta"}); // none of these activations has any
  const Dims w = c.dims(c.value(1));
  const E directions = w[0], wide = w[1];
  ir::ExprPool &exprs = c.w.exprs();
  const E all = exprs.mul(directions, wide);
  V gates = c.matmul(x_, c.transpose(c.reshape(c.value(1), {all, w[2]}), {1, 0}));
  const bool behind = is_gru && c.integer("linear_before_reset", 0);
  const Dims state = {directions, hidden_};
  V candidate = behind ? c.broadcast(c.scalar(c.dtype(x_), 0), state) : V();
  if (c.has(3)) {
    V of_x = c.slice(c.value(3), 1, c.constant(0), wide), of_h = c.slice(c.value(3), 1, wide, wide);
    if (behind) {
      const E two = exprs.mul(hidden_, c.constant(2));
      V zeros = candidate;
      candidate = c.slice(of_h, 1, two, hidden_);
      of_h = c.concat({c.slice(of_h, 1, c.constant(0), two), zeros}, 1);
    }
    gates = c.binary(Op::add, gates, c.reshape(c.binary(Op::add, of_x, of_h), {all}));
  }
  const E steps = c.dims(x_)[0];
  gates = c.reshape(gates, {steps, batch_, directions, wide});
  auto states = [&](size_t i) { return c.w.match(initial(i), {directions, batch_, hidden_}); };
  V weights = c.transpose(c.value(2), {0, 2, 1});
  std::vector<V> operands = {gates, weights, states(5)};
  if (is_lstm) {
    operands.push_back(states(6));
    operands.push_back(c.has(7) ? c.reshape(c.value(7), {directions, c.constant(3), hidden_})
                                : V());
  } else if (is_gru) {
    operands.push_back(candidate);
  }
  operands.push_back(lengths_);
  std::vector<ir::Attribute> attributes = {
      attr("reverse", c.text("direction", "forward") == "reverse")};
  if (!is_lstm && !is_gru)
    attributes.push_back(attr("activation", activation));
  const std::vector<V> made = c.ops(name, operands, attributes);
  for (size_t i = 0; i < (is_lstm ? 3 : 2); ++i)
    if (c.wants(i))
      c.result(batch_first_ ? c.transpose(made[i], i ? Ints{1, 0, 2} : Ints{2, 0, 1, 3}) : made[i],
               i);
  return true;
}

void Recurrent::run() {
  x_ = c.value(0);
  if (c.rank(x_) != 3)
    return;
  batch_first_ = c.integer("layout", 0) != 0;
  if (batch_first_)
    x_ = c.transpose(x_, {1, 0, 2});
  gates_ = c.node.op == "LSTM" ? 4 : c.node.op == "GRU" ? 3 : 1;
  clip_ = c.number("clip", 0);
  const Dims d = c.dims(x_), recurrence = c.dims(c.value(2));
  if (recurrence.size() != 3)
    return c.unsupported("weights that have not three dimensions");
  c.expect_dims("hidden_size", c.value(2), 2);
  batch_ = d[1], hidden_ = recurrence[2];
  lengths_ = c.has(4) ? c.w.match(c.value(4), {batch_}) : V();
  if (one_launch())
    return;
  steps_ = c.number_of(d[0], "the number of steps");
  if (steps_ > kMostSteps)
    return c.unsupported("more than " + std::to_string(kMostSteps) + " steps");
  directions_ = c.text("direction", "forward") == "bidirectional" ? 2 : 1;
  read_activations();
  first_h_ = initial(5), first_cell_ = c.node.op == "LSTM" ? initial(6) : V();
  for (size_t i = 0; i < directions_; ++i)
    direction(i);
  const Dims one = {c.constant(1), c.constant(1), batch_, hidden_};
  if (c.wants(0)) { // [steps, directions, batch, hidden]
    std::vector<V> times;
    for (size_t t = 0; t < size_t(steps_); ++t) {
      std::vector<V> both;
      for (size_t i = 0; i < directions_; ++i)
        both.push_back(c.reshape(outputs_[i][t], one));
      times.push_back(c.concat(both, 1));
    }
    V y = times.empty() ? V() : c.concat(times, 0);
    if (!y.valid())
      return c.unsupported("no steps");
    c.result(batch_first_ ? c.transpose(y, {2, 0, 1, 3}) : y, 0);
  }
  auto last = [&](const std::vector<V> &states, size_t i) {
    std::vector<V> parts;
    for (V v : states)
      parts.push_back(c.reshape(v, {c.constant(1), batch_, hidden_}));
    V y = c.concat(parts, 0);
    c.result(batch_first_ ? c.transpose(y, {1, 0, 2}) : y, i);
  };
  if (c.wants(1))
    last(last_h_, 1);
  if (c.wants(2))
    last(last_c_, 2);
}

void recurrent(Call &c) { Recurrent(c).run(); }

} // namespace

void add_recurrent(HandlerTable &table) { table["LSTM"] = table["GRU"] = table["RNN"] = recurrent; }

} // namespace cugrt::onnx
