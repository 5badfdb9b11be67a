// runtime: graphs against eager launches against plain arithmetic, over shapes, through the public
// C++ API on the emulated driver.
#include "support/program.h"

#include <algorithm>
#include <thread>

using namespace cugrt;
using namespace cugrt::test;

namespace {

/// Two layers with a skip: y = relu(x w + b) + x, and its row sums.
const char *const kLayer = R"(cugrt 1

func @main(%x: tensor<[n, 8], f32>, %w: tensor<[8, 8], f32>, %b: tensor<[8], f32>)
    -> (tensor<[n, 8], f32>, tensor<[n], f32>)
    attributes {num_inputs = 1, lower_bounds = {n = 0}, upper_bounds = {n = 96}} {
  %h = matmul(%x, %w, %b)
  %r = relu(%h)
  %y = add(%r, %x)
  %s = reduce_sum(%y) {axes = [1], keep_dims = false}
  return %y, %s
}
)";

/// Kernels of the module's own, launched by hand; most tests below are over these.
const char *const kKernels = R"(
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

struct Layer {
  std::vector<double> y, sums;
};

Layer layer_reference(const std::vector<float> &x, const std::vector<float> &w,
                      const std::vector<float> &b, size_t n) {
  Layer layer;
  for (size_t row = 0; row < n; ++row) {
    double sum = 0;
    for (size_t column = 0; column < 8; ++column) {
      double value = b[column];
      for (size_t k = 0; k < 8; ++k)
        value += double(x[row * 8 + k]) * w[k * 8 + column];
      layer.y.push_back(std::max(value, 0.0) + x[row * 8 + column]);
      sum += layer.y.back();
    }
    layer.sums.push_back(sum);
  }
  return layer;
}

const char *const kOneLaunch = R"(
func @main(%x: tensor<[n], f32>, %y: out tensor<[n], f32>) attributes {upper_bounds = {n = 64}} {
  launch @scale(%x, %y, n, 1.0)
  return
}
)";

std::string module_text(const std::string &functions) {
  return "cugrt 1\n" + std::string(kKernels) + functions;
}

} // namespace

TEST_CASE("a layer equals plain arithmetic over shapes, as graph and eagerly, bit for bit alike") {
  std::vector<float> w = numbers(64, 1), b = numbers(8, 2);
  Weights weights;
  weights.add("w", w.data(), CUGRT_F32, std::vector<int64_t>{8, 8});
  weights.add("b", b.data(), CUGRT_F32, std::vector<int64_t>{8});
  Program graph(kLayer, session_options(), weights), eager(kLayer, session_options(true), weights);
  for (int64_t n : {1, 7, 96, 0, 33, 1, 7, 96, 33, 2, 3, 4, 5, 96}) {
    INFO("n = " << n);
    std::vector<float> x = numbers(static_cast<size_t>(n) * 8, static_cast<uint32_t>(n) + 5);
    Buffer input = upload(x);
    auto run = [&](Program &program) {
      std::vector<Value> results = program.run({input.tensor(CUGRT_F32, {n, 8})});
      REQUIRE(results[0].as.tensor.dims[0] == n);
      REQUIRE(results[1].as.tensor.rank == 1);
      auto y = contents(results[0]);
      auto s = contents(results[1]);
      y.insert(y.end(), s.begin(), s.end());
      return y;
    };
    std::vector<float> from_graph = run(graph), from_eager = run(eager);
    CHECK((from_graph.empty() ||
           std::memcmp(from_graph.data(), from_eager.data(), from_graph.size() * 4) == 0));
    Layer expected = layer_reference(x, w, b, static_cast<size_t>(n));
    expected.y.insert(expected.y.end(), expected.sums.begin(), expected.sums.end());
    check_close(from_graph, expected.y, 1e-5);
  }
  cugrt_counters counters = graph.session.counters();
  CHECK(counters.regions_built >= 1);
  CHECK(counters.regions_patched >= 1);
  CHECK(counters.regions_eager == 0);
  CHECK(counters.regions_built + counters.regions_hit + counters.regions_patched == counters.runs);
  CHECK(eager.session.counters().regions_built == 0);
}

TEST_CASE("a repeated run with the same buffers is a hit") {
  std::vector<float> w = numbers(64, 1), b = numbers(8, 2);
  Weights weights;
  weights.add("w", w.data(), CUGRT_F32, std::vector<int64_t>{8, 8});
  weights.add("b", b.data(), CUGRT_F32, std::vector<int64_t>{8});
  Program program(kLayer, session_options(), weights);
  Buffer input = upload(numbers(96 * 8, 3));
  for (int pass = 0; pass < 2; ++pass)
    for (int64_t n : {96, 10, 3})
      program.session.run(program.main(), {input.tensor(CUGRT_F32, {n, 8})});
  cugrt_counters counters = program.session.counters();
  CHECK(counters.regions_built == 3);
  CHECK(counters.regions_hit == 3);
  CHECK(counters.regions_patched == 0);
}

TEST_CASE("callers' output and state buffers are written in place") {
  Program program(module_text(R"(
func @main(%x: tensor<[n], f32>, %y: out tensor<[n], f32>, %state: inout tensor<[n], f32>, %a: float)
    attributes {upper_bounds = {n = 256}} {
  launch @scale(%x, %y, n, %a)
  launch @accumulate(%y, %state, n)
  return
}
)"));
  for (int64_t n : {5, 200}) {
    std::vector<float> x = numbers(static_cast<size_t>(n), 9);
    Buffer in = upload(x), out = upload(x),
           state = upload(std::vector<float>(static_cast<size_t>(n), 1));
    for (int repeat = 0; repeat < 3; ++repeat)
      program.session.run(program.main(), {in.tensor(CUGRT_F32, {n}), out.tensor(CUGRT_F32, {n}),
                                           state.tensor(CUGRT_F32, {n}), 0.5});
    program.session.synchronize();
    std::vector<double> expected_out, expected_state;
    for (float value : x) {
      expected_out.push_back(value * 0.5);
      expected_state.push_back(1 + 3 * value * 0.5);
    }
    check_close(download<float>(out.address(), x.size()), expected_out, 0);
    check_close(download<float>(state.address(), x.size()), expected_state, 1e-6);
  }
}

TEST_CASE("many readers and then writers of parts meet in an empty node, with equal results") {
  std::string text = module_text([] {
    std::string f = "func @main(%s: inout tensor<[64], f32>, %x: tensor<[16], f32>, "
                    "%y: inout tensor<[64], f32>) {\n";
    for (int k = 0; k < 5; ++k) {
      std::string n = std::to_string(k);
      f += "  %m" + n + " = alloc_storage \"global\", 256\n  %t" + n + " = alloc_tensor %m" + n +
           ", 0 : tensor<[64], f32>\n  launch @scale(%s, %t" + n + ", 64, " + n + ".5)\n";
    }
    for (int p = 0; p < 4; ++p) {
      std::string n = std::to_string(p);
      f += "  %v" + n + " = view %s, " + std::to_string(64 * p) +
           " : tensor<[16], f32>\n  launch @accumulate(%x, %v" + n + ", 16)\n";
    }
    for (int k = 0; k < 5; ++k)
      f += "  launch @accumulate(%t" + std::to_string(k) + ", %y, 64)\n";
    return f + "  return\n}\n";
  }());
  CHECK(Module::parse(text).plan_report(CUGRT_REPORT_TEXT).find("for all that wait here") !=
        std::string::npos);
  std::vector<float> s = numbers(64, 3), x = numbers(16, 4), y = numbers(64, 5);
  std::vector<double> expected_s, expected_y;
  for (size_t i = 0; i < 64; ++i) {
    expected_s.push_back(double(s[i]) + x[i % 16]);
    expected_y.push_back(y[i] + s[i] * (0.5 + 1.5 + 2.5 + 3.5 + 4.5));
  }
  std::vector<std::vector<float>> outcomes;
  for (auto options : {session_options(), session_options(true)}) {
    Program program(text, options);
    Buffer state = upload(s), in = upload(x), sum = upload(y);
    program.run(
        {state.tensor(CUGRT_F32, {64}), in.tensor(CUGRT_F32, {16}), sum.tensor(CUGRT_F32, {64})});
    std::vector<float> out = download<float>(state.address(), 64);
    check_close(out, expected_s, 1e-6);
    std::vector<float> sums = download<float>(sum.address(), 64);
    check_close(sums, expected_y, 1e-5);
    out.insert(out.end(), sums.begin(), sums.end());
    outcomes.push_back(std::move(out));
  }
  CHECK(std::memcmp(outcomes[0].data(), outcomes[1].data(), 128 * sizeof(float)) == 0);
}

TEST_CASE("a report names the parameter that is too large to be sized, and its function") {
  const Module module = Module::parse(R"(cugrt 1
func @main(%x: tensor<[n, n], f32>) attributes {upper_bounds = {n = 4000000000}} {
  return
}
)");
  const Error error = error_of([&] { module.plan_report(CUGRT_REPORT_TEXT); });
  CHECK(mentions(error, "in @main: the size of parameter %x overflows"));
  CHECK(error.location() == "module:2:12");
  CHECK(mentions(error, "module:2:12: error: in @main"));
  CHECK(mentions(error, "\n             ^"));
  CHECK(mentions(error, "lower them"));
}

TEST_CASE("a report names what is allocated, or returned, and is too large to be sized") {
  auto error_with = [](const std::string &body, const std::string &results) {
    const Module module = Module::parse(
        module_text("func @main(%x: tensor<[n], f32>) -> (" + results +
                    ") attributes {upper_bounds = {n = 4000000000}} {\n" + body + "}\n"));
    return error_of([&] { module.plan_report(CUGRT_REPORT_TEXT); });
  };
  const Error result =
      error_with("  %r = alloc : tensor<[n, n], f32>\n  launch @scale(%x, %r, n, 1.0)\n"
                 "  return %r\n",
                 "tensor<[n, n], f32>");
  CHECK(mentions(result, "in @main: the size of result 0 overflows"));
  CHECK(result.location().find("module:") == 0);
  const Error unplanned =
      error_with("  %t = alloc : tensor<[n, n], f32>\n  launch @scale(%x, %t, n, 1.0)\n"
                 "  host \"look\"(%t)\n  return\n",
                 "");
  CHECK(mentions(unplanned, "in @main: the size of %t overflows"));
  CHECK(mentions(unplanned, "%t = alloc : tensor<[n, n], f32>")); // the line
}

TEST_CASE("the memory that a report states holds what called functions allocate in the run") {
  const Module module = Module::parse(module_text(R"(
private func @leaf(%x: tensor<[k], f32>) attributes {upper_bounds = {k = 256}} {
  %t = alloc : tensor<[k], f32>
  launch @scale(%x, %t, k, 2.0)
  host "look"(%t)
  return
}
private func @middle(%x: tensor<[k], f32>) attributes {upper_bounds = {k = 512}} {
  call @leaf(%x)
  call @leaf(%x)
  return
}
func @main(%x: tensor<[n], f32>) attributes {upper_bounds = {n = 1024}} {
  call @middle(%x)
  return
}
)"));
  // The bounds grow narrower from call to call, so the calls stay.
  CHECK(module.plan_report().find("unplanned 1024; together 5120") != std::string::npos);
}

TEST_CASE("branches, loops and calls of the host give what the module says") {
  Program program(module_text(R"(
private func @twice(%x: tensor<[m], f32>, %y: out tensor<[m], f32>) {
  launch @scale(%x, %y, m, 2.0)
  return
}

func @main(%x: tensor<[n], f32>, %y: inout tensor<[n], f32>, %flag: bool, %times: int)
    attributes {upper_bounds = {n = 256}} {
  %t = alloc : tensor<[n], f32>
  call @twice(%x, %t)
  if %flag using (%t, %y) {
    launch @accumulate(%t, %y, n)
    yield
  } else {
    launch @scale(%t, %y, n, 1.0)
    yield
  }
  %i = while (%k : int = 0) using (%x, %y, %times) {
    %more = host "less"(%k, %times) : bool
    yield %more
  } do {
    launch @accumulate(%x, %y, n)
    %next = host "next"(%k) : int
    yield %next
  }
  return
}
)"));
  Runtime &runtime = emulated_runtime();
  runtime.register_host_function("less", [](void *, const cugrt_value *arguments, size_t,
                                            cugrt_value *results, size_t, void *) {
    results[0].as.integer = arguments[0].as.integer < arguments[1].as.integer;
    return static_cast<cugrt_status *>(nullptr);
  });
  runtime.register_host_function("next", [](void *, const cugrt_value *arguments, size_t,
                                            cugrt_value *results, size_t, void *) {
    results[0].as.integer = arguments[0].as.integer + 1;
    return static_cast<cugrt_status *>(nullptr);
  });
  for (int64_t n : {3, 70})
    for (bool flag : {false, true})
      for (int times : {0, 1, 4}) {
        INFO("n = " << n << ", flag " << flag << ", times " << times);
        std::vector<float> x = numbers(static_cast<size_t>(n), 4);
        std::vector<float> before(static_cast<size_t>(n), 10);
        Buffer in = upload(x), out = upload(before);
        program.run({in.tensor(CUGRT_F32, {n}), out.tensor(CUGRT_F32, {n}), flag, times});
        std::vector<double> expected;
        for (float value : x)
          expected.push_back((flag ? 10.0 : 0.0) + 2.0 * value + times * double(value));
        check_close(download<float>(out.address(), x.size()), expected, 1e-6);
      }
}

TEST_CASE("strict mode refuses what the plan has outside of graphs before anything is launched") {
  auto options = session_options();
  options.strict = 1;
  Program program(module_text(R"(
func @main(%state: inout tensor<[n], f32>, %x: tensor<?, f32>) attributes {upper_bounds = {n = 64}} {
  launch @scale(%state, %state, n, 2.0)
  %u = match %x : tensor<[k], f32>
  %a = alloc : tensor<[k], f32>
  launch @scale(%u, %a, k, 2.0)
  return
}
)"),
                  options);
  const std::vector<float> before = numbers(12, 4);
  Buffer state = upload(before), x = upload(before);
  for (int repeat = 0; repeat < 2; ++repeat) {
    Error error = error_of([&] {
      program.session.run(program.main(),
                          {state.tensor(CUGRT_F32, {12}), x.tensor(CUGRT_F32, {12})});
    });
    CHECK(mentions(error, "%a has no planned place"));
    program.session.synchronize();
    CHECK(download<float>(state.address(), 12) == before);
  }
}

TEST_CASE("what functions of the caller throw is an error that names them") {
  Program program(module_text(R"(
func @main(%x: tensor<[n], f32>) attributes {upper_bounds = {n = 64}} {
  host "throws"(%x)
  return
}
)"));
  static int thrown = 0;
  emulated_runtime().register_host_function(
      "throws",
      [](void *, const cugrt_value *, size_t, cugrt_value *, size_t, void *) -> cugrt_status * {
        if (++thrown == 1)
          throw std::runtime_error("no more paper");
        if (thrown == 2)
          throw 2;
        return nullptr;
      });
  Buffer x = upload(numbers(12, 4));
  auto run = [&] { program.session.run(program.main(), {x.tensor(CUGRT_F32, {12})}); };
  Error error = error_of(run);
  CHECK(error.code() == CUGRT_INVALID_ARGUMENT);
  CHECK(mentions(error, "host function \"throws\" threw an exception: no more paper"));
  CHECK(mentions(error_of(run), "host function \"throws\" threw what is no std::exception"));
  run();
}

TEST_CASE("strict mode names the symbol without a bound that keeps a step out of graphs") {
  auto options = session_options();
  options.strict = 1;
  Program program(module_text(R"(
func @main(%x: tensor<?, f32>) -> (tensor<?, f32>) {
  %u = match %x : tensor<[k], f32>
  %a = alloc : tensor<[k], f32>
  launch @scale(%u, %a, k, 2.0)
  %y = alloc : tensor<[k], f32>
  launch @scale(%a, %y, k, 2.0)
  return %y
}
)"),
                  options);
  Buffer in = upload(numbers(12, 4));
  Error error =
      error_of([&] { program.session.run(program.main(), {in.tensor(CUGRT_F32, {12})}); });
  CHECK(
      mentions(error, "outside of regions: %a has no planned place, since symbol k, defined at "));
  CHECK(mentions(error, ":28:3, has no upper bound"));
}

TEST_CASE("a result that is a tensor under another shape of the same size is in the graph") {
  auto options = session_options();
  options.strict = 1; // refuses what is in none
  struct {
    const char *type, *shape;
    std::vector<int64_t> dims;
  } const cases[] = {{"[n*m, 16]", "[-1, 16]", {6, 16}},
                     {"[4*n*m, 4]", "[-1, 4]", {24, 4}},
                     {"[16*n*m]", "[-1]", {96}}};
  for (const auto &c : cases) {
    INFO(c.type);
    Program program("cugrt 1\nfunc @main(%x: tensor<[n, m, 16], f32>) -> (tensor<" +
                        std::string(c.type) +
                        ", f32>) attributes {upper_bounds = {n = 8, m = 8}} {\n"
                        "  %a = neg(%x)\n  %r = reshape(%a) {shape = " +
                        c.shape + "}\n  return %r\n}\n",
                    options);
    const std::vector<float> x = numbers(96, 4);
    Buffer in = upload(x);
    std::vector<Value> results = program.run({in.tensor(CUGRT_F32, {2, 3, 16})});
    REQUIRE(results[0].as.tensor.rank == c.dims.size());
    for (size_t d = 0; d < c.dims.size(); ++d)
      CHECK(results[0].as.tensor.dims[d] == c.dims[d]);
    std::vector<double> expected;
    for (float value : x)
      expected.push_back(-double(value));
    check_close(contents(results[0]), expected, 0);
  }
}

TEST_CASE("calls whose types are matched at the call run, and refuse what does not match") {
  const std::string text = module_text(R"(
private func @known(%u: tensor<[m, 4], f32>) -> (tensor<[m, 4], f32>) {
  %r = alloc : tensor<[m, 4], f32>
  launch @scale(%u, %r, 4*m, 2.0)
  return %r
}

private func @unknown(%u: tensor<?, f32>) -> (tensor<?, f32>) {
  %v = match %u : tensor<[m, w], f32>
  %r = alloc : tensor<[m, w], f32>
  launch @scale(%v, %r, m*w, 3.0)
  return %r
}

private func @same(%u: tensor<?, f32>) -> (tensor<?, f32>) {
  return %u
}

private func @field(%u: tensor<[m, 4], f32>, %t: tuple<tensor<[m, 4], f32>, int>)
    -> (tensor<[m, 4], f32>) {
  %v = get %t, 0
  %r = alloc : tensor<[m, 4], f32>
  launch @scale(%v, %r, 4*m, 5.0)
  launch @accumulate(%u, %r, 4*m)
  return %r
}

func @main(%x: tensor<[n, k], f32>) -> (tensor<[n, 4], f32>)
    attributes {upper_bounds = {n = 64, k = 8}} {
  %a = call @known(%x)
  %b = call @unknown(%a)
  %c = call @same(%b)
  %d = match %c : tensor<[p, q], f32>
  %one = literal 1
  %t = tuple(%d, %one)
  %y = call @field(%a, %t)
  return %y
}
)");
  for (const auto &options : {session_options(), session_options(true)}) {
    Program program(text, options);
    std::vector<float> x = numbers(12, 4);
    Buffer in = upload(x);
    std::vector<Value> results = program.run({in.tensor(CUGRT_F32, {3, 4})});
    std::vector<double> expected;
    for (float value : x)
      expected.push_back(32.0 * value);
    check_close(contents(results[0]), expected, 1e-6);
    Error error = error_of([&] {
      program.session.run(program.main(), {in.tensor(CUGRT_F32, {4, 3})});
    });
    CHECK(mentions(error, "match of %x"));
  }
}

TEST_CASE("what is matched is reshaped, viewed, yielded and written over by its new symbol") {
  const std::string text = module_text(R"(
kernel @twice {
  inline """
extern "C" __global__ void twice(const float *x, float *y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * 2;
  }
  """
  entry "twice"
  params (x: in f32, y: out f32 over x, n: symbol i64)
  launch { grid (ceildiv(n, 64), 1, 1) block (64, 1, 1) }
}

func @main(%x: tensor<[n, 4], f32>, %flag: int) -> (tensor<[n, 4], f32>)
    attributes {lower_bounds = {n = 1}, upper_bounds = {n = 64, z = 100}} {
  %m = match %x : tensor<[z, 4], f32>
  %f = reshape(%m) {shape = [-1]}
  %y = relu(%f)
  %t = alloc : tensor<[4*n], f32>
  launch @twice(%y, %t, 4*z)
  %last = view %t, 16*z - 16 : tensor<[4], f32>
  %h = if %flag using (%m) -> tensor<[z, 4], f32> {
    yield %m
  } else {
    %a = neg(%m)
    yield %a
  }
  %g = view %t, 0 : tensor<[z, 4], f32>
  %k = add(%g, %h)
  %s = add(%k, %last)
  %r = match %s : tensor<[n, 4], f32>
  return %r
}
)");
  for (const auto &options : {session_options(), session_options(true)}) {
    Program program(text, options);
    for (int64_t n : {1, 64, 7})
      for (int64_t flag : {0, 1}) {
        INFO("n = " << n << ", flag = " << flag);
        const std::vector<float> x = numbers(size_t(n) * 4, uint32_t(n));
        Buffer in = upload(x);
        std::vector<Value> results = program.run({in.tensor(CUGRT_F32, {n, 4}), flag});
        std::vector<double> expected;
        for (size_t i = 0; i < x.size(); ++i)
          expected.push_back(2.0 * std::max(x[i], 0.0f) + (flag ? 1.0 : -1.0) * x[i] +
                             2.0 * std::max(x[x.size() - 4 + i % 4], 0.0f));
        check_close(contents(results[0]), expected, 1e-6);
      }
  }
}

TEST_CASE("a tuple is handed to a function whether its call is planned through or stays") {
  const std::string text = module_text(R"(
private func @both(%a: tensor<[m], f32>, %t: tuple<tensor<[m], f32>, tuple<float, tensor<[m], f32>>>)
    -> (tensor<[m], f32>)BOUNDS {
  %u = get %t, 0
  %rest = get %t, 1
  %f = get %rest, 0
  %v = get %rest, 1
  %r = alloc : tensor<[m], f32>
  launch @scale(%u, %r, m, %f)
  launch @accumulate(%v, %r, m)
  launch @accumulate(%a, %r, m)
  return %r
}

func @main(%x: tensor<[n], f32>, %y: out tensor<[n], f32>) attributes {upper_bounds = {n = 64}} {
  %rest = tuple(3.0, %x)
  %t = tuple(%x, %rest)
  %r = call @both(%x, %t)
  launch @scale(%r, %y, n, 2.0)
  return
}
)");
  const std::string bounds = "BOUNDS"; // narrower ones are checked at the call, which stays
  for (const char *attributes : {"", " attributes {upper_bounds = {m = 32}}"})
    for (cugrt_policy policy : {CUGRT_POLICY_PATCH, CUGRT_POLICY_SEED}) {
      INFO("policy " << policy << attributes);
      std::string module = text;
      module.replace(module.find(bounds), bounds.size(), attributes);
      auto options = detail::sized<cugrt_compile_options>();
      options.policy = policy;
      Executable executable(emulated_runtime(), Module::parse(module), &options);
      Session session(executable, emulated_runtime());
      std::vector<float> x = numbers(12, 4);
      Buffer in = upload(x), out = upload(std::vector<float>(12));
      session.run(executable.function("main"),
                  {in.tensor(CUGRT_F32, {12}), out.tensor(CUGRT_F32, {12})});
      session.synchronize();
      std::vector<double> expected;
      for (float value : x)
        expected.push_back(10.0 * value);
      check_close(download<float>(out.address(), x.size()), expected, 1e-6);
    }
}

TEST_CASE("numbers in tuples are as good as others, for launches and for the host") {
  Program program(module_text(R"(
func @main(%x: tensor<[n], f32>) -> (tensor<[n], f32>) attributes {upper_bounds = {n = 64}} {
  %t = tuple(%x, 3.0, n)
  %u = get %t, 0
  %f = get %t, 1
  %k = get %t, 2
  %y = alloc : tensor<[n], f32>
  launch @scale(%u, %y, n, %f)
  %pair = tuple(%k, 2)
  %h = host "look_at_lists"(%pair, %k, %f) : int
  return %y
}
func @floats(%x: tensor<[n], f32>) {
  %pair = tuple(0.5, 2)
  %h = host "look_at_lists"(%pair, 1, 2.0) : int
  return
}
)"));
  static cugrt_value seen[3];
  emulated_runtime().register_host_function(
      "look_at_lists",
      [](void *, const cugrt_value *arguments, size_t count, cugrt_value *results, size_t, void *) {
        std::copy(arguments, arguments + std::min<size_t>(count, 3), seen);
        results[0].as.integer = 0;
        return static_cast<cugrt_status *>(nullptr);
      });
  std::vector<float> x = numbers(12, 4);
  Buffer in = upload(x);
  std::vector<Value> results = program.run({in.tensor(CUGRT_F32, {12})});
  std::vector<double> expected;
  for (float value : x)
    expected.push_back(3.0 * value);
  check_close(contents(results[0]), expected, 1e-6);
  REQUIRE(seen[0].kind == CUGRT_VALUE_SHAPE);
  CHECK(seen[0].as.shape.rank == 2);
  CHECK(seen[0].as.shape.dims[0] == 12);
  CHECK(seen[0].as.shape.dims[1] == 2);
  CHECK(seen[1].as.integer == 12);
  CHECK(seen[2].as.floating == 3.0);
  Error error = error_of([&] {
    program.session.run(program.executable.function("floats"), {in.tensor(CUGRT_F32, {12})});
  });
  CHECK(error.code() == CUGRT_UNSUPPORTED);
  CHECK(mentions(error, "only those of integers"));
}

TEST_CASE("a loop with a condition in device memory ends when the device says so") {
  Program program("cugrt 1\n"
                  R"(
kernel @countdown {
  inline """
extern "C" __global__ void countdown(int *counter, float *y) {
    counter[0] -= 1;
    y[0] += 1.0f;
  }
  """
  entry "countdown"
  params (counter: inout i32, y: inout f32)
  launch { grid (1, 1, 1) block (1, 1, 1) }
}

func @main(%counter: inout tensor<[1], i32>, %y: inout tensor<[1], f32>) {
  while () using (%counter, %y) {
    yield %counter
  } do {
    launch @countdown(%counter, %y)
    yield
  }
  return
}
)");
  Buffer counter = upload(std::vector<int32_t>{5}), y = upload(std::vector<float>{0});
  program.run({counter.tensor(CUGRT_I32, {1}), y.tensor(CUGRT_F32, {1})});
  CHECK(download<float>(y.address(), 1)[0] == 5);
  CHECK(download<int32_t>(counter.address(), 1)[0] == 0);
}

TEST_CASE("host functions see tensors, strings and shapes, and their failure ends the run") {
  Program program(module_text(R"(
func @main(%x: tensor<[n, 2], f32>, %y: out tensor<[n, 2], f32>) attributes {upper_bounds = {n = 64}} {
  %h = host "observe"(%x, "utf8", n) : int
  launch @scale(%x, %y, n*2, 1.0)
  return
}
)"));
  struct Seen {
    std::string text;
    cugrt_tensor tensor{};
    int64_t n = 0;
    bool fail = false;
  } seen;
  emulated_runtime().register_host_function(
      "observe",
      [](void *user, const cugrt_value *arguments, size_t count, cugrt_value *results, size_t,
         void *) -> cugrt_status * {
        auto *seen = static_cast<Seen *>(user);
        if (seen->fail)
          return api().status_create(CUGRT_CANCELLED, "the user went away");
        if (count == 3) {
          seen->tensor = arguments[0].as.tensor;
          seen->text = arguments[1].as.string;
          seen->n = arguments[2].as.integer;
        }
        results[0].as.integer = 7;
        return nullptr;
      },
      &seen);
  Buffer x = upload(numbers(6, 1)), y = upload(numbers(6, 2));
  auto run = [&] {
    program.session.run(program.main(), {x.tensor(CUGRT_F32, {3, 2}), y.tensor(CUGRT_F32, {3, 2})});
  };
  run();
  CHECK(seen.text == "utf8");
  CHECK(seen.n == 3);
  CHECK(seen.tensor.address == x.address());
  CHECK(seen.tensor.dims[1] == 2);
  seen.fail = true;
  Error error = error_of(run);
  CHECK(error.code() == CUGRT_CANCELLED);
  CHECK(mentions(error, "host function \"observe\""));
  CHECK(mentions(error, "the user went away"));
  seen.fail = false;
  run();
}

TEST_CASE("a host function that describes a result of known size anew is an error that says so") {
  Program program(module_text(R"(
func @main(%x: tensor<[n], f32>) -> (tensor<[n], f32>) attributes {upper_bounds = {n = 64}} {
  %h = host "own"(%x) : tensor<[n], f32>
  %y = alloc : tensor<[n], f32>
  launch @scale(%h, %y, n, 1.0)
  return %y
}
)"));
  using Change = void (*)(cugrt_tensor &);
  static Change change; // what the function does to its result's description
  emulated_runtime().register_host_function(
      "own", [](void *, const cugrt_value *, size_t, cugrt_value *results, size_t, void *) {
        const std::vector<float> written = numbers(3, 2);
        copy_to_device(emulated_runtime(), results[0].as.tensor.address,
                       std::as_bytes(std::span(written)));
        change(results[0].as.tensor);
        return static_cast<cugrt_status *>(nullptr);
      });
  Buffer x = upload(numbers(3, 1));
  auto run = [&] { program.session.run(program.main(), {x.tensor(CUGRT_F32, {3})}); };
  change = [](cugrt_tensor &) {};
  run();
  program.session.synchronize(); // no kernel reads what the next call writes
  for (Change wrong : {Change([](cugrt_tensor &result) { result.address += 4; }),
                       Change([](cugrt_tensor &result) { result.dims[0] = 2; }),
                       Change([](cugrt_tensor &result) { result.dtype = CUGRT_F16; }),
                       Change([](cugrt_tensor &result) { result.rank = 99; })}) {
    change = wrong;
    Error error = error_of(run);
    CHECK(error.code() == CUGRT_INVALID_ARGUMENT);
    CHECK(mentions(error, "host function \"own\" made result 0"));
    CHECK(mentions(error, "must write the tensor<[3], f32> at 0x"));
  }
}

TEST_CASE("weights of other dimensions than constant ones are refused when a session is opened") {
  Executable executable(emulated_runtime(),
                        Module::parse("cugrt 1\n"
                                      "func @main(%x: tensor<[n, 4], f32>, %w: tensor<[4, "
                                      "m], f32>) -> (tensor<[n, m], f32>) attributes "
                                      "{num_inputs = 1, upper_bounds = {n = 8, m = 8}} {\n"
                                      "  %y = matmul(%x, %w)\n  return %y\n}\n"));
  const std::vector<float> values(24, 1);
  auto open = [&](const std::vector<int64_t> &dims) {
    Weights weights;
    weights.add("w", values.data(), CUGRT_F32, dims);
    Session(executable, emulated_runtime(), weights);
  };
  open({4, 6});
  Error error = error_of([&] { open({3, 8}); });
  CHECK(error.code() == CUGRT_INVALID_ARGUMENT);
  CHECK(mentions(error, "parameter %w: dimension 0 is 4, got tensor<[3, 8], f32>"));
}

TEST_CASE("dimensions are told for values within the bounds of their symbols") {
  Program program(module_text(kOneLaunch));
  cugrt_symbol_value n{"n", 64};
  CHECK(program.main().dims(0, {&n, 1}) == std::vector<int64_t>{64});
  for (int64_t value : {-1, 65}) {
    n.value = value;
    Error error = error_of([&] { program.main().dims(0, {&n, 1}); });
    CHECK(error.code() == CUGRT_OUT_OF_RANGE);
    CHECK(mentions(error, "symbol n = " + std::to_string(value) + " is outside of its bounds"));
  }
}

TEST_CASE("code that is text may end with a NUL and has no other one") {
  const Module module = Module::parse(module_text(kOneLaunch));
  std::string text = "extern \"C\" __global__ void scale(const float *x, float *y, long long n, "
                     "float a) { y[threadIdx.x] = x[0]; }";
  auto compile_text = [&] {
    cugrt_kernel_code code{"scale", CUGRT_CODE_SOURCE, text.data(), text.size()};
    auto options = detail::sized<cugrt_compile_options>();
    options.codes = &code;
    options.code_count = 1;
    Executable(emulated_runtime(), module, &options);
  };
  text += '\0';
  compile_text();
  text += "}";
  Error error = error_of(compile_text);
  CHECK(error.code() == CUGRT_INVALID_ARGUMENT);
  CHECK(mentions(error, "kernel @scale is text and has a NUL at byte"));
}

TEST_CASE("an expression of a launch that has no value is told with the user's symbols") {
  std::string text = module_text(kOneLaunch);
  const std::string rule = "ceildiv(n, 64)";
  text.replace(text.find(rule), rule.size(), "floordiv(64, n)");
  Program program(text);
  Buffer x = upload(numbers(4, 1)), y = upload(numbers(4, 2));
  Error error = error_of([&] {
    program.session.run(program.main(), {x.tensor(CUGRT_F32, {0}), y.tensor(CUGRT_F32, {0})});
  });
  CHECK(mentions(error, "'floordiv(64, n)'"));
  CHECK(mentions(error, "with n = 0"));
}

TEST_CASE("an unresolved extern call is an error that names it") {
  Program program(module_text(R"(
func @main(%x: tensor<[n], f32>, %y: out tensor<[n], f32>) attributes {upper_bounds = {n = 64}} {
  extern "nobody.knows"(%x)
  launch @scale(%x, %y, n, 1.0)
  return
}
)"));
  Buffer x = upload(numbers(4, 1)), y = upload(numbers(4, 2));
  Error error = error_of([&] {
    program.session.run(program.main(), {x.tensor(CUGRT_F32, {4}), y.tensor(CUGRT_F32, {4})});
  });
  CHECK(error.code() == CUGRT_NOT_FOUND);
  CHECK(mentions(error, "nobody.knows"));
}

TEST_CASE("runs on changing streams are ordered on the device") {
  Program program(module_text(R"(
func @main(%x: tensor<[n], f32>, %y: inout tensor<[n], f32>) attributes {upper_bounds = {n = 256}} {
  launch @accumulate(%x, %y, n)
  return
}
)"));
  Stream a(emulated_runtime()), b(emulated_runtime());
  Buffer x = upload(std::vector<float>(100, 1)), y = upload(std::vector<float>(100, 0));
  void *const streams[] = {a.native(), nullptr, b.native(), b.native(), a.native(), nullptr};
  for (void *stream : streams)
    program.session.run(program.main(), {x.tensor(CUGRT_F32, {100}), y.tensor(CUGRT_F32, {100})},
                        stream);
  program.session.synchronize();
  CHECK(download<float>(y.address(), 100) == std::vector<float>(100, 6));
}

TEST_CASE("sessions of one executable run on threads of their own, and results do not mix") {
  Program program(module_text(R"(
func @main(%x: tensor<[n], f32>) -> (tensor<[n], f32>) attributes {upper_bounds = {n = 256}} {
  %y = relu(%x)
  return %y
}
)"));
  constexpr uint32_t kThreads = 8;
  std::vector<std::string> problems(kThreads); // Catch's macros are for one thread
  auto work = [&](uint32_t number) {
    Session session(program.executable, emulated_runtime());
    for (int64_t n : {256, 3, 256, 100, 3}) {
      std::vector<float> x = numbers(static_cast<size_t>(n), number + 1);
      Buffer input = upload(x);
      std::vector<Value> results = session.run(program.main(), {input.tensor(CUGRT_F32, {n})});
      session.synchronize();
      std::vector<float> y = download<float>(results[0].as.tensor.address, x.size());
      for (size_t i = 0; i < x.size(); ++i)
        if (y[i] != std::max(x[i], 0.0f))
          problems[number] = "wrong at " + std::to_string(i) + " of " + std::to_string(n);
    }
  };
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      try {
        work(i);
      } catch (const std::exception &error) {
        problems[i] = error.what();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  CHECK(problems == std::vector<std::string>(kThreads));
}

TEST_CASE("bad arguments are one-paragraph errors that name function and parameter") {
  std::vector<float> w = numbers(64, 1), b = numbers(8, 2);
  Weights weights;
  weights.add("w", w.data(), CUGRT_F32, std::vector<int64_t>{8, 8});
  Error missing = error_of([&] { Program program(kLayer, session_options(), weights); });
  CHECK(missing.code() == CUGRT_NOT_FOUND);
  CHECK(mentions(missing, "parameter %b is a weight"));
  weights.add("b", b.data(), CUGRT_F32, std::vector<int64_t>{8});
  Program program(kLayer, session_options(), weights);
  Buffer x = upload(numbers(97 * 8, 3));
  auto run = [&](cugrt_tensor tensor) {
    return error_of([&] { program.session.run(program.main(), {tensor}); });
  };
  CHECK(mentions(run(x.tensor(CUGRT_F32, {97, 8})), "its bounds are 0 to 96"));
  CHECK(mentions(run(x.tensor(CUGRT_F16, {9, 8})), "expected a tensor of dtype f32"));
  CHECK(mentions(run(x.tensor(CUGRT_F32, {9})), "expected rank 2"));
  CHECK(mentions(run(x.tensor(CUGRT_F32, {9, 7})), "dimension 1 is 7, expected 8"));
  CHECK(mentions(run(make_tensor(0, CUGRT_F32, std::vector<int64_t>{9, 8})), "address is null"));
  CHECK(program.session.counters().runs == 0);
}

TEST_CASE("rows of planned tensors and the drawing name the calls that they came from") {
  const Module module = Module::parse(R"(cugrt 1

func @main(%x: tensor<[8, 8], f32>) -> (tensor<[8, 8], f32>) {
  %y = call @inner(%x)
  %z = matmul(%y, %x)
  return %z
}
private func @inner(%x: tensor<[8, 8], f32>) -> (tensor<[8, 8], f32>) {
  %t = matmul(%x, %x)
  %u = matmul(%t, %x)
  return %u
}
)");
  const std::string from = "from the call of @inner in line 4";
  const std::string text = module.plan_report();
  const size_t row = text.find("@main %t ");
  REQUIRE(row != std::string::npos);
  CHECK(text.substr(row, text.find('\n', row) - row).ends_with(from));
  CHECK(module.plan_report(CUGRT_REPORT_SVG).find(from + "</title>") != std::string::npos);
  const std::string json = module.plan_report(CUGRT_REPORT_JSON);
  const size_t tensors = json.find("\"tensors\"");
  REQUIRE(tensors != std::string::npos);
  CHECK(json.find("\"callee\": \"inner\"", tensors) != std::string::npos);
}

TEST_CASE("a plan's report tells of bindings that the passes fused or took away") {
  const std::string text = Module::parse(R"(cugrt 1
func @main(%x: tensor<[8, 8], f32>, %c: bool) -> (tensor<[8, 8], f32>) {
  %unused = exp(%x)
  %also = neg(%unused)
  %m = matmul(%x, %x)
  %r = relu(%m)
  %s = add(%r, %x)
  %t = call @inner(%s)
  return %t
}
private func @inner(%x: tensor<[8, 8], f32>) -> (tensor<[8, 8], f32>) {
  %u = matmul(%x, %x)
  %v = relu(%u)
  return %v
}
private func @never(%x: tensor<[8, 8], f32>) -> (tensor<[8, 8], f32>) {
  %w = relu(%x)
  return %w
}
)")
                               .plan_report();
  auto told = [&](const std::string &line, const std::string &binding) {
    const size_t row = text.find("  line " + line);
    REQUIRE(row != std::string::npos);
    const size_t end = text.find('\n', text.find('\n', row) + 1);
    const std::string note = text.substr(row, end - row);
    INFO(note);
    CHECK(note.find(binding) != std::string::npos);
    return note.substr(note.find('\n') + 1 + 24);
  };
  CHECK(told("3 ", "%unused = exp(%x)") == "taken away: nothing uses what it gives");
  CHECK(told("4 ", "%also = neg(%unused)") == "taken away: nothing uses what it gives");
  CHECK(told("5 ", "main_region0 %m = matmul(%x, %x)") == "part of what line 7 has become");
  CHECK(told("6 ", "main_region0 %r = relu(%m)") == "part of what line 7 has become");
  CHECK(told("12", "main_region0 %u = matmul(%x, %x)") == "part of what line 13 has become");
  CHECK(text.find("line 17") == std::string::npos); // @never is nowhere
  CHECK(text.find("line 5 ") < text.find("line 7 "));
}

TEST_CASE("a plan's report tells of what is taken away from a function that is planned through") {
  // Before, between and behind what stays, in each call's caller: rows stand where they are
  // written.
  const std::string text = Module::parse(R"(cugrt 1
func @main(%x: tensor<[4], f32>) -> (tensor<[4], f32>) {
  %y = call @inner(%x)
  return %y
}
private func @inner(%x: tensor<[4], f32>) -> (tensor<[4], f32>) {
  %first = exp(%x)
  %y = softmax(%x)
  %second = neg(%y)
  %z = softmax(%y)
  %third = neg(%z)
  return %z
}
)")
                               .plan_report();
  CAPTURE(text);
  size_t last = 0;
  for (const char *row : {"line 7 ", "line 8 ", "line 9 ", "line 10", "line 11"}) {
    CAPTURE(row);
    const size_t at = text.find(row);
    REQUIRE(at != std::string::npos);
    CHECK(at > last);
    last = at;
    const std::string note = text.substr(at, text.find("\n  line", at) - at);
    CHECK(note.find("from the call of @inner in line 3") != std::string::npos);
    const bool is_dead =
        std::string("79").find(row[5]) != std::string::npos || std::string(row) == "line 11";
    CHECK((note.find("taken away: nothing uses what it gives") != std::string::npos) == is_dead);
  }
}

TEST_CASE("functions and symbols beyond the last are errors in C++") {
  Program program(module_text("func @main(%x: tensor<[n], f32>) {\n  return\n}\n"));
  CHECK(program.executable.function(0).symbol_name(0) == "n");
  for (const Error &error : {error_of([&] { program.executable.function(7); }),
                             error_of([&] { program.main().symbol_name(3); })})
    CHECK(error.code() == CUGRT_OUT_OF_RANGE);
}
