// Storage of scope "state", and the recurrent kernels whose blocks wait for one another by words in
// it: from run to run, in sessions beside each other, and after a run whose blocks gave up.
#include "support/program.h"

using namespace cugrt;
using namespace cugrt::test;

namespace {

// Counts its runs in state; a negative x leaves a wrong count and gives up.
const std::string kCounting = R"(cugrt 1
kernel @count {
  inline """
#include "builtin:device_symbol.cuh"
extern "C" __global__ void count(const int *x, long long *state, cugrt_symbol<long long> p, int *y) {
  state[1] += x[0] < 0 ? 100 : x[0];
  y[0] = (int)state[1];
  if (x[0] < 0)
    cugrt_gave_up(p);
}
"""
  entry "count"
  params (x: in i32, state: inout i64, p: checked_symbol i64, y: out i32)
  launch { grid (1, 1, 1) block (1, 1, 1) }
}
func @first(%x: tensor<[1], i32>) -> (tensor<[1], i32>) {
  %s = alloc_storage "state", 16
  %w = alloc_tensor %s, 0 : tensor<[2], i64, scope "state">
  read turn = %w[0] in [0, 9]
  %y = alloc : tensor<[1], i32>
  launch @count(%x, %w, turn, %y)
  return %y
}
func @second(%x: tensor<[1], i32>) -> (tensor<[1], i32>, tensor<[1], i32>) {
  %s = alloc_storage "state", 16
  %w = alloc_tensor %s, 0 : tensor<[2], i64, scope "state">
  %t = alloc_storage "state", 16
  %v = alloc_tensor %t, 0 : tensor<[2], i64, scope "state">
  read turn = %w[0] in [0, 9]
  read other = %v[0] in [0, 9]
  %y = alloc : tensor<[1], i32>
  launch @count(%x, %w, turn, %y)
  %z = alloc : tensor<[1], i32>
  launch @count(%y, %v, other, %z)
  return %y, %z
}
)";

std::vector<int> count(Program &program, Session &session, const char *name, int x,
                       size_t results) {
  const Buffer input = upload(std::vector<int>{x});
  auto values = session.run(program.executable.function(name), {input.tensor(CUGRT_I32, {1})});
  session.synchronize();
  std::vector<int> all;
  for (size_t i = 0; i < results; ++i)
    all.push_back(contents<int>(values[i])[0]);
  return all;
}

// --- A recurrent network: y of [steps, directions, 1, hidden]. ---

struct Network {
  int64_t steps, directions, hidden;
  std::vector<float> gates, weights;

  Network(int64_t steps, int64_t directions, int64_t hidden, uint32_t seed)
      : steps(steps), directions(directions), hidden(hidden),
        gates(numbers(size_t(steps * directions * 4 * hidden), seed)),
        weights(numbers(size_t(directions * hidden * 4 * hidden), seed + 1)) {
    for (float &weight : weights)
      weight *= 0.125f;
  }

  std::vector<double> lstm() const {
    std::vector<double> y(size_t(steps * directions * hidden));
    auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
    for (int64_t d = 0; d < directions; ++d) {
      std::vector<double> h(size_t(hidden), 0), c = h;
      for (int64_t s = 0; s < steps; ++s) {
        const int64_t t = d == 1 ? steps - 1 - s : s;
        std::vector<double> next(h.size());
        for (int64_t j = 0; j < hidden; ++j) {
          double sum[4];
          for (int64_t g = 0; g < 4; ++g) {
            sum[g] = gates[size_t(((t * directions + d) * 4 + g) * hidden + j)];
            for (int64_t k = 0; k < hidden; ++k)
              sum[g] += h[size_t(k)] * weights[size_t(((d * hidden + k) * 4 + g) * hidden + j)];
          }
          double &cell = c[size_t(j)];
          cell = sigmoid(sum[2]) * cell + sigmoid(sum[0]) * std::tanh(sum[3]);
          next[size_t(j)] = sigmoid(sum[1]) * std::tanh(cell);
        }
        h = next;
        for (int64_t j = 0; j < hidden; ++j)
          y[size_t((t * directions + d) * hidden + j)] = h[size_t(j)];
      }
    }
    return y;
  }

  std::string module() const {
    auto n = [](int64_t value) { return std::to_string(value); };
    const std::string h = n(hidden), d = n(directions), t = n(steps);
    const std::string state = "tensor<[" + d + ", 1, " + h + "], f32>";
    return "cugrt 1\nfunc @main(%x: tensor<[" + t + ", 1, " + d + ", " + n(4 * hidden) +
           "], f32>, %w: tensor<[" + d + ", " + h + ", " + n(4 * hidden) + "], f32>) -> (tensor<[" +
           t + ", " + d + ", 1, " + h + "], f32>, " + state + ", " + state +
           ") {\n  %y, %h, %c = lstm(%x, %w)\n  return %y, %h, %c\n}\n";
  }

  std::vector<float> run(Program &program) const {
    const Buffer x = upload(gates), w = upload(weights);
    auto values = program.run({x.tensor(CUGRT_F32, {steps, 1, directions, 4 * hidden}),
                               w.tensor(CUGRT_F32, {directions, hidden, 4 * hidden})});
    return contents(values[0]);
  }
};

} // namespace

TEST_CASE(
    "State begins as zeros, stays from run to run, and lies apart in every function and session") {
  for (bool eager : {false, true}) {
    Program program(kCounting, session_options(eager));
    Session other(program.executable, emulated_runtime(), {}, session_options(eager));
    CHECK(count(program, program.session, "first", 1, 1) == std::vector<int>{1});
    CHECK(count(program, program.session, "second", 1, 2) == std::vector<int>{1, 1});
    CHECK(count(program, program.session, "first", 1, 1) == std::vector<int>{2});
    CHECK(count(program, other, "first", 5, 1) == std::vector<int>{5});
    CHECK(count(program, program.session, "second", 1, 2) == std::vector<int>{2, 3});
    CHECK(count(program, program.session, "first", 1, 1) == std::vector<int>{3});
  }
}

TEST_CASE("A run whose kernel gave up fails, and the state is zeros again") {
  for (bool eager : {false, true}) {
    Program program(kCounting, session_options(eager));
    CHECK(count(program, program.session, "first", 3, 1) == std::vector<int>{3});
    const Error error = error_of([&] { count(program, program.session, "first", -1, 1); });
    for (const char *part : {"@first", "gave up waiting", "turn", "undefined"}) {
      INFO(error.what());
      CHECK(mentions(error, part));
    }
    CHECK(count(program, program.session, "first", 1, 1) == std::vector<int>{1});
  }
}

TEST_CASE("A resident network goes on from run to run in one session, the same each time") {
  for (bool eager : {false, true})
    for (const auto &[steps, directions] : {std::pair(7, 2), std::pair(2, 1), std::pair(1, 1)}) {
      const Network network(steps, directions, 80, 3), next(steps, directions, 80, 9);
      Program program(network.module(), session_options(eager));
      const std::vector<float> first = network.run(program);
      check_close(first, network.lstm(), 1e-5);
      for (int i = 0; i < 4; ++i) {
        check_close(next.run(program), next.lstm(), 1e-5);
        CHECK(network.run(program) == first);
      }
    }
}

TEST_CASE("Blocks that wait for one that is not there give up") {
  // Two blocks have the units of a state of 16; for three steps there is one, which gives up soon.
  // Two wait as long as ever: a busy machine may stop the one that the other waits for.
  Program program(R"ir(cugrt 1
kernel @rnn {
  source "builtin:recurrent.cu"
  entry "rnn_resident"
  options ["-DRESIDENT", "-DSEQUENCES=1", "-DMAX_WIDTH=32", "-DMOST_TRIES=(gridDim.x==1?16384u:1u<<26)"]
  params (gates: in f32, recurrent: in f32, words: inout i64, turn: checked_symbol i64, y: out f32, last: out f32,
          steps: symbol i64, batch: symbol i64, directions: symbol i64, hidden: symbol i64)
  launch { when steps == 3 grid (1, 1, 1) block (256, 1, 1) cooperative }
  launch { grid (2, 1, 1) block (256, 1, 1) cooperative }
}
func @main(%x: tensor<[n, 1, 1, 16], f32>, %w: tensor<[1, 16, 16], f32>) -> (tensor<[n, 1, 1, 16], f32>) {
  %s = alloc_storage "state", 2304
  %words = alloc_tensor %s, 0 : tensor<[288], i64, scope "state">
  read turn = %words[0] in [0, 9]
  %y = alloc : tensor<[n, 1, 1, 16], f32>
  %h = alloc : tensor<[1, 1, 16], f32>
  launch @rnn(%x, %w, %words, turn, %y, %h, n, 1, 1, 16)
  return %y
}
)ir");
  const Buffer x = upload(std::vector<float>(48, 0.5f)),
               w = upload(std::vector<float>(256, 0.0625f));
  auto run = [&](int64_t steps) {
    auto values =
        program.run({x.tensor(CUGRT_F32, {steps, 1, 1, 16}), w.tensor(CUGRT_F32, {1, 16, 16})});
    return contents(values[0]);
  };
  std::vector<double> expected(16, std::tanh(0.5));
  expected.resize(32, std::tanh(0.5 + expected[0]));
  for (int i = 0; i < 3; ++i) {
    check_close(run(2), expected, 1e-6);
    CHECK(mentions(error_of([&] { run(3); }), "gave up waiting"));
  }
  check_close(run(2), expected, 1e-6);
}

TEST_CASE("Blocks that share out a convolution's sums leave their counters as they were") {
  // Whole numbers, so that sums are exact. Two convolutions have tiles beside each other's.
  constexpr int64_t kSide = 7, kChannels = 64;
  auto at = [](int64_t i, int64_t most) { return float(i * 37 % (2 * most + 1) - most); };
  std::vector<float> x(kSide * kSide * kChannels), w(kChannels * 9 * kChannels);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = at(int64_t(i), 2);
  for (size_t i = 0; i < w.size(); ++i)
    w[i] = at(int64_t(i) + 5, 1);
  std::vector<float> expected(x.size());
  for (int64_t row = 0; row < kSide; ++row)
    for (int64_t column = 0; column < kSide; ++column)
      for (int64_t o = 0; o < kChannels; ++o) {
        float sum = 0;
        for (int64_t tap = 0; tap < 9; ++tap) {
          const int64_t r = row + tap / 3 - 1, q = column + tap % 3 - 1;
          if (r < 0 || r >= kSide || q < 0 || q >= kSide)
            continue;
          for (int64_t c = 0; c < kChannels; ++c)
            sum += x[size_t((r * kSide + q) * kChannels + c)] *
                   w[size_t((o * 9 + tap) * kChannels + c)];
        }
        expected[size_t((row * kSide + column) * kChannels + o)] = sum;
      }
  for (bool eager : {false, true}) {
    Program program(R"(cugrt 1
func @main(%x: tensor<[1, 7, 7, 64], f32>, %w: tensor<[64, 3, 3, 64], f32>) -> (tensor<[1, 7, 7, 64], f32>, tensor<[1, 7, 7, 64], f32>) {
  %x16 = cast(%x) {dtype = f16}
  %w16 = cast(%w) {dtype = f16}
  %less = neg(%x16)
  %y = conv2d(%x16, %w16) {padding = [1, 1], channels_last = true}
  %z = conv2d(%less, %w16) {padding = [1, 1], channels_last = true}
  %y32 = cast(%y) {dtype = f32}
  %back = neg(%z)
  %z32 = cast(%back) {dtype = f32}
  return %y32, %z32
}
)",
                    session_options(eager));
    const Buffer image = upload(x), weights = upload(w);
    for (int run = 0; run < 3; ++run) {
      auto values = program.run({image.tensor(CUGRT_F32, {1, kSide, kSide, kChannels}),
                                 weights.tensor(CUGRT_F32, {kChannels, 3, 3, kChannels})});
      CHECK(contents(values[0]) == expected);
      CHECK(contents(values[1]) == expected);
    }
  }
}

TEST_CASE("Blocks that share a product's tiles leave their counters as they were") {
  // Whole numbers, so that sums are exact in f16, too. 65 x 70 are six tiles, 384 two parts of k.
  constexpr int64_t kRows = 65, kDepth = 384, kColumns = 70;
  std::vector<float> x(kRows * kDepth), w(kDepth * kColumns), expected(kRows * kColumns);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = float(int64_t(i) * 37 % 3 - 1);
  for (size_t i = 0; i < w.size(); ++i)
    w[i] = float(int64_t(i) * 11 % 5 - 2);
  for (int64_t row = 0; row < kRows; ++row)
    for (int64_t column = 0; column < kColumns; ++column)
      for (int64_t k = 0; k < kDepth; ++k)
        expected[size_t(row * kColumns + column)] +=
            x[size_t(row * kDepth + k)] * w[size_t(k * kColumns + column)];
  for (bool eager : {false, true}) {
    Program program(R"(cugrt 1
func @main(%x: tensor<[65, 384], f32>, %w: tensor<[384, 70], f32>) -> (tensor<[65, 70], f32>, tensor<[65, 70], f32>) {
  %x16 = cast(%x) {dtype = f16}
  %w16 = cast(%w) {dtype = f16}
  %less = neg(%x16)
  %y = matmul(%x16, %w16)
  %z = matmul(%less, %w16)
  %y32 = cast(%y) {dtype = f32}
  %back = neg(%z)
  %z32 = cast(%back) {dtype = f32}
  return %y32, %z32
}
)",
                    session_options(eager));
    const Buffer left = upload(x), right = upload(w);
    for (int run = 0; run < 3; ++run) {
      auto values = program.run(
          {left.tensor(CUGRT_F32, {kRows, kDepth}), right.tensor(CUGRT_F32, {kDepth, kColumns})});
      CHECK(contents(values[0]) == expected);
      CHECK(contents(values[1]) == expected);
    }
  }
}
