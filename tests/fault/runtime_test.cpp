// runtime: the nth driver call fails, the nth host allocation fails, for every n of a small model's
// life. One clear error each time, nothing leaked, and a fresh session works.
#include "scenario.h"
#include "support/alloc_fault.h"

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

} // namespace

TEST_CASE("whichever driver call fails: one clear error, nothing leaks, a fresh session works") {
  Scenario scenario;
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
  for (unsigned long long nth = 1; nth < 80; ++nth) {
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
  CHECK(moved > 0); // by each call that asks for virtual memory
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
