// What a graph's nodes take from a run, each kind of field by itself: positions that the device
// reads, shared memory, copies.
#include "support/program.h"

using namespace cugrt;
using namespace cugrt::test;

namespace {

cugrt_session_options within(uint64_t budget_bytes) {
  auto options = session_options();
  options.instance_budget_bytes = budget_bytes;
  return options;
}

std::vector<int32_t> counted(size_t count, int32_t first) {
  std::vector<int32_t> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = first + static_cast<int32_t>(i);
  return values;
}

} // namespace

TEST_CASE("a position that kernels read from device memory costs a run nothing, and is in no key") {
  Program program(R"(cugrt 1
kernel @append {
  inline """
extern "C" __global__ void append(const int *x, int *cache, const int *p) {
    int at = *p < 0 ? 0 : *p > 63 ? 63 : *p;
    cache[at] = x[0] * 10 + at;
  }
  """
  entry "append"
  params (x: in i32, cache: inout i32, p: device_symbol i32)
  launch { grid (1, 1, 1) block (1, 1, 1) }
}
kernel @next {
  inline "extern \"C\" __global__ void next(int *p) { ++*p; }"
  entry "next"
  params (p: inout i32)
  launch { grid (1, 1, 1) block (1, 1, 1) }
}
func @main(%x: tensor<[1], i32>, %cache: inout tensor<[64], i32>, %pos: inout tensor<[1], i32>) {
  read p = %pos[0] in [0, 63]
  launch @append(%x, %cache, p)
  launch @next(%pos)
  return
}
)");
  Buffer x = upload(std::vector<int32_t>{7}), cache = upload(std::vector<int32_t>(64, -1)),
         position = upload(std::vector<int32_t>{0});
  auto run = [&] {
    program.session.run(program.main(), {x.tensor(CUGRT_I32, {1}), cache.tensor(CUGRT_I32, {64}),
                                         position.tensor(CUGRT_I32, {1})});
  };
  run();
  const cugrt_counters first = program.session.counters();
  for (int step = 1; step < 50; ++step)
    run();
  program.session.synchronize();
  const cugrt_counters last = program.session.counters();
  CHECK(last.regions_built == 1);
  CHECK(last.regions_hit == 49);
  CHECK(last.fields_patched == first.fields_patched);
  std::vector<int32_t> expected = counted(50, 70);
  expected.resize(64, -1);
  CHECK(download<int32_t>(cache.address(), 64) == expected);
  CHECK(download<int32_t>(position.address(), 1)[0] == 50);
}

TEST_CASE("shared memory and launch dimensions are set in one instance for every shape") {
  Program program(R"(cugrt 1
kernel @reverse {
  inline """
extern "C" __global__ void reverse(const int *x, int *y, long long m, long long n) {
    extern __shared__ int row[];
    row[threadIdx.x] = x[blockIdx.x * n + threadIdx.x];
    __syncthreads();
    y[blockIdx.x * n + threadIdx.x] = row[n - 1 - threadIdx.x];
  }
  """
  entry "reverse"
  params (x: in i32, y: out i32, m: symbol i64, n: symbol i64)
  launch { grid (m, 1, 1) block (n, 1, 1) shared 4*n }
}
func @main(%x: tensor<[m, n], i32>) -> (tensor<[m, n], i32>)
    attributes {upper_bounds = {m = 8, n = 64}} {
  %y = alloc : tensor<[m, n], i32>
  launch @reverse(%x, %y, m, n)
  return %y
}
)",
                  within(40000)); // one instance
  Buffer x = upload(counted(8 * 64, 3));
  const std::pair<int64_t, int64_t> shapes[] = {{8, 64}, {1, 5}, {3, 0}, {8, 33}, {2, 7}, {0, 64}};
  for (const auto &[m, n] : shapes) {
    INFO("m = " << m << ", n = " << n);
    std::vector<Value> results = program.run({x.tensor(CUGRT_I32, {m, n})});
    std::vector<int32_t> expected;
    for (int64_t row = 0; row < m; ++row)
      for (int64_t i = n; i-- > 0;)
        expected.push_back(static_cast<int32_t>(3 + row * n + i));
    CHECK(contents<int32_t>(results[0]) == expected);
  }
  CHECK(program.session.counters().regions_built == 1);
  CHECK(program.session.counters().regions_patched == 5);
}
