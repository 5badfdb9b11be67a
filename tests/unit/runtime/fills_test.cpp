// runtime: fills, on the emulated driver. The planner has no binding that asks for one, so these
// plans are made by hand, as those of packs may be.
#include "fixture.h"

#include "device/driver/memory.h"

#include <bit>

using namespace cugrt;
using namespace cugrt::runtime;
using namespace cugrt::test;

namespace {

constexpr const char *kAdd = R"(
extern "C" __global__ void add_entry(const float *x, float *y, long long n, float a) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + a;
}
)";
constexpr int64_t kUpper = 64;

/// y = fill 0x41 of [n, 4]: at a caller's address. z = a + fill 0x3c of [n, 4] in the arena: of a
/// size that changes. w[:16] = a + fill 0x40 of 64 bytes in the arena: a node of its own kind. And
/// v = x + a, since x says what n is.
plan::Plan fills() {
  PlanMaker maker(kUpper);
  maker.plan.codes[0].text = kAdd;
  const uint32_t x = maker.tensor_param("x"), a = maker.float_param("a");
  const uint32_t y = maker.result(), z = maker.result(), w = maker.result(), v = maker.result();
  const uint32_t sized = maker.arena_tensor(), fixed = maker.arena_tensor();
  for (uint32_t buffer : {w, fixed}) {
    maker.function().buffers[buffer].bytes = maker.plan.exprs.constant(64);
    maker.function().buffers[buffer].dims = {maker.plan.exprs.constant(16)};
  }
  maker.function().slots[maker.function().buffers[w].index].bytes = maker.plan.exprs.constant(64);
  auto fill = [&](uint32_t buffer, uint8_t byte) {
    plan::Function &function = maker.function();
    plan::Step step;
    step.kind = plan::StepKind::fill;
    step.name = "fill" + std::to_string(function.steps.size());
    step.fill_byte = byte;
    step.accesses = {static_cast<uint32_t>(function.accesses.size()), 1};
    function.accesses.push_back({buffer, ir::Access::out});
    function.steps.push_back(step);
  };
  fill(y, 0x41);
  fill(sized, 0x3c);
  maker.step(sized, z, a);
  fill(fixed, 0x40);
  maker.step(fixed, w, a, 16);
  maker.step(x, v, a);
  maker.region();
  return std::move(maker.plan);
}

float of_bytes(uint32_t byte) { return std::bit_cast<float>(byte * 0x01010101u); }

class Fills {
public:
  explicit Fills(SessionOptions options) {
    DeviceOptions device_options;
    device_options.cache_folder = "off";
    device_ = must(
        Device::open(must(driver::open_driver({driver::DriverKind::path, CUGRT_TEST_EMULATOR})),
                     device_options));
    executable_ = must(compile_executable(*device_, fills(), "fills.cugrt", "", {}));
    session_ = must(Session::open(executable_, device_, options));
    for (int i = 0; i < 9; ++i)
      memory_.push_back(must(driver::DeviceBuffer::allocate(device_->context(), kUpper * 16)));
  }

  /// Runs into the four buffers from `first` on and checks every element of the results, and that
  /// nothing is written behind them.
  void run(int64_t n, float a, size_t first = 0) {
    INFO("n = " << n << ", a = " << a << ", buffers from " << first);
    write(memory_[8], 2);
    cugrt_value arguments[] = {tensor(memory_[8].address(), {n, 4}), floating(a)};
    std::array<cugrt_value, 4> results;
    for (size_t i = 0; i < 4; ++i) {
      write(memory_[first + i], -1);
      results[i] = i == 2 ? tensor(memory_[first + i].address(), {16})
                          : tensor(memory_[first + i].address(), {n, 4});
    }
    must(session_->run(0, {arguments, results}));
    must(session_->synchronize());
    const float expected[] = {of_bytes(0x41), of_bytes(0x3c) + a, of_bytes(0x40) + a, 2 + a};
    for (size_t i = 0; i < 4; ++i) {
      INFO("result " << i);
      std::vector<float> got(kUpper * 4);
      must(driver::copy_to_host(device_->context(), got.data(), memory_[first + i].address(),
                                kUpper * 16));
      std::vector<float> wanted(i == 2 ? 16 : static_cast<size_t>(n) * 4, expected[i]);
      wanted.resize(got.size(), -1);
      CHECK(got == wanted);
    }
  }

  Counters counters() { return must(session_->totals()).counters; }

private:
  void write(const driver::DeviceBuffer &to, float value) {
    const std::vector<float> values(kUpper * 4, value);
    must(driver::copy_to_device(device_->context(), to.address(), values.data(), kUpper * 16));
  }

  std::shared_ptr<Device> device_;
  std::shared_ptr<const Executable> executable_;
  std::unique_ptr<Session> session_;
  std::vector<driver::DeviceBuffer> memory_;
};

} // namespace

TEST_CASE("fills of changing sizes, at changing addresses, are patched; empty ones are disabled") {
  SessionOptions options;
  options.cache.policy.class_pool = 1;
  options.cache.policy.pin_uses = 1000; // patch one instance only
  Fills graph(options);
  graph.run(5, 1);
  graph.run(5, 1);
  CHECK(graph.counters().regions_hit == 1);
  graph.run(kUpper, 1);
  graph.run(7, 2, 4);
  graph.run(4, 2, 4);
  graph.run(0, 2, 4);
  graph.run(33, 3);
  CHECK(graph.counters().regions_built == 1);
  CHECK(graph.counters().regions_patched == 5);
  CHECK(graph.counters().regions_eager == 0);
}

TEST_CASE("fills give the same step by step") {
  SessionOptions options;
  options.cache.eager = true;
  Fills eager(options);
  eager.run(5, 1);
  eager.run(kUpper, 2, 4);
  CHECK(eager.counters().regions_eager == 2);
}
