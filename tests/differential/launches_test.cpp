// runtime: what a session says and keeps when it launches nothing or refuses a value, and launches
// of clusters, on the emulated driver.
#include "support/program.h"

using namespace cugrt;
using namespace cugrt::test;

namespace {

const char *const kAddKernel = R"(cugrt 1

kernel @count {
  inline """extern "C" __global__ void count(float *s, long long n) { if (threadIdx.x < n) s[threadIdx.x] += 1; }"""
  entry "count"
  params (s: inout f32, n: symbol i64)
  launch { grid (1, 1, 1) block (32, 1, 1) }
}
kernel @add {
  inline """
extern "C" __global__ void add(const float *x, float *y, long long n, int k, bool half, int q) {
    if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] + k + q * 100 + (half ? 0.5f : 0.0f);
}
  """
  entry "add"
  params (x: in f32, y: out f32, n: symbol i64, k: scalar i32, half: scalar bool, q: symbol i32)
  launch { grid (1, 1, 1) block (32, 1, 1) }
}
)";

struct Strict : Program {
  explicit Strict(const std::string &text) : Program(kAddKernel + text, options()) {}
  static cugrt_session_options options() {
    auto options = detail::sized<cugrt_session_options>();
    options.strict = 1;
    return options;
  }
  /// The error of a run of @main, which must have left its state as it was.
  Error refusal() {
    Buffer state = upload(std::vector<float>(32, 0));
    Error error =
        error_of([&] { session.run(executable.function("main"), {state.tensor(CUGRT_F32, {8})}); });
    session.synchronize();
    CHECK(download<float>(state.address(), 32) == std::vector<float>(32, 0));
    return error;
  }
};

// %a has no bound, so @step is launched outside of regions.
const char *const kCallee = R"(
func @step(%s: inout tensor<[n], f32>) -> (tensor<[n], f32>) attributes {lower_bounds = {n = 3}} {
  %a = alloc : tensor<[n], f32>
  launch @add(%s, %a, n, 1, true, 0)
  %b = alloc : tensor<[n], f32>
  launch @add(%a, %b, n, 1, true, 0)
  return %b
}
)";

struct Values {
  Values()
      : executable(emulated_runtime(), Module::parse(std::string(kAddKernel) + R"(
func @main(%x: tensor<[n], f32>, %k: int, %half: bool, %m: int<q>) -> (tensor<[n], f32>)
    attributes {lower_bounds = {n = 1}, upper_bounds = {n = 32}} {
  %y = alloc : tensor<[n], f32>
  launch @add(%x, %y, n, %k, %half, q)
  return %y
})")),
        session(executable, emulated_runtime()) {}
  /// The first element of the result, of zeros.
  float run(int64_t k, int64_t half, int64_t q) {
    Value boolean(true);
    boolean.as.integer = half;
    std::vector<Value> results = session.run(
        executable.function("main"), {x.tensor(CUGRT_F32, {4}), Value(k), boolean, Value(q)});
    session.synchronize();
    return contents(results[0])[0];
  }
  Buffer x = upload(std::vector<float>(32, 0));
  Executable executable;
  Session session;
};

} // namespace

TEST_CASE("strict mode launches nothing of a run whose callee has steps outside of regions") {
  Strict direct(std::string(kCallee) + R"(
func @main(%s: inout tensor<[n], f32>) -> (tensor<[n], f32>) {
  launch @count(%s, n)
  %b = call @step(%s)
  return %b
})");
  Error error = direct.refusal();
  CHECK(mentions(error, "strict mode: step 'add %a' of function @step"));
  CHECK(mentions(error, "symbol n"));
  CHECK(mentions(direct.refusal(), "strict mode: step 'add %a' of function @step")); // known now
  CHECK(direct.session.counters().eager_outside == 0);
}

TEST_CASE("a refused value leaves the instance of its key as it was") {
  Values values;
  CHECK(values.run(3, 1, 1) == 103.5f);
  CHECK(error_of([&] { values.run(4, 5, 1); }).code() == CUGRT_OUT_OF_RANGE);
  CHECK(error_of([&] { values.run(int64_t(1) << 40, 0, 1); }).code() == CUGRT_OUT_OF_RANGE);
  CHECK(values.run(3, 1, 1) == 103.5f);
  CHECK(values.run(4, 0, 1) == 104);
  CHECK(values.session.counters().regions_built == 1);
  CHECK(values.session.counters().regions_patched + values.session.counters().regions_hit == 2);
}

TEST_CASE("a refused value is named when an instance is built, patched, made ahead or compared") {
  auto value = [](const char *name, int64_t number) { return cugrt_symbol_value{name, number}; };
  const std::string refused = "the value 1099511627776 does not fit a kernel argument of type i32";
  Values values;
  CHECK(mentions(error_of([&] { values.run(3, 256, 1); }), "(%half = 256): the value 256"));
  CHECK(mentions(error_of([&] { values.run(int64_t(1) << 40, 1, 1); }),
                 "(%k = 1099511627776): " + refused));
  values.run(3, 1, 1);
  CHECK(mentions(error_of([&] { values.run(4, 256, 1); }), "(%half from 1 to 256): the value 256"));
  const auto function = values.executable.function("main");
  const std::vector<cugrt_symbol_value> good = {value("n", 5), value("q", 3)},
                                        bad = {value("n", 5), value("q", int64_t(1) << 40)};
  CHECK(mentions(error_of([&] { values.session.prepare(function, bad); }),
                 "(q = 1099511627776): " + refused));
  Error difference = error_of([&] { (void)function.key_difference(good, bad); });
  CHECK(mentions(difference, "step 'add %y' of region main_region0 of function @main: argument q "
                             "with q = 1099511627776: " +
                                 refused));
  CHECK(mentions(difference, ":")); // its place
  auto options = detail::sized<cugrt_session_options>();
  options.eager = 1;
  values.session = Session(values.executable, emulated_runtime(), {}, options);
  CHECK(mentions(error_of([&] { values.run(3, 256, 1); }), "argument %half: the value 256"));
}

TEST_CASE(
    "blocks of a cluster exchange shared memory in a graph, in its next grids and without one") {
  if (emulated_runtime().info().capability_major < 9)
    return; // has no clusters
  auto kernel = [](const std::string &blocks) {
    return "kernel @turn" + blocks + R"( {
  inline """
extern "C" __global__ void turn(const int *x, int *y, long long m) {
  __shared__ int row[32];
  const int at = blockIdx.x * 32 + threadIdx.x;
  unsigned rank, blocks, from, value;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  row[threadIdx.x] = x[at];
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(from)
               : "r"((unsigned)__cvta_generic_to_shared(row + threadIdx.x)), "r"((rank + 1) % blocks));
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(from) : "memory");
  y[at] = value * 100 + rank;
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory"); // others read row
}
  """
  entry "turn"
  params (x: in i32, y: out i32, m: symbol i64)
  launch { grid (16*m, 1, 1) block (32, 1, 1) cluster ()" +
           blocks + R"(, 1, 1) }
}
)";
  };
  Executable executable(emulated_runtime(),
                        Module::parse("cugrt 1\n" + kernel("2") + kernel("16") + R"(
func @main(%x: tensor<[m, 512], i32>) -> (tensor<[m, 512], i32>) attributes {upper_bounds = {m = 4}} {
  %a = alloc : tensor<[m, 512], i32>
  launch @turn2(%x, %a, m)
  %y = alloc : tensor<[m, 512], i32>
  launch @turn16(%a, %y, m)
  return %y
})"));
  std::vector<int32_t> values(4 * 512);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<int32_t>(i);
  Buffer x = upload(values);
  for (int eager : {0, 1}) {
    auto options = detail::sized<cugrt_session_options>();
    options.eager = eager;
    options.strict = !eager;
    options.instance_budget_bytes = 40000; // one instance
    Session session(executable, emulated_runtime(), {}, options);
    for (int64_t m : {1, 3, 0, 4}) {
      INFO("m = " << m << ", eager = " << eager);
      std::vector<Value> results =
          session.run(executable.function("main"), {x.tensor(CUGRT_I32, {m, 512})});
      session.synchronize();
      std::vector<int32_t> expected;
      // A block has what the next of its 16 has, and that what the other of its pair was given.
      for (int32_t block = 0; block < 16 * m; ++block) {
        const int32_t next = block / 16 * 16 + (block + 1) % 16;
        for (int32_t i = 0; i < 32; ++i)
          expected.push_back((((next ^ 1) * 32 + i) * 100 + next % 2) * 100 + block % 16);
      }
      CHECK(contents<int32_t>(results[0]) == expected);
    }
    // A node with a cluster of 16 is neither disabled nor enabled again.
    CHECK(session.counters().regions_built == (eager ? 0 : 3));
    CHECK(session.counters().regions_patched == (eager ? 0 : 1));
    CHECK(session.counters().eager_steps == (eager ? 8 : 0));
  }
}
