// Cooperative grids, kernels that begin early and graphs of low priority, all on their way at once.
#include "group_nets.h"

#include <atomic>
#include <optional>
#include <thread>

using namespace cugrt;
using namespace cugrt::test;

namespace {

constexpr int kBlocks = 8, kThreads = 64, kCount = kBlocks * kThreads;

// Each block reads what the next one has written, behind a barrier of the whole grid: y[i] = x[i] +
// 3 x[i + 64]. The barrier counts on from run to run.
const std::string kExchange = R"(cugrt 1
kernel @exchange {
  inline """
extern "C" __global__ void exchange(const int *x, unsigned long long *arrived, int *tripled, int *y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
  tripled[i] = 3 * x[i];
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned long long before, now;
    asm volatile("atom.add.acq_rel.gpu.global.u64 %0, [%1], 1;" : "=l"(before) : "l"(arrived) : "memory");
    const unsigned long long wanted = (before / gridDim.x + 1) * gridDim.x;
    do
      asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(now) : "l"(arrived) : "memory");
    while (now < wanted);
  }
  __syncthreads();
  y[i] = x[i] + tripled[(i + blockDim.x) % all];
}
"""
  entry "exchange"
  params (x: in i32, arrived: inout i64, tripled: out i32, y: out i32)
  launch { grid (8, 1, 1) block (64, 1, 1) cooperative }
}
func @main(%x: tensor<[512], i32>) -> (tensor<[512], i32>) {
  %s = alloc_storage "state", 16
  %arrived = alloc_tensor %s, 0 : tensor<[1], i64, scope "state">
  %t = alloc : tensor<[512], i32>
  %y = alloc : tensor<[512], i32>
  launch @exchange(%x, %arrived, %t, %y)
  return %y
}
)";

// y = 2 (x + 1): the second kernel may begin before the first has ended.
const std::string kPair = R"(cugrt 1
kernel @first {
  inline """
extern "C" __global__ void first(const int *x, int *y) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i] + 1;
}
"""
  entry "first"
  params (x: in i32, y: out i32)
  launch { grid (8, 1, 1) block (64, 1, 1) programmatic }
}
kernel @second {
  inline """
extern "C" __global__ void second(const int *x, int *y) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = 2 * x[i];
}
"""
  entry "second"
  params (x: in i32, y: out i32)
  launch { grid (8, 1, 1) block (64, 1, 1) programmatic }
}
func @main(%x: tensor<[512], i32>) -> (tensor<[512], i32>) {
  %a = alloc : tensor<[512], i32>
  launch @first(%x, %a)
  %y = alloc : tensor<[512], i32>
  launch @second(%a, %y)
  return %y
}
)";

/// One of the two models, of high priority, with memory of its own.
struct Urgent {
  Urgent(Runtime &runtime, const std::string &text, Group &group, const char *word)
      : executable(runtime, Module::parse(text)), session([&] {
          auto options = detail::sized<cugrt_session_options>();
          options.group = group.get();
          options.exclusive = word;
          options.priority = 1;
          return Session(executable, runtime, Weights(), options);
        }()),
        input(emulated_runtime(), kCount * sizeof(int)),
        output(emulated_runtime(), kCount * sizeof(int)) {}

  /// No run is on its way.
  void fill(int seed) {
    for (int i = 0; i < kCount; ++i)
      x[size_t(i)] = (i * 37 + seed * 11) % 1000;
    copy_to_device(emulated_runtime(), input.address(), std::as_bytes(std::span(x)));
  }
  void launch() {
    std::vector<Value> results = {output.tensor(CUGRT_I32, {kCount})};
    session.run_into(executable.function("main"),
                     std::vector<Value>{input.tensor(CUGRT_I32, {kCount})}, results);
  }
  template <class Expected> bool is_right(const Expected &expected) {
    session.synchronize();
    const std::vector<int> y = download<int>(output.address(), kCount);
    for (int i = 0; i < kCount; ++i)
      if (y[size_t(i)] != expected(x, i))
        return false;
    return true;
  }

  Executable executable;
  Session session;
  Buffer input, output;
  std::vector<int> x = std::vector<int>(kCount);
};

int exchanged(const std::vector<int> &x, int i) {
  return x[size_t(i)] + 3 * x[size_t((i + kThreads) % kCount)];
}
int paired(const std::vector<int> &x, int i) { return 2 * (x[size_t(i)] + 1); }

/// Two grids that wait for themselves, a pair and a model of low priority.
struct AtOnce {
  explicit AtOnce(Runtime &second, const char *word = nullptr)
      : group(emulated_runtime(), 0, 1), one(emulated_runtime(), kExchange, group, word),
        other(second, kExchange, group, nullptr), pair(emulated_runtime(), kPair, group, word),
        low(nets().a, nets().a.open(&group)) {}

  Group group;
  Urgent one, other, pair;
  Runner low;
};

} // namespace

TEST_CASE("cooperative grids, a programmatic pair and low priority go on at once", "[at_once]") {
  std::optional<Runtime> part;
  if (emulated_runtime().info().driver_version >= 12040) {
    RuntimeOptions options = emulated_options();
    options.multiprocessors = 8;
    part.emplace(options);
  }
  for (const char *word : {static_cast<const char *>(nullptr), "urgent"})
    for (Runtime *second : {&emulated_runtime(), part ? &*part : nullptr}) {
      if (!second)
        continue;
      AtOnce models(*second, word);
      for (int round = 0; round < 12; ++round) { // one thread queues all of it
        for (Urgent *urgent : {&models.one, &models.other, &models.pair})
          urgent->fill(round);
        models.low.fill(1 + uint32_t(round) * 5 % 64, uint32_t(round));
        for (int turn = 0; turn < 3; ++turn) {
          models.one.launch();
          models.low.launch();
          models.other.launch();
          models.pair.launch();
        }
        CHECK(models.pair.is_right(paired));
        CHECK(models.other.is_right(exchanged));
        CHECK(models.one.is_right(exchanged));
        CHECK(models.low.is_right());
      }
      CHECK(models.one.session.counters().instances == 1);
      std::vector<std::thread> threads; // each one its own
      std::atomic<int> wrong = 0;
      auto repeat = [&](Urgent &urgent, int (*expected)(const std::vector<int> &, int)) {
        threads.emplace_back([&wrong, &urgent, expected] {
          for (int round = 0; round < 30; ++round) {
            urgent.fill(round);
            urgent.launch();
            urgent.launch();
            wrong += !urgent.is_right(expected);
          }
        });
      };
      repeat(models.one, exchanged);
      repeat(models.other, exchanged);
      repeat(models.pair, paired);
      threads.emplace_back([&] {
        for (uint32_t round = 0; round < 30; ++round)
          wrong += !models.low.run(1 + round % 64, round);
      });
      for (std::thread &thread : threads)
        thread.join();
      CHECK(wrong == 0);
    }
}
