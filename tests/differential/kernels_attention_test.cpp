// Attention over a cache, rotary embedding, convolution in one dimension, padding on four sides.
#include "kernels_check.h"

namespace {

struct Heads {
  int64_t sequences, queries, heads, capacity, kv_heads, width;
};

OpTest attention(Heads h, std::vector<ir::Attribute> attributes = {}, DType dtype = DType::f32) {
  const Dims cache = {h.sequences, h.capacity, h.kv_heads, h.width};
  return {.op = Op::attention,
          .dtype = dtype,
          .operands = {{{h.sequences, h.queries, h.heads, h.width}}, {cache}, {cache}},
          .attributes = std::move(attributes)};
}

const ir::Attribute kCausal = flag("causal", true);

} // namespace

TEST_CASE("attention decodes one query over a cache with grouped heads") {
  check(attention({1, 1, 4, 40, 4, 64}));
  check(attention({3, 1, 8, 70, 2, 32}));
  check(attention({2, 1, 6, 33, 3, 128}, {real("scale", 0.25)}));
  check(attention({1, 1, 1, 1, 1, 1}));
  check(attention({1, 1, 2, 0, 1, 32})); // an empty cache
  check(attention({0, 1, 2, 5, 1, 32}));
}

TEST_CASE("attention prefills, with and without looking ahead") {
  for (bool causal : {false, true}) {
    check(attention({2, 5, 4, 5, 2, 64}, {flag("causal", causal)}));
    check(attention({1, 7, 2, 40, 1, 32}, {flag("causal", causal)}));
  }
  check(attention({1, 6, 2, 3, 1, 32}, {kCausal})); // the first queries see nothing
}

TEST_CASE("attention takes heads of any width") {
  for (int64_t width : {1, 3, 20, 36, 80, 96, 100, 256})
    check(attention({1, 2, 2, 35, 1, width}, {kCausal}));
}

TEST_CASE("attention reads lengths from the device and limits them to the cache") {
  for (DType ids : {DType::i32, DType::i64}) { // from -3 to 12
    OpTest test = attention({9, 2, 4, 10, 2, 32}, {kCausal});
    test.operands.push_back({{9}, ids});
    check(test, 3);
    test = attention({9, 1, 4, 10, 4, 32});
    test.operands.push_back({{9}, ids});
    check(test, 4);
  }
}

TEST_CASE("attention adds masks that broadcast, and what is masked out is not read into the sum") {
  for (const Dims &mask :
       {Dims{2, 4, 3, 37}, Dims{3, 37}, Dims{2, 1, 1, 37}, Dims{4, 1, 1}, Dims{}}) {
    OpTest test = attention({2, 3, 4, 37, 2, 32});
    test.operands.push_back({{}, {}, true});
    test.operands.push_back({mask});
    std::mt19937 random(5);
    const OpOutcome outcome = run_op_test(runner(), test, random);
    INFO(outcome.message);
    CHECK(outcome.ok);
  }
}

TEST_CASE("attention carries NaN and infinity through, and computes in the wider types") {
  OpTest specials = attention({2, 3, 2, 37, 1, 32});
  specials.specials = true;
  check(specials);
  for (DType dtype : {DType::f16, DType::bf16, DType::f64}) {
    check(attention({2, 1, 4, 70, 2, 64}, {}, dtype));
    check(attention({1, 4, 2, 20, 1, 20}, {kCausal}, dtype));
  }
}

TEST_CASE("rotary embedding turns pairs of elements by the position's angle") {
  for (DType ids : {DType::i32, DType::i64})
    for (bool interleaved : {false, true}) {
      const ir::Attribute pairs = flag("interleaved", interleaved);
      check({.op = Op::rotary, .operands = {{{3, 5, 2, 8}}, {{3, 5}, ids}}, .attributes = {pairs}});
      check({.op = Op::rotary,
             .operands = {{{7, 3, 20}}, {{7}, ids}},
             .attributes = {pairs, integer("dims", 12), real("base", 500), real("scale", 0.5)}});
      check({.op = Op::rotary,
             .operands = {{{4, 2, 10}}, {{4}, ids}, {{6, 3}}, {{6, 3}}},
             .attributes = {pairs, integer("dims", 6)}});
    }
  check({.op = Op::rotary, .operands = {{{3, 8}}, {{}, DType::i64}}});
  check({.op = Op::rotary, .operands = {{{0, 3, 8}}, {{0}, DType::i64}}});
  check({.op = Op::rotary, .operands = {{{5, 1, 2}}, {{5}, DType::i64}}, .specials = true});
  for (DType dtype : {DType::f16, DType::bf16, DType::f64})
    check({.op = Op::rotary, .dtype = dtype, .operands = {{{5, 3, 8}}, {{5}, DType::i64}}});
}

TEST_CASE("conv1d agrees with its definition") {
  auto conv = [](Dims x, Dims w, bool bias, std::vector<ir::Attribute> attributes,
                 DType dtype = DType::f32) {
    OpTest test{.op = Op::conv1d,
                .dtype = dtype,
                .operands = {{x}, {w}},
                .attributes = std::move(attributes)};
    if (bias)
      test.operands.push_back({{w[0]}});
    check(test);
  };
  conv({2, 3, 17}, {8, 3, 5}, true, {ints("padding", {2})});
  conv(
      {1, 4, 30}, {6, 2, 3}, false,
      {ints("strides", {2}), ints("dilation", {3}), ints("padding", {1, 4}), integer("groups", 2)});
  conv({2, 6, 9}, {6, 1, 3}, true, {integer("groups", 6)});
  conv({0, 3, 9}, {4, 3, 3}, true, {});
  conv({1, 1, 1}, {1, 1, 1}, false, {});
  for (DType dtype : {DType::f16, DType::bf16, DType::f64})
    conv({2, 4, 12}, {8, 4, 3}, true, {ints("padding", {1, 0})}, dtype);
}

TEST_CASE("padding differs on four sides in convolutions and pools") {
  check({.op = Op::conv2d,
         .operands = {{{2, 3, 9, 7}}, {{4, 3, 3, 3}}},
         .attributes = {ints("padding", {1, 0, 2, 1}), ints("strides", {2, 1})}});
  for (Op op : {Op::max_pool2d, Op::avg_pool2d})
    check({.op = op,
           .operands = {{{2, 3, 9, 7}}},
           .attributes = {ints("kernel", {3, 2}), ints("padding", {0, 1, 2, 0})}});
}
