// runtime: runs that differ little from the one before: what they cost the driver, and that no
// check is lost by remembering.
#include "chain.h"

#include <random>

using namespace cugrt;
using namespace cugrt::runtime;
using namespace cugrt::test;

namespace {

constexpr const char *kKernelSetter = "cuGraphExecKernelNodeSetParams";

/// A chain that has run twice with the same arguments.
struct Repeated : Chain {
  Repeated() {
    run(5);
    run(5);
    x = memory[0].address();
    y = memory[1].address();
  }
  /// A run with these values must fail so, and the next good one must work.
  void refuses(std::vector<cugrt_value> arguments, std::vector<cugrt_value> results,
               const std::string &why) {
    const uint64_t kernels = machine.fake.kernels_run();
    Status status = session->run(0, {arguments, results});
    INFO(status.to_string());
    CHECK(status.code() != Code::ok);
    CHECK(contains(status.message(), why));
    CHECK(machine.fake.kernels_run() == kernels);
    run(5);
    run(5);
  }
  uint64_t x, y;
};

} // namespace

TEST_CASE("every error is still found after runs that repeated each other") {
  Repeated chain;
  uint64_t x = chain.x, y = chain.y;
  cugrt_value a = floating(1), good = tensor(x, {5, 4});
  chain.refuses({good}, {}, "takes 2 arguments");
  chain.refuses({good, a, a}, {}, "takes 2 arguments");
  chain.refuses({good, integer(1)}, {}, "parameter %a: expected a float, got int 1");
  chain.refuses({a, good}, {}, "parameter %x: expected a tensor");
  chain.refuses({tensor(x, {5, 4}, CUGRT_F16), a}, {}, "expected a tensor of dtype f32");
  chain.refuses({tensor(x, {5}), a}, {}, "expected rank 2");
  chain.refuses({tensor(x, {5, 3}), a}, {}, "dimension 1 is 3, expected 4");
  chain.refuses({tensor(x, {65, 4}), a}, {}, "its bounds are 0 to 64");
  chain.refuses({tensor(x, {-1, 4}), a}, {}, "no negative dimension");
  chain.refuses({tensor(0, {5, 4}), a}, {}, "the address is null");
  chain.refuses({tensor(x + 2, {5, 4}), a}, {}, "is not a multiple of 4 bytes");
  chain.refuses({tensor(UINT64_MAX - 15, {5, 4}), a}, {}, "wraps around the end");
  chain.refuses({tensor(y + 16, {5, 4}), a}, {tensor(y, {5, 4})}, "overlaps");
  chain.refuses({good, a}, {tensor(x, {5, 4})}, "overlaps");
  chain.refuses({good, a}, {tensor(y + 4, {5, 4})}, "is not a multiple of 16 bytes");
  chain.refuses({good, a}, {tensor(y + 1024, {4, 4})}, "result 0: expected memory for");
  chain.refuses({good, a}, {tensor(y, {5, 4}), a}, "has 1 results, got room for 2");
}

TEST_CASE("an address taken by a run that failed for another one is not lost") {
  Repeated chain;
  // %x moves, but the result is misaligned.
  CHECK(!chain.try_run(5, chain.memory[2].address(), chain.y + 4).ok());
  chain.run(5, 2, 1);
  chain.run(5, 0, 1);
}

TEST_CASE("a moved argument sets its node, once, and buffers used in turn go on doing so") {
  Repeated chain;
  for (int i = 0; i < 6; ++i) {
    chain.machine.fake.forget();
    chain.run(5, i % 2 ? 0 : 2, 1);
    CHECK(chain.machine.fake.count(kKernelSetter) == 1);
    CHECK(chain.machine.fake.count("cuGraphInstantiateWithParams") == 0);
  }
  CHECK(chain.counters().regions_patched == 6);
  CHECK(chain.counters().fields_patched == 6);
}

TEST_CASE("a result that is bound where the last one was must fit as that one did") {
  Chain chain(3);
  chain.run(4);
  const uint64_t x = chain.memory[0].address(), y = chain.memory[1].address();
  const std::vector<cugrt_value> arguments = {tensor(x, {4, 4}), floating(1)};
  cugrt_value dtype = tensor(y, {4, 4}), rank = tensor(y, {4, 4, 1});
  dtype.as.tensor.dtype = CUGRT_F16;
  for (const cugrt_value &wrong : {tensor(y, {3, 4}), tensor(y, {4, 5}), dtype, rank}) {
    RunRequest request;
    request.arguments = arguments;
    cugrt_value result = wrong;
    request.results = {&result, 1};
    CHECK(contains(chain.session->run(0, request).message(), "result 0: expected memory for"));
    chain.run(4);
  }
  // In memory of the session's nothing is bound, whatever comes back at its address.
  chain.run(4, 0, -1);
  cugrt_value handed_out = chain.result;
  handed_out.as.tensor.dims[0] = 3;
  must(chain.session->run(0, {arguments, {&handed_out, 1}}));
  CHECK(handed_out.as.tensor.dims[0] == 4);
}

TEST_CASE("argument and result may change places from run to run") {
  Repeated chain;
  for (int i = 0; i < 6; ++i) {
    chain.machine.fake.forget();
    chain.run(5, i % 2, 1 - i % 2);
    CHECK(chain.result.as.tensor.address == chain.memory[1 - i % 2].address());
    CHECK(chain.machine.fake.count(kKernelSetter) == (i == 0 ? 0 : 2));
  }
}

TEST_CASE("addresses are accepted exactly where a comparison of all ranges accepts them") {
  Repeated chain;
  auto block = must(driver::DeviceBuffer::allocate(chain.device->context(), 512));
  constexpr int64_t kRows = 3;
  constexpr uint64_t kBytes = kRows * 16;
  std::mt19937 random(5);
  size_t accepted = 0;
  for (int i = 0; i < 4000; ++i) {
    uint64_t x = block.address() + random() % 100 * 4;
    uint64_t y = block.address() + (random() % 4 ? random() % 25 * 16 : random() % 100 * 4);
    auto *in = reinterpret_cast<float *>(x);
    bool good = y % 16 == 0 && (x + kBytes <= y || y + kBytes <= x);
    for (int64_t k = 0; good && k < kRows * 4; ++k)
      in[k] = static_cast<float>(i + k);
    Status status = chain.try_run(kRows, x, y);
    REQUIRE(status.ok() == good);
    if (!good)
      continue;
    ++accepted;
    must(chain.session->synchronize());
    for (int64_t k = 0; k < kRows * 4; ++k)
      REQUIRE(reinterpret_cast<float *>(y)[k] == static_cast<float>(i + k + chain.steps));
  }
  CHECK(accepted > 500);
}

namespace {

/// Three steps over n rows among `fixed` steps that depend on nothing.
plan::Plan mostly_fixed(int fixed) {
  PlanMaker maker(64);
  uint32_t x = maker.tensor_param("x"), a = maker.float_param("a"), y = maker.result();
  uint32_t t = maker.arena_tensor(), u = maker.arena_tensor();
  uint32_t v = maker.arena_tensor(), w = maker.arena_tensor();
  maker.step(x, t, a);
  for (int i = 0; i < fixed; ++i)
    maker.step(i % 2 ? w : v, i % 2 ? v : w, a, 16);
  maker.step(t, u, a);
  maker.step(u, y, a);
  maker.region();
  return std::move(maker.plan);
}

struct Switch {
  size_t setters, calls;
  uint64_t fields, evaluated;
  friend bool operator==(const Switch &, const Switch &) = default;
};

/// What the driver and the patch program had to do for a switch from 5 rows to `rows`.
Switch cost_of_switch(int fixed, int64_t rows) {
  SessionOptions options;
  options.cache.policy.class_pool = 1;
  options.cache.policy.pin_uses = 1000;
  Chain chain(mostly_fixed(fixed), 3, options);
  chain.run(5);
  Counters before = chain.counters();
  chain.machine.fake.forget();
  chain.run(rows);
  Counters after = chain.counters();
  CHECK(after.regions_patched == 1);
  return {chain.machine.fake.count(kKernelSetter), chain.machine.fake.call_count(),
          after.fields_patched - before.fields_patched,
          after.expressions_evaluated - before.expressions_evaluated};
}

} // namespace

TEST_CASE("a shape switch costs what depends on the symbol, not what the region has") {
  // Of each dependent node the count changes and, from 20 to 160 elements of 32 a block, the grid;
  // all have the same, so each is evaluated once.
  Switch small = cost_of_switch(20, 40);
  CHECK(small.setters == 3);
  CHECK(small.fields == 6);
  CHECK(small.evaluated == 2);
  CHECK(cost_of_switch(600, 40) == small);
  // To 24 elements, still one block: the grid is evaluated and found unchanged.
  Switch one_block = cost_of_switch(20, 6);
  CHECK(one_block.setters == 3);
  CHECK(one_block.fields == 3);
  CHECK(one_block.evaluated == 2);
}

TEST_CASE("a dimension that becomes zero disables the nodes that depend on it, and only those") {
  SessionOptions options;
  options.cache.policy.class_pool = 1;
  options.cache.policy.pin_uses = 1000;
  Chain chain(mostly_fixed(20), 3, options);
  chain.run(5);
  chain.machine.fake.forget();
  const uint64_t kernels = chain.machine.fake.kernels_run();
  chain.run(0);
  CHECK(chain.machine.fake.count("cuGraphNodeSetEnabled") == 3);
  CHECK(chain.machine.fake.count(kKernelSetter) == 0);
  CHECK(chain.machine.fake.kernels_run() - kernels == 20);
  chain.machine.fake.forget();
  chain.run(7, 2, 1); // enabled again, with what has changed meanwhile
  CHECK(chain.machine.fake.count("cuGraphNodeSetEnabled") == 3);
  CHECK(chain.machine.fake.count(kKernelSetter) == 3);
  CHECK(chain.counters().regions_built == 1);
}

TEST_CASE("a run leaves its context current where none was, and another one as it was") {
  Chain chain(1);
  driver::DriverApi api = chain.machine.fake.api();
  CUcontext current = nullptr, other = chain.machine.fake.another_context();
  REQUIRE(api.CtxSetCurrent(nullptr) == CUDA_SUCCESS);
  chain.run(5);
  REQUIRE(api.CtxGetCurrent(&current) == CUDA_SUCCESS);
  CHECK(current == chain.device->context().get());
  REQUIRE(api.CtxSetCurrent(other) == CUDA_SUCCESS);
  chain.run(5);
  REQUIRE(api.CtxGetCurrent(&current) == CUDA_SUCCESS);
  CHECK(current == other);
  // A runtime that ends does not stay current.
  REQUIRE(api.CtxSetCurrent(chain.device->context().get()) == CUDA_SUCCESS);
  chain.memory.clear();
  chain.session.reset();
  chain.executable.reset();
  chain.device.reset();
  REQUIRE(api.CtxGetCurrent(&current) == CUDA_SUCCESS);
  CHECK(current == nullptr);
}
