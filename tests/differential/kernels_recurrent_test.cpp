// Recurrent ops against their equations, step by step.
#include "kernels_check.h"

namespace {

struct Form {
  int64_t steps, batch, directions, hidden;
};
constexpr Form kForms[] = {{1, 1, 1, 1}, {5, 3, 1, 7}, {4, 2, 2, 33},
                           {0, 2, 1, 5}, {3, 0, 2, 5}, {2, 1, 1, 130}};

int64_t gates_of(Op op) { return op == Op::lstm ? 4 : op == Op::gru ? 3 : 1; }

std::vector<OpTest::Operand> operands(Op op, const Form &f) {
  const int64_t gates = gates_of(op) * f.hidden;
  return {{{f.steps, f.batch, f.directions, gates}}, {{f.directions, f.hidden, gates}}};
}

} // namespace

TEST_CASE("recurrent ops go through a sequence in either direction") {
  for (Op op : {Op::lstm, Op::gru, Op::rnn})
    for (const Form &f : kForms)
      for (bool reverse : {false, true}) {
        if (f.directions == 2 && reverse)
          continue;
        check({.op = op,
               .operands = operands(op, f),
               .attributes = {flag("reverse", reverse)},
               .scale = 0.25});
      }
}

TEST_CASE("recurrent ops begin with the state that they are given") {
  for (Op op : {Op::lstm, Op::gru, Op::rnn})
    for (const Form &f : kForms) {
      std::vector<OpTest::Operand> all = operands(op, f);
      const Dims state = {f.directions, f.batch, f.hidden};
      all.push_back({state});
      if (op == Op::lstm)
        all.push_back({state});
      check({.op = op, .operands = all, .scale = 0.25});
    }
}

TEST_CASE("an lstm has peepholes, a gru a bias within its reset") {
  for (const Form &f : kForms) {
    std::vector<OpTest::Operand> lstm = operands(Op::lstm, f), gru = operands(Op::gru, f);
    lstm.insert(lstm.end(),
                {kAbsent, {{f.directions, f.batch, f.hidden}}, {{f.directions, 3, f.hidden}}});
    gru.insert(gru.end(), {kAbsent, {{f.directions, f.hidden}}});
    check({.op = Op::lstm, .operands = lstm, .scale = 0.25});
    check({.op = Op::gru, .operands = gru, .scale = 0.25});
  }
}

TEST_CASE("sequences end where lengths say, and the state stands") {
  for (DType ids : {DType::i32, DType::i64})
    for (int64_t directions : {1, 2})
      for (Op op : {Op::lstm, Op::gru, Op::rnn}) {
        const Form f = {6, 5, directions, 9};
        std::vector<OpTest::Operand> all = operands(op, f);
        all.push_back({{f.directions, f.batch, f.hidden}});
        if (op == Op::lstm)
          all.insert(all.end(), {kAbsent, kAbsent});
        if (op == Op::gru)
          all.push_back(kAbsent);
        all.push_back(given({f.batch}, {0, 3, 6, 99, -2}, ids));
        check({.op = op, .operands = all, .scale = 0.25});
        if (directions == 1)
          check({.op = op, .operands = all, .attributes = {flag("reverse", true)}, .scale = 0.25});
      }
}

TEST_CASE("recurrent ops in every float type, and activations of an rnn") {
  const Form f = {4, 2, 2, 17};
  for (DType dtype : {DType::f16, DType::bf16, DType::f64})
    for (Op op : {Op::lstm, Op::gru, Op::rnn})
      check({.op = op, .dtype = dtype, .operands = operands(op, f), .scale = 0.25});
  for (const char *activation : {"tanh", "relu", "sigmoid"})
    check({.op = Op::rnn,
           .operands = operands(Op::rnn, f),
           .attributes = {word("activation", activation)},
           .scale = 0.25});
}

TEST_CASE("states are f32 beside narrow gates: those it begins with, and those it ends with") {
  const Form f = {4, 2, 2, 17};
  for (DType dtype : {DType::f16, DType::bf16})
    for (Op op : {Op::lstm, Op::gru, Op::rnn})
      for (bool wide_first : {false, true}) {
        std::vector<OpTest::Operand> all = operands(op, f);
        const DType first = wide_first ? DType::f32 : dtype;
        if (op == Op::lstm)
          all.push_back(kAbsent);
        all.push_back({{f.directions, f.batch, f.hidden}, first});
        check({.op = op,
               .dtype = dtype,
               .operands = all,
               .attributes = {flag("wide_states", true)},
               .scale = 0.25});
        if (wide_first)
          check({.op = op, .dtype = dtype, .operands = all, .scale = 0.25});
      }
}

TEST_CASE("a NaN goes on through the sequence that it is in, and no other") {
  const Form f = {4, 6, 1, 3};
  for (Op op : {Op::lstm, Op::gru, Op::rnn}) {
    std::vector<OpTest::Operand> all = operands(op, f);
    const int64_t row = gates_of(op) * f.hidden;
    std::vector<double> gates(size_t(f.steps * f.batch * row), 0.25);
    gates[size_t(row * (f.batch + 2))] = NAN; // step 1 of sequence 2
    all[0] = given(all[0].dims, gates, DType::f32);
    check({.op = op, .operands = all, .scale = 0.25});
  }
}

TEST_CASE("the largest state that a block keeps") {
  check({.op = Op::lstm, .operands = operands(Op::lstm, {1, 1, 1, 1024}), .scale = 0.01});
  check({.op = Op::gru,
         .dtype = DType::f64,
         .operands = operands(Op::gru, {2, 1, 1, 1024}),
         .scale = 0.01});
}

TEST_CASE("an lstm with weights of bytes quantises the state of each step") {
  for (DType dtype : {DType::i8, DType::u8})
    for (bool each_column : {false, true})
      for (const Form &f : {Form{1, 1, 1, 1}, Form{5, 3, 1, 7}, Form{3, 2, 2, 70}}) {
        const int64_t columns = 4 * f.hidden;
        const Dims scale = each_column ? Dims{f.directions, columns} : Dims{f.directions};
        int64_t scales = f.directions * (each_column ? columns : 1);
        std::vector<double> weights, sizes, zeros;
        for (int64_t i = 0; i < f.directions * f.hidden * columns; ++i)
          weights.push_back(double((i * 73 + i / 5 * 19) % 256 - (dtype == DType::i8 ? 128 : 0)));
        for (int64_t i = 0; i < scales; ++i) {
          sizes.push_back(0.001 + 0.0001 * double(i % 7));
          zeros.push_back(double(i % 5 * 20 + (dtype == DType::u8 ? 90 : -40)));
        }
        std::vector<OpTest::Operand> all = {
            {{f.steps, f.batch, f.directions, columns}},
            given({f.directions, f.hidden, columns}, weights, dtype),
            given(scale, sizes, DType::f32),
            given(scale, zeros, dtype)};
        check({.op = Op::lstm_integer, .operands = all});
        all[3] = kAbsent;
        const Dims state = {f.directions, f.batch, f.hidden};
        all.insert(all.end(), {{state}, {state}, {{f.directions, 3, f.hidden}}});
        if (dtype == DType::i8)
          check({.op = Op::lstm_integer, .operands = all, .scale = 0.5});
        all.push_back(given({f.batch}, std::vector<double>(size_t(f.batch), 2), DType::i64));
        check({.op = Op::lstm_integer, .operands = all, .scale = 0.5});
      }
}
