// A transformer layer and a convolutional net through the public C++ API, on the emulated driver:
// fewer launches fused than unfused, and the same bits, in graphs and over several shapes.
#include "support/program.h"
#include "support/temporary_folder.h"

using namespace cugrt;
using namespace cugrt::test;

namespace {

/// Pre-norm attention over four heads of 16 and a gated feed-forward part, both with residuals.
const std::string kTransformerLayer = R"(cugrt 1

func @main(%x: tensor<[n, 64], f32>, %mask: tensor<[n, n], f32>, %scale: tensor<[], f32>,
    %norm1: tensor<[64], f32>, %wq: tensor<[64, 64], f32>, %bq: tensor<[64], f32>,
    %wk: tensor<[64, 64], f32>, %wv: tensor<[64, 64], f32>, %bv: tensor<[64], f32>,
    %wo: tensor<[64, 64], f32>, %bo: tensor<[64], f32>, %norm2: tensor<[64], f32>,
    %gate: tensor<[64, 96], f32>, %up: tensor<[64, 96], f32>, %down: tensor<[96, 64], f32>)
    -> (tensor<[n, 64], f32>) attributes {lower_bounds = {n = 0}, upper_bounds = {n = 40}} {
  %h = rms_norm(%x, %norm1)
  %q0 = matmul(%h, %wq)
  %q1 = add(%q0, %bq)
  %q2 = mul(%q1, %scale)
  %q3 = reshape(%q2) {shape = [-1, 4, 16]}
  %q = transpose(%q3) {axes = [1, 0, 2]}
  %k0 = matmul(%h, %wk)
  %k1 = reshape(%k0) {shape = [-1, 4, 16]}
  %k = transpose(%k1) {axes = [1, 2, 0]}
  %v0 = matmul(%h, %wv)
  %v1 = add(%v0, %bv)
  %v2 = reshape(%v1) {shape = [-1, 4, 16]}
  %v = transpose(%v2) {axes = [1, 0, 2]}
  %s0 = matmul(%q, %k)
  %s1 = add(%s0, %mask)
  %s = softmax(%s1)
  %a0 = matmul(%s, %v)
  %a1 = transpose(%a0) {axes = [1, 0, 2]}
  %a = reshape(%a1) {shape = [-1, 64]}
  %o0 = matmul(%a, %wo)
  %o1 = add(%o0, %bo)
  %o = add(%o1, %x)
  %m = rms_norm(%o, %norm2)
  %g0 = matmul(%m, %gate)
  %g = silu(%g0)
  %u = matmul(%m, %up)
  %p = mul(%g, %u)
  %d = matmul(%p, %down)
  %y = add(%o, %d)
  return %y
}
)";

/// Two residual stages, pooling, and a classifier.
const std::string kConvolutionalNet = R"(cugrt 1

func @main(%x: tensor<[n, 3, 8, 8], f32>, %w1: tensor<[8, 3, 3, 3], f32>, %b1: tensor<[8, 1, 1], f32>,
    %w2: tensor<[8, 8, 3, 3], f32>, %b2: tensor<[8, 1, 1], f32>, %s2: tensor<[8, 1, 1], f32>,
    %w3: tensor<[8, 8, 3, 3], f32>, %b3: tensor<[8], f32>,
    %w4: tensor<[8, 10], f32>, %b4: tensor<[10], f32>)
    -> (tensor<[n, 10], f32>) attributes {lower_bounds = {n = 0}, upper_bounds = {n = 6}} {
  %c1 = conv2d(%x, %w1) {padding = [1, 1]}
  %a1 = add(%c1, %b1)
  %r1 = relu(%a1)
  %c2 = conv2d(%r1, %w2) {padding = [1, 1]}
  %m2 = mul(%c2, %s2)
  %a2 = add(%m2, %b2)
  %t2 = add(%a2, %r1)
  %r2 = relu(%t2)
  %p = max_pool2d(%r2) {kernel = [2, 2], strides = [2, 2]}
  %c3 = conv2d(%p, %w3, %b3) {padding = [1, 1]}
  %g3 = silu(%c3)
  %t3 = add(%g3, %p)
  %f = reduce_mean(%t3) {axes = [2, 3]}
  %y0 = matmul(%f, %w4)
  %y1 = add(%y0, %b4)
  %y = softmax(%y1)
  return %y
}
)";

using Dims = std::vector<int64_t>;

std::vector<float> run(Program &program, const std::vector<Dims> &inputs) {
  std::vector<Buffer> buffers;
  std::vector<Value> arguments;
  uint32_t seed = 1;
  for (const Dims &dims : inputs) {
    size_t count = 1;
    for (int64_t dim : dims)
      count *= size_t(dim);
    std::vector<float> values = numbers(count, seed++);
    for (float &value : values)
      value *= 0.5f;
    buffers.push_back(upload(values));
    arguments.push_back(buffers.back().tensor(CUGRT_F32, dims));
  }
  std::vector<Value> results = program.run(arguments);
  return contents(results[0]);
}

/// Runs the module with fusion and without it over several n, of the inputs that `inputs` gives.
void compare(const std::string &text, const std::string &counts, const std::vector<int64_t> &sizes,
             std::vector<Dims> (*inputs)(int64_t)) {
  const Module module = Module::parse(text);
  const Module unfused_module =
      module.run_passes({}, {"fuse.ops=false", "codegen.programmatic=true"});
  const std::string report = module.plan_report(CUGRT_REPORT_TEXT);
  CHECK(report.substr(0, report.find('\n')) == counts);
  Program fused(Executable(emulated_runtime(), module)),
      unfused(Executable(emulated_runtime(), unfused_module));
  for (int64_t n : sizes) {
    INFO("n = " << n);
    const std::vector<float> got = run(fused, inputs(n)), want = run(unfused, inputs(n));
    REQUIRE(got.size() == want.size());
    CHECK((got.empty() || std::memcmp(got.data(), want.data(), got.size() * 4) == 0));
    bool finite = true;
    for (float value : got)
      finite = finite && std::isfinite(value);
    CHECK(finite);
  }
}

} // namespace

TEST_CASE("a transformer layer takes 14 launches fused and 25 unfused, with equal bits") {
  compare(kTransformerLayer,
          "plan of module: 14 launches of 13 kernels; without fusion 25 launches of 16 kernels",
          {1, 5, 40, 0}, [](int64_t n) {
            return std::vector<Dims>{{n, 64}, {n, n},   {},       {64},     {64, 64},
                                     {64},    {64, 64}, {64, 64}, {64},     {64, 64},
                                     {64},    {64},     {64, 96}, {64, 96}, {96, 64}};
          });
}

TEST_CASE("a convolutional net takes 7 launches fused and 16 unfused, with equal bits") {
  compare(kConvolutionalNet,
          "plan of module: 7 launches of 7 kernels; without fusion 16 launches of 13 kernels",
          {1, 6, 0}, [](int64_t n) {
            return std::vector<Dims>{{n, 3, 8, 8}, {8, 3, 3, 3}, {8, 1, 1}, {8, 8, 3, 3}, {8, 1, 1},
                                     {8, 1, 1},    {8, 8, 3, 3}, {8},       {8, 10},      {10}};
          });
}

// --- What depends on weights alone, computed when the session is opened --------------------------

namespace {

/// The model with its parameters from number `inputs` on as weights.
Module with_weights(std::string text, int inputs) {
  const std::string begin = "attributes {";
  text.replace(text.find(begin), begin.size(),
               begin + "num_inputs = " + std::to_string(inputs) + ", ");
  return Module::parse(text);
}

Weights draw_weights(const Function &function, float factor = 0.5f) {
  Weights weights;
  for (size_t i = 0; i < function.param_count(); ++i) {
    const cugrt_param_info info = function.param(i);
    if (!info.weight)
      continue;
    const std::vector<int64_t> dims(info.dims, info.dims + info.rank);
    size_t count = 1;
    for (int64_t dim : dims)
      count *= size_t(dim);
    std::vector<float> values = numbers(count, uint32_t(i));
    for (float &value : values)
      value *= factor;
    weights.add(info.name, values.data(), CUGRT_F32, dims);
  }
  return weights;
}

struct Opened {
  Opened(Executable made, float factor = 0.5f)
      : executable(std::move(made)), main(executable.function("main")),
        session(executable, emulated_runtime(), draw_weights(main, factor)) {}
  Executable executable;
  Function main;
  Session session;
};

std::vector<float> run(Opened &opened, const std::vector<Dims> &inputs, size_t result = 0) {
  std::vector<Buffer> buffers;
  std::vector<Value> arguments;
  for (const Dims &dims : inputs) {
    size_t count = 1;
    for (int64_t dim : dims)
      count *= size_t(dim);
    buffers.push_back(upload(numbers(count, uint32_t(count))));
    arguments.push_back(buffers.back().tensor(CUGRT_F32, dims));
  }
  std::vector<Value> results = opened.session.run(opened.main, arguments);
  opened.session.synchronize();
  return contents(results[result]);
}

std::string report(const Module &module, const std::vector<std::string> &settings) {
  auto options = detail::sized<cugrt_plan_options>();
  const std::vector<const char *> texts = detail::pointers(settings);
  options.pass_options = texts.data();
  options.pass_option_count = texts.size();
  return module.plan_report(options);
}

size_t launches(const Module &module, const std::vector<std::string> &settings) {
  const std::string text = report(module, settings); // "plan of module: 14 launches of .."
  return std::stoul(text.substr(text.find(": ") + 2));
}

void check_lifted(const Module &module, const std::vector<Dims> &inputs, size_t with,
                  size_t without) {
  const std::vector<std::string> lifted = {"mixed.dtype=f16"};
  const std::vector<std::string> in_runs = {"mixed.dtype=f16", "lift.params=false"};
  CHECK(launches(module, lifted) == with);
  CHECK(launches(module, in_runs) == without);
  Opened one(Executable(emulated_runtime(), module, lifted));
  Opened other(Executable(emulated_runtime(), module, in_runs));
  // Whoever uses the executable sees the functions and weights that were written.
  CHECK(one.executable.function_count() == 1);
  CHECK(one.main.param_count() == other.main.param_count());
  for (int i = 0; i < 2; ++i) {
    const std::vector<float> got = run(one, inputs), want = run(other, inputs);
    REQUIRE(got.size() == want.size());
    REQUIRE(!got.empty());
    // Products of weights that are turned add up in another order, and are rounded to f16.
    for (size_t j = 0; j < got.size(); ++j)
      REQUIRE(std::abs(got[j] - want[j]) <= 0x1p-9f * std::max(1.0f, std::abs(want[j])));
  }
  // Half precision takes their place: what was cast is not kept.
  CHECK(one.session.counters().weight_bytes < other.session.counters().weight_bytes);
}

} // namespace

TEST_CASE("casts of a mixed transformer layer's weights are no part of its runs") {
  check_lifted(with_weights(kTransformerLayer, 3), {{5, 64}, {5, 5}, {}}, 13,
               13 + 7); // wq wk wv wo gate up down
}

TEST_CASE("casts of a mixed convolutional net's weights are no part of its runs") {
  // Scales and biases of channels are cast where they are applied.
  check_lifted(with_weights(kConvolutionalNet, 1), {{2, 3, 8, 8}}, 7,
               7 + 5); // w1 w2 w3 b3 w4
}

TEST_CASE("images with channels last give what they give with channels second") {
  // Residual blocks of one and of two groups; a mean, a window and parts of channels behind them.
  const Module module = Module::parse(R"(cugrt 1
func @main(%x: tensor<[n, 3, 15, 13], f32>, %w0: tensor<[32, 3, 3, 3], f32>, %w1: tensor<[16, 32, 1, 1], f32>,
           %w2: tensor<[16, 16, 3, 3], f32>, %b2: tensor<[16], f32>, %w3: tensor<[32, 16, 1, 1], f32>,
           %scale: tensor<[32, 1, 1], f32>, %w4: tensor<[32, 16, 3, 2], f32>, %wd: tensor<[32, 1, 3, 3], f32>,
           %gate: tensor<[32, 32, 1, 1], f32>, %w: tensor<[32, 10], f32>)
    -> (tensor<[n, 10], f32>, tensor<[n, 32, 4, 2], f32>) attributes {num_inputs = 1, upper_bounds = {n = 4}} {
  %stem = conv2d(%x, %w0) {strides = [2, 2], padding = [1, 1]}
  %first = relu(%stem)
  %a = conv2d(%first, %w1)
  %a_act = silu(%a)
  %b = conv2d(%a_act, %w2, %b2) {padding = [1, 1]}
  %b_act = relu(%b)
  %c = conv2d(%b_act, %w3)
  %scaled = mul(%c, %scale)
  %sum = add(%first, %scaled)
  %block = relu(%sum)
  %g = conv2d(%block, %w4) {groups = 2, padding = [1, 0, 1, 1], strides = [2, 2]}
  %d = conv2d(%g, %wd) {groups = 32, padding = [1, 1]}
  %mean = reduce_mean(%d) {axes = [2, 3], keep_dims = true}
  %gated = conv2d(%mean, %gate)
  %open = sigmoid(%gated)
  %excited = mul(%g, %open)
  %left, %right = split(%excited) {axis = 1, sections = [8, 24]}
  %parts = concat(%right, %left) {axis = -3}
  %small = max_pool2d(%parts) {kernel = [2, 3], padding = [1, 1], strides = [1, 2]}
  %pooled = avg_pool2d(%parts) {kernel = [2, 3], padding = [1, 1], strides = [1, 2], count_include_pad = false}
  %both = sub(%small, %pooled)
  %over = reduce_mean(%both) {axes = [2, 3]}
  %y = matmul(%over, %w)
  %window = slice(%both) {axes = [2, 3], starts = [0, 0], ends = [4, 2]}
  return %y, %window
}
)");
  for (const char *dtype : {"f16", "bf16"}) {
    const std::string narrow = std::string("mixed.dtype=") + dtype;
    const std::vector<std::string> last = {narrow, "target.compute_capability=80"};
    const std::vector<std::string> second = {narrow, "target.compute_capability=75"};
    CHECK(report(module, last).find("channels last") != std::string::npos);
    CHECK(report(module, second).find("channels last") == std::string::npos);
    Opened one(Executable(emulated_runtime(), module, last), 0.3f);
    Opened other(Executable(emulated_runtime(), module, second), 0.3f);
    const float unit = std::string(dtype) == "f16" ? 0x1p-11f : 0x1p-8f;
    for (int64_t n : {1, 3})
      for (size_t r : {0, 1}) {
        const std::vector<float> got = run(one, {{n, 3, 15, 13}}, r),
                                 want = run(other, {{n, 3, 15, 13}}, r);
        REQUIRE(got.size() == want.size());
        REQUIRE(!got.empty());
        for (size_t j = 0; j < got.size(); ++j)
          REQUIRE(std::abs(got[j] - want[j]) <= 12 * unit * std::max(1.0f, std::abs(want[j])));
      }
  }
}

TEST_CASE("what was computed belongs to the weights of a session, and is shared by those of one "
          "set") {
  const Module module = Module::parse(R"(cugrt 1
func @main(%x: tensor<[4], f32>, %w: tensor<[4], f32>) -> (tensor<[4], f32>)
    attributes {num_inputs = 1} {
  %e = neg(%w)
  %y = add(%x, %e)
  return %y
}
)");
  Opened half(Executable(emulated_runtime(), module)),
      twice(Executable(emulated_runtime(), module), 2);
  const std::vector<float> a = run(half, {{4}}), b = run(twice, {{4}});
  const std::vector<float> x = numbers(4, 4), w = numbers(4, 1);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(a[i] == x[i] - 0.5f * w[i]);
    CHECK(b[i] == x[i] - 2 * w[i]);
  }
  // A tensor that is computed cannot be given: it would never be read.
  const std::vector<float> values(4);
  Weights both = draw_weights(half.main);
  both.add("main_transform_params.0", values.data(), CUGRT_F32, std::vector<int64_t>{4});
  const Error error = error_of([&] { Session(half.executable, emulated_runtime(), both); });
  CHECK(mentions(error, "main_transform_params.0"));
  CHECK(mentions(error, "leave it out"));
}

TEST_CASE("a weight stays on the device when a run reads it, not when it is only computed from") {
  struct Row {
    const char *result;
    uint64_t weight_bytes; // of 64 elements, f32
  };
  for (const Row &row : {Row{"%e", 256}, Row{"%w", 512}}) {
    CAPTURE(row.result);
    const Module module = Module::parse(R"(cugrt 1
func @main(%x: tensor<[64], f32>, %w: tensor<[64], f32>) -> (tensor<[64], f32>)
    attributes {num_inputs = 1} {
  %e = neg(%w)
  %s = add(%x, %e)
  %y = add(%s, )" + std::string(row.result) +
                                        R"()
  return %y
}
)");
    const std::string report = module.plan_report(detail::sized<cugrt_plan_options>());
    CHECK(report.find("arguments 256, weights " + std::to_string(row.weight_bytes) + ",") !=
          report.npos);
    Opened opened(Executable(emulated_runtime(), module));
    CHECK(opened.session.counters().weight_bytes == row.weight_bytes);
    const std::vector<float> y = run(opened, {{64}}), x = numbers(64, 64), w = numbers(64, 1);
    for (size_t i = 0; i < 64; ++i) {
      const float last = 0.5f * (row.result[1] == 'e' ? -w[i] : w[i]);
      CHECK(y[i] == (x[i] - 0.5f * w[i]) + last);
    }
  }
}

namespace {

/// The numbers that a run gives by the module, and by a pack of it.
std::vector<std::vector<float>> run_both(const Module &module, const std::vector<Dims> &inputs) {
  Opened direct(Executable(emulated_runtime(), module));
  TemporaryFolder folder;
  const std::string path = folder.path + "/model.pack";
  auto options = detail::sized<cugrt_pack_options>();
  const char *architecture = "compute_75";
  options.architectures = &architecture;
  options.architecture_count = 1;
  write_pack(emulated_runtime(), module, options, path);
  Opened packed(Executable(emulated_runtime(), Pack::load(path)));
  return {run(direct, inputs), run(packed, inputs)};
}

} // namespace

TEST_CASE("ops on weights that copy nothing can be read in runs") {
  for (const char *op : {"cast(%w) {dtype = f32}", "slice(%w) {starts = [0], ends = [2]}",
                         "transpose(%w) {axes = [0, 1]}", "split(%w) {axis = 0, sections = [2]}",
                         "concat(%w) {axis = 1}", "broadcast_to(%w, %s)"}) {
    CAPTURE(op);
    const Module module = Module::parse(
        "cugrt 1\nfunc @main(%x: tensor<[2, 4], f32>, %w: tensor<[2, 4], f32>) -> "
        "(tensor<[2, 4], f32>) attributes {num_inputs = 1} {\n  %s = shape [2, 4]\n  %v = " +
        std::string(op) + "\n  %y = sub(%x, %v)\n  return %y\n}\n");
    const std::vector<float> x = numbers(8, 8), w = numbers(8, 1);
    for (const std::vector<float> &y : run_both(module, {{2, 4}}))
      for (size_t i = 0; i < 8; ++i)
        CHECK(y[i] == x[i] - 0.5f * w[i]);
  }
}

TEST_CASE("what depends on constants alone is computed once, without weights") {
  const Module module = Module::parse(R"(cugrt 1
constant @k : tensor<[2], f32> = [1.0, 2.0]
func @main(%x: tensor<[4], f32>, %w: tensor<[4], f32>) -> (tensor<[4], f32>)
    attributes {num_inputs = 1} {
  %k = constant @k
  %c = concat(%k, %k) {axis = 0}
  %y = add(%x, %c)
  %z = sub(%y, %w)
  return %z
}
)");
  const std::vector<float> x = numbers(4, 4), w = numbers(4, 1);
  for (const std::vector<float> &z : run_both(module, {{4}}))
    for (size_t i = 0; i < 4; ++i)
      CHECK(z[i] == (x[i] + float(1 + i % 2)) - 0.5f * w[i]);
}

TEST_CASE("a computed weight may be another weight, a constant, or a part of either or of another "
          "result") {
  // Each result of @h, and what it is of the weight's eight numbers.
  struct Row {
    const char *result;
    float (*expected)(const std::vector<float> &w, size_t i);
  };
  for (const Row &row : {Row{"%w", [](const std::vector<float> &w, size_t i) { return w[i]; }},
                         {"%p", [](const std::vector<float> &w, size_t i) { return w[4 + i]; }},
                         {"%k", [](const std::vector<float> &, size_t i) { return float(1 + i); }},
                         {"%t", [](const std::vector<float> &, size_t i) { return float(5 + i); }},
                         {"%e", [](const std::vector<float> &w, size_t i) { return -w[i]; }},
                         {"%q", [](const std::vector<float> &w, size_t i) { return -w[4 + i]; }}}) {
    CAPTURE(row.result);
    // Twice, behind the result that %q is a part of.
    const std::string name = row.result;
    const bool is_part = name == "%p" || name == "%t" || name == "%q";
    const std::string type = is_part ? "tensor<[4], f32>" : "tensor<[8], f32>";
    const Module module = Module::parse(R"(cugrt 1
constant @k : tensor<[8], f32> = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
func @h(%w: tensor<[8], f32>) -> (tensor<[8], f32>, )" +
                                        type + ", " + type + R"()
    attributes {num_inputs = 0} {
  %p = view %w, 16 : tensor<[4], f32>
  %e = neg(%w)
  %q = view %e, 16 : tensor<[4], f32>
  %k = constant @k
  %t = view %k, 16 : tensor<[4], f32>
  return %e, )" + name + ", " + name + R"(
}
func @main(%x: tensor<[4], f32>, %w: tensor<[8], f32>, %h.0: tensor<[8], f32>, %h.1: )" +
                                        type + ", %h.2: " + type +
                                        R"() -> (tensor<[4], f32>) attributes {num_inputs = 1} {
  %a = view %h.0, 0 : tensor<[4], f32>
  %b = view %h.1, 0 : tensor<[4], f32>
  %c = view %h.2, 0 : tensor<[4], f32>
  %s = add(%x, %a)
  %d = sub(%s, %b)
  %r = sub(%d, %b)
  %y = add(%r, %c)
  return %y
}
)");
    const std::vector<float> x = numbers(4, 4);
    std::vector<float> w = numbers(8, 1);
    for (float &value : w)
      value *= 0.5f;
    for (const std::vector<float> &y : run_both(module, {{4}}))
      for (size_t i = 0; i < 4; ++i) {
        const float part = row.expected(w, i);
        CHECK(y[i] == (((x[i] - w[i]) - part) - part) + part);
      }
  }
}

TEST_CASE("a pack computes the same from its weights") {
  const Module module = Module::parse(R"(cugrt 1
func @main(%x: tensor<[2, 3], f32>, %w: tensor<[4, 3], f32>) -> (tensor<[2, 4], f32>)
    attributes {num_inputs = 1} {
  %t = transpose(%w)
  %y = matmul(%x, %t)
  return %y
}
)");
  const std::vector<std::vector<float>> y = run_both(module, {{2, 3}});
  CHECK(y[0] == y[1]);
}
