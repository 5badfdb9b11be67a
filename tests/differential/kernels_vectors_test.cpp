// Vectors (kernels/shared/vectors.cuh): what the kernels that take them make of tensors that begin
// where vectors can lie, and of the same elements one place further, where they cannot.
#include "support/catch.h"

#include "compiler/passes/pass.h"
#include "ir/text/text.h"
#include "support/launch_runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

using namespace cugrt;
using namespace cugrt::test;

namespace {

struct Ran {
  std::vector<double> values;
  uint64_t lane_operations = 0;
};

/// The one result of a function, after FuseOps, FuseKernels and LegalizeOps.
Ran run(const std::string &text, const std::vector<Array> &inputs) {
  INFO(text);
  Result<ir::Module> module = ir::parse_and_verify(text, "vectors");
  REQUIRE(module.ok());
  for (const char *pass : {"FuseOps", "FuseKernels", "LegalizeOps"}) {
    module = passes::find_pass(pass)->run(*module, {});
    REQUIRE(module.ok());
  }
  static LaunchRunner runner;
  Result<std::vector<Array>> results = runner.run(*module, module->functions[0], inputs);
  INFO((results.ok() ? "" : results.status().to_string()));
  REQUIRE(results.ok());
  CHECK(runner.counters().launches == 1);
  return {(*results)[0].values, runner.counters().lane_operations};
}

/// A kernel over %x, and over %c of as many bools.
struct Case {
  const char *dtype, *result; // dtypes
  int64_t bytes;              // of an element of %x
  const char *body;           // makes %y
};

constexpr Case kCases[] = {
    {"f32", "f32", 4, "%y = relu(%x)"},
    {"f16", "f16", 2, "%y = silu(%x)"},
    {"bf16", "bf16", 2, "%y = neg(%x)"},
    {"f64", "f64", 8, "%y = abs(%x)"},
    {"i8", "i8", 1, "%y = abs(%x)"},
    {"f32", "bool", 4, "%y = is_nan(%x)"},
    {"f16", "f16", 2, "%y = add(%x, %x)"},
    {"f32", "f16", 4, "%y = cast(%x) {dtype = f16}"},
    {"f16", "f32", 2, "%y = cast(%x) {dtype = f32}"},
    {"f32", "i8", 4, "%y = cast(%x) {dtype = i8}"},
    {"f32", "f32", 4, "%y = where(%c, %x, %x)"},
    {"f32", "f32", 4, "%a = relu(%x)\n  %y = mul(%a, %x)"},
    {"f16", "f32", 2, "%a = sigmoid(%x)\n  %y = cast(%a) {dtype = f32}"},
    {"f32", "f32", 4, "%a = abs(%x)\n  %y = where(%c, %a, %x)"},
};

std::string tensor(int64_t count, const char *dtype) {
  return "tensor<[" + std::to_string(count) + "], " + dtype + ">";
}

/// %x is the last `count` elements of `count + shift`.
Ran run_case(const Case &c, const Array &elements, const Array &flags, int64_t shift) {
  const int64_t count = elements.count();
  const bool chooses = std::strstr(c.body, "%c") != nullptr;
  std::string text = "cugrt 1\nfunc @main(";
  text += (shift ? "%z: " : "%x: ") + tensor(count + shift, c.dtype);
  text += chooses ? ", %c: " + tensor(count, "bool") : "";
  text += ") -> (" + tensor(count, c.result) + ") {\n";
  if (shift)
    text += "  %x = view %z, " + std::to_string(shift * c.bytes) + " : " + tensor(count, c.dtype) +
            "\n";
  text += std::string("  ") + c.body + "\n  return %y\n}\n";
  Array given = elements;
  given.values.insert(given.values.begin(), size_t(shift), 1);
  given.dims = {count + shift};
  std::vector<Array> inputs = {std::move(given)};
  if (chooses)
    inputs.push_back(flags);
  return run(text, inputs);
}

Array numbers(int64_t count, bool is_bool = false) {
  Array array = Array::of({count});
  for (size_t i = 0; i < array.values.size(); ++i)
    array.values[i] = is_bool ? double(i % 3 == 0) : double(int64_t(i * 37 % 101) - 50) / 4;
  if (!is_bool && count > 2)
    array.values[1] = NAN, array.values[2] = -INFINITY;
  return array;
}

bool alike(const std::vector<double> &a, const std::vector<double> &b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](double p, double q) {
           return std::isnan(p) ? std::isnan(q) : p == q && std::signbit(p) == std::signbit(q);
         });
}

} // namespace

TEST_CASE("elements in vectors are the same as those one by one, with what is left at the end") {
  for (const Case &c : kCases)
    for (int64_t count : {1, 3, 4, 16, 19, 1037}) {
      INFO(c.body << " of " << count << " " << c.dtype);
      const Array elements = numbers(count), flags = numbers(count, true);
      const Ran packed = run_case(c, elements, flags, 0), single = run_case(c, elements, flags, 1);
      CHECK(alike(packed.values, single.values));
    }
}

TEST_CASE(
    "elements in vectors take fewer operations, where tensors begin at a multiple of a vector",
    "[emulated]") {
  for (const Case &c : kCases) {
    INFO(c.body << " of " << c.dtype);
    const Array elements = numbers(4096), flags = numbers(4096, true);
    const Ran packed = run_case(c, elements, flags, 0), single = run_case(c, elements, flags, 1);
    const int64_t sixteen = 16 / c.bytes; // elements
    const Ran further = run_case(c, elements, flags, sixteen);
    INFO(packed.lane_operations << " and " << single.lane_operations);
    CHECK(packed.lane_operations < single.lane_operations);
    CHECK(further.lane_operations == packed.lane_operations);
    CHECK(alike(further.values, single.values));
  }
}

TEST_CASE("rows and columns that broadcast are taken in vectors where their sizes fit them",
          "[emulated]") {
  auto operations = [](const char *op, const std::string &shape_a, const std::string &shape_b,
                       const std::vector<Array> &inputs) {
    return run("cugrt 1\nfunc @main(%a: tensor<[" + shape_a + "], f32>, %b: tensor<[" + shape_b +
                   "], f32>) -> (tensor<[" + shape_a + "], f32>) {\n  %y = " + op +
                   "(%a, %b)\n  return %y\n}\n",
               inputs)
        .lane_operations;
  };
  auto of = [](std::vector<int64_t> dims) {
    Array array = Array::of(dims);
    for (size_t i = 0; i < array.values.size(); ++i)
      array.values[i] = double(i % 17);
    return array;
  };
  // 64 columns are vectors of four, 63 and 65 are not; per element.
  const double fits = double(operations("add", "32, 64", "64", {of({32, 64}), of({64})})) / 64;
  const double less = double(operations("add", "32, 63", "63", {of({32, 63}), of({63})})) / 63;
  CHECK(fits < less / 2);
  const double column = double(operations("mul", "32, 64", "32, 1", {of({32, 64}), of({32, 1})}));
  CHECK(column / 64 < less / 2);
}

TEST_CASE("indices are divided by sizes that a kernel learns when it begins") {
  const std::string text = R"(cugrt 1
kernel @divide {
  inline """
#define INDEX unsigned
#include "builtin:divisor.cuh"
extern "C" __global__ void divide(const long long *size, const unsigned *i, unsigned *whole,
                                  unsigned *rest, long long n) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < n) {
    const Divisor divisor(size[at]);
    whole[at] = divisor.quotient(i[at]);
    rest[at] = divisor.rest(i[at]);
  }
}
  """
  entry "divide"
  params (size: in i64, i: in u32, whole: out u32, rest: out u32, n: symbol i64)
  launch { grid (ceildiv(n, 128), 1, 1) block (128, 1, 1) }
}
func @main(%s: tensor<[n], i64>, %i: tensor<[n], u32>) -> (tensor<[n], u32>, tensor<[n], u32>) {
  %w = alloc : tensor<[n], u32>
  %r = alloc : tensor<[n], u32>
  launch @divide(%s, %i, %w, %r, n)
  return %w, %r
}
)";
  const Result<ir::Module> module = ir::parse_and_verify(text, "divisor");
  INFO((module.ok() ? "" : module.status().to_string()));
  REQUIRE(module.ok());
  // Around powers of two, where estimates are least exact, and anywhere, below 2^31.
  constexpr int64_t kEnd = int64_t(1) << 31;
  std::vector<int64_t> sizes = {3, 5, 7, 641, 6700417};
  for (int bit = 0; bit < 31; ++bit)
    for (int64_t d : {-1, 0, 1})
      sizes.push_back(std::clamp<int64_t>((int64_t(1) << bit) + d, 1, kEnd - 1));
  Array size{{0}, {}}, index{{0}, {}};
  auto add = [&](int64_t d, int64_t i) {
    size.values.push_back(double(d));
    index.values.push_back(double(std::clamp<int64_t>(i, 0, kEnd - 1)));
  };
  std::mt19937 random(1);
  for (int64_t d : sizes) {
    for (int64_t i : {int64_t(0), d - 1, d, kEnd - 1, kEnd - 1 - kEnd % d, kEnd / d * d - 1})
      add(d, i);
    for (int k = 0; k < 40; ++k)
      add(d, int64_t(random() % kEnd) / d * d - k % 2);
  }
  for (int k = 0; k < 4000; ++k)
    add(int64_t(random() % kEnd) % (int64_t(1) << (1 + random() % 30)) + 1,
        int64_t(random() % kEnd));
  size.dims = index.dims = {int64_t(size.values.size())};
  static LaunchRunner runner;
  const std::vector<Array> inputs = {size, index};
  const Result<std::vector<Array>> got = runner.run(*module, module->functions[0], inputs);
  INFO((got.ok() ? "" : got.status().to_string()));
  REQUIRE(got.ok());
  size_t wrong = 0;
  for (size_t k = 0; k < size.values.size(); ++k) {
    const auto d = int64_t(size.values[k]), i = int64_t(index.values[k]);
    wrong += int64_t((*got)[0].values[k]) != i / d || int64_t((*got)[1].values[k]) != i % d;
  }
  CHECK(wrong == 0);
}

TEST_CASE("rows that broadcast in generated kernels are taken in vectors where sizes fit, with any "
          "sizes") {
  for (int64_t columns : {64, 63, 8, 1})
    for (const char *row : {"[d]", "[n, 1]", "[1, d]"}) {
      const std::string text =
          "cugrt 1\nfunc @main(%x: tensor<[n, d], f16>, %b: tensor<" + std::string(row) +
          ", f16>) -> (tensor<[n, d], f16>) attributes {lower_bounds = {n = 1, d = 1}, "
          "upper_bounds = {n = 64, d = 64}} {\n  %a = relu(%x)\n  %y = add(%a, %b)\n  "
          "return %y\n}\n";
      const int64_t rows = 5;
      Array x = numbers(rows * columns), b;
      x.dims = {rows, columns};
      x.values.assign(x.values.size(), 0);
      for (size_t i = 0; i < x.values.size(); ++i)
        x.values[i] = double(int64_t(i * 37 % 101) - 50) / 4;
      const bool is_column = std::strstr(row, "n");
      b = numbers(is_column ? rows : columns);
      for (size_t i = 0; i < b.values.size(); ++i)
        b.values[i] = double(i) / 2;
      if (is_column)
        b.dims = {rows, 1};
      else if (std::strstr(row, "1"))
        b.dims = {1, columns};
      const Ran got = run(text, {x, b});
      size_t wrong = 0;
      for (int64_t i = 0; i < rows * columns; ++i) { // all exact in f16
        const double add = b.values[size_t(is_column ? i / columns : i % columns)];
        wrong += got.values[size_t(i)] != std::max(x.values[size_t(i)], 0.0) + add;
      }
      CHECK(wrong == 0);
    }
}
