// Every kernel of the library against double-precision references, by way of LegalizeOps: sources,
// declarations, launch rules and arguments at once. Shapes are odd, of one element, and empty;
// outputs are poisoned; sizes are told to the compiler, or are symbols that come with the launch.
// What needs a million elements is tagged [large]: the sanitized builds leave it out.
#include "kernels_check.h"

namespace {

constexpr Op kUnary[] = {Op::relu,       Op::neg,    Op::abs,        Op::exp,          Op::log,
                         Op::sqrt,       Op::rsqrt,  Op::tanh,       Op::sigmoid,      Op::silu,
                         Op::gelu,       Op::erf,    Op::sin,        Op::cos,          Op::tan,
                         Op::asin,       Op::acos,   Op::atan,       Op::sinh,         Op::cosh,
                         Op::asinh,      Op::acosh,  Op::atanh,      Op::log1p,        Op::floor,
                         Op::ceil,       Op::round,  Op::reciprocal, Op::softplus,     Op::softsign,
                         Op::hard_swish, Op::elu,    Op::leaky_relu, Op::hard_sigmoid, Op::sign,
                         Op::clip,       Op::is_nan, Op::is_inf};
constexpr Op kBinary[] = {Op::add,       Op::sub,        Op::mul,     Op::div,
                          Op::maximum,   Op::minimum,    Op::pow,     Op::floor_mod,
                          Op::trunc_mod, Op::prelu,      Op::equal,   Op::not_equal,
                          Op::less,      Op::less_equal, Op::greater, Op::greater_equal};

} // namespace

TEST_CASE("ops agree with their definitions in the cases that stand beside these") {
  std::vector<std::vector<OpTest> (*)()> all;
#define rule(name) all.push_back(&cases_##name);
#define same(name)
#define CUGRT_OP(name, operands, results, RULE, ...) RULE
#include "ops/table/ops.def"
  std::erase(all, nullptr);
  for (const auto cases : all)
    for (const OpTest &test : cases())
      check(test);
}

TEST_CASE("unary ops agree with their definitions") {
  for (Op op : kUnary)
    for (const Dims &dims : {Dims{}, Dims{1}, Dims{7, 37}, Dims{3, 0, 5}})
      check({.op = op, .operands = {{dims}}});
  check({.op = Op::gelu,
         .operands = {{{259}}},
         .attributes = {{"approximate", std::string("tanh")}}});
  check({.op = Op::clip,
         .operands = {{{259}}},
         .attributes = {real("min", -0.5), real("max", 1.25)},
         .specials = true});
  check({.op = Op::leaky_relu, .operands = {{{259}}}, .attributes = {real("alpha", 0.3)}});
  check({.op = Op::elu, .operands = {{{259}}}, .attributes = {real("alpha", 0.7)}});
  check({.op = Op::hard_sigmoid,
         .operands = {{{259}}},
         .attributes = {real("alpha", 0.6), real("beta", 0.4)}});
  for (Op op : {Op::sin, Op::cos, Op::tan}) // large arguments too
    check({.op = op, .operands = {{{259}}}, .scale = 1e6});
}

TEST_CASE("unary and binary ops carry NaN and infinity through") {
  for (Op op : kUnary)
    check({.op = op, .operands = {{{301}}}, .specials = true});
  for (Op op : kBinary)
    check({.op = op, .operands = {{{301}}, {{301}}}, .specials = true});
}

TEST_CASE("more elements than a grid has threads are all computed", "[large]") {
  check({.op = Op::neg, .operands = {{{4096 * 256 + 77}}}});
  check({.op = Op::add, .operands = {{{4096 * 256 + 77}}, {{1}}}});
}

TEST_CASE("binary ops broadcast as NumPy does") {
  for (Op op : kBinary)
    check({.op = op, .operands = {{{5, 7}}, {{5, 7}}}});
  const std::pair<Dims, Dims> cases[] = {
      {{5, 7}, {7}},
      {{5, 7}, {}},
      {{}, {3, 5}},
      {{4, 16, 3, 3}, {16, 1, 1}},
      {{4, 1}, {1, 6}},
      {{2, 1, 3, 1, 5}, {7, 1, 4, 1}},
      {{3, 0, 2}, {1, 2}},
      {{1, 1}, {1}},
      {{2, 1, 2, 1, 2, 1, 2, 1}, {1, 3, 1, 3, 1, 3, 1, 3}},
  };
  for (const auto &[a, b] : cases)
    check({.op = Op::sub, .operands = {{a}, {b}}});
}

TEST_CASE("casts between all plain dtypes truncate, saturate, round or keep the low bits") {
  constexpr DType kTypes[] = {DType::boolean, DType::i8,  DType::i16, DType::i32, DType::i64,
                              DType::u8,      DType::u16, DType::u32, DType::u64, DType::f16,
                              DType::bf16,    DType::f32, DType::f64};
  std::mt19937 random(1);
  for (DType from : kTypes)
    for (DType to : kTypes) {
      if (from == to)
        continue; // an alias
      const bool floating = ir::info(from).kind == ir::DTypeKind::floating;
      const OpOutcome outcome = run_op_test(runner(),
                                            {.op = Op::cast,
                                             .dtype = from,
                                             .operands = {{{3, 41}}},
                                             .attributes = {type(to)},
                                             .symbolic = true,
                                             .specials = floating,
                                             .scale = 300},
                                            random);
      INFO(outcome.message);
      CHECK(outcome.ok);
    }
}

TEST_CASE("a cast to a short float rounds once") {
  // Just beyond the middle between two neighbours of f16 or bf16, which the number would be in f32.
  const double above_f16 = 1 + 0x1p-11 + 0x1p-40, above_bf16 = 1 + 0x1p-8 + 0x1p-40;
  const double whole = 0x1p24 + 0x1p16 + 1;
  struct Case {
    DType from, to;
    double given, nearest;
  };
  const Case cases[] = {{DType::f64, DType::f16, above_f16, 1 + 0x1p-10},
                        {DType::f64, DType::f16, -above_f16, -1 - 0x1p-10},
                        {DType::f64, DType::f16, 65519.999999, 65504},
                        {DType::f64, DType::bf16, above_bf16, 1 + 0x1p-7},
                        {DType::i32, DType::bf16, whole, 0x1p24 + 0x1p17},
                        {DType::i32, DType::bf16, -whole, -0x1p24 - 0x1p17},
                        {DType::u32, DType::bf16, whole, 0x1p24 + 0x1p17},
                        {DType::i64, DType::bf16, whole, 0x1p24 + 0x1p17},
                        {DType::u64, DType::bf16, whole, 0x1p24 + 0x1p17}};
  for (const Case &one : cases) {
    REQUIRE(round_to(one.to, one.given) == one.nearest);
    check({.op = Op::cast,
           .dtype = one.from,
           .operands = {{.dims = {1}, .values = {one.given}}},
           .attributes = {type(one.to)}});
  }
}

static void check_matmul(int64_t m, int64_t n, int64_t k) {
  check({.op = Op::matmul, .operands = {{{m, k}}, {{k, n}}}});
  check({.op = Op::matmul, .operands = {{{m, k}}, {{k, n}}, {{n}}}});
}

TEST_CASE("matmul agrees with its definition in its variants for small and empty products") {
  const Dims shapes[] = {{1, 1, 1},    {1, 10, 32},  {3, 33, 17}, {4, 5, 512}, {5, 5, 5},
                         {17, 33, 65}, {64, 10, 32}, {0, 4, 3},   {3, 0, 4},   {3, 4, 0}};
  for (const Dims &s : shapes)
    check_matmul(s[0], s[1], s[2]);
}

TEST_CASE("matmul agrees with its definition in its variant for large products", "[large]") {
  check_matmul(600, 516, 9);
}

TEST_CASE("each variant of matmul is taken where its predicate says", "[large]") {
  auto entry = [](int64_t m, int64_t n) {
    std::mt19937 random(1);
    OpTest test{.op = Op::matmul, .operands = {{{m, 8}}, {{8, n}}}};
    const OpOutcome outcome = run_op_test(runner(), test, random);
    INFO(outcome.message);
    CHECK(outcome.ok);
    return outcome.counters.entries.at(0);
  };
  CHECK(entry(8, 100) == "matmul_gemv");
  CHECK(entry(9, 100) == "matmul_tiled");
  CHECK(entry(512, 512) == "matmul_tiled");
  CHECK(entry(513, 512) == "matmul_register");
  CHECK(entry(1025, 1024) == "matmul_register_large"); // 72 tiles of 128 x 128
}

TEST_CASE("matmul walks batches and broadcasts them") {
  check({.op = Op::matmul, .operands = {{{3, 5, 7}}, {{3, 7, 6}}}});
  check({.op = Op::matmul, .operands = {{{3, 5, 7}}, {{7, 6}}, {{6}}}});
  check({.op = Op::matmul, .operands = {{{5, 7}}, {{4, 7, 6}}}});
  check({.op = Op::matmul, .operands = {{{2, 1, 5, 7}}, {{3, 7, 6}}, {{6}}}});
  check({.op = Op::matmul, .operands = {{{2, 3, 1, 7}}, {{2, 3, 7, 40}}}});
  check({.op = Op::matmul, .operands = {{{0, 5, 7}}, {{0, 7, 6}}}});
}

TEST_CASE("matmul walks batches that broadcast in turns") {
  auto product = [](Dims a, Dims c, DType dtype = DType::f32, bool bias = false) {
    const int64_t n = c.back();
    std::vector<OpTest::Operand> operands = {{std::move(a)}, {std::move(c)}};
    if (bias)
      operands.push_back({{n}});
    check({.op = Op::matmul, .dtype = dtype, .operands = std::move(operands)});
  };
  product({2, 1, 3, 4, 5}, {1, 6, 3, 5, 7});
  product({2, 1, 3, 1, 5, 7}, {1, 2, 1, 4, 7, 6}, DType::f32, true);
  product({2, 1, 2, 1, 2, 1, 5, 3}, {1, 3, 1, 3, 1, 2, 3, 2});
  product({2, 1, 3, 20, 40}, {3, 1, 40, 24}, DType::f16);
  product({2, 1, 2, 2, 40}, {4, 1, 40, 9}, DType::bf16);
  product({2, 1, 0, 4, 5}, {1, 6, 1, 5, 7});
}

TEST_CASE("conv2d agrees with its definition") {
  auto conv = [](Dims x, Dims w, bool bias, std::vector<ir::Attribute> attributes) {
    OpTest test{.op = Op::conv2d, .operands = {{x}, {w}}, .attributes = std::move(attributes)};
    if (bias)
      test.operands.push_back({{w[0]}});
    check(test);
  };
  conv({2, 1, 8, 8}, {16, 1, 3, 3}, true, {ints("padding", {1, 1})});
  conv({3, 16, 8, 8}, {16, 16, 3, 3}, true, {ints("padding", {1, 1})});
  conv({2, 16, 4, 4}, {32, 16, 1, 1}, false, {});
  conv({1, 3, 9, 11}, {5, 3, 3, 2}, true, {ints("strides", {2, 3}), ints("padding", {2, 0})});
  conv({2, 4, 12, 9}, {6, 2, 3, 3}, true,
       {integer("groups", 2), ints("dilation", {2, 1}), ints("padding", {1, 1})});
  conv({2, 6, 5, 5}, {6, 1, 3, 3}, false, {integer("groups", 6), ints("padding", {1, 1})});
  conv({2, 8, 5, 5}, {8, 4, 3, 3}, true, {integer("groups", 2)});
  conv({0, 3, 5, 5}, {4, 3, 3, 3}, true, {});
  conv({2, 0, 5, 5}, {4, 0, 3, 3}, true, {});
  conv({1, 1, 1, 1}, {1, 1, 1, 1}, false, {});
}

namespace {

/// A convolution with a bias launches `entry` on a device of so many multiprocessors.
void convolution(DType dtype, Dims x, Dims w, std::vector<ir::Attribute> attributes,
                 const char *entry, int64_t multiprocessors = 1) {
  OpTest test{.op = Op::conv2d,
              .dtype = dtype,
              .operands = {{x}, {w}, {{w[0]}}},
              .attributes = std::move(attributes)};
  test.multiprocessors = multiprocessors;
  check_entry(test, entry);
}

} // namespace

TEST_CASE("convolutions on tensor cores agree with their definition") {
  const char *entry = "conv2d_mma";
  for (DType dtype : {DType::f16, DType::bf16}) {
    convolution(dtype, {2, 8, 9, 11}, {24, 8, 3, 3}, {ints("padding", {1, 1})}, entry);
    // Rows of weights that begin at no multiple of 16 bytes, images of no multiple of eight pixels.
    convolution(dtype, {2, 3, 17, 19}, {32, 3, 3, 3},
                {ints("strides", {2, 2}), ints("padding", {1, 0})}, entry);
    // More channels and pixels than a block's, in two groups.
    convolution(dtype, {2, 32, 12, 8}, {140, 16, 1, 1}, {integer("groups", 2)}, entry);
    convolution(dtype, {3, 16, 8, 8}, {70, 16, 3, 2},
                {ints("dilation", {2, 3}), ints("padding", {2, 2})}, entry);
    convolution(dtype, {1, 3, 16, 18}, {16, 3, 7, 7},
                {ints("strides", {2, 2}), ints("padding", {3, 3})}, entry);
    // Too few channels.
    convolution(dtype, {1, 16, 9, 9}, {8, 16, 3, 3}, {}, "conv2d_register_16");
  }
}

TEST_CASE("convolutions in tiles of registers agree with their definition") {
  for (DType dtype : {DType::f32, DType::f64}) {
    convolution(dtype, {2, 8, 9, 11}, {24, 8, 3, 3}, {ints("padding", {1, 1})},
                "conv2d_register_16");
    convolution(dtype, {2, 3, 17, 19}, {40, 3, 3, 3},
                {ints("strides", {2, 2}), ints("padding", {1, 0})}, "conv2d_register_64");
    // More channels and pixels than a block's, in two groups; runs of pixels in one image.
    convolution(dtype, {2, 32, 12, 8}, {140, 16, 1, 1}, {integer("groups", 2)},
                "conv2d_register_64");
    convolution(dtype, {3, 16, 8, 8}, {20, 16, 3, 2},
                {ints("dilation", {2, 3}), ints("padding", {2, 2})}, "conv2d_register_16");
    convolution(dtype, {1, 3, 16, 18}, {16, 3, 7, 7},
                {ints("strides", {2, 2}), ints("padding", {3, 3})}, "conv2d_register_16");
    // Too few products of a sum.
    convolution(dtype, {1, 5, 8, 8}, {16, 5, 1, 3}, {}, "conv2d_x4");
  }
}

TEST_CASE("convolutions of 1 x 1 are products of matrices, with a bias for each row") {
  for (DType dtype : {DType::f16, DType::bf16}) {
    convolution(dtype, {2, 40, 9, 16}, {70, 40, 1, 1}, {}, "matmul_mma");
    convolution(dtype, {2, 40, 9, 16}, {70, 40, 1, 1}, {}, "matmul_mma_least", 132);
    // Rows that begin at no multiple of 16 bytes.
    convolution(dtype, {2, 40, 9, 15}, {70, 40, 1, 1}, {}, "conv2d_mma");
    convolution(dtype, {2, 36, 9, 16}, {70, 36, 1, 1}, {}, "conv2d_mma");
  }
  convolution(DType::f32, {2, 40, 9, 16}, {70, 40, 1, 1}, {}, "matmul_register_large");
  convolution(DType::f32, {1, 33, 9, 15}, {65, 33, 1, 1}, {}, "matmul_register_large");
  convolution(DType::f64, {2, 33, 9, 15}, {65, 33, 1, 1}, {}, "matmul_register");
  convolution(DType::f32, {2, 40, 9, 15}, {70, 40, 1, 1}, {}, "matmul_tiled", 132);
  check({.op = Op::conv1d, .operands = {{{3, 40, 70}}, {{66, 40, 1}}}});
  // Strides and padding, few pixels or channels.
  const char *other = "conv2d_register_64";
  convolution(DType::f32, {2, 40, 18, 18}, {70, 40, 1, 1}, {ints("strides", {2, 2})}, other);
  convolution(DType::f32, {2, 40, 9, 9}, {70, 40, 1, 1}, {ints("padding", {1, 0})}, other);
  convolution(DType::f32, {8, 40, 3, 20}, {70, 40, 1, 1}, {}, other);
  convolution(DType::f32, {2, 24, 9, 9}, {70, 24, 1, 1}, {}, other);
}

TEST_CASE("depthwise convolutions agree with their definition") {
  const char *entry = "conv2d_depthwise";
  for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    convolution(dtype, {2, 6, 8, 8}, {6, 1, 3, 3}, {integer("groups", 6), ints("padding", {1, 1})},
                entry);
    // Heights of no multiple of four, two channels of y for each of x, padding on four sides.
    convolution(dtype, {1, 5, 11, 7}, {10, 1, 3, 5},
                {integer("groups", 5), ints("padding", {1, 0, 2, 3})}, entry);
    convolution(dtype, {1, 3, 23, 18}, {3, 1, 5, 5},
                {integer("groups", 3), ints("strides", {2, 2}), ints("padding", {2, 2})}, entry);
    convolution(dtype, {1, 4, 17, 9}, {4, 1, 3, 2},
                {integer("groups", 4), ints("strides", {1, 3}), ints("dilation", {3, 2}),
                 ints("padding", {3, 1})},
                entry);
    // A thread's rows have rows of x between them that none reads.
    convolution(dtype, {1, 2, 30, 4}, {2, 1, 1, 4}, {integer("groups", 2), ints("strides", {4, 1})},
                entry);
    // Few rows, a large window, rows far apart.
    convolution(dtype, {1, 4, 5, 9}, {4, 1, 3, 3}, {integer("groups", 4)}, "conv2d");
    convolution(dtype, {1, 3, 12, 12}, {3, 1, 6, 6}, {integer("groups", 3)}, "conv2d");
    convolution(dtype, {1, 2, 40, 3}, {2, 1, 3, 1}, {integer("groups", 2), ints("strides", {5, 1})},
                "conv2d");
  }
}

TEST_CASE("convolutions in slices of their sums agree with their definition") {
  const char *entry = "conv2d_slices";
  for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    // One pixel of each image, an odd number of channels; no multiple of the pixels of a warp.
    convolution(dtype, {3, 40, 1, 1}, {33, 40, 1, 1}, {}, entry);
    convolution(dtype, {2, 4, 5, 7}, {17, 4, 3, 3}, {ints("padding", {1, 2})}, entry, 132);
    convolution(dtype, {1, 12, 9, 5}, {22, 6, 2, 3},
                {integer("groups", 2), ints("dilation", {2, 1}), ints("strides", {2, 1}),
                 ints("padding", {1, 0})},
                entry, 132);
    // Tiles take no more than 63 taps, and eight channels or more.
    convolution(dtype, {1, 2, 15, 15}, {16, 2, 8, 8}, {}, entry);
    convolution(dtype, {1, 16, 9, 9}, {7, 16, 3, 3}, {}, entry);
    convolution(dtype, {1, 4, 9, 9}, {7, 4, 3, 3}, {}, "conv2d");
  }
}

TEST_CASE("how many pixels are few for a convolution depends on the device") {
  // A tile of 64 channels and 64 pixels each for half of the multiprocessors.
  convolution(DType::f32, {1, 16, 16, 16}, {64, 16, 1, 1}, {}, "conv2d_slices", 8);
  convolution(DType::f32, {1, 16, 16, 17}, {64, 16, 1, 1}, {}, "conv2d_register_64", 8);
  convolution(DType::f32, {1, 16, 4, 4}, {64, 16, 1, 1}, {}, "conv2d_slices", 1);
}

TEST_CASE("pooling agrees with its definition") {
  auto pool = [](Op op, Dims x, Dims kernel, std::vector<ir::Attribute> more, bool specials) {
    more.push_back(ints("kernel", kernel));
    check({.op = op, .operands = {{x}}, .attributes = std::move(more), .specials = specials});
  };
  for (Op op : {Op::max_pool2d, Op::avg_pool2d}) {
    pool(op, {3, 16, 8, 8}, {2, 2}, {ints("strides", {2, 2})}, false);
    pool(op, {2, 3, 9, 7}, {3, 2}, {ints("strides", {2, 1}), ints("padding", {1, 1})}, false);
    pool(op, {2, 3, 9, 7}, {3, 3}, {ints("padding", {2, 1})}, true);
    pool(op, {0, 3, 4, 4}, {2, 2}, {}, false);
    pool(op, {1, 1, 1, 1}, {1, 1}, {}, false);
    const ir::Attribute last{"channels_last", true};
    pool(op, {2, 5, 7, 9}, {3, 3},
         {last, integer("first_channel", 2), integer("channels", 4), ints("padding", {1, 1})},
         true);
    pool(op, {1, 4, 4, 6}, {2, 2}, {last, integer("first_channel", 5)}, false);
  }
  check({.op = Op::avg_pool2d,
         .operands = {{{2, 2, 6, 6}}},
         .attributes = {
             ints("kernel", {3, 3}), ints("padding", {2, 2}), {"count_include_pad", false}}});
}

TEST_CASE("pools are dilated, and their sizes rounded up") {
  const ir::Attribute round_up{"ceil_mode", true};
  auto pool = [](Op op, Dims x, Dims kernel, std::vector<ir::Attribute> more) {
    more.push_back(ints("kernel", kernel));
    check({.op = op, .operands = {{x}}, .attributes = std::move(more)});
  };
  for (Op op : {Op::max_pool2d, Op::avg_pool2d}) {
    pool(op, {2, 3, 9, 7}, {3, 2}, {ints("dilation", {2, 3})});
    pool(op, {1, 2, 9, 8}, {2, 3},
         {ints("dilation", {3, 2}), ints("padding", {2, 3}), ints("strides", {2, 3})});
    pool(op, {2, 2, 5, 8}, {2, 3}, {ints("strides", {2, 3}), round_up});
    // The third window of each row would begin behind the image, in the padding.
    pool(op, {1, 1, 4, 4}, {2, 2}, {ints("strides", {3, 3}), ints("padding", {1, 1}), round_up});
    pool(op, {1, 2, 1, 1}, {2, 2}, {ints("strides", {2, 2}), round_up});
    pool(op, {1, 2, 10, 7}, {3, 2},
         {ints("strides", {4, 3}), ints("dilation", {2, 1}), ints("padding", {0, 1, 2, 0}),
          round_up});
    pool(op, {0, 2, 5, 5}, {2, 2}, {ints("strides", {2, 2}), round_up});
  }
  check({.op = Op::avg_pool2d,
         .operands = {{{2, 2, 6, 6}}},
         .attributes = {ints("kernel", {3, 3}),
                        ints("strides", {2, 2}),
                        ints("padding", {1, 1}),
                        {"count_include_pad", false},
                        round_up}});
}

TEST_CASE("the largest of a window is found among integers of every width") {
  for (DType dtype : {DType::i8, DType::i16, DType::i32, DType::i64, DType::u8, DType::u16,
                      DType::u32, DType::u64})
    check({.op = Op::max_pool2d,
           .dtype = dtype,
           .operands = {{{2, 3, 6, 5}}},
           .attributes = {ints("kernel", {3, 2}), ints("padding", {1, 1})}});
}

TEST_CASE("softmax agrees with its definition along every axis") {
  for (const Dims &dims :
       {Dims{5, 10}, Dims{1, 1}, Dims{3, 257}, Dims{2, 1000}, Dims{0, 4}, Dims{4, 0}})
    check({.op = Op::softmax, .operands = {{dims}}, .scale = 20});
  for (int64_t axis : {0, 1, 2, -1})
    check({.op = Op::softmax, .operands = {{{5, 7, 3}}}, .attributes = {integer("axis", axis)}});
  check({.op = Op::softmax, .operands = {{{40, 33}}}, .specials = true});
  check({.op = Op::softmax,
         .operands = {{{33, 40}}},
         .attributes = {integer("axis", 0)},
         .specials = true});
}

TEST_CASE("norms agree with their definitions, with and without scale and bias") {
  for (const Dims &dims : {Dims{5, 10}, Dims{1, 1}, Dims{3, 300}, Dims{2, 3, 65}, Dims{0, 4}}) {
    const Dims last = {dims.back()};
    for (Op op : {Op::layer_norm, Op::rms_norm}) {
      check({.op = op, .operands = {{dims}}});
      check({.op = op, .operands = {{dims}, {last}}});
    }
    check({.op = Op::layer_norm, .operands = {{dims}, {last}, {last}}});
    check({.op = Op::layer_norm, .operands = {{dims}, kAbsent, {last}}});
  }
  check({.op = Op::rms_norm,
         .operands = {{{4, 70}}, {{70}}},
         .attributes = {{"epsilon", 0.25}},
         .specials = true});
}

TEST_CASE("reductions agree with their definitions over any axes") {
  const Dims axes[] = {{}, {0}, {1}, {2}, {-1}, {0, 1}, {1, 2}, {0, 2}, {0, 1, 2}};
  for (Op op : {Op::reduce_sum, Op::reduce_mean, Op::reduce_max, Op::reduce_min, Op::reduce_prod})
    for (const Dims &list : axes)
      check({.op = op, .operands = {{{5, 7, 3}}}, .attributes = {ints("axes", list)}});
  check({.op = Op::reduce_sum,
         .operands = {{{2, 3, 2, 3, 2, 3, 2, 3}}},
         .attributes = {ints("axes", {0, 2, 4, 6}), {"keep_dims", true}}});
  check({.op = Op::reduce_sum,
         .operands = {{{2, 3, 2, 3, 2, 3, 2, 3}}},
         .attributes = {ints("axes", {1, 3, 5, 7})}});
  for (Op op : {Op::reduce_sum, Op::reduce_mean, Op::reduce_max, Op::reduce_min, Op::reduce_prod}) {
    check(
        {.op = op, .operands = {{{3, 700}}}, .attributes = {ints("axes", {1})}, .specials = true});
    check({.op = op, .operands = {{{3, 0, 2}}}, .attributes = {ints("axes", {1})}});
    check({.op = op, .operands = {{{0, 4}}}, .attributes = {ints("axes", {1})}});
    check({.op = op, .operands = {{{}}}});
  }
}

TEST_CASE("argmax finds the first of the largest, and a NaN before any number") {
  for (const Dims &dims : {Dims{5, 10}, Dims{1, 1}, Dims{9, 100}, Dims{0, 4}}) {
    check({.op = Op::argmax, .operands = {{dims}}});
    check({.op = Op::argmax, .operands = {{dims}}, .attributes = {integer("axis", 0)}});
  }
  check({.op = Op::argmax, .operands = {{{50, 40}}}, .specials = true});
  check({.op = Op::argmax,
         .operands = {{{7, 40, 5}}},
         .attributes = {integer("axis", 1), {"keep_dims", true}},
         .specials = true});
}

TEST_CASE("transpositions of any permutation move every element") {
  for (DType dtype : {DType::f32, DType::i8, DType::i16, DType::i64}) {
    check({.op = Op::transpose, .dtype = dtype, .operands = {{{35, 70}}}});
    check({.op = Op::transpose, .dtype = dtype, .operands = {{{5, 4, 3}}}});
  }
  const std::pair<Dims, Dims> cases[] = {
      {{3, 33, 40}, {0, 2, 1}},
      {{3, 4, 5}, {1, 0, 2}},
      {{3, 4, 5}, {2, 0, 1}},
      {{2, 3, 4, 5}, {0, 2, 1, 3}},
      {{2, 3, 4, 5}, {3, 1, 2, 0}},
      {{1, 5, 1}, {2, 1, 0}},
      {{3, 0, 2}, {2, 1, 0}},
      {{2, 3, 2, 3, 2, 3, 2, 3}, {7, 0, 5, 2, 3, 4, 1, 6}},
      {{1, 1}, {1, 0}},
  };
  for (const auto &[dims, axes] : cases)
    check({.op = Op::transpose, .operands = {{dims}}, .attributes = {ints("axes", axes)}});
}

TEST_CASE("concat and split move every element along any axis") {
  for (int64_t axis : {0, 1, 2}) {
    Dims a = {3, 4, 5}, b = a, c = a;
    b[size_t(axis)] = 1;
    c[size_t(axis)] = 0;
    const ir::Attribute along = integer("axis", axis);
    check({.op = Op::concat, .operands = {{a}, {b}, {c}, {a}}, .attributes = {along}});
    check({.op = Op::concat, .operands = {{a}}, .attributes = {along}});
    Dims sections = {1, 0, a[size_t(axis)] - 1};
    std::mt19937 random(1);
    const OpOutcome outcome = run_op_test(
        runner(),
        {.op = Op::split, .operands = {{a}}, .attributes = {along, ints("sections", sections)}},
        random);
    INFO(outcome.message);
    CHECK(outcome.ok);
  }
  check({.op = Op::concat,
         .dtype = DType::u8,
         .operands = {{{3, 5}}, {{3, 7}}},
         .attributes = {integer("axis", -1)}});
  // One row, whose parts begin at odd places.
  check({.op = Op::concat,
         .dtype = DType::f16,
         .operands = {{{1, 5, 3}}, {{1, 8, 3}}, {{1, 0, 3}}, {{1, 1, 3}}},
         .attributes = {integer("axis", 1)}});
  check(
      {.op = Op::concat, .operands = {{{64}}, {{8}}, {{128}}}, .attributes = {integer("axis", 0)}});
  // By vectors, and more parts than one launch joins.
  OpTest many{.op = Op::concat, .dtype = DType::f16, .attributes = {integer("axis", 1)}};
  for (int64_t i = 0; i < 10; ++i)
    many.operands.push_back({{2, 8 + 8 * (i % 2), 3}});
  check(many);
}

TEST_CASE("embedding reads rows, and the nearest row for ids outside the table") {
  for (DType ids : {DType::i32, DType::i64}) { // ids are from -3 to 12
    check({.op = Op::embedding, .operands = {{{9, 33}}, {{5, 7}, ids}}});
    check({.op = Op::embedding, .operands = {{{20, 1}}, {{}, ids}}});
    check({.op = Op::embedding, .operands = {{{4, 6}}, {{0}, ids}}});
  }
}

TEST_CASE("random elementwise shapes agree") {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> rank(0, 5), size(0, 8), keep(0, 2),
      op(0, int(std::size(kBinary)) - 1);
  for (int i = 0; i < 40; ++i) {
    Dims y, a, b;
    for (int d = rank(random); d > 0; --d)
      y.push_back(size(random) + 1);
    for (int64_t dim : y) {
      a.push_back(keep(random) ? dim : 1);
      b.push_back(keep(random) ? dim : 1);
    }
    b.erase(b.begin(), b.begin() + (b.empty() ? 0 : keep(random) % int(b.size() + 1)));
    check({.op = kBinary[op(random)], .operands = {{a}, {b}}}, uint32_t(i));
  }
}

TEST_CASE("random matrix products agree") {
  std::mt19937 random(11);
  std::uniform_int_distribution<int> small(1, 9), large(1, 90), coin(0, 1);
  for (int i = 0; i < 12; ++i) {
    const int64_t m = coin(random) ? small(random) : large(random), n = large(random);
    const int64_t k = large(random);
    OpTest test{.op = Op::matmul, .operands = {{{m, k}}, {{k, n}}}};
    if (coin(random))
      test.operands.push_back({{n}});
    check(test, uint32_t(i));
  }
}

TEST_CASE("the shorter floats and double compute in their wider types") {
  for (DType dtype : {DType::f16, DType::bf16, DType::f64}) {
    for (Op op : {Op::relu, Op::exp, Op::tanh, Op::gelu, Op::erf, Op::sin, Op::softplus, Op::is_nan,
                  Op::hard_sigmoid, Op::clip})
      check({.op = op, .dtype = dtype, .operands = {{{5, 67}}}});
    check({.op = Op::add, .dtype = dtype, .operands = {{{5, 67}}, {{67}}}});
    check({.op = Op::matmul, .dtype = dtype, .operands = {{{9, 33}}, {{33, 20}}, {{20}}}});
    check({.op = Op::matmul, .dtype = dtype, .operands = {{{2, 33}}, {{33, 20}}}});
    check({.op = Op::conv2d,
           .dtype = dtype,
           .operands = {{{2, 4, 6, 6}}, {{8, 4, 3, 3}}, {{8}}},
           .attributes = {ints("padding", {1, 1})}});
    check({.op = Op::max_pool2d,
           .dtype = dtype,
           .operands = {{{2, 3, 6, 6}}},
           .attributes = {ints("kernel", {2, 2})}});
    check({.op = Op::softmax, .dtype = dtype, .operands = {{{6, 70}}}});
    check({.op = Op::layer_norm, .dtype = dtype, .operands = {{{6, 70}}, {{70}}, {{70}}}});
    for (const Dims &dims : {Dims{6, 70}, Dims{3, 264}}) {
      if (dtype == DType::f64)
        break;
      const OpTest::Operand wide{{dims[1]}, DType::f32};
      check({.op = Op::layer_norm, .dtype = dtype, .operands = {{dims}, wide, wide}});
      check({.op = Op::rms_norm, .dtype = dtype, .operands = {{dims}, wide}});
    }
    check({.op = Op::rms_norm, .dtype = dtype, .operands = {{{6, 70}}, {{70}}}});
    check({.op = Op::reduce_mean,
           .dtype = dtype,
           .operands = {{{6, 70}}},
           .attributes = {ints("axes", {1})}});
    check({.op = Op::argmax, .dtype = dtype, .operands = {{{6, 70}}}});
    for (Op op : {Op::pow, Op::trunc_mod, Op::less, Op::equal})
      check({.op = op, .dtype = dtype, .operands = {{{5, 67}}, {{67}}}});
    check({.op = Op::where, .dtype = dtype, .operands = {{{5, 67}, DType::boolean}, {{67}}, {{}}}});
    check({.op = Op::log_softmax, .dtype = dtype, .operands = {{{6, 70}}}});
    check({.op = Op::reduce_prod, .dtype = dtype, .operands = {{{6, 7}}}});
    check({.op = Op::cumsum, .dtype = dtype, .operands = {{{6, 70}}}});
    check({.op = Op::top_k,
           .dtype = dtype,
           .operands = {{{6, 70}}},
           .attributes = {integer("k", 7)}});
    check(
        {.op = Op::range, .attributes = {type(dtype), integer("length", 300), real("step", 0.5)}});
    for (DType to : {DType::f32, DType::i32, DType::f16, DType::bf16, DType::f64})
      if (to != dtype)
        check({.op = Op::cast,
               .dtype = dtype,
               .operands = {{{301}}},
               .attributes = {{"dtype", ir::DTypeLiteral{to}}},
               .specials = true,
               .scale = 100});
    check({.op = Op::cast,
           .dtype = DType::f32,
           .operands = {{{301}}},
           .attributes = {{"dtype", ir::DTypeLiteral{dtype}}},
           .specials = true,
           .scale = 1e6});
  }
}
