// Convolutions over volumes, transposed ones, and products of bytes.
#include "kernels_check.h"

namespace {

// Bytes over all of the dtype's range.
OpTest::Operand bytes(Dims dims, DType dtype, int64_t seed) {
  int64_t count = 1;
  for (int64_t size : dims)
    count *= size;
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(
        double((i * 73 + i / 7 * 31 + seed * 57) % 256 - (dtype == DType::i8 ? 128 : 0)));
  return given(std::move(dims), std::move(values), dtype);
}

constexpr std::pair<DType, DType> kPairs[] = {
    {DType::i8, DType::i8}, {DType::u8, DType::i8}, {DType::i8, DType::u8}, {DType::u8, DType::u8}};

} // namespace

TEST_CASE("conv3d agrees with its definition") {
  auto conv = [](Dims x, Dims w, std::vector<ir::Attribute> attributes = {}, bool bias = false,
                 DType dtype = DType::f32, bool specials = false) {
    std::vector<OpTest::Operand> operands = {{x}, {w}};
    if (bias)
      operands.push_back({{w[0]}});
    check({.op = Op::conv3d,
           .dtype = dtype,
           .operands = operands,
           .attributes = attributes,
           .specials = specials});
  };
  conv({2, 3, 5, 6, 7}, {4, 3, 2, 3, 1});
  conv({2, 3, 5, 6, 7}, {4, 3, 3, 3, 3}, {ints("padding", {1, 0, 2}), ints("strides", {2, 1, 3})},
       true);
  conv({1, 4, 5, 5, 5}, {6, 2, 2, 2, 2}, {integer("groups", 2), ints("dilation", {2, 1, 3})}, true);
  conv({1, 1, 1, 1, 1}, {1, 1, 1, 1, 1});
  conv({1, 2, 3, 4, 5}, {2, 2, 2, 2, 2}, {ints("padding", {1, 0, 0, 0, 1, 2})});
  conv({0, 2, 3, 4, 5}, {2, 2, 2, 2, 2});
  conv({2, 0, 3, 4, 5}, {3, 0, 2, 2, 2}, {}, true);
  for (DType dtype : {DType::f16, DType::bf16, DType::f64})
    conv({1, 2, 3, 4, 5}, {2, 2, 2, 2, 2}, {}, true, dtype);
  conv({1, 2, 6, 6, 6}, {2, 2, 2, 2, 2}, {}, false, DType::f32, true);
}

TEST_CASE("conv3d and conv_transpose in tiles of registers agree with their definition") {
  auto conv = [](Op op, DType dtype, Dims x, Dims w, int64_t bias,
                 std::vector<ir::Attribute> attributes, const char *entry,
                 int64_t multiprocessors = 1) {
    OpTest test{.op = op,
                .dtype = dtype,
                .operands = {{x}, {w}, {{bias}}},
                .attributes = std::move(attributes)};
    test.multiprocessors = multiprocessors;
    check_entry(test, entry);
  };
  for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    conv(Op::conv3d, dtype, {2, 3, 4, 5, 6}, {8, 3, 2, 3, 2}, 8,
         {ints("padding", {1, 0, 1}), ints("strides", {1, 2, 1})}, "conv3d_register_16");
    conv(Op::conv3d, dtype, {1, 8, 3, 6, 9}, {80, 4, 1, 3, 3}, 80,
         {integer("groups", 2), ints("dilation", {1, 2, 1})}, "conv3d_register_64");
    conv(Op::conv3d, dtype, {2, 5, 3, 4, 4}, {9, 5, 2, 2, 2}, 9,
         {ints("padding", {1, 0, 1}), ints("dilation", {1, 2, 1})}, "conv3d_slices", 132);
    // One dimension, as decoders of sound have them: each phase has two taps.
    conv(Op::conv_transpose, dtype, {2, 9, 40}, {9, 12, 8}, 12,
         {ints("strides", {4}), ints("padding", {2})}, "conv_transpose_register_16");
    // Phases of different sizes, one of them without a tap; dilation; two groups.
    conv(Op::conv_transpose, dtype, {2, 32, 5, 6}, {32, 35, 2, 3}, 70,
         {ints("strides", {3, 2}), integer("groups", 2), ints("padding", {0, 1})},
         "conv_transpose_register_64");
    conv(Op::conv_transpose, dtype, {1, 16, 3, 5, 4}, {16, 8, 2, 2, 3}, 8,
         {ints("strides", {2, 1, 2}), ints("dilation", {1, 2, 3}), ints("padding", {1, 0, 2})},
         "conv_transpose_register_16");
  }
}

TEST_CASE("conv_transpose agrees with its definition over one to three dimensions") {
  auto conv = [](Dims x, Dims w, std::vector<ir::Attribute> attributes = {}, int64_t bias = 0,
                 DType dtype = DType::f32, bool specials = false) {
    std::vector<OpTest::Operand> operands = {{x}, {w}};
    if (bias)
      operands.push_back({{bias}});
    check({.op = Op::conv_transpose,
           .dtype = dtype,
           .operands = operands,
           .attributes = attributes,
           .specials = specials});
  };
  conv({2, 3, 7}, {3, 4, 3});
  conv({2, 3, 7}, {3, 4, 3},
       {ints("strides", {2}), ints("padding", {1}), ints("output_padding", {1})}, 4);
  conv({2, 3, 4, 5}, {3, 2, 3, 3}, {ints("strides", {2, 3}), ints("padding", {1, 0, 0, 2})}, 2);
  conv({1, 4, 3, 3}, {4, 3, 2, 2}, {integer("groups", 2), ints("dilation", {2, 3})}, 6);
  conv({2, 3, 4, 5}, {3, 2, 2, 2}, {ints("strides", {2, 2})});
  conv({1, 2, 3, 2, 4}, {2, 3, 2, 3, 2},
       {ints("strides", {2, 1, 3}), ints("output_padding", {1, 0, 2})}, 3);
  conv({1, 1, 1, 1}, {1, 1, 1, 1});
  conv({0, 3, 4, 5}, {3, 2, 3, 3});
  conv({2, 0, 4, 5}, {0, 2, 3, 3}, {}, 2);
  for (DType dtype : {DType::f16, DType::bf16, DType::f64})
    conv({1, 2, 3, 4}, {2, 2, 3, 3}, {ints("strides", {2, 2})}, 2, dtype);
  conv({1, 2, 6, 6}, {2, 2, 2, 2}, {}, 0, DType::f32, true);
}

TEST_CASE("matmul_integer is exact for bytes of all values, with and without signs") {
  for (const auto &pair : kPairs) {
    const DType a = pair.first, b = pair.second;
    auto product = [&](Dims of_a, Dims of_b, int64_t a_zeros, int64_t b_zeros,
                       bool turned = false) {
      auto zeros = [](int64_t count, DType dtype) {
        return count < 0 ? kAbsent : count == 0 ? bytes({}, dtype, 5) : bytes({count}, dtype, 11);
      };
      check(
          {.op = Op::matmul_integer,
           .dtype = a,
           .operands = {bytes(of_a, a, 1), bytes(of_b, b, 2), zeros(a_zeros, a), zeros(b_zeros, b)},
           .attributes = {flag("transpose_b", turned)}});
    };
    product({5, 7}, {7, 3}, 0, 0);
    product({3, 130}, {130, 70}, 3, 70);
    product({5, 67}, {3, 67}, 1, -1, true);
    if (pair != kPairs[0])
      continue; // signs change how bytes are read alone
    product({5, 7}, {7, 3}, -1, -1);
    product({65, 33}, {33, 66}, 1, -1);
    product({2, 5, 9}, {9, 4}, -1, 4);
    product({2, 5, 9}, {2, 9, 4}, 5, 0);
    product({1, 1}, {1, 1}, -1, -1);
    product({0, 4}, {4, 3}, -1, -1);
    product({3, 0}, {0, 4}, 0, 0);
    product({3, 4}, {4, 0}, -1, -1);
    // Rows of b along k: copies of 16, 8 and 4 bytes, and bytes.
    product({65, 208}, {66, 208}, 65, 66, true);
    product({2, 5, 72}, {9, 72}, 0, 0, true);
    product({2, 5, 68}, {2, 9, 68}, 5, 9, true);
    product({2, 3, 16}, {70, 16}, 3, -1, true);
    product({3, 0}, {4, 0}, 0, 0, true);
  }
}

TEST_CASE("products of bytes are exact in each form's tiles, whole and not") {
  for (const auto &pair : kPairs) {
    const DType a = pair.first, b = pair.second;
    auto product = [&](Dims of_a, Dims of_b, bool zeros, const char *entry, int64_t multiprocessors,
                       bool turned = false) {
      const int64_t rows = of_a[of_a.size() - 2];
      const int64_t columns = of_b[of_b.size() - (turned ? 2 : 1)];
      OpTest test{.op = Op::matmul_integer,
                  .dtype = a,
                  .operands = {bytes(of_a, a, 1), bytes(of_b, b, 2),
                               zeros ? bytes({rows}, a, 3) : kAbsent,
                               zeros ? bytes({columns}, b, 4) : kAbsent},
                  .attributes = {flag("transpose_b", turned)}};
      test.multiprocessors = multiprocessors;
      check_entry(test, entry);
    };
    // More than one tile each way; rows that begin at multiples of 16 bytes, or at any.
    product({130, 144}, {144, 160}, true, "matmul_integer_mma", 1);
    product({70, 64}, {64, 77}, true, "matmul_integer_mma_small", 64);
    if (a == b)
      continue;
    product({130, 141}, {141, 150}, a == DType::u8, "matmul_integer_mma", 1);
    product({2, 129, 80}, {2, 80, 16}, false, "matmul_integer_mma", 1);
    product({70, 208}, {208, 80}, a == DType::i8, "matmul_integer_mma_small", 64);
    if (a == DType::i8)
      continue;
    product({2, 3, 130, 76}, {150, 76}, false, "matmul_integer_mma", 1, true);
    product({130, 400}, {150, 400}, true, "matmul_integer_mma", 1, true);
    // k is shared by two blocks, and by eight.
    product({70, 572}, {66, 572}, true, "matmul_integer_mma_small", 64, true);
    product({2, 9, 2061}, {2, 7, 2061}, true, "matmul_integer_mma_small", 64, true);
  }
}

TEST_CASE("products of bytes are exact by dp4a where there are no tensor cores") {
  LaunchRunner turing("sm_75");
  for (const auto &pair : kPairs) {
    const bool turned = pair.first == pair.second;
    OpTest test{.op = Op::matmul_integer,
                .dtype = pair.first,
                .operands = {bytes({70, 45}, pair.first, 1),
                             bytes(turned ? Dims{66, 45} : Dims{45, 66}, pair.second, 2),
                             bytes({70}, pair.first, 3), bytes({66}, pair.second, 4)},
                .attributes = {flag("transpose_b", turned)}};
    test.compute_capability = 75;
    std::mt19937 random(1);
    const OpOutcome outcome = run_op_test(turing, test, random);
    INFO(outcome.message);
    CHECK(outcome.ok);
    CHECK(outcome.counters.entries.back() == "matmul_integer");
  }
}

TEST_CASE("convolutions of bytes are exact on tensor cores") {
  for (const auto &pair : kPairs) {
    const DType x = pair.first, w = pair.second;
    auto conv = [&](Dims of_x, Dims of_w, std::vector<ir::Attribute> attributes, bool x_zero,
                    int64_t w_zeros, const char *entry) {
      check_entry(
          {.op = Op::conv_integer,
           .dtype = x,
           .operands = {bytes(of_x, x, 3), bytes(of_w, w, 4), x_zero ? bytes({}, x, 7) : kAbsent,
                        w_zeros < 0    ? kAbsent
                        : w_zeros == 0 ? bytes({}, w, 9)
                                       : bytes({w_zeros}, w, 13)},
           .attributes = attributes},
          entry);
    };
    const char *entry = "conv_integer_mma";
    conv({2, 6, 9, 11}, {10, 6, 3, 3}, {ints("padding", {1, 1})}, true, 10, entry);
    // More channels, products and pixels than a tile; rows of w at multiples of 16 bytes.
    conv({3, 16, 9, 8}, {70, 16, 3, 2}, {ints("padding", {1, 0, 2, 1}), ints("strides", {2, 1})},
         true, 0, entry);
    conv({1, 24, 7, 7}, {16, 12, 1, 3}, {integer("groups", 2), ints("dilation", {1, 2})}, false, 16,
         entry);
    conv({2, 3, 40}, {9, 3, 7}, {ints("padding", {3})}, true, -1, entry);
    conv({1, 3, 4, 5, 6}, {8, 3, 2, 3, 2}, {ints("padding", {1, 0, 1})}, false, -1, entry);
    // Too few channels, too many taps.
    conv({1, 8, 6, 6}, {7, 8, 3, 3}, {}, true, 0, "conv_integer");
    conv({1, 1, 9, 9}, {8, 1, 8, 8}, {}, true, 8, "conv_integer");
  }
}

TEST_CASE("conv_integer is exact, and pads with the zero point") {
  for (const auto &pair : kPairs) {
    const DType x = pair.first, w = pair.second;
    auto conv = [&](Dims of_x, Dims of_w, std::vector<ir::Attribute> attributes, int64_t x_zeros,
                    int64_t w_zeros) {
      check({.op = Op::conv_integer,
             .dtype = x,
             .operands = {bytes(of_x, x, 3), bytes(of_w, w, 4),
                          x_zeros < 0 ? kAbsent : bytes({}, x, 7),
                          w_zeros < 0    ? kAbsent
                          : w_zeros == 0 ? bytes({}, w, 9)
                                         : bytes({w_zeros}, w, 13)},
             .attributes = attributes});
    };
    conv({2, 3, 7}, {4, 3, 3}, {}, -1, -1);
    conv({2, 3, 6, 7}, {4, 3, 3, 2}, {ints("padding", {1, 0, 2, 1}), ints("strides", {2, 1})}, 0,
         0);
    conv({1, 4, 5, 5}, {6, 2, 3, 3}, {integer("groups", 2), ints("dilation", {2, 1})}, 0, 6);
    conv({1, 2, 3, 4, 5}, {2, 2, 2, 2, 2}, {ints("padding", {1, 1, 1})}, 0, -1);
    conv({0, 2, 3}, {2, 2, 2}, {}, -1, -1);
  }
}

TEST_CASE("conv_integer with channels last is exact in each of its forms") {
  const ir::Attribute last = {"channels_last", true};
  for (const auto &pair : kPairs) {
    const DType x = pair.first, w = pair.second;
    auto conv = [&](Dims of_x, Dims of_w, std::vector<ir::Attribute> attributes, bool has_x_zero,
                    int64_t w_zeros, const char *entry) {
      attributes.push_back(last);
      check_entry({.op = Op::conv_integer,
                   .dtype = x,
                   .operands = {bytes(of_x, x, 3), bytes(of_w, w, 4),
                                has_x_zero ? bytes({}, x, 7) : kAbsent,
                                w_zeros < 0    ? kAbsent
                                : w_zeros == 0 ? bytes({}, w, 9)
                                               : bytes({w_zeros}, w, 13)},
                   .attributes = attributes},
                  entry);
    };
    const char *small = "conv_integer_last_64x32", *direct = "conv_integer_last";
    conv({2, 7, 6, 16}, {40, 3, 3, 16}, {ints("padding", {1, 0, 2, 1}), ints("strides", {2, 1})},
         true, 0, small);
    conv({1, 6, 5, 48}, {33, 3, 2, 48}, {ints("padding", {1, 1}), ints("dilation", {2, 1})}, true,
         33, small);
    conv({1, 6, 5, 64}, {64, 1, 1, 32}, {integer("groups", 2)}, false, -1, small);
    // Copies of 8 and of 4 channels, of which some steps of k are of two taps and the last is part.
    conv({2, 7, 6, 24}, {40, 3, 3, 24}, {ints("padding", {1, 0, 2, 1}), ints("strides", {2, 1})},
         true, 0, small);
    conv({1, 6, 5, 20}, {33, 3, 2, 20}, {ints("padding", {1, 1}), ints("dilation", {2, 1})}, true,
         33, small);
    conv({1, 6, 5, 24}, {32, 3, 1, 12}, {integer("groups", 2), ints("padding", {1, 0})}, true, -1,
         small);
    conv({2, 9, 9, 4}, {16, 7, 7, 4}, {ints("padding", {3, 3}), ints("strides", {2, 2})}, true, 16,
         small);
    conv({1, 6, 5, 12}, {12, 3, 3, 1}, {integer("groups", 12), ints("padding", {1, 1})}, true, 12,
         direct);
    conv({1, 6, 5, 3}, {5, 3, 3, 3}, {}, true, -1, direct);
    if (&pair != &kPairs[1])
      continue;
    conv({1, 50, 64, 16}, {72, 1, 1, 16}, {}, true, 72, "conv_integer_last_64x64");
    conv({1, 70, 64, 16}, {72, 1, 1, 16}, {}, true, -1, "conv_integer_last_128x64");
    conv({1, 129, 65, 16}, {72, 1, 1, 16}, {}, true, 0, "conv_integer_last_128x128");
    // Nine blocks share k.
    conv({1, 9, 9, 256}, {40, 3, 3, 256}, {ints("padding", {1, 1})}, true, 40,
         "conv_integer_last_64x64");
  }
}
