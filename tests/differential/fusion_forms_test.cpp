// Forms of groups through the public C++ API, on the emulated driver: what stands before and behind
// an op that reduces, ops that are read at many indices, and tensors without elements. Fused and
// unfused give the same bits.
#include "support/api_fixture.h"

#include <algorithm>
#include <random>

using namespace cugrt;
using namespace cugrt::test;

namespace {

struct Input {
  std::vector<int64_t> dims;
  cugrt_dtype dtype = CUGRT_F32;
};

/// Bytes of the first result. Inputs are numbers, those of i64 indices below 4.
std::vector<std::byte> run(const Module &module, const std::vector<std::string> &settings,
                           const std::vector<Input> &inputs, std::vector<int64_t> &dims) {
  Executable executable(emulated_runtime(), module, settings);
  Session session(executable, emulated_runtime());
  std::vector<Buffer> buffers;
  std::vector<Value> arguments;
  for (const Input &input : inputs) {
    size_t count = 1;
    for (int64_t dim : input.dims)
      count *= size_t(dim);
    const std::vector<float> values = numbers(count, uint32_t(buffers.size() + 1));
    std::vector<int64_t> indices;
    for (float value : values)
      indices.push_back(int64_t((value + 1) * 2));
    buffers.push_back(input.dtype == CUGRT_I64 ? upload(indices) : upload(values));
    arguments.push_back(buffers.back().tensor(input.dtype, input.dims));
  }
  const std::vector<Value> results = session.run(executable.function("main"), arguments);
  session.synchronize();
  const cugrt_tensor &result = results[0].as.tensor;
  dims.assign(result.dims, result.dims + result.rank);
  return download<std::byte>(result.address, elements(result) * 4);
}

void check_same_bits(const std::string &text, const std::vector<Input> &inputs,
                     const std::vector<int64_t> &expected_dims) {
  CAPTURE(text);
  const Module module = Module::parse(text);
  std::vector<int64_t> dims, unfused_dims;
  const auto fused = run(module, {}, inputs, dims),
             unfused = run(module, {"fuse.ops=false"}, inputs, unfused_dims);
  CHECK(dims == expected_dims);
  CHECK(unfused_dims == expected_dims);
  CHECK(fused == unfused);
}

size_t launches(const Module &module) {
  const std::string text = module.run_passes().print();
  size_t count = 0;
  for (size_t at = 0; (at = text.find("  launch @", at)) != text.npos; ++at)
    ++count;
  return count;
}

} // namespace

TEST_CASE("sizes of what a reduction loads and tensors of what takes its result are both given") {
  const char *const prologues[] = {
      "%p = maximum(%v, %y)",
      "%p = add(%z, %y)",
      "%c = greater(%y, %v)\n  %m = neg(%y)\n  %p = where(%c, %m, %v)",
      "%r = range() {length = 6}\n  %p = mul(%r, %y)",
  };
  const char *const reductions[] = {
      "%s = reduce_sum(%p) {axes = [1], keep_dims = true}",
      "%s = reduce_max(%p) {axes = [1], keep_dims = true}",
      "%s = reduce_mean(%p) {axes = [1], keep_dims = true}",
      "%i = argmax(%p) {axis = 1, keep_dims = true}\n  %s = cast(%i) {dtype = f32}",
  };
  for (const char *epilogue : {"mul(%s, %u)", "sub(%k, %s)", "relu(%s)"})
    for (const char *prologue : prologues)
      for (const char *reduction : reductions)
        check_same_bits("cugrt 1\nfunc @main(%y: tensor<[n, 6], f32>, %v: tensor<[n, 1], f32>, "
                        "%z: tensor<[6], f32>, %u: tensor<[n, 1], f32>, %k: tensor<[1], f32>) "
                        "-> (tensor<[n, 1], f32>) attributes {upper_bounds = {n = 16}} {\n  " +
                            std::string(prologue) + "\n  " + reduction + "\n  %e = " + epilogue +
                            "\n  return %e\n}\n",
                        {{{5, 6}}, {{5, 1}}, {{6}}, {{5, 1}}, {{1}}}, {5, 1});
}

TEST_CASE("what is read at two places each time is not computed twice as often with every op") {
  // Of 40 layers the first would be computed 2^40 times.
  auto gathers = [](int layers) {
    std::string text = "cugrt 1\nfunc @main(%x: tensor<[4, 6], f32>, %i: tensor<[4], i64>) -> "
                       "(tensor<[4, 6], f32>) {\n  %y0 = relu(%x)\n";
    for (int i = 0; i < layers; ++i) {
      const std::string n = std::to_string(i);
      text += "  %g" + n + " = gather(%y" + n + ", %i) {axis = 0}\n  %y" + std::to_string(i + 1) +
              " = add(%y" + n + ", %g" + n + ")\n";
    }
    return text + "  return %y" + std::to_string(layers) + "\n}\n";
  };
  auto halves = [](int layers) {
    std::string text = "cugrt 1\nfunc @main(%x: tensor<[4, 4], f32>) -> (tensor<[4, 4], f32>) {\n"
                       "  %y0 = relu(%x)\n";
    for (int i = 0; i < layers; ++i) {
      const std::string n = std::to_string(i);
      text += "  %s" + n + " = slice(%y" + n + ") {starts = [3], ends = [-9], steps = [-1]}\n  %c" +
              n + " = concat(%y" + n + ", %s" + n + ") {axis = 0}\n  %y" + std::to_string(i + 1) +
              " = slice(%c" + n + ") {starts = [2], ends = [6]}\n";
    }
    return text + "  return %y" + std::to_string(layers) + "\n}\n";
  };
  check_same_bits(gathers(2), {{{4, 6}}, {{4}, CUGRT_I64}}, {4, 6});
  check_same_bits(gathers(9), {{{4, 6}}, {{4}, CUGRT_I64}}, {4, 6});
  check_same_bits(halves(9), {{{4, 4}}}, {4, 4});
  CHECK(launches(Module::parse(gathers(2))) == 1);
  CHECK(launches(Module::parse(gathers(9))) == 3);
  CHECK(launches(Module::parse(gathers(40))) == 10);
  CHECK(launches(Module::parse(halves(40))) == 10);
}

TEST_CASE("parts of tensors without elements are tensors without elements") {
  struct Row {
    const char *type, *op;
    std::vector<int64_t> input, result;
  };
  const Row rows[] = {
      {"[0, 4]", "concat(%x, %x) {axis = 1}", {0, 4}, {0, 8}},
      {"[0, 4]", "slice(%x) {starts = [1], ends = [-1], axes = [1]}", {0, 4}, {0, 2}},
      {"[n, 4]", "concat(%x, %x) {axis = 1}", {0, 4}, {0, 8}},
      {"[4, 0]", "slice(%x) {starts = [1], ends = [3], axes = [0]}", {4, 0}, {2, 0}},
      {"[4, 0]", "concat(%x, %x) {axis = 0}", {4, 0}, {8, 0}},
      {"[2, 0, 3]", "concat(%x, %x) {axis = 2}", {2, 0, 3}, {2, 0, 6}},
  };
  for (const Row &row : rows) {
    std::string result = "[";
    for (size_t i = 0; i < row.result.size(); ++i)
      result += (i ? ", " : "") +
                (i == 0 && row.type[1] == 'n' ? std::string("n") : std::to_string(row.result[i]));
    check_same_bits("cugrt 1\nfunc @main(%x: tensor<" + std::string(row.type) +
                        ", f32>) -> (tensor<" + result + "], f32>) {\n  %r = " + row.op +
                        "\n  return %r\n}\n",
                    {{row.input}}, row.result);
  }
}

TEST_CASE("convolutions over volumes, transposed ones and products of bytes go on elementwise") {
  struct Row {
    const char *op;
    std::vector<Input> inputs;
    std::vector<int64_t> result;
  };
  const Row rows[] = {
      {"%p = conv3d(%x, %y)", {{{2, 3, 4, 5, 6}}, {{4, 3, 2, 2, 2}}}, {2, 4, 3, 4, 5}},
      {"%p = conv_transpose(%x, %y) {strides = [2, 2]}",
       {{{2, 3, 4, 5}}, {{3, 4, 2, 2}}},
       {2, 4, 8, 10}},
      {"%a = cast(%x) {dtype = i8}\n  %b = cast(%y) {dtype = u8}\n  %i = matmul_integer(%a, %b)\n"
       "  %p = cast(%i) {dtype = f32}",
       {{{5, 7}}, {{7, 9}}},
       {5, 9}},
      {"%a = cast(%x) {dtype = u8}\n  %b = cast(%y) {dtype = i8}\n  %i = conv_integer(%a, %b)\n"
       "  %p = cast(%i) {dtype = f32}",
       {{{2, 3, 9}}, {{4, 3, 3}}},
       {2, 4, 7}},
  };
  auto dims_text = [](const std::vector<int64_t> &dims) {
    std::string text = "[";
    for (size_t i = 0; i < dims.size(); ++i)
      text += (i ? ", " : "") + std::to_string(dims[i]);
    return text + "], f32";
  };
  for (const Row &row : rows) {
    const std::string text = "cugrt 1\nfunc @main(%x: tensor<" + dims_text(row.inputs[0].dims) +
                             ">, %y: tensor<" + dims_text(row.inputs[1].dims) + ">) -> (tensor<" +
                             dims_text(row.result) + ">) {\n  " + row.op +
                             "\n  %s = sigmoid(%p)\n  %r = add(%s, %p)\n  return %r\n}\n";
    check_same_bits(text, row.inputs, row.result);
    CHECK(Module::parse(text).run_passes().print().find("sigmoid_elementwise") ==
          std::string::npos);
  }
}

TEST_CASE("what a product adds by columns is read in runs, at odd widths too") {
  // Whole runs, parts of them, rows that begin anywhere, k over blocks.
  struct Row {
    int64_t m, k, n;
    const char *dtype;
  };
  for (const Row &row : {Row{33, 64, 37, "f16"}, Row{70, 50, 70, "bf16"}, Row{65, 384, 136, "f16"},
                         Row{9, 40, 75, "f32"}}) {
    const auto matrix = [](int64_t a, int64_t b) {
      return "tensor<[" + std::to_string(a) + ", " + std::to_string(b) + "], f32>";
    };
    const std::string cast = std::string(") {dtype = ") + row.dtype + "}\n";
    check_same_bits(
        "cugrt 1\nfunc @main(%x: " + matrix(row.m, row.k) + ", %w: " + matrix(row.k, row.n) +
            ", %b: tensor<[" + std::to_string(row.n) + "], f32>, %r: " + matrix(row.m, row.n) +
            ") -> (" + matrix(row.m, row.n) + ") {\n  %xc = cast(%x" + cast + "  %wc = cast(%w" +
            cast + "  %bc = cast(%b" + cast + "  %rc = cast(%r" + cast +
            "  %p = matmul(%xc, %wc)\n  %q = add(%p, %bc)\n  %s = relu(%q)\n"
            "  %t = mul(%s, %bc)\n  %u = add(%t, %rc)\n"
            "  %y = cast(%u) {dtype = f32}\n  return %y\n}\n",
        {{{row.m, row.k}}, {{row.k, row.n}}, {{row.n}}, {{row.m, row.n}}}, {row.m, row.n});
  }
}

TEST_CASE("slices beside a product, a convolution and an elementwise op lie along their rows") {
  // Whole runs, runs that begin anywhere, rows that end within one, a step.
  struct Row {
    int64_t rows, wide, narrow, begin, step;
  };
  for (const Row &row : {Row{33, 96, 40, 48, 1}, Row{17, 96, 40, 3, 1}, Row{9, 75, 37, 16, 1},
                         Row{5, 96, 32, 8, 2}, Row{4, 64, 32, 0, 1}}) {
    const auto matrix = [&](int64_t columns, const std::string &dtype) {
      return "tensor<[" + std::to_string(row.rows) + ", " + std::to_string(columns) + "], " +
             dtype + ">";
    };
    const std::string slice = " {starts = [" + std::to_string(row.begin) + "], ends = [" +
                              std::to_string(row.begin + row.narrow * row.step) +
                              "], axes = [1], steps = [" + std::to_string(row.step) + "]}\n";
    const std::vector<Input> inputs = {
        {{row.rows, 24}}, {{24, row.narrow}}, {{row.rows, row.wide}}};
    const std::vector<int64_t> result = {row.rows, row.narrow};
    const std::string parameters = "cugrt 1\nfunc @main(%x: " + matrix(24, "f32") +
                                   ", %w: tensor<[24, " + std::to_string(row.narrow) +
                                   "], f32>, %z: " + matrix(row.wide, "f32") + ") -> (" +
                                   matrix(row.narrow, "f32") + ") {\n  %zc = cast(%z) {dtype = ";
    for (const std::string dtype : {"f16", "f32"}) {
      const std::string begin = parameters + dtype + "}\n  %zs = mul(%zc, %zc)\n  %zm = neg(%zs)\n",
                        part = "  %part = slice(%zm)" + slice + "  %more = slice(%zc)" + slice;
      check_same_bits(begin + "  %xc = cast(%x) {dtype = " + dtype +
                          "}\n  %wc = cast(%w) {dtype = " + dtype + "}\n  %p = matmul(%xc, %wc)\n" +
                          part +
                          "  %q = add(%p, %part)\n  %r = mul(%q, %more)\n"
                          "  %y = cast(%r) {dtype = f32}\n  return %y\n}\n",
                      inputs, result);
      check_same_bits(begin + part +
                          "  %q = tanh(%part)\n  %s = sigmoid(%more)\n"
                          "  %r = mul(%q, %s)\n  %y = cast(%r) {dtype = f32}\n"
                          "  return %y\n}\n",
                      inputs, result);
      check_same_bits(
          begin + "  %xr = reshape(%x) {shape = [1, " + std::to_string(row.rows) +
              ", 1, 24]}\n  %xc = cast(%xr) {dtype = " + dtype +
              "}\n  %wt = transpose(%w)\n  %wr = reshape(%wt) {shape = [" +
              std::to_string(row.narrow) + ", 1, 1, 24]}\n  %wc = cast(%wr) {dtype = " + dtype +
              "}\n  %p = conv2d(%xc, %wc) {channels_last = true}\n  %flat = reshape(%p) {shape = "
              "[" +
              std::to_string(row.rows) + ", " + std::to_string(row.narrow) + "]}\n" + part +
              "  %image = reshape(%part) {shape = [1, " + std::to_string(row.rows) + ", 1, " +
              std::to_string(row.narrow) +
              "]}\n  %q = add(%p, %image)\n  %z4 = reshape(%zm) {shape = [1, " +
              std::to_string(row.rows) + ", 1, " + std::to_string(row.wide) +
              "]}\n  %part4 = slice(%z4) {starts = [" + std::to_string(row.begin) + "], ends = [" +
              std::to_string(row.begin + row.narrow * row.step) + "], axes = [3], steps = [" +
              std::to_string(row.step) + "]}\n  %r = mul(%q, %part4)\n" +
              "  %v = reshape(%r) {shape = [" + std::to_string(row.rows) + ", " +
              std::to_string(row.narrow) + "]}\n  %y = cast(%v) {dtype = f32}\n  return %y\n}\n",
          inputs, result);
    }
  }
}

TEST_CASE("what is transposed is read across beside a product and a convolution, for each reader") {
  for (const char *dtype : {"f16", "f32"}) {
    const std::string cast = std::string(") {dtype = ") + dtype + "}\n",
                      begin = "cugrt 1\nfunc @main(%x: tensor<[19, 24], f32>, %w: tensor<[24, 21], "
                              "f32>, %z: tensor<[21, 19], f32>) -> (tensor<[19, 42], f32>) {\n"
                              "  %xc = cast(%x" +
                              cast + "  %wc = cast(%w" + cast + "  %zc = cast(%z" + cast +
                              "  %zs = mul(%zc, %zc)\n",
                      end = "  %y = cast(%r) {dtype = f32}\n  return %y\n}\n";
    const std::vector<Input> inputs = {{{19, 24}}, {{24, 21}}, {{21, 19}}};
    check_same_bits(begin +
                        "  %t = transpose(%zs)\n  %p = matmul(%xc, %wc)\n  %q = mul(%p, %t)\n"
                        "  %r = concat(%q, %t) {axis = 1}\n" +
                        end,
                    inputs, {19, 42});
    check_same_bits(
        begin +
            "  %i = reshape(%xc) {shape = [1, 19, 1, 24]}\n  %wt = transpose(%wc)\n"
            "  %v = reshape(%wt) {shape = [21, 1, 1, 24]}\n"
            "  %c = conv2d(%i, %v) {channels_last = true}\n"
            "  %z4 = reshape(%zs) {shape = [1, 21, 19, 1]}\n"
            "  %t = transpose(%z4) {axes = [0, 2, 3, 1]}\n  %q = mul(%c, %t)\n"
            "  %o = concat(%q, %t) {axis = 3}\n  %r = reshape(%o) {shape = [19, 42]}\n" +
            end,
        inputs, {19, 42});
  }
}

namespace {

/// A graph of elementwise ops and moves that is more than one kernel takes, and about as many
/// kernels as hold its ops.
struct LargeGraph {
  std::string text;
  std::vector<Input> inputs;
  size_t kernels = 1;
};

/// Several rows of 12 at a time; in each step one is made of others, of an input or of a slice of
/// what was sliced before.
LargeGraph draw_large(uint32_t seed) {
  std::mt19937 random(seed);
  auto pick = [&](size_t n) { return size_t(random() % n); };
  const size_t steps = 20 + pick(220), states = 1 + pick(4), inputs = 1 + pick(3) * pick(60);
  LargeGraph graph;
  std::string parameters, body;
  for (size_t i = 0; i < inputs; ++i) {
    const std::vector<int64_t> dims = i == 0         ? std::vector<int64_t>{2, 300}
                                      : pick(3) == 0 ? std::vector<int64_t>{2, 1}
                                      : pick(2)      ? std::vector<int64_t>{12}
                                                     : std::vector<int64_t>{2, 12};
    std::string type;
    for (int64_t dim : dims)
      type += (type.empty() ? "" : ", ") + std::to_string(dim);
    parameters += (i ? ", %x" : "%x") + std::to_string(i) + ": tensor<[" + type + "], f32>";
    graph.inputs.push_back({dims});
  }
  auto slice = [](const std::string &of, size_t from, size_t to) {
    return "slice(" + of + ") {starts = [" + std::to_string(from) + "], ends = [" +
           std::to_string(to) + "], axes = [1]}\n";
  };
  std::string sliced = "%x0";
  size_t width = 300;
  std::vector<std::string> state;
  for (size_t s = 0; s < states; ++s) {
    state.push_back("%b" + std::to_string(s));
    body += "  " + state[s] + " = " + slice("%x0", s, s + 12);
  }
  for (size_t i = 0; i < steps; ++i) {
    const std::string n = std::to_string(i);
    std::string other = state[pick(states)];
    if (pick(3) == 0 && width > 26) {
      body += "  %s" + n + " = " + slice(sliced, 1, width) + "  %t" + n + " = slice(%s" + n +
              (pick(2) ? ") {starts = [0], ends = [12], axes = [1]}\n"
                       : ") {starts = [1], ends = [24], axes = [1], steps = [2]}\n");
      sliced = "%s" + n;
      --width;
      other = "%t" + n;
    } else if (pick(5) == 0) { // read at other places, too
      body += "  %r" + n + " = slice(" + other + ") {starts = [-1], ends = [-13], axes = [1], " +
              "steps = [-1]}\n";
      other = "%r" + n;
      ++graph.kernels; // one may store that
    } else if (inputs > 1 && pick(4)) {
      other = "%x" + std::to_string(1 + i % (inputs - 1));
    }
    const char *const ops[] = {"add", "maximum", "mul", "sub"};
    std::string &changed = state[pick(states)];
    body += "  %y" + n + " = " + ops[pick(4)] + "(" + state[pick(states)] + ", " + other + ")\n";
    body += "  %z" + n + " = add(" + changed + ", %y" + n + ")\n";
    changed = "%z" + n;
  }
  // All of them, since what nothing reads is no part of a group.
  std::string all = state[0];
  for (size_t s = 1; s < states; ++s) {
    body += "  %e" + std::to_string(s) + " = minimum(" + all + ", " + state[s] + ")\n";
    all = "%e" + std::to_string(s);
  }
  body += "  %last = tanh(" + all + ")\n";
  graph.text = "cugrt 1\n\nfunc @main(" + parameters + ") -> (tensor<[2, 12], f32>) {\n" + body +
               "  return %last\n}\n";
  graph.kernels += (3 * steps + 4 * inputs) / 250;
  return graph;
}

} // namespace

TEST_CASE("a group that is more than a kernel takes is a few kernels") {
  for (uint32_t seed = 0; seed < 24; ++seed) {
    const LargeGraph graph = draw_large(seed);
    INFO("seed " << seed << ": " << graph.kernels << " kernels hold it");
    CHECK(launches(Module::parse(graph.text)) <= 2 * graph.kernels + 1);
    if (seed < 6) // kernels of so many ops take long to compile
      check_same_bits(graph.text, graph.inputs, {2, 12});
  }
}
