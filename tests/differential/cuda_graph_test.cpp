// Modules whose regions RewriteCudaGraph has lifted: they give the bytes that the module as written
// gives, and their graphs are built once and then hit.
#include "support/program.h"

using namespace cugrt;
using namespace cugrt::test;

namespace {

const std::string kGraphKernels = R"(cugrt 1

kernel @scale {
  inline """
extern "C" __global__ void scale(const float *x, float *y, long long n, float a) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * a;
  }
  """
  entry "scale"
  params (x: in f32, y: out f32, n: symbol i64, a: scalar f32)
  launch { grid (ceildiv(n, 64), 1, 1) block (64, 1, 1) }
}

kernel @accumulate {
  inline """
extern "C" __global__ void accumulate(const float *x, float *y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] += x[i];
  }
  """
  entry "accumulate"
  params (x: in f32, y: inout f32, n: symbol i64)
  launch { grid (ceildiv(n, 64), 1, 1) block (64, 1, 1) }
}
)";

// y = 6x while b is alive; then r = d + y with d = 6x or 12x. Small integers times x: exact.
const std::string kGraphModule = kGraphKernels + R"(
private func @six(%p: tensor<[n], f32>, %q: out tensor<[n], f32>)
    attributes {upper_bounds = {n = 256}, capture_symbols = [n]} {
  %s = alloc_storage "global", 1024
  %t = alloc_storage "global", 1024
  %a = alloc_tensor %s, 0 : tensor<[n], f32>
  launch @scale(%p, %a, n, 2.0)
  %b = alloc_tensor %t, 0 : tensor<[n], f32>
  launch @scale(%a, %b, n, 3.0)
  launch @scale(%b, %q, n, 1.0)
  return
}

func @main(%x: tensor<[n], f32>, %flag: bool) -> (tensor<[n], f32>)
    attributes {upper_bounds = {n = 256}, capture_symbols = [n]} {
  %s = alloc_storage "global", 1024
  %t = alloc_storage "global", 1024
  %a = alloc_tensor %s, 0 : tensor<[n], f32>
  launch @scale(%x, %a, n, 2.0)
  %b = alloc_tensor %t, 0 : tensor<[n], f32>
  launch @scale(%a, %b, n, 0.5)
  launch @accumulate(%a, %b, n)
  kill %a
  %y = alloc : tensor<[n], f32>
  call @six(%x, %y)
  %d = alloc_tensor %s, 0 : tensor<[n], f32>
  launch @scale(%b, %d, n, 1.0)
  if %flag using (%b, %d) {
    launch @accumulate(%b, %d, n)
    yield
  } else {
    %u = alloc_storage "global", 1024
    %e = alloc_tensor %u, 0 : tensor<[n], f32>
    launch @scale(%b, %e, n, 4.0)
    launch @scale(%e, %d, n, 1.0)
    yield
  }
  %r = alloc : tensor<[n], f32>
  launch @scale(%d, %r, n, 1.0)
  launch @accumulate(%y, %r, n)
  return %r
}
)";

struct GraphProgram : Program {
  GraphProgram(const Module &module, cugrt_policy policy, bool eager = false)
      : Program(compile(module, policy), session_options(eager)) {}

  static Executable compile(const Module &module, cugrt_policy policy) {
    auto options = detail::sized<cugrt_compile_options>();
    options.policy = policy;
    return Executable(emulated_runtime(), module, &options);
  }

  using Program::run;
  std::vector<float> run(const Buffer &x, int64_t n, bool flag) {
    return contents(run({x.tensor(CUGRT_F32, {n}), flag})[0]);
  }
};

} // namespace

TEST_CASE("launches of a lifted region keep their order where its tensors share bytes") {
  const Module module = Module::parse(kGraphKernels + R"(
func @main(%x: tensor<[8], f32>, %w: tensor<[8], f32>) -> (tensor<[8], f32>)
    attributes {num_inputs = 1} {
  %s = alloc_storage "global", 32
  %a = alloc_tensor %s, 0 : tensor<[8], f32>
  %b = alloc_tensor %s, 0 : tensor<[8], f32>
  launch @scale(%w, %b, 8, 2.0)
  launch @accumulate(%w, %b, 8)
  launch @scale(%w, %a, 8, 4.0)
  launch @accumulate(%w, %a, 8)
  %r = alloc : tensor<[8], f32>
  launch @scale(%a, %r, 8, 1.0)
  launch @accumulate(%x, %r, 8)
  return %r
}
)");
  const Module rewritten = module.run_passes({"RewriteCudaGraph"});
  REQUIRE(rewritten.print().find("%b: inout tensor<[8], f32>, %a: inout") != std::string::npos);
  std::vector<float> values = numbers(8, 1), given = numbers(8, 2);
  Buffer x = upload(values);
  Weights weights;
  weights.add("w", given.data(), CUGRT_F32, std::vector<int64_t>{8});
  std::vector<double> expected;
  for (size_t i = 0; i < values.size(); ++i)
    expected.push_back(double(values[i]) + 5.0 * double(given[i]));
  for (cugrt_policy policy : {CUGRT_POLICY_PATCH, CUGRT_POLICY_SEED}) {
    Program program(GraphProgram::compile(rewritten, policy), session_options(), weights);
    check_close(contents(program.run({x.tensor(CUGRT_F32, {8})})[0]), expected, 0);
  }
}

TEST_CASE("lifted regions give the bytes of the module as written, under either policy") {
  Module module = Module::parse(kGraphModule), rewritten = module.run_passes({"RewriteCudaGraph"});
  CHECK(rewritten.print().find("@main_cuda_graph_capture") != std::string::npos);
  GraphProgram eager(module, CUGRT_POLICY_SEED, true);
  GraphProgram seed(rewritten, CUGRT_POLICY_SEED), patch(rewritten, CUGRT_POLICY_PATCH);
  for (int64_t n : {256, 3, 256, 100})
    for (bool flag : {false, true}) {
      INFO("n = " << n << ", flag " << flag);
      std::vector<float> values = numbers(size_t(n), uint32_t(n));
      Buffer x = upload(values);
      std::vector<double> expected;
      for (float value : values)
        expected.push_back(double(value) * (flag ? 12 : 18));
      check_close(eager.run(x, n, flag), expected, 0);
      for (int repeat = 0; repeat < 2; ++repeat) {
        check_close(seed.run(x, n, flag), expected, 0);
        check_close(patch.run(x, n, flag), expected, 0);
      }
    }
}

TEST_CASE("views with strides go into a lifted region, and are read and written there") {
  const Module written = Module::parse(kGraphKernels + R"(
kernel @columns {
  inline """
extern "C" __global__ void columns(const float *x, float *y, long long n) {
    long long i = threadIdx.x;
    if (i < 3 * n) y[i / 3 * 4 + i % 3] = x[i / 3 * 4 + i % 3] * 3.0f;
  }
  """
  entry "columns"
  params (x: in f32, y: out f32, n: symbol i64)
  launch { grid (1, 1, 1) block (32, 1, 1) }
}

func @main(%x: tensor<[n, 4], f32>) -> (tensor<[n, 4], f32>)
    attributes {upper_bounds = {n = 8}, capture_symbols = [n]} {
  %s = alloc_storage "global", 128
  %t = alloc_storage "global", 128
  %a = alloc_tensor %s, 0 : tensor<[n, 4], f32>
  %b = alloc_tensor %t, 0 : tensor<[n, 4], f32>
  launch @scale(%x, %a, 4*n, 2.0)
  launch @scale(%x, %b, 4*n, 1.0)
  %q = view %a, 4 : tensor<[n, 3], f32, strides [4, 1]>
  %w = view %b, 0 : tensor<[n, 3], f32, strides [4, 1]>
  launch @columns(%q, %w, n)
  %r = alloc : tensor<[n, 4], f32>
  launch @scale(%b, %r, 4*n, 1.0)
  return %r
}
)");
  const std::string text = written.run_passes({"RewriteCudaGraph"}).print();
  CHECK(text.find("run_or_capture") != std::string::npos);
  const Module lifted = Module::parse(text);
  for (cugrt_policy policy : {CUGRT_POLICY_PATCH, CUGRT_POLICY_SEED})
    for (const Module *module : {&written, &lifted}) {
      GraphProgram program(*module, policy);
      for (int64_t n : {8, 1, 0, 5}) {
        CAPTURE(policy, n);
        const std::vector<float> x = numbers(size_t(4 * n), 3);
        const Buffer buffer = upload(x);
        const std::vector<Value> results = program.run({buffer.tensor(CUGRT_F32, {n, 4})});
        const std::vector<float> r = contents(results[0]);
        for (size_t i = 0; i < r.size(); ++i)
          CHECK(r[i] == (i % 4 == 3 ? x[i] : 2 * x[i + 1] * 3));
      }
    }
}

TEST_CASE("a lifted region is built once for each key, then its graph is hit") {
  Module module = Module::parse(kGraphModule), rewritten = module.run_passes({"RewriteCudaGraph"});
  GraphProgram as_written(module, CUGRT_POLICY_SEED), lifted(rewritten, CUGRT_POLICY_SEED);
  Buffer x = upload(numbers(256, 1));
  for (GraphProgram *program : {&as_written, &lifted}) {
    // Two regions of main around the call, one of the branch, one of the callee.
    program->run(x, 256, true);
    CHECK(program->session.counters().regions_built == 4);
    CHECK(program->session.counters().regions_hit == 0);
    for (int repeat = 0; repeat < 3; ++repeat)
      program->run(x, 256, true);
    CHECK(program->session.counters().regions_built == 4);
    CHECK(program->session.counters().regions_hit == 12);
    program->run(x, 7, true); // another key
    CHECK(program->session.counters().regions_built == 8);
    CHECK(program->session.counters().regions_eager == 0);
    CHECK(program->session.counters().regions_patched == 0);
  }
}

TEST_CASE("switched off, the pass gives the module back") {
  Module module = Module::parse(kGraphModule);
  CHECK(module.run_passes({"RewriteCudaGraph"}, {"backend.use_cuda_graph=false"}).print() ==
        module.print());
}

TEST_CASE("a lifted module that text cannot hold is an error where it is printed, and runs") {
  auto module = [](size_t outputs) {
    std::string body;
    for (size_t i = 0; i < outputs; ++i) {
      const std::string n = std::to_string(i);
      body += "  %s" + n + " = alloc_storage \"global\", 32\n  %t" + n + " = alloc_tensor %s" + n +
              ", 0 : tensor<[8], f32>\n  launch @scale(%w, %t" + n + ", 8, 2.0)\n";
    }
    return Module::parse(kGraphKernels +
                             "func @main(%w: tensor<[8], f32>) attributes {num_inputs = 0} {\n" +
                             body + "  return\n}\n",
                         "many.cugrt")
        .run_passes({"RewriteCudaGraph"});
  };
  const Module most = module(4095), more = module(4096); // and %w
  CHECK_NOTHROW(Module::parse(most.print()));
  const Error error = error_of([&] { more.print(); });
  INFO(error.what());
  CHECK(mentions(error, "many.cugrt:29:3"));
  CHECK(mentions(error, "in @main: 4097 parts of a tuple"));
  Executable executable = GraphProgram::compile(more, CUGRT_POLICY_SEED);
  Weights weights;
  std::vector<float> given = numbers(8, 2);
  weights.add("w", given.data(), CUGRT_F32, std::vector<int64_t>{8});
  Session session(executable, emulated_runtime(), weights);
  session.run(executable.function("main"), {});
  session.synchronize();
  CHECK(session.counters().regions_built == 1);
}
