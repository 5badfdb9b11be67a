// A small model's life, and a loop that fails each driver call of such a life in turn.
#pragma once

#include "emulator_control.h"
#include "support/api_fixture.h"

#include <algorithm>
#include <string>
#include <vector>

namespace cugrt::test {

inline constexpr const char *kModel = R"(cugrt 1

func @main(%x: tensor<[n, 4], f32>, %w: tensor<[4, 4], f32>) -> (tensor<[n, 4], f32>)
    attributes {num_inputs = 1, upper_bounds = {n = 16}} {
  %h = matmul(%x, %w)
  %r = relu(%h)
  %y = add(%r, %x)
  return %y
}
)";

inline Weights model_weights() {
  std::vector<float> w = numbers(16, 1);
  Weights weights;
  weights.add("w", w.data(), CUGRT_F32, std::vector<int64_t>{4, 4});
  return weights;
}

inline std::vector<double> expected_result(const std::vector<float> &x, size_t n) {
  std::vector<float> w = numbers(16, 1);
  std::vector<double> y;
  for (size_t row = 0; row < n; ++row)
    for (size_t column = 0; column < 4; ++column) {
      double sum = 0;
      for (size_t k = 0; k < 4; ++k)
        sum += double(x[row * 4 + k]) * w[k * 4 + column];
      y.push_back(std::max(sum, 0.0) + x[row * 4 + column]);
    }
  return y;
}

/// Opens a session, runs twice at one shape and once at another, and checks the last result.
struct Scenario {
  Module module = Module::parse(kModel);
  Executable executable{emulated_runtime(), module};
  Weights weights = model_weights();
  std::vector<float> x = numbers(64, 2);
  Buffer input = upload(x);

  std::vector<float> run() {
    Session session(executable, emulated_runtime(), weights);
    std::vector<Value> results;
    for (int64_t n : {16, 16, 9}) {
      results = session.run(executable.function(0), {input.tensor(CUGRT_F32, {n, 4})});
      session.synchronize();
    }
    return download<float>(results[0].as.tensor.address, 36);
  }
  void check_good_run() { check_close(run(), expected_result(x, 9), 1e-5); }
};

/// Runs the scenario once for each driver call that it makes, which fails: one error that names the
/// driver's, nothing leaks, and the next run is good.
template <class AnyScenario> void fail_every_call(AnyScenario &scenario) {
  EmulatorControl emulator;
  scenario.check_good_run();
  const auto at_first = emulator.live();
  unsigned long long begin = emulator.now().calls;
  scenario.check_good_run();
  unsigned long long calls = emulator.now().calls - begin;
  CHECK(emulator.live() == at_first);
  REQUIRE(calls > 30);
  size_t errors = 0;
  for (unsigned long long nth = 1; nth <= calls; ++nth) {
    INFO("call " << nth << " of " << calls);
    const auto before = emulator.live(); // what could not be freed in earlier rounds stays
    REQUIRE(emulator.inject(nth, CUDA_ERROR_ILLEGAL_STATE) == CUDA_SUCCESS);
    bool failed_to_free = false;
    try {
      scenario.run();
      failed_to_free = true; // a destruction or a harmless query failed
    } catch (const Error &error) {
      ++errors;
      CHECK(error.cuda_error() == "CUDA_ERROR_ILLEGAL_STATE");
      CHECK(std::string(error.what()).size() > 20);
    }
    emulator.inject(0, CUDA_SUCCESS);
    if (!failed_to_free)
      CHECK(emulator.live() == before);
    scenario.check_good_run();
  }
  CHECK(errors > calls / 2);
}

} // namespace cugrt::test
