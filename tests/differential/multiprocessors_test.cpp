// Runtimes that have some of a device's multiprocessors, alone and in a group with others.
#include "group_nets.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <set>
#include <thread>

using namespace cugrt;
using namespace cugrt::test;

namespace {

RuntimeOptions part_options(uint32_t multiprocessors) {
  RuntimeOptions options = emulated_options();
  options.multiprocessors = multiprocessors;
  return options;
}

constexpr int64_t kBlocksAtOnce = 40;

// Of each block where it ran, 100 * x further; and how many blocks a cooperative grid had, if it
// fits. The second function launches the first one's kernel in the body of a condition.
const std::string kWhere = R"(cugrt 1
kernel @where {
  inline """
extern "C" __global__ void where(const int *x, int *y) {
  unsigned at;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(at));
  if (threadIdx.x == 0)
    y[blockIdx.x] = (int)at + 100 * x[0];
}
"""
  entry "where"
  params (x: in i32, y: out i32)
  launch { grid (40, 1, 1) block (1024, 1, 1) }
}
kernel @grid {
  inline """
extern "C" __global__ void grid(int *y) {
  if (threadIdx.x == 0 && blockIdx.x == 0)
    y[0] = (int)gridDim.x;
}
"""
  entry "grid"
  params (y: out i32)
  launch { grid (40, 1, 1) block (1024, 1, 1) cooperative }
  launch { grid (1, 1, 1) block (32, 1, 1) }
}
func @main(%x: tensor<[1], i32>) -> (tensor<[40], i32>, tensor<[1], i32>) {
  %y = alloc : tensor<[40], i32>
  launch @where(%x, %y)
  %z = alloc : tensor<[1], i32>
  launch @grid(%z)
  return %y, %z
}
func @chosen(%x: tensor<[1], i32>, %f: tensor<[1], i32>) -> (tensor<[40], i32>) {
  %y = if %f using (%x) -> (tensor<[40], i32>) {
    %a = alloc : tensor<[40], i32>
    launch @where(%x, %a)
    yield %a
  } else {
    %b = alloc : tensor<[40], i32>
    launch @where(%x, %b)
    %c = add(%b, %b)
    yield %c
  }
  return %y
}
)";

/// The model on one runtime, by graphs or not.
struct Where {
  explicit Where(Runtime &runtime, bool eager = false)
      : executable(runtime, Module::parse(kWhere)), session([&] {
          auto options = detail::sized<cugrt_session_options>();
          options.eager = eager;
          return Session(executable, runtime, Weights(), options);
        }()) {}

  /// Multiprocessors, and the blocks of the grid that waits for itself.
  std::pair<std::set<int>, int> run(int x, void *stream = nullptr) {
    const Buffer input = upload(std::vector<int>{x});
    const auto values =
        session.run(executable.function("main"), {input.tensor(CUGRT_I32, {1})}, stream);
    session.synchronize();
    return {places(values[0], x), download<int>(values[1].as.tensor.address, 1)[0]};
  }
  std::set<int> choose(int x) {
    const Buffer input = upload(std::vector<int>{x}), flag = upload(std::vector<int>{1});
    const auto values = session.run(executable.function("chosen"),
                                    {input.tensor(CUGRT_I32, {1}), flag.tensor(CUGRT_I32, {1})});
    session.synchronize();
    return places(values[0], x);
  }
  static std::set<int> places(const Value &value, int x) {
    std::set<int> all;
    for (int at : download<int>(value.as.tensor.address, size_t(kBlocksAtOnce)))
      all.insert(at - 100 * x);
    return all;
  }

  Executable executable;
  Session session;
};

bool in_part(const std::set<int> &places, uint32_t multiprocessors) {
  return *places.begin() >= 0 && *places.rbegin() < int(multiprocessors);
}

bool has_parts() { return emulated_runtime().info().driver_version >= 12040; }

} // namespace

TEST_CASE("all that a runtime of some multiprocessors launches runs on these") {
  if (!has_parts())
    return;
  const uint32_t all = emulated_runtime().info().multiprocessors;
  REQUIRE(all > 32);
  Runtime part(part_options(5));
  const uint32_t few = part.info().multiprocessors;
  CHECK((few >= 5 && few <= 8)); // groups are of 8 at most
  for (bool eager : {false, true}) {
    Where whole(emulated_runtime(), eager), some(part, eager);
    for (int x = 0; x < 4; ++x) { // from the third run on an instance, which is patched
      const auto [places, blocks] = some.run(x);
      CHECK(in_part(places, few));
      CHECK(places.size() > 1);
      CHECK(blocks == 1); // 40 blocks of 1,024 threads are not resident
      CHECK(in_part(some.choose(x), few));
      const auto [of_whole, fit] = whole.run(x);
      CHECK_FALSE(in_part(of_whole, few));
      CHECK(fit == kBlocksAtOnce);
    }
    CHECK((some.session.counters().instances > 0) == !eager);
  }
  Runtime more(part_options(24));
  Where fits(more);
  const auto [places, blocks] = fits.run(1);
  CHECK(blocks == kBlocksAtOnce);
  CHECK(in_part(places, more.info().multiprocessors));
}

TEST_CASE("kernels are chosen for as many multiprocessors as the runtime has") {
  if (!has_parts())
    return;
  // Blocks of a recurrent layer wait for one another where two a multiprocessor are enough.
  Runtime part(part_options(8));
  const uint32_t few = part.info().multiprocessors;
  const std::string hidden = std::to_string(8 * (2 * few + 1)),
                    gates = std::to_string(32 * (2 * few + 1));
  const Module module = Module::parse("cugrt 1\nfunc @main(%x: tensor<[2, 1, 1, " + gates +
                                      "], f32>, %w: tensor<[1, " + hidden + ", " + gates +
                                      "], f32>) -> (tensor<[2, 1, 1, " + hidden +
                                      "], f32>) {\n  %y, %h, %c = lstm(%x, %w)\n  return %y\n}\n");
  auto arena_of = [&](Runtime &runtime, const std::vector<std::string> &options) {
    Executable executable(runtime, module, options);
    return Session(executable, runtime).memory().arena_bytes; // state of the form that waits
  };
  const uint64_t whole = arena_of(emulated_runtime(), {});
  CHECK(arena_of(part, {}) != whole);
  CHECK(arena_of(part, {}) ==
        arena_of(emulated_runtime(), {"target.multiprocessors=" + std::to_string(few)}));
}

TEST_CASE("models on parts of a device are of one group with those on all of it") {
  if (!has_parts())
    return;
  auto &[a, b, c] = nets();
  std::optional<Group> group(std::in_place, emulated_runtime());
  std::optional<Runtime> part(std::in_place, part_options(8));
  Net there(48, 512, 3);
  there.executable = Executable(*part, Module::parse(chain_text(48, 512)));
  there.main = there.executable.function("main");
  auto options = detail::sized<cugrt_session_options>();
  options.group = group->get();
  options.exclusive = "eyes";
  Runner whole(a, a.open(&*group, "eyes")), also(c, c.open(&*group, "eyes"));
  const uint64_t weight_bytes = group->memory().weight_bytes;
  {
    Runner some(there, Session(there.executable, *part, there.weights, options));
    CHECK(group->memory().weight_bytes == weight_bytes); // they stand there once
    CHECK(group->memory().arena_bytes <
          whole.session.memory().arena_bytes + some.session.memory().arena_bytes);
    part.reset(); // the session keeps it
    std::vector<std::thread> threads;
    std::atomic<int> wrong = 0;
    for (Runner *runner : {&whole, &also, &some})
      threads.emplace_back([&, runner] {
        for (uint32_t i = 0; i < 30; ++i)
          wrong += !runner->run(1 + i * 7 % 64, i);
      });
    for (std::thread &thread : threads)
      thread.join();
    CHECK(wrong == 0);
    some.session.evict();
    CHECK(some.run(3, 5));
    also.queue(64, 8);
    some.queue(64, 9); // ends while the other's work may be on its way
  }
  CHECK(also.is_right());
  CHECK(also.run(5, 6));
  also.session.evict();
  group.reset();
  CHECK(whole.run(7, 7));
  CHECK(also.run(8, 8));
}

TEST_CASE("multiprocessors that are not there, and streams of others, are refused") {
  if (!has_parts())
    return;
  const std::string all = std::to_string(emulated_runtime().info().multiprocessors);
  const Error refusal = error_of([] { Runtime(part_options(100000)); });
  CHECK(mentions(refusal, "multiprocessors 100000: the device has " + all));
  RuntimeOptions none = part_options(8);
  none.driver = CUGRT_DRIVER_NONE;
  CHECK(mentions(error_of([&] { Runtime{none}; }), "multiprocessors"));
  Runtime part(part_options(8));
  Where where(part);
  Stream other(emulated_runtime()), own(part);
  CHECK(mentions(error_of([&] { where.run(1, other.native()); }), "multiprocessors"));
  CHECK(in_part(where.run(1, own.native()).first, part.info().multiprocessors));
  // The other way round too little of the device would be used, as the caller says.
  Group group(part);
  auto &[a, b, c] = nets();
  CHECK(mentions(error_of([&, &a = a] { a.open(&group); }), "of another runtime"));
}

TEST_CASE("a driver that has no green contexts is refused by name", "[old_driver]") {
  REQUIRE_FALSE(has_parts());
  const Error refusal = error_of([] { Runtime(part_options(8)); });
  CHECK(mentions(refusal, "multiprocessors"));
  CHECK(mentions(refusal, "12.4"));
}
