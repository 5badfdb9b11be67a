// Reference arithmetic: recurrent networks, step by step, from ONNX's equations.
#include "support/reference_call.h"

#include <algorithm>
#include <cmath>

namespace cugrt::test {

namespace {

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// One direction of one sequence.
struct Line {
  const Call &call;
  int64_t direction, sequence, hidden, gates; // gates: elements of a step
  std::vector<double> h, c{};

  double x(int64_t t, int64_t i) const {
    return call.operand(0)
        .values[size_t(index_of({t, sequence, direction, i}, call.operand(0).dims))];
  }
  bool is_integer() const { return call.op == Op::lstm_integer; }
  size_t states() const { return is_integer() ? 4 : 2; }
  // A scale or zero point of column i.
  double of_column(size_t operand, int64_t i, double otherwise) const {
    const Array *given = call.optional(operand);
    const int64_t at = given && given->dims.size() == 2 ? direction * gates + i : direction;
    return given ? given->values[size_t(at)] : otherwise;
  }
  // The state in whole numbers, as a dynamic quantisation to u8 makes it, times the weights.
  double quantized(const std::vector<double> &state, int64_t i) const {
    double low = 0, high = 0, sum = 0;
    for (double value : state) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
    const double scale = low == high ? 1 : (high - low) / 255;
    const double zero = std::nearbyint(std::min(255.0, std::max(0.0, -low / scale)));
    for (int64_t k = 0; k < hidden; ++k) {
      const double level = std::nearbyint(state[size_t(k)] / scale) + zero;
      sum += (std::min(255.0, std::max(0.0, level)) - zero) *
             (call.operand(1).values[size_t(index_of({direction, k, i}, call.operand(1).dims))] -
              of_column(3, i, 0));
    }
    return sum * scale * of_column(2, i, 1);
  }
  // Column i of what the weights make of a state.
  double weighted(const std::vector<double> &state, int64_t i) const {
    if (is_integer())
      return quantized(state, i);
    double sum = 0;
    for (int64_t k = 0; k < hidden; ++k)
      sum += state[size_t(k)] *
             call.operand(1).values[size_t(index_of({direction, k, i}, call.operand(1).dims))];
    return sum;
  }
  double peephole(int64_t gate, int64_t j) const {
    const Array *p = call.optional(states() + 2);
    return p ? p->values[size_t(index_of({direction, gate, j}, p->dims))] : 0;
  }

  void lstm(int64_t t) {
    std::vector<double> next(h.size());
    for (int64_t j = 0; j < hidden; ++j) {
      auto gate = [&](int64_t g) { return x(t, g * hidden + j) + weighted(h, g * hidden + j); };
      double &cell = c[size_t(j)];
      const double i = logistic(gate(0) + (peephole(0, j) == 0 ? 0 : peephole(0, j) * cell));
      const double f = logistic(gate(2) + (peephole(2, j) == 0 ? 0 : peephole(2, j) * cell));
      cell = f * cell + i * std::tanh(gate(3));
      const double o = logistic(gate(1) + (peephole(1, j) == 0 ? 0 : peephole(1, j) * cell));
      next[size_t(j)] = o * std::tanh(cell);
    }
    h = next;
  }
  void gru(int64_t t) {
    std::vector<double> z(h.size()), r(h.size()), opened(h.size()), next(h.size());
    for (int64_t j = 0; j < hidden; ++j) {
      z[size_t(j)] = logistic(x(t, j) + weighted(h, j));
      r[size_t(j)] = logistic(x(t, hidden + j) + weighted(h, hidden + j));
      opened[size_t(j)] = r[size_t(j)] * h[size_t(j)];
    }
    const Array *bias = call.optional(3); // then the reset comes behind the product
    for (int64_t j = 0; j < hidden; ++j) {
      const int64_t i = 2 * hidden + j;
      const double given =
          bias ? r[size_t(j)] * (weighted(h, i) + bias->values[size_t(direction * hidden + j)])
               : weighted(opened, i);
      const double n = std::tanh(x(t, i) + given);
      next[size_t(j)] = (1 - z[size_t(j)]) * n + z[size_t(j)] * h[size_t(j)];
    }
    h = next;
  }
  void rnn(int64_t t) {
    std::vector<double> next(h.size());
    const std::string activation = call.text("activation");
    for (int64_t j = 0; j < hidden; ++j) {
      const double sum = x(t, j) + weighted(h, j);
      next[size_t(j)] = activation == "tanh"   ? std::tanh(sum)
                        : activation == "relu" ? (sum < 0 ? 0 : sum)
                                               : logistic(sum);
    }
    h = next;
  }
};

} // namespace

std::vector<Array> reference_recurrent(const Call &call) {
  const Array &gates = call.operand(0);
  const int64_t steps = gates.dims[0], batch = gates.dims[1], directions = gates.dims[2];
  const int64_t hidden = call.operand(1).dims[1];
  const bool has_cell = call.op == Op::lstm || call.op == Op::lstm_integer;
  const size_t states = call.op == Op::lstm_integer ? 4 : 2;
  const Array *lengths = call.optional(has_cell ? states + 3 : call.op == Op::gru ? 4 : 3);
  Array y = Array::of({steps, directions, batch, hidden});
  Array last_h = Array::of({directions, batch, hidden}), last_c = last_h;
  for (int64_t d = 0; d < directions; ++d)
    for (int64_t b = 0; b < batch; ++b) {
      auto initial = [&](const Array *given) {
        std::vector<double> state(static_cast<size_t>(hidden));
        for (int64_t j = 0; given && j < hidden; ++j)
          state[size_t(j)] = given->values[size_t(index_of({d, b, j}, given->dims))];
        return state;
      };
      Line line{call, d, b, hidden, gates.dims[3], initial(call.optional(states))};
      line.c = initial(has_cell ? call.optional(states + 1) : nullptr);
      int64_t length = lengths ? int64_t(lengths->values[size_t(b)]) : steps;
      length = std::min(std::max(length, int64_t(0)), steps);
      const bool reversed = d == 1 || call.flag("reverse");
      for (int64_t s = 0; s < length; ++s) {
        const int64_t t = reversed ? length - 1 - s : s;
        has_cell ? line.lstm(t) : call.op == Op::gru ? line.gru(t) : line.rnn(t);
        for (int64_t j = 0; j < hidden; ++j)
          y.values[size_t(index_of({t, d, b, j}, y.dims))] = line.h[size_t(j)];
      }
      for (int64_t j = 0; j < hidden; ++j) {
        last_h.values[size_t(index_of({d, b, j}, last_h.dims))] = line.h[size_t(j)];
        last_c.values[size_t(index_of({d, b, j}, last_c.dims))] = line.c[size_t(j)];
      }
    }
  if (has_cell)
    return {y, last_h, last_c};
  return {y, last_h};
}

} // namespace cugrt::test
