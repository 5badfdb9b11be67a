// Products of few rows with matrices of numbers: [n, k] of f16, bf16 and f32 by rings, and [k, n].
#include "kernels_check.h"

#include "compiler/passes/pass.h"
#include "device/code/programmatic_code.h"
#include "ir/text/text.h"
#include "kernels/builtin.h"

#include <cmath>
#include <cstring>

namespace {

struct FewRows {
  DType dtype;
  int64_t rows, n, k;
  bool bias = false;
  int64_t batch = 1;           // matrices, each with rows of its own
  int64_t multiprocessors = 1; // one has two blocks, which take several groups of columns
  std::string entry{};         // that shall compute it; "": by rows
  bool across = false;         // w is [k, n]
};

/// The product, which agrees with sums in double.
Array check_few_rows(const FewRows &c) {
  const std::string dtype(ir::info(c.dtype).name), n = std::to_string(c.n);
  const std::string k = std::to_string(c.k),
                    batch = c.batch > 1 ? std::to_string(c.batch) + ", " : "";
  auto matrix = [&](const std::string &rows, const std::string &columns) {
    return "tensor<[" + batch + rows + ", " + columns + "], " + dtype + ">";
  };
  const std::string rows = std::to_string(c.rows);
  const std::string text = "cugrt 1\nfunc @main(%x: " + matrix(rows, k) +
                           ", %w: " + (c.across ? matrix(k, n) : matrix(n, k)) + ", %b: tensor<[" +
                           n + "], " + dtype + ">) -> (" + matrix(rows, n) +
                           ") {\n  %y = matmul(%x, %w" + (c.bias ? ", %b" : "") + ")" +
                           (c.across ? "" : " {transpose_b = true}") + "\n  return %y\n}\n";
  INFO(text);
  std::mt19937 random(uint32_t(c.n * 31 + c.k));
  std::uniform_real_distribution<double> number(-2, 2);
  const int64_t high = c.across ? c.k : c.n, wide = c.across ? c.n : c.k;
  Array w{c.batch > 1 ? Dims{c.batch, high, wide} : Dims{high, wide}, {}}, b{{c.n}, {}};
  Array x{c.batch > 1 ? Dims{c.batch, c.rows, c.k} : Dims{c.rows, c.k}, {}};
  auto draw = [&](Array &array, int64_t count) { // the same whatever the rows
    for (int64_t i = 0; i < count; ++i)
      array.values.push_back(round_to(c.dtype, number(random)));
  };
  draw(w, c.batch * c.n * c.k), draw(b, c.n), draw(x, c.batch * c.rows * c.k);
  const Result<ir::Module> module = ir::parse_and_verify(text, "op");
  INFO((module.ok() ? "" : module.status().to_string()));
  REQUIRE(module.ok());
  passes::PassContext context;
  REQUIRE(context.set("target.multiprocessors", std::to_string(c.multiprocessors)).ok());
  const Result<ir::Module> legal = passes::find_pass("LegalizeOps")->run(*module, context);
  REQUIRE(legal.ok());
  const std::vector<Array> inputs = {x, w, b};
  const Result<std::vector<Array>> got = runner().run(*legal, legal->functions[0], inputs);
  INFO((got.ok() ? "" : got.status().to_string()));
  REQUIRE(got.ok());
  const std::string entry = !c.entry.empty() ? c.entry
                            : c.rows == 1    ? "matmul_stream_1"
                                             : "matmul_stream_8";
  CHECK(runner().counters().entries == std::vector<std::string>{entry});
  const double unit = c.dtype == DType::f16    ? 0x1p-11 // of the result's rounding
                      : c.dtype == DType::bf16 ? 0x1p-8
                                               : 0x1p-24;
  double most = 0;
  for (int64_t i = 0; i < c.batch * c.rows * c.n; ++i) {
    const int64_t column = i % c.n, row = i / c.n, matrix = row / c.rows;
    double sum = c.bias ? b.values[size_t(column)] : 0, size = std::fabs(sum);
    for (int64_t j = 0; j < c.k; ++j) {
      const int64_t at =
          c.across ? (matrix * c.k + j) * c.n + column : (matrix * c.n + column) * c.k + j;
      const double term = x.values[size_t(row * c.k + j)] * w.values[size_t(at)];
      sum += term, size += std::fabs(term);
    }
    const double off = std::fabs(got->at(0).values[size_t(i)] - sum);
    most = std::max(most, off / (unit * std::fabs(sum) + size * 0x1p-20 + 0x1p-24));
  }
  INFO("off by " << most);
  CHECK(most <= 1);
  return got->at(0);
}

} // namespace

TEST_CASE("products of few rows agree with sums in double, whatever n and k") {
  constexpr DType kDTypes[] = {DType::f16, DType::bf16, DType::f32};
  size_t turn = 0;
  const auto next = [&] { return kDTypes[turn++ % 3]; };
  for (int64_t rows = 1; rows <= 8; ++rows) // a unit and a half for some warps
    check_few_rows({next(), rows, 48, 608, rows % 2 == 0});
  for (int64_t k : {8, 56, 64, 72, 1544}) // chunks behind whole units
    check_few_rows({next(), 1, 37, k, true}), check_few_rows({next(), 3, 37, k});
  for (int64_t k : {1, 7, 65, 777}) // rows that begin at no multiples of 16 bytes
    check_few_rows({next(), 1, 33, k}), check_few_rows({next(), 8, 33, k, true});
  for (int64_t n : {16, 17, 31, 32, 200}) // a last group with rows of the one before it
    check_few_rows({next(), 1, n, 136, true}), check_few_rows({next(), 5, n, 136});
  for (int64_t n : {1, 3, 8, 15}) // fewer than a group has
    check_few_rows({next(), 1, n, 600, true}), check_few_rows({next(), 4, n, 77});
  for (DType dtype : kDTypes) {
    check_few_rows({dtype, 2, 48, 0, true});
    check_few_rows(
        {dtype, 9, 48, 72, true, 1, 1, dtype == DType::f32 ? "matmul_tiled" : "matmul_mma_least"});
  }
}

TEST_CASE("products of few rows of several matrices have blocks for each") {
  for (int64_t multiprocessors : {1, 8})
    for (int64_t rows : {1, 4}) {
      check_few_rows({DType::f16, rows, 50, 72, true, 3, multiprocessors});
      check_few_rows({DType::bf16, rows, 33, 71, false, 2, multiprocessors});
      check_few_rows({DType::f32, rows, 37, 71, true, 2, multiprocessors});
    }
}

TEST_CASE("a row has the same bits alone and among others") {
  for (DType dtype : {DType::f16, DType::bf16, DType::f32})
    for (int64_t k : {1288, 333}) {
      const bool bias = (k == 333) == (dtype == DType::bf16);
      const Array many = check_few_rows({dtype, 8, 50, k, bias});
      for (int64_t rows : {1, 2, 5}) {
        const Array few = check_few_rows({dtype, rows, 50, k, bias, 1, rows == 5 ? 64 : 1});
        REQUIRE(few.values.size() == size_t(rows * 50));
        CHECK(std::equal(few.values.begin(), few.values.end(), many.values.begin()));
      }
    }
}

TEST_CASE("an infinity in one row stays in it, and 0 behind a row's end adds nothing") {
  // The last chunk of a unit is behind the end of k: zeros times x's infinity would be NaN.
  const std::string text =
      "cugrt 1\nfunc @main(%x: tensor<[2, 72], f16>, %w: tensor<[16, 72], f16>) -> "
      "(tensor<[2, 16], f16>) {\n  %y = matmul(%x, %w) {transpose_b = true}\n"
      "  return %y\n}\n";
  const Result<ir::Module> module = ir::parse_and_verify(text, "op");
  REQUIRE(module.ok());
  const Result<ir::Module> legal =
      passes::find_pass("LegalizeOps")->run(*module, passes::PassContext());
  REQUIRE(legal.ok());
  Array x{{2, 72}, std::vector<double>(144, 1)}, w{{16, 72}, std::vector<double>(16 * 72, 1)};
  x.values[71] = std::numeric_limits<double>::infinity();
  const std::vector<Array> inputs = {x, w};
  const Result<std::vector<Array>> got = runner().run(*legal, legal->functions[0], inputs);
  REQUIRE(got.ok());
  for (size_t i = 0; i < 16; ++i) {
    CHECK(got->at(0).values[i] == std::numeric_limits<double>::infinity());
    CHECK(got->at(0).values[16 + i] == 72);
  }
}

TEST_CASE("rings ask for weights before they wait for the kernels in front, without a branch") {
  // Single and fused: with a norm, and with turned heads of which 16 places are
  // two runs, or none. Weights are those whose names begin with w or c.
  const char *const bodies[] = {
      "%w: tensor<[48, K], T>) -> (tensor<[R, 48], T>) {\n"
      "  %y = matmul(%x, %w) {transpose_b = true}\n",
      "%w: tensor<[48, K], T>, %u: tensor<[48, K], T>, %s: tensor<[K], T>) -> (tensor<[R, 48], T>) "
      "{\n"
      "  %h = rms_norm(%x, %s)\n  %a = matmul(%h, %w) {transpose_b = true}\n"
      "  %b = matmul(%h, %u) {transpose_b = true}\n  %c = silu(%a)\n  %y = mul(%b, %c)\n",
      "%w: tensor<[96, K], T>, %p: tensor<[R], i32>) -> (tensor<[R, 2, 48], T>) {\n"
      "  %a = matmul(%x, %w) {transpose_b = true}\n  %s = shape [R, 2, 48]\n"
      "  %b = reshape(%a, %s)\n  %y = rotary(%b, %p) {dims = D}\n"};
  jit::Compiler compiler{jit::CompilerConfig{}};
  for (const char *body : bodies)
    for (const char *rows : {"1", "3"})
      for (const char *turned : {"32", "24"}) {
        std::string text =
            "cugrt 1\nfunc @main(%x: tensor<[R, K], T>, " + std::string(body) + "  return %y\n}\n";
        for (const auto &[what, by] :
             {std::pair<char, std::string>{'K', "136"}, {'R', rows}, {'D', turned}, {'T', "f16"}})
          for (size_t at = 0; (at = text.find(what, at)) != text.npos; at += by.size())
            text.replace(at, 1, by);
        INFO(text);
        Result<ir::Module> module = ir::parse_and_verify(text, "op");
        REQUIRE(module.ok());
        passes::PassContext context;
        REQUIRE(context.set("target.compute_capability", "90").ok());
        REQUIRE(context.set("codegen.programmatic", "true").ok());
        for (const char *pass : {"FuseOpsByPattern", "LegalizeOps", "EliminateDeadBindings"}) {
          module = passes::find_pass(pass)->run(*module, context);
          REQUIRE(module.ok());
        }
        const auto is_product = [](const ir::Kernel &kernel) {
          return kernel.name.find("matmul") != std::string::npos;
        };
        const auto kernel = std::ranges::find_if(module->kernels, is_product);
        REQUIRE(kernel != module->kernels.end());
        jit::CompileRequest request;
        request.name = kernel->name;
        request.source = kernel->code_kind == ir::CodeKind::source_text
                             ? kernels::with_builtin_includes(kernel->code, kernel->name)
                             : std::string(*kernels::builtin_source(
                                   kernel->code.substr(kernels::kBuiltinPrefix.size())));
        request.options = kernel->options;
        request.kind = jit::OutputKind::ptx;
        request.architecture = "sm_90";
        const Result<jit::CompileResult> compiled = compiler.compile(request);
        REQUIRE(compiled.ok());
        std::vector<runtime::ParameterKind> kinds;
        for (const ir::KernelParam &param : kernel->params)
          kinds.push_back(param.kind != ir::KernelParamKind::tensor ? runtime::ParameterKind::number
                          : param.name[0] == 'w' || param.name[0] == 'c'
                              ? runtime::ParameterKind::constant
                              : runtime::ParameterKind::memory);
        const std::string entry =
            kernel->variants[0].entry.empty() ? kernel->entry : kernel->variants[0].entry;
        CHECK(runtime::analyze_programmatic(compiled->bytes, entry, kinds).waits_first);
        const size_t begin = compiled->bytes.find(entry + "(");
        REQUIRE(begin != std::string::npos);
        CHECK(compiled->bytes.find("cp.async.cg", begin) <
              compiled->bytes.find("griddepcontrol.wait", begin));
      }
}

TEST_CASE("products of few rows with matrices [k, n] read neighbouring columns") {
  const auto across = [](DType dtype, int64_t rows, int64_t n, int64_t k, int64_t batch = 1) {
    return check_few_rows({dtype, rows, n, k, k % 8 == 0, batch, 1, "matmul_gemv", true});
  };
  for (DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    constexpr int64_t kColumns[] = {1, 4, 24, 64, 67}; // vectors, some behind the last, and none
    constexpr int64_t kDepths[] = {4, 260, 1028, 301};
    for (int64_t i = 0; i < 8; ++i)
      across(dtype, 1 + i, kColumns[i % 5], kDepths[i % 4]);
    across(dtype, 2, 40, 72, 3);
    for (int64_t k : {264, 77}) { // the same bits alone and among others
      const Array many = across(dtype, 8, 48, k);
      for (int64_t rows : {1, 4, 5}) {
        const Array few = across(dtype, rows, 48, k);
        CHECK(std::equal(few.values.begin(), few.values.end(), many.values.begin()));
      }
    }
  }
}
