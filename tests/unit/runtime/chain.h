// A session of a chain of adds on the fake driver, with memory for its argument and result.
#pragma once

#include "fixture.h"

namespace cugrt::test {

using namespace cugrt::runtime;

/// y = x + 3 * a by three launches of four: the second is one for n > 8, another elsewhere.
///
///   0 ─┬─ 1, where n > 8 ──┬─ 3
///      └─ 2, where n <= 8 ─┘
inline plan::Plan branching() {
  PlanMaker maker;
  const uint32_t x = maker.tensor_param("x"), a = maker.float_param("a"), y = maker.result();
  const uint32_t first = maker.arena_tensor(), second = maker.arena_tensor();
  maker.step(x, first, a);
  maker.step(first, second, a);
  maker.step(first, second, a);
  maker.step(second, y, a);
  maker.region();
  maker.function().regions[0].edges = {{0, 1}, {0, 2}, {1, 3}, {2, 3}};
  const ir::ExprId n = maker.plan.exprs.symbol(maker.n), eight = maker.plan.exprs.constant(8);
  maker.function().steps[1].when = maker.plan.exprs.make(ir::ExprKind::lt, eight, n);
  maker.function().steps[2].when = maker.plan.exprs.make(ir::ExprKind::le, n, eight);
  return std::move(maker.plan);
}

struct Chain {
  explicit Chain(int steps = 3, SessionOptions options = {}, FakeDriver::Options driver = {})
      : Chain(PlanMaker::chain(steps), steps, std::move(options), driver) {}
  /// Of a plan whose result is x + steps * a.
  Chain(plan::Plan plan, int steps, SessionOptions options = {}, FakeDriver::Options driver = {})
      : machine(driver), device(machine.open()), steps(steps) {
    executable = must(TestDevice::compile(*device, std::move(plan)));
    session = must(Session::open(executable, device, options));
    for (int i = 0; i < 3; ++i)
      memory.push_back(must(driver::DeviceBuffer::allocate(device->context(), 4096)));
  }

  Status try_run(int64_t n, uint64_t x, uint64_t y, float a = 1) {
    cugrt_value arguments[] = {tensor(x, {n, 4}), floating(a)};
    result = y ? tensor(y, {n, 4}) : cugrt_value{};
    return session->run(0, {arguments, {&result, 1}});
  }

  /// Runs with x = 0, 1, 2, ... and checks every element of the result.
  void run(int64_t n, int x = 0, int y = 1, float a = 1) {
    auto *in = reinterpret_cast<float *>(memory[x].address());
    for (int64_t i = 0; i < n * 4; ++i)
      in[i] = static_cast<float>(i);
    must(try_run(n, memory[x].address(), y < 0 ? 0 : memory[y].address(), a));
    must(session->synchronize());
    REQUIRE(result.kind == CUGRT_VALUE_TENSOR);
    REQUIRE(result.as.tensor.dims[0] == n);
    const auto *out = reinterpret_cast<const float *>(result.as.tensor.address);
    for (int64_t i = 0; i < n * 4; ++i)
      REQUIRE(out[i] == static_cast<float>(i) + a * static_cast<float>(steps));
  }

  Counters counters() { return must(session->totals()).counters; }

  TestDevice machine;
  std::shared_ptr<Device> device;
  std::shared_ptr<const Executable> executable;
  std::unique_ptr<Session> session;
  std::vector<driver::DeviceBuffer> memory;
  cugrt_value result{};
  int steps;
};

} // namespace cugrt::test
