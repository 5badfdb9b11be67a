// runtime: the nth driver call fails while instances with bodies and branches are built, patched
// and destroyed.
#include "scenario.h"

using namespace cugrt;
using namespace cugrt::test;

namespace {

/// A loop with a branch in it: y = x, and each odd round adds 1, `limit` rounds.
const char *const kLoop = R"(cugrt 1

kernel @zero {
  inline "extern \"C\" __global__ void zero(int *x) { x[0] = 0; }"
  entry "zero"
  params (x: out i32)
  launch { grid (1, 1, 1) block (1, 1, 1) }
}
kernel @test {
  inline """
extern "C" __global__ void test(int *i, const int *limit, int *more, int *odd) {
  more[0] = i[0] < limit[0];
  odd[0] = i[0] & 1;
  i[0] += 1;
}
"""
  entry "test"
  params (i: inout i32, limit: in i32, more: out i32, odd: out i32)
  launch { grid (1, 1, 1) block (1, 1, 1) }
}
kernel @add_one {
  inline """
extern "C" __global__ void add_one(const int *x, int *y, long long n) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + 1;
}
"""
  entry "add_one"
  params (x: in i32, y: out i32, n: symbol i64)
  launch { grid (ceildiv(n, 32), 1, 1) block (32, 1, 1) }
}

func @main(%x: tensor<[n], i32>, %limit: tensor<[1], i32>) -> (tensor<[n], i32>)
    attributes {upper_bounds = {n = 40}} {
  %i = alloc : tensor<[1], i32>
  %odd = alloc : tensor<[1], i32>
  launch @zero(%i)
  launch @zero(%odd)
  %y = while (%c = %x) using (%i, %limit, %odd) {
    %more = alloc : tensor<[1], i32>
    launch @test(%i, %limit, %more, %odd)
    yield %more
  } do {
    %d = if %odd using (%c) -> (tensor<[n], i32>) {
      %t = alloc : tensor<[n], i32>
      launch @add_one(%c, %t, n)
      yield %t
    } else {
      yield %c
    }
    yield %d
  }
  return %y
}
)";

/// Room for one instance: the keys of `sizes` build it, patch it and disable nodes in its bodies.
struct LoopScenario {
  Executable executable{emulated_runtime(), Module::parse(kLoop)};
  std::vector<int32_t> x = std::vector<int32_t>(40, 5);
  Buffer input = upload(x), limit = upload(std::vector<int32_t>{6});
  const std::vector<int64_t> sizes = {40, 40, 9, 0, 40, 9, 33, 9};

  Session open(Runtime &runtime, Executable &from) {
    auto options = detail::sized<cugrt_session_options>();
    options.instance_budget_bytes = 200000;
    return Session(from, runtime, Weights(), options);
  }
  std::vector<int32_t> run(Session &session, Executable &from, int64_t n) {
    std::vector<Value> results =
        session.run(from.function(0), {input.tensor(CUGRT_I32, {n}), limit.tensor(CUGRT_I32, {1})});
    session.synchronize();
    return download<int32_t>(results[0].as.tensor.address, static_cast<size_t>(n));
  }
  std::vector<int32_t> run() {
    Session session = open(emulated_runtime(), executable);
    std::vector<int32_t> last;
    for (int64_t n : sizes)
      last = run(session, executable, n);
    counters = session.counters();
    return last;
  }
  void check_good_run() { CHECK(run() == std::vector<int32_t>(9, 5 + 3)); }
  cugrt_counters counters{};
};

/// A branch on a symbol, inside of it another: which nodes a key's graph has follows from its
/// class.
const char *const kOnSymbols = R"(cugrt 1

kernel @add {
  inline """
extern "C" __global__ void add(const int *x, int *y, long long n, int k) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + k;
}
"""
  entry "add"
  params (x: in i32, y: out i32, n: symbol i64, k: scalar i32)
  launch { grid (ceildiv(n, 32), 1, 1) block (32, 1, 1) }
}

func @main(%x: tensor<[n], i32>) -> (tensor<[n], i32>) attributes {upper_bounds = {n = 40}} {
  %a = alloc : tensor<[n], i32>
  launch @add(%x, %a, n, 1)
  %b = if n > 16 using (%a) -> (tensor<[n], i32>) {
    %t = alloc : tensor<[n], i32>
    launch @add(%a, %t, n, 2)
    %s = if mod(n, 2) using (%t) -> (tensor<[n], i32>) {
      %o = alloc : tensor<[n], i32>
      launch @add(%t, %o, n, 4)
      yield %o
    } else {
      yield %t
    }
    yield %s
  } else {
    yield %a
  }
  %y = alloc : tensor<[n], i32>
  launch @add(%b, %y, n, 8)
  return %y
}
)";

/// Room for four instances: of the sizes some are of one class, whose instance is patched, and a
/// class that has none gives up another one's, since in strict mode nothing is launched alone.
struct BranchScenario {
  Executable executable{emulated_runtime(), Module::parse(kOnSymbols)};
  Buffer input = upload(std::vector<int32_t>(40, 5));

  std::vector<int32_t> run() {
    auto options = detail::sized<cugrt_session_options>();
    options.instance_budget_bytes = 200000;
    options.strict = 1;
    Session session(executable, emulated_runtime(), Weights(), options);
    std::vector<int32_t> last;
    for (int64_t n : {40, 18, 9, 4, 33, 17, 40, 33}) {
      std::vector<Value> results =
          session.run(executable.function(0), {input.tensor(CUGRT_I32, {n})});
      session.synchronize();
      last = download<int32_t>(results[0].as.tensor.address, static_cast<size_t>(n));
      const int32_t added = 1 + (n > 16 ? 2 + (n % 2 ? 4 : 0) : 0) + 8;
      CHECK(last == std::vector<int32_t>(static_cast<size_t>(n), 5 + added));
    }
    counters = session.counters();
    return last;
  }
  void check_good_run() { CHECK(run() == std::vector<int32_t>(33, 5 + 15)); }
  cugrt_counters counters{};
};

} // namespace

TEST_CASE("whichever driver call fails where instances have loops and branches in them: one clear "
          "error, nothing leaks") {
  LoopScenario scenario;
  scenario.check_good_run();
  CHECK(scenario.counters.regions_built >= 1);
  CHECK(scenario.counters.regions_patched >= 2);
  CHECK(scenario.counters.regions_eager == 0);
  fail_every_call(scenario);
}

TEST_CASE("likewise where a symbol decides which nodes a graph has") {
  BranchScenario scenario;
  scenario.check_good_run();
  CHECK(scenario.counters.regions_built >= 3); // a class each
  CHECK(scenario.counters.regions_patched >= 2);
  CHECK(scenario.counters.instances_evicted >= 1);
  CHECK(scenario.counters.regions_eager == 0);
  fail_every_call(scenario);
}

namespace {

/// Whether a build that takes an instance's place and fails tells what that was bound to. Each call
/// of a run is made to fail, each time with another size, for which there is no instance.
template <class Run> bool tells_what_it_replaces(EmulatorControl &emulator, Run &&run) {
  for (unsigned long long nth = 1; nth < 40; ++nth) {
    emulator.inject(nth, CUDA_ERROR_INVALID_VALUE);
    std::string message;
    try {
      run(static_cast<int64_t>(nth));
    } catch (const Error &error) {
      message = error.what();
    }
    emulator.inject(0, CUDA_SUCCESS);
    const size_t at = message.find("with n = " + std::to_string(nth) + ": instance built anew (");
    if (at != std::string::npos && message.find("n from ", at) != std::string::npos &&
        message.find("cuGraphInstantiate", at) != std::string::npos)
      return true;
  }
  return false;
}

} // namespace

TEST_CASE("a driver whose setters do not reach bodies has instances built anew, with equal "
          "results; one that runs out of memory is asked again") {
  const CUresult cause = GENERATE(CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_OUT_OF_MEMORY);
  LoopScenario scenario;
  EmulatorControl emulator;
  scenario.run();
  const uint64_t built = scenario.counters.regions_built;
  // Whether they do is tried once for each device, by setters of the first instance's making: its
  // parameters, and disabling and enabling it again. Which of the calls those are shows in what
  // follows.
  size_t refused = 0;
  for (unsigned long long nth = 1;; ++nth) {
    INFO("call " << nth);
    Runtime runtime(emulated_options());
    Executable executable(runtime, Module::parse(kLoop));
    Session session = scenario.open(runtime, executable);
    unsigned long long begin = emulator.now().calls;
    emulator.inject(nth, cause);
    bool works = true;
    try {
      scenario.run(session, executable, scenario.sizes[0]);
    } catch (const Error &) {
      works = false;
    }
    unsigned long long calls = emulator.now().calls - begin;
    emulator.inject(0, CUDA_SUCCESS);
    if (works) {
      for (size_t i = 1; i < scenario.sizes.size(); ++i) {
        const auto n = static_cast<size_t>(scenario.sizes[i]);
        CHECK(scenario.run(session, executable, scenario.sizes[i]) ==
              std::vector<int32_t>(n, 5 + 3));
      }
      if (session.counters().regions_built > built) {
        ++refused;
        CHECK(tells_what_it_replaces(emulator,
                                     [&](int64_t n) { scenario.run(session, executable, n); }));
      }
      CHECK(session.counters().instance_bytes <= 200000);
    }
    if (works && nth > calls)
      break;
  }
  CHECK(refused == (cause == CUDA_ERROR_NOT_SUPPORTED ? 3 : 0));
}
