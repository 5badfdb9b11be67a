// runtime: the nth driver call fails, the nth host allocation fails, for every n of a small model's
// life. One clear error each time, nothing leaked, and a fresh session works.
#include "emulator_control.h"
#include "support/alloc_fault.h"
#include "support/api_fixture.h"

#include <functional>
#include <memory>
#include <optional>

using namespace cugrt;
using namespace cugrt::test;

namespace {

/// What runs out of memory is the runtime: the emulated driver's allocations are its own business,
/// as a real driver's are.
constexpr const char *kEmulator = "libcugrt-emu";

uint64_t count_allocations(const std::function<cugrt_status *()> &work) {
  CountAllocations counter(kEmulator);
  cugrt_status *status = work();
  uint64_t count = counter.count();
  REQUIRE(status == nullptr);
  return count;
}

const char *const kModel = R"(cugrt 1

func @main(%x: tensor<[n, 4], f32>, %w: tensor<[4, 4], f32>) -> (tensor<[n, 4], f32>)
    attributes {num_inputs = 1, upper_bounds = {n = 16}} {
  %h = matmul(%x, %w)
  %r = relu(%h)
  %y = add(%r, %x)
  return %y
}
)";

Weights model_weights() {
  std::vector<float> w = numbers(16, 1);
  Weights weights;
  weights.add("w", w.data(), CUGRT_F32, std::vector<int64_t>{4, 4});
  return weights;
}

std::vector<double> expected_result(const std::vector<float> &x, size_t n) {
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

/// A kernel that checks a position, run within its bounds and once beyond, which a wait tells.
const char *const kChecked = R"(cugrt 1

kernel @at {
  inline """
#include "builtin:device_symbol.cuh"
extern "C" __global__ void at(cugrt_symbol<int> p, int *y) { y[0] = cugrt_read(p); }
"""
  entry "at"
  params (p: checked_symbol i32, y: out i32)
  launch { grid (1, 1, 1) block (1, 1, 1) }
}
func @main(%pos: tensor<[1], i32>) -> (tensor<[1], i32>) {
  read p = %pos[0] in [0, 7]
  %y = alloc : tensor<[1], i32>
  launch @at(p, %y)
  return %y
}
)";

struct CheckedScenario {
  Executable executable{emulated_runtime(), Module::parse(kChecked)};
  Buffer inside = upload(std::vector<int32_t>{3}), outside = upload(std::vector<int32_t>{9});

  Session open() { return Session(executable, emulated_runtime()); }
  int32_t run(Session &session, const Buffer &position) {
    std::vector<Value> results =
        session.run(executable.function(0), {position.tensor(CUGRT_I32, {1})});
    session.synchronize();
    return download<int32_t>(results[0].as.tensor.address, 1)[0];
  }
  void run() {
    Session session = open();
    int32_t read = run(session, inside);
    CHECK(read == 3);
    try {
      run(session, outside);
      FAIL("nothing was said of a position out of its bounds");
    } catch (const Error &error) {
      if (error.code() != CUGRT_OUT_OF_RANGE)
        throw;
    }
    read = run(session, inside);
    CHECK(read == 3);
  }
  void check_good_run() { run(); }
};

/// New weights for a session that has run. What fails leaves it with the ones that it had.
struct UpdateScenario : Scenario {
  std::vector<float> zeros = std::vector<float>(16, 0);
  Weights empty;
  UpdateScenario() { empty.add("w", zeros.data(), CUGRT_F32, std::vector<int64_t>{4, 4}); }

  std::vector<float> run_once(Session &session) {
    const auto results = session.run(executable.function(0), {input.tensor(CUGRT_F32, {9, 4})});
    session.synchronize();
    return download<float>(results[0].as.tensor.address, 36);
  }
  void run() {
    Session session(executable, emulated_runtime(), weights);
    run_once(session);
    try {
      session.update_weights(empty);
    } catch (const Error &) {
      check_close(run_once(session), expected_result(x, 9), 1e-5);
      throw;
    }
    const std::vector<float> after = run_once(session); // relu(x times zeros) + x
    CHECK(after == std::vector<float>(x.begin(), x.begin() + 36));
  }
  void check_good_run() { run(); }
};

/// Two models of one word, and weights that leave and come back. What fails leaves a usable group.
struct GroupScenario : UpdateScenario {
  Executable other{emulated_runtime(), module};

  Session open(Executable &model, Group &group, const char *word = "word") {
    auto options = detail::sized<cugrt_session_options>();
    options.group = group.get();
    options.exclusive = word;
    options.wait = CUGRT_WAIT_BLOCK;
    return Session(model, emulated_runtime(), weights, options);
  }
  void run() {
    Group group(emulated_runtime());
    Session first = open(executable, group), second = open(other, group);
    auto use = [&] {
      check_close(run_once(first), expected_result(x, 9), 1e-5);
      const auto results = second.run(other.function(0), {input.tensor(CUGRT_F32, {9, 4})});
      second.synchronize();
      check_close(download<float>(results[0].as.tensor.address, 36), expected_result(x, 9), 1e-5);
    };
    try {
      use();
      first.evict();
      CHECK_FALSE(first.is_resident());
      use();
      second.evict();
      first.seal();
    } catch (const Error &) {
      use();
      throw;
    }
    use();
  }
  void check_good_run() { run(); }
};

/// New weights where a group's budget does not hold them beside the old ones.
struct TightUpdateScenario : GroupScenario {
  uint64_t held = 0; // by a session of the model that has run
  TightUpdateScenario() {
    Group probe(emulated_runtime());
    Session alone = open(executable, probe);
    run_once(alone);
    held = probe.memory().device_bytes;
  }
  void run() {
    Group group(emulated_runtime(), held);
    Session session = open(executable, group);
    run_once(session);
    try {
      session.update_weights(empty);
    } catch (const Error &) {
      check_close(run_once(session), expected_result(x, 9), 1e-5);
      throw;
    }
    const std::vector<float> after = run_once(session);
    CHECK(after == std::vector<float>(x.begin(), x.begin() + 36));
  }
  void check_good_run() { run(); }
};

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

} // namespace

TEST_CASE("whichever driver call fails: one clear error, nothing leaks, a fresh session works") {
  Scenario scenario;
  fail_every_call(scenario);
}

TEST_CASE("likewise where instances with loops and branches in them are built, patched and "
          "destroyed") {
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

TEST_CASE("likewise where a session is given new weights") {
  UpdateScenario scenario;
  fail_every_call(scenario);
}

TEST_CASE("likewise where a group's budget does not hold new weights beside the old ones") {
  TightUpdateScenario scenario;
  fail_every_call(scenario);
}

TEST_CASE("likewise where models are in a group and their weights leave") {
  GroupScenario scenario;
  fail_every_call(scenario);
}

TEST_CASE("Weights of a device without virtual memory come back elsewhere, and are found there") {
  GroupScenario scenario;
  EmulatorControl emulator;
  scenario.check_good_run();
  size_t moved = 0;
  for (unsigned long long nth = 1; nth < 40; ++nth) {
    INFO("call " << nth);
    Group group(emulated_runtime());
    std::optional<Session> session;
    emulator.inject(nth, CUDA_ERROR_NOT_SUPPORTED);
    try {
      session.emplace(scenario.open(scenario.executable, group));
    } catch (const Error &) { // of another call
    }
    emulator.inject(0, CUDA_SUCCESS);
    if (!session)
      continue;
    check_close(scenario.run_once(*session), expected_result(scenario.x, 9), 1e-5);
    const auto before = session->counters();
    session->evict();
    const Buffer in_its_place(emulated_runtime(), 64);
    check_close(scenario.run_once(*session), expected_result(scenario.x, 9), 1e-5);
    const auto after = session->counters();
    CHECK(after.regions_built == before.regions_built);
    moved += after.fields_patched > before.fields_patched;
  }
  CHECK(moved == 1);
}

TEST_CASE("likewise where kernels check device symbols") {
  CheckedScenario scenario;
  fail_every_call(scenario);
}

TEST_CASE(
    "A session without memory for the word of device symbols says so, and the next one opens") {
  CheckedScenario scenario;
  EmulatorControl emulator;
  scenario.check_good_run();
  const auto before = emulator.live();
  size_t told = 0;
  for (unsigned long long nth = 1; nth < 20; ++nth) {
    INFO("call " << nth);
    emulator.inject(nth, CUDA_ERROR_OUT_OF_MEMORY);
    try {
      scenario.open();
    } catch (const Error &error) {
      if (mentions(error, "word for device symbols") && mentions(error, "page-locked")) {
        CHECK(error.code() == CUGRT_OUT_OF_HOST_MEMORY);
        CHECK(error.cuda_error() == "CUDA_ERROR_OUT_OF_MEMORY");
        ++told;
      }
      CHECK(emulator.live() == before);
    }
    emulator.inject(0, CUDA_SUCCESS);
  }
  CHECK(told == 1);
  scenario.check_good_run();
}

TEST_CASE("Sessions whose kernels check no symbol have no word for them") {
  Scenario scenario;
  CheckedScenario checked;
  EmulatorControl emulator;
  const auto host_allocations = [&](auto &&open) {
    const auto before = emulator.now().host_allocations;
    Session session = open();
    return emulator.now().host_allocations - before;
  };
  const auto none = host_allocations(
      [&] { return Session(scenario.executable, emulated_runtime(), scenario.weights); });
  CHECK(host_allocations([&] { return checked.open(); }) == none + 1);
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

TEST_CASE(
    "whichever driver call runs out of memory: an error or a recovery, and a fresh session works") {
  Scenario scenario;
  EmulatorControl emulator;
  scenario.check_good_run();
  unsigned long long begin = emulator.now().calls;
  scenario.check_good_run();
  unsigned long long calls = emulator.now().calls - begin;
  for (unsigned long long nth = 1; nth <= calls; nth += 3) {
    INFO("call " << nth << " of " << calls);
    emulator.inject(nth, CUDA_ERROR_OUT_OF_MEMORY);
    try {
      scenario.run();
    } catch (const Error &error) {
      CHECK(error.code() == CUGRT_OUT_OF_DEVICE_MEMORY);
    }
    emulator.inject(0, CUDA_SUCCESS);
    scenario.check_good_run();
  }
}

TEST_CASE(
    "whichever host allocation of parsing, planning and compiling fails: out of host memory") {
  Scenario scenario; // the kernels are in the memory cache now
  auto work = [&]() -> cugrt_status * {
    cugrt_module *module = nullptr;
    if (cugrt_status *status = api().module_parse(kModel, std::strlen(kModel), "m", ".", &module))
      return status;
    cugrt_executable *executable = nullptr;
    auto options = detail::sized<cugrt_compile_options>();
    options.threads = 1;
    cugrt_status *status =
        api().executable_compile(emulated_runtime().get(), module, &options, &executable);
    api().executable_free(executable);
    api().module_free(module);
    return status;
  };
  uint64_t count = count_allocations(work);
  REQUIRE(count > 100);
  // Every one of the first few hundred, then a stride: each try repeats the whole work.
  for (uint64_t nth = 0; nth < count; nth += nth < 300 ? 1 : 37) {
    INFO("allocation " << nth << " of " << count);
    auto fault = std::make_unique<FailAt>(nth, false, kEmulator);
    cugrt_status *status = work();
    bool failed = fault->triggered();
    fault.reset();
    REQUIRE(failed);
    if (status) // what only warms a cache may go without
      CHECK(api().status_code(status) == CUGRT_OUT_OF_HOST_MEMORY);
    api().status_free(status);
  }
  REQUIRE(work() == nullptr);
}

TEST_CASE("whichever host allocation of a session fails: out of host memory, nothing leaks") {
  Scenario scenario;
  EmulatorControl emulator;
  scenario.check_good_run();
  const auto before = emulator.live();
  auto work = [&]() -> cugrt_status * {
    auto options = detail::sized<cugrt_session_options>();
    options.weights = scenario.weights.get();
    cugrt_session *session = nullptr;
    if (cugrt_status *status = api().session_open(scenario.executable.get(),
                                                  emulated_runtime().get(), &options, &session))
      return status;
    cugrt_status *status = nullptr;
    for (int64_t n : {16, 16, 9}) {
      cugrt_value argument{};
      argument.kind = CUGRT_VALUE_TENSOR;
      argument.as.tensor.address = scenario.input.address();
      argument.as.tensor.dtype = CUGRT_F32;
      argument.as.tensor.rank = 2;
      argument.as.tensor.dims[0] = n;
      argument.as.tensor.dims[1] = 4;
      auto run = detail::sized<cugrt_run_options>();
      run.arguments = &argument;
      run.argument_count = 1;
      status = api().session_run(session, scenario.executable.function(0).get(), &run);
      if (!status)
        status = api().session_synchronize(session);
      if (status)
        break;
    }
    api().session_free(session);
    return status;
  };
  uint64_t count = count_allocations(work);
  REQUIRE(count > 50);
  for (uint64_t nth = 0; nth < count; ++nth) {
    INFO("allocation " << nth << " of " << count);
    auto fault = std::make_unique<FailAt>(nth, false, kEmulator);
    cugrt_status *status = work();
    fault.reset();
    if (status)
      CHECK(api().status_code(status) == CUGRT_OUT_OF_HOST_MEMORY);
    api().status_free(status);
    CHECK(emulator.live() == before);
  }
  scenario.check_good_run();
}
