// Recurrent ops whose weights stay on the chip, against their equations: which forms take that
// kernel, and what it computes.
#include "kernels_check.h"

namespace {

struct ResidentForm {
  int64_t steps, batch, directions, hidden;
};

int64_t resident_gates(Op op) { return op == Op::lstm ? 4 : op == Op::gru ? 3 : 1; }

// With a state, so that the first step has weights to multiply.
OpTest recurrent(Op op, const ResidentForm &f, DType dtype = DType::f32) {
  const int64_t gates = resident_gates(op) * f.hidden;
  OpTest test{.op = op, .dtype = dtype, .scale = 2 / std::sqrt(double(f.hidden))};
  test.operands = {{{f.steps, f.batch, f.directions, gates}},
                   {{f.directions, f.hidden, gates}},
                   {{f.directions, f.batch, f.hidden}}};
  test.multiprocessors = 132;
  return test;
}

std::string resident(Op op) { return std::string(ir::op_info(op).name) + "_resident"; }

void check_resident(const OpTest &test) { check_entry(test, resident(test.op).c_str()); }
void check_whole(const OpTest &test) {
  check_entry(test, std::string(ir::op_info(test.op).name).c_str());
}

} // namespace

TEST_CASE("weights stay on the chip for states of any width that registers hold") {
  for (const ResidentForm &f :
       {ResidentForm{5, 1, 1, 66}, ResidentForm{4, 1, 2, 97}, ResidentForm{4, 1, 1, 128},
        ResidentForm{3, 1, 1, 257}, ResidentForm{3, 1, 2, 512}, ResidentForm{2, 1, 1, 768}})
    check_resident(recurrent(Op::lstm, f));
  for (const ResidentForm &f :
       {ResidentForm{5, 1, 1, 75}, ResidentForm{4, 1, 2, 131}, ResidentForm{3, 1, 1, 512}})
    check_resident(recurrent(Op::gru, f));
  for (const ResidentForm &f : {ResidentForm{5, 1, 2, 129}, ResidentForm{3, 1, 1, 510}})
    check_resident(recurrent(Op::rnn, f));
}

TEST_CASE(
    "up to eight sequences share the weights on the chip, and none changes another's result") {
  for (Op op : {Op::lstm, Op::gru, Op::rnn})
    for (int64_t batch = 1; batch <= 8; ++batch)
      check_resident(recurrent(op, {3, batch, batch % 2 + 1, 130}));
}

TEST_CASE("weights on the chip: narrow floats, computed in f32") {
  for (Op op : {Op::lstm, Op::gru, Op::rnn})
    for (DType dtype : {DType::f16, DType::bf16})
      for (int64_t batch : {1, 3})
        check_resident(recurrent(op, {4, batch, 2, 132}, dtype));
}

TEST_CASE("weights on the chip: states of f32 beside narrow gates") {
  for (Op op : {Op::lstm, Op::gru, Op::rnn}) {
    OpTest test = recurrent(op, {3, 2, 1, 132}, DType::f16);
    test.operands[2].dtype = DType::f32;
    test.attributes = {flag("wide_states", true)};
    check_resident(test);
  }
}

TEST_CASE("weights on the chip: optional operands, lengths and the way back") {
  const ResidentForm f = {5, 5, 1, 130};
  for (int64_t directions : {1, 2})
    for (bool reverse : {false, true}) {
      if (directions == 2 && reverse)
        continue;
      OpTest lstm = recurrent(Op::lstm, {f.steps, f.batch, directions, f.hidden});
      lstm.attributes = {flag("reverse", reverse)};
      OpTest gru = recurrent(Op::gru, {f.steps, f.batch, directions, f.hidden});
      gru.attributes = lstm.attributes;
      OpTest rnn = recurrent(Op::rnn, {f.steps, f.batch, directions, f.hidden});
      rnn.attributes = lstm.attributes;
      lstm.operands.push_back({{directions, f.batch, f.hidden}});
      check_resident(lstm);
      lstm.operands.push_back({{directions, 3, f.hidden}});
      check_resident(lstm);
      gru.operands.push_back({{directions, f.hidden}});
      check_resident(gru);
      for (DType ids : {DType::i32, DType::i64}) {
        const OpTest::Operand lengths = given({f.batch}, {0, 3, 5, 99, -2}, ids);
        for (OpTest *test : {&lstm, &gru, &rnn}) {
          OpTest with = *test;
          with.operands.push_back(lengths);
          check_resident(with);
        }
      }
      gru.operands.back() = kAbsent;
      gru.operands.push_back(given({f.batch}, {1, 1, 0, 1, 1}, DType::i32));
      check_resident(gru);
    }
  for (Op op : {Op::lstm, Op::gru, Op::rnn})
    for (int64_t steps : {0, 1, 2})
      check_resident(recurrent(op, {steps, 2, 1, 130}));
  for (const char *activation : {"relu", "sigmoid"}) {
    OpTest rnn = recurrent(Op::rnn, {3, 2, 1, 130});
    rnn.attributes = {word("activation", activation)};
    check_resident(rnn);
  }
}

TEST_CASE("weights on the chip: a NaN goes on through the sequence that it is in, and no other") {
  for (Op op : {Op::lstm, Op::gru, Op::rnn}) {
    OpTest test = recurrent(op, {4, 6, 1, 130});
    const int64_t row = resident_gates(op) * 130;
    std::vector<double> gates(size_t(4 * 6 * row), 0.25);
    gates[size_t(row * (6 + 2))] = NAN; // step 1 of sequence 2
    test.operands[0] = given(test.operands[0].dims, gates, DType::f32);
    check_resident(test);
  }
}

TEST_CASE("weights are read in each step where they do not stay on the chip") {
  check_whole(recurrent(Op::lstm, {2, 1, 1, 64}));  // 64 KiB: read sooner than exchanged
  check_whole(recurrent(Op::lstm, {1, 1, 1, 769})); // more than registers hold
  check_whole(recurrent(Op::lstm, {2, 9, 1, 66}));  // sequences
  check_whole(recurrent(Op::rnn, {2, 1, 1, 130}, DType::f64));
  OpTest small = recurrent(Op::lstm, {2, 1, 2, 66}); // 18 blocks
  small.multiprocessors = 9;                         // two each
  check_resident(small);
  small.multiprocessors = 8;
  check_whole(small);
  small.multiprocessors = 132;
  small.compute_capability = 75;
  check_whole(small);
}
