// runtime: modules in mixed precision against the same modules in f32, on the emulated driver.
//
// The bound is stated in units of rounding u of the dtype, 2^-11 of f16 and 2^-8 of bf16: results
// differ by at most 6 u (1 + |x|). Numbers are about 1 everywhere, and a result passes through some
// ten roundings, each of half a unit at most; the most that was seen is 3.4.
#include "support/api_fixture.h"

using namespace cugrt;
using namespace cugrt::test;

namespace {

struct Input {
  std::vector<int64_t> dims;
  float scale = 1;
};

/// All results of @main, one after the other; what it writes counts as one.
std::vector<float> run_mixed(const Module &module, const std::vector<Input> &inputs) {
  Executable executable(emulated_runtime(), module);
  Session session(executable, emulated_runtime(), Weights());
  Function main = executable.function("main");
  std::vector<Buffer> buffers;
  std::vector<Value> arguments;
  for (size_t i = 0; i < inputs.size(); ++i) {
    size_t count = 1;
    for (int64_t dim : inputs[i].dims)
      count *= static_cast<size_t>(dim);
    std::vector<float> values = numbers(count, static_cast<uint32_t>(7 * i + 1));
    for (float &value : values)
      value *= inputs[i].scale;
    buffers.push_back(upload(values));
    arguments.push_back(buffers.back().tensor(CUGRT_F32, inputs[i].dims));
  }
  std::vector<Value> results = session.run(main, arguments);
  session.synchronize();
  std::vector<float> all;
  auto append = [&](uint64_t address, size_t count) {
    const std::vector<float> values = download<float>(address, count);
    all.insert(all.end(), values.begin(), values.end());
  };
  for (const Value &result : results) {
    CHECK(result.as.tensor.dtype == CUGRT_F32); // results keep their types
    append(result.as.tensor.address, elements(result.as.tensor));
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    if (main.param(i).access != CUGRT_IN)
      append(buffers[i].address(), elements(arguments[i].as.tensor));
  return all;
}

void check_dtypes(const std::string &text, const std::vector<Input> &inputs) {
  const Module module = Module::parse(text);
  const std::vector<float> in_f32 = run_mixed(module, inputs);
  const std::vector<double> expected(in_f32.begin(), in_f32.end());
  REQUIRE(!expected.empty());
  for (const auto &[dtype, unit] : {std::pair("f16", 0x1p-11), std::pair("bf16", 0x1p-8)}) {
    INFO(dtype);
    const Module narrow =
        module.run_passes({"ToMixedPrecision"}, {std::string("mixed.dtype=") + dtype});
    CHECK(narrow.print().find(std::string("dtype = ") + dtype) != std::string::npos);
    const std::vector<float> actual = run_mixed(narrow, inputs);
    check_close(actual, expected, 6 * unit);
    CHECK(actual != in_f32); // something was rounded
  }
}

} // namespace

TEST_CASE("a convolutional net in mixed precision is within the bound of f32") {
  const std::string text = R"(cugrt 1
func @main(%x: tensor<[n, 3, 9, 9], f32>, %k1: tensor<[8, 3, 3, 3], f32>, %b1: tensor<[8], f32>,
           %k2: tensor<[8, 4, 3, 3], f32>, %w: tensor<[32, 10], f32>, %b: tensor<[10], f32>)
    -> (tensor<[n, 10], f32>, tensor<[n, 8, 4, 4], f32>) attributes {upper_bounds = {n = 4}} {
  %c1 = conv2d(%x, %k1, %b1) {padding = [1, 1]}
  %r1 = silu(%c1)
  %p1 = max_pool2d(%r1) {kernel = [3, 3], strides = [2, 2]}
  %c2 = conv2d(%p1, %k2) {padding = [1, 1], groups = 2}
  %s2 = add(%c2, %p1)
  %r2 = relu(%s2)
  %p2 = avg_pool2d(%r2) {kernel = [2, 2], strides = [2, 2]}
  %f = reshape(%p2) {shape = [-1, 32]}
  %l = matmul(%f, %w, %b)
  %y = softmax(%l)
  return %y, %r2
}
)";
  for (int64_t n : {1, 3})
    check_dtypes(text, {{{n, 3, 9, 9}},
                        {{8, 3, 3, 3}, 0.4f},
                        {{8}},
                        {{8, 4, 3, 3}, 0.3f},
                        {{32, 10}, 0.4f},
                        {{10}}});
}

TEST_CASE("recurrent layers in mixed precision are within the bound of f32") {
  const std::string text = R"(cugrt 1
func @main(%x: tensor<[t, 2, 8], f32>, %w1: tensor<[8, 64], f32>, %r1: tensor<[2, 8, 32], f32>,
           %w2: tensor<[16, 24], f32>, %r2: tensor<[1, 8, 24], f32>, %w3: tensor<[8, 8], f32>)
    -> (tensor<[t, 2, 8], f32>) attributes {upper_bounds = {t = 6}} {
  %p1 = matmul(%x, %w1)
  %s1 = shape [t, 2, 2, 32]
  %g1 = reshape(%p1, %s1)
  %y1, %h1, %c1 = lstm(%g1, %r1)
  %t1 = transpose(%y1) {axes = [0, 2, 1, 3]}
  %s2 = shape [t, 2, 16]
  %f1 = reshape(%t1, %s2)
  %p2 = matmul(%f1, %w2)
  %s3 = shape [t, 2, 1, 24]
  %g2 = reshape(%p2, %s3)
  %y2, %h2 = gru(%g2, %r2)
  %s4 = shape [t, 2, 8]
  %f2 = reshape(%y2, %s4)
  %y3 = matmul(%f2, %w3)
  return %y3
}
)";
  for (int64_t t : {1, 6})
    check_dtypes(text, {{{t, 2, 8}},
                        {{8, 64}, 0.4f},
                        {{2, 8, 32}, 0.4f},
                        {{16, 24}, 0.4f},
                        {{1, 8, 24}, 0.4f},
                        {{8, 8}, 0.4f}});
  const std::string narrow =
      Module::parse(text).run_passes({"ToMixedPrecision"}, {"mixed.dtype=f16"}).print();
  CHECK(narrow.find("dtype = f32") == narrow.rfind("dtype = f32")); // the result's cast alone
}

TEST_CASE("a transformer layer in mixed precision is within the bound of f32") {
  const std::string text = R"(cugrt 1
constant @one : tensor<[16], f32> = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
func @main(%x: tensor<[b, t, 16], f32>, %positions: tensor<[b, t], f32>, %wq: tensor<[16, 16], f32>,
           %wk: tensor<[16, 16], f32>, %wv: tensor<[16, 16], f32>, %wo: tensor<[16, 16], f32>,
           %up: tensor<[16, 48], f32>, %down: tensor<[48, 16], f32>)
    -> (tensor<[b, t, 16], f32>) attributes {upper_bounds = {b = 3, t = 8}} {
  %one = constant @one
  %at = cast(%positions) {dtype = i32}
  %n1 = rms_norm(%x, %one)
  %q = matmul(%n1, %wq)
  %k = matmul(%n1, %wk)
  %v = matmul(%n1, %wv)
  %heads = shape [b, t, 2, 8]
  %q4 = reshape(%q, %heads)
  %k4 = reshape(%k, %heads)
  %v4 = reshape(%v, %heads)
  %qr = rotary(%q4, %at)
  %kr = rotary(%k4, %at)
  %a4 = attention(%qr, %kr, %v4) {causal = true}
  %rows = shape [b, t, 16]
  %a = reshape(%a4, %rows)
  %o = matmul(%a, %wo)
  %h = add(%x, %o)
  %n2 = layer_norm(%h, %one)
  %u = matmul(%n2, %up)
  %g = gelu(%u)
  %d = matmul(%g, %down)
  %y = add(%h, %d)
  return %y
}
)";
  for (auto [b, t] : {std::pair<int64_t, int64_t>(1, 5), {3, 8}})
    check_dtypes(text, {{{b, t, 16}},
                        {{b, t}, 5},
                        {{16, 16}, 0.3f},
                        {{16, 16}, 0.3f},
                        {{16, 16}, 0.3f},
                        {{16, 16}, 0.3f},
                        {{16, 48}, 0.3f},
                        {{48, 16}, 0.2f}});
}

TEST_CASE("a row that a mask of large numbers hides whole is no NaN in mixed precision") {
  check_dtypes(R"(cugrt 1
constant @mask : tensor<[3, 2], f32> = [0.0, -1e9, -1e9, -1e9, -3.4028235e38, -3.4028235e38]
func @main(%x: tensor<[3, 4], f32>, %w: tensor<[4, 2], f32>) -> (tensor<[3, 2], f32>) {
  %mask = constant @mask
  %h = matmul(%x, %w)
  %s = add(%h, %mask)
  %p = softmax(%s)
  %m = matmul(%x, %w)
  %y = add(%p, %m)
  return %y
}
)",
               {{{3, 4}}, {{4, 2}}});
}

TEST_CASE("what is written between two reads is cast at each of them") {
  check_dtypes(R"(cugrt 1
kernel @step {
  inline """
extern "C" __global__ void step(const float *x, float *y, long long n) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = 0.5f * y[i] - x[i];
}
"""
  entry "step"
  params (x: in f32, y: inout f32, n: symbol i64)
  launch { grid (ceildiv(n, 64), 1, 1) block (64, 1, 1) }
}
func @main(%x: tensor<[4, 4], f32>, %state: inout tensor<[4, 4], f32>, %w: tensor<[4, 4], f32>)
    -> (tensor<[4, 4], f32>) {
  %one = matmul(%state, %w)
  launch @step(%x, %state, 16)
  %two = matmul(%state, %w)
  %made = matmul(%one, %two)
  launch @step(%x, %made, 16)
  %view = view %state, 0 : tensor<[4, 4], f32>
  launch @step(%two, %view, 16)
  %three = matmul(%made, %state)
  return %three
}
)",
               {{{4, 4}}, {{4, 4}}, {{4, 4}, 0.5f}});
}

TEST_CASE("branches and loops in mixed precision are within the bound of f32") {
  check_dtypes(R"(cugrt 1
constant @zero : tensor<[1], f32> = [0.0]
constant @one : tensor<[1], f32> = [1.0]
constant @three : tensor<[1], f32> = [3.0]
func @main(%x: tensor<[4, 4], f32>, %w: tensor<[4, 4], f32>)
    -> (tensor<[4, 4], f32>, tensor<[4, 4], f32>, tensor<[1], f32>) {
  %zero = constant @zero
  %one = constant @one
  %three = constant @three
  %h = tanh(%x)
  %turns, %last = while (%i = %zero, %state = %h) using (%w, %h, %one, %three) {
    %more = less(%i, %three)
    yield %more
  } do {
    %y = matmul(%state, %w)
    %z = add(%y, %h)
    %next = add(%i, %one)
    yield %next, %z
  }
  %above = less(%three, %turns)
  %chosen = if %above using (%last, %w) -> tensor<[4, 4], f32> {
    %a = matmul(%last, %w)
    yield %a
  } else {
    %b = softmax(%last)
    %c = matmul(%w, %b)
    yield %c
  }
  return %chosen, %last, %turns
}
)",
               {{{4, 4}}, {{4, 4}, 0.5f}});
}

TEST_CASE("options of passes are taken where a module is compiled, planned or packed") {
  const Module module = Module::parse(R"(cugrt 1
func @main(%x: tensor<[1, 1], f32>, %w: tensor<[1, 1], f32>) -> (tensor<[1, 1], f32>) {
  %p = matmul(%x, %w)
  return %p
}
)");
  auto product = [&](const std::vector<std::string> &options) {
    Executable executable(emulated_runtime(), module, options);
    Session session(executable, emulated_runtime(), Weights());
    const std::vector<float> x = {1 + 0x1p-13f}, one = {1};
    Buffer a = upload(x), b = upload(one);
    std::vector<Value> results = session.run(
        executable.function("main"), {a.tensor(CUGRT_F32, {1, 1}), b.tensor(CUGRT_F32, {1, 1})});
    session.synchronize();
    return download<float>(results[0].as.tensor.address, 1)[0];
  };
  CHECK(product({}) == 1 + 0x1p-13f);
  CHECK(product({"mixed.dtype=f16"}) == 1);
  CHECK(product({"mixed.dtype=f16", "mixed.deny=matmul"}) == 1 + 0x1p-13f);

  // An unknown option, another value, another form: whoever asks is told what there is.
  auto options = detail::sized<cugrt_plan_options>();
  for (const auto &[setting, says] :
       {std::pair("fuse.opps=true", "the options are"), std::pair("fuse.opps=true", "fuse.ops"),
        std::pair("fuse.ops=perhaps", "must be true or false"),
        std::pair("fuse.ops", "name=value")}) {
    const char *settings[] = {setting};
    options.pass_options = settings;
    options.pass_option_count = 1;
    CHECK(std::string(error_of([&] { module.plan_report(options); }).what()).find(says) !=
          std::string::npos);
    CHECK(std::string(error_of([&, given = setting] { product({given}); }).what()).find(says) !=
          std::string::npos);
    auto pack = detail::sized<cugrt_pack_options>();
    const char *architecture = "compute_75";
    pack.architectures = &architecture;
    pack.architecture_count = 1;
    pack.pass_options = settings;
    pack.pass_option_count = 1;
    CHECK(std::string(error_of([&] {
                        write_pack(emulated_runtime(), module, pack, "never-written.pack");
                      }).what())
              .find(says) != std::string::npos);
  }
  options.pass_options = nullptr;
  CHECK(std::string(error_of([&] { module.plan_report(options); }).what()).find("pass_options") !=
        std::string::npos);
}

TEST_CASE("functions that share what is computed of a weight give what they give with their own") {
  const Module module = Module::parse(R"(cugrt 1
func @main(%x: tensor<[2, 3], f32>, %w: tensor<[3, 2], f32>) -> (tensor<[2, 2], f32>)
    attributes {num_inputs = 1} {
  %p = matmul(%x, %w)
  return %p
}
func @second(%x: tensor<[2, 3], f32>, %w: tensor<[3, 2], f32>) -> (tensor<[2, 2], f32>)
    attributes {num_inputs = 1} {
  %p = matmul(%x, %w)
  %r = neg(%p)
  return %r
}
)");
  const std::vector<float> x = {1, 2, 3, 4, 5, 6}, w = {0.5f, 1, -1, 2, 0.25f, -3};
  Weights weights;
  weights.add("w", w.data(), CUGRT_F32, std::vector<int64_t>{3, 2});
  Executable executable(emulated_runtime(), module, {"mixed.dtype=f16"});
  Session session(executable, emulated_runtime(), weights);
  Buffer given = upload(x);
  auto result = [&](const char *function) {
    std::vector<Value> results =
        session.run(executable.function(function), {given.tensor(CUGRT_F32, {2, 3})});
    session.synchronize();
    return download<float>(results[0].as.tensor.address, 4);
  };
  // Of x times w; all numbers and sums are exact in f16.
  CHECK(result("main") == std::vector<float>{-0.75f, -4, -1.5f, -4});
  CHECK(result("second") == std::vector<float>{0.75f, 4, 1.5f, 4});
}

TEST_CASE("an option of a pass comes before what the policy implies") {
  const Module module = Module::parse(R"(cugrt 1
private func @twice(%x: tensor<[8], f32>) -> (tensor<[8], f32>) {
  %y = add(%x, %x)
  return %y
}
func @main(%x: tensor<[8], f32>) -> (tensor<[8], f32>) {
  %y = call @twice(%x)
  return %y
}
)");
  auto report = [&](const char *setting) {
    auto options = detail::sized<cugrt_plan_options>();
    options.policy = CUGRT_POLICY_SEED; // keeps calls
    const char *settings[] = {setting};
    options.pass_options = settings;
    options.pass_option_count = setting ? 1 : 0;
    return module.plan_report(options);
  };
  CHECK(report(nullptr).find("function @twice") != std::string::npos);
  CHECK(report("inline.functions=true").find("function @twice") == std::string::npos);
}
