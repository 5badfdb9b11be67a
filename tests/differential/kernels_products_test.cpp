// Products on tensor cores: tiles of every size, rows of any length, k split over blocks, and
// products of f32 whose factors are rounded to tf32.
#include "kernels_check.h"

using namespace cugrt;
using namespace cugrt::test;

namespace {

ir::Attribute transposed_right() { return {"transpose_b", true}; }

OpTest product(const Dims &a, const Dims &c, bool transposed, DType dtype) {
  OpTest test{.op = Op::matmul, .dtype = dtype, .operands = {{a}, {c}}};
  if (transposed)
    test.attributes = {transposed_right()};
  if (dtype == DType::f32)
    test.precision = "tf32";
  return test;
}

/// Runs it, and says which kernels were launched.
std::vector<std::string> launched(const OpTest &test) {
  std::mt19937 random(3);
  const OpOutcome outcome = run_op_test(runner(), test, random);
  INFO(outcome.message);
  CHECK(outcome.ok);
  return outcome.counters.entries;
}

constexpr DType kDTypes[] = {DType::f16, DType::bf16, DType::f32};

} // namespace

TEST_CASE("tiles on tensor cores take rows of every length, in copies of what divides it",
          "[large]") {
  // Multiples of 16, 8, 4 bytes and of none, tails in all dimensions, more than all stages, none.
  const Dims shapes[] = {{70, 72, 200},  {66, 68, 100},  {67, 70, 42},   {33, 35, 37},
                         {129, 131, 33}, {1, 1, 1},      {130, 132, 64}, {0, 8, 8},
                         {8, 0, 8},      {8, 8, 0},      {31, 66, 130},  {64, 64, 71},
                         {20, 50, 6},    {128, 128, 16}, {3, 5, 7},      {130, 136, 48}};
  size_t turn = 0; // variants take each shape in either form in turns
  for (std::string variant : {"mma_large", "mma", "mma_tall", "mma_small", "mma_least"}) {
    ++turn;
    for (size_t i = 0; i < std::size(shapes); ++i)
      for (bool transposed : {false, true}) {
        if ((i + turn) % 2 == transposed)
          continue;
        const Dims &s = shapes[i];
        OpTest test = product({s[0], s[2]}, transposed ? Dims{s[1], s[2]} : Dims{s[2], s[1]},
                              transposed, kDTypes[(i + transposed) % 3]);
        test.matmul = variant;
        if (i % 2)
          test.operands.push_back({{s[1]}});
        i % 4 < 2 ? check(test) : check_known(test); // of a half with a symbol, too
      }
  }
}

TEST_CASE("products of f32 are rounded to tf32 where that is asked for, on any batch") {
  for (const char *variant : {"mma_large", "mma", "mma_tall", "mma_small", "mma_least"})
    for (const auto &[a, c] : {std::pair<Dims, Dims>{{3, 17, 24}, {3, 24, 16}},
                               {{2, 1, 9, 16}, {3, 16, 8}},
                               {{2, 1, 9, 15}, {3, 15, 7}}}) {
      OpTest test = product(a, c, false, DType::f32);
      test.matmul = variant;
      CHECK(launched(test) == std::vector<std::string>{"matmul_" + std::string(variant)});
    }
  // Few rows and other dtypes are not rounded, nor is anything before sm_80.
  OpTest few = product({4, 64}, {64, 40}, false, DType::f32);
  CHECK(launched(few) == std::vector<std::string>{"matmul_gemv"});
  few = product({7, 64}, {40, 64}, true, DType::f32);
  CHECK(launched(few) == std::vector<std::string>{"matmul_stream_8"});
  OpTest wide = product({64, 64}, {64, 64}, false, DType::f64);
  wide.precision = "tf32";
  CHECK(launched(wide) == std::vector<std::string>{"matmul_tiled"});
  OpTest old = product({64, 64}, {64, 64}, false, DType::f32);
  old.compute_capability = 75;
  CHECK(launched(old) == std::vector<std::string>{"matmul_tiled"});
}

TEST_CASE("k of few small tiles is split over blocks, whose sums the last one adds up") {
  using Names = std::vector<std::string>;
  const Names entries = {"matmul_mma_least"};
  for (DType dtype : kDTypes)
    for (bool transposed : {false, true}) {
      const auto of = [&](int64_t m, int64_t n, int64_t k) {
        return product({m, k}, transposed ? Dims{n, k} : Dims{k, n}, transposed, dtype);
      };
      const int64_t step = dtype == DType::f32 ? 32 : 64;
      CHECK(launched(of(40, 70, 6 * step)) == entries); // two blocks of three steps
      CHECK(launched(of(40, 70, 5 * step + 4)) == entries);
      CHECK(launched(of(40, 70, 5 * step)) == entries);
      CHECK(launched(of(33, 65, 25 * step + 7)) == entries); // eight
      OpTest biased = of(70, 66, 13 * step);
      biased.operands.push_back({{66}});
      CHECK(launched(biased) == entries);
      // As many tiles as there are places, and half as many.
      OpTest many = of(64, 128, 6 * step);
      many.multiprocessors = 2;
      CHECK(launched(many) == entries);
      many.multiprocessors = 4;
      CHECK(launched(many) == entries);
    }
}
