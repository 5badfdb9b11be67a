// Elementwise ops, reductions and searches over integers and bools, and what chooses between
// tensors.
#include "kernels_check.h"

#include "compiler/passes/pass.h"
#include "ir/text/text.h"

namespace {

constexpr DType kIntegers[] = {DType::i8, DType::i16, DType::i32, DType::i64,
                               DType::u8, DType::u16, DType::u32, DType::u64};

bool is_signed(DType dtype) { return ir::info(dtype).kind == ir::DTypeKind::signed_integer; }

} // namespace

TEST_CASE("arithmetic on integers keeps the low bits, and division by zero gives zero") {
  // Values are from -3 to 12; below zero, unsigned ones are 0.
  for (DType dtype : kIntegers) {
    for (Op op :
         {Op::add, Op::mul, Op::maximum, Op::minimum, Op::div, Op::floor_mod, Op::trunc_mod})
      check({.op = op, .dtype = dtype, .operands = {{{5, 41}}, {{41}}}});
    for (Op op :
         {Op::equal, Op::not_equal, Op::less, Op::less_equal, Op::greater, Op::greater_equal})
      check({.op = op, .dtype = dtype, .operands = {{{5, 41}}, {{5, 41}}}});
    check({.op = Op::sub, .dtype = dtype, .operands = {{{301}}, {{301}}}}); // wraps when unsigned
    for (Op op : {Op::abs, Op::sign, Op::relu})
      check({.op = op, .dtype = dtype, .operands = {{{301}}}});
    check({.op = Op::clip,
           .dtype = dtype,
           .operands = {{{301}}},
           .attributes = {real("min", 1), real("max", 7.9)}});
    check({.op = Op::clip, .dtype = dtype, .operands = {{{301}}}});
    if (is_signed(dtype))
      check({.op = Op::neg, .dtype = dtype, .operands = {{{301}}}});
  }
}

TEST_CASE("integer powers multiply, and negative ones are truncated reciprocals") {
  for (DType dtype : {DType::i64, DType::u64}) // 12^12 is below 2^53
    check({.op = Op::pow, .dtype = dtype, .operands = {{{3, 41}}, {{41}}}});
}

TEST_CASE("bitwise ops and shifts, by too many bits and by negative numbers") {
  for (DType dtype : kIntegers) {
    for (Op op : {Op::bitwise_and, Op::bitwise_or, Op::bitwise_xor}) {
      check({.op = op, .dtype = dtype, .operands = {{{5, 41}}, {{41}}}});
      check({.op = op, .dtype = dtype, .operands = {{{3, 1, 5}}, {{7, 1}}}});
    }
    for (Op op : {Op::shift_left, Op::shift_right})
      check({.op = op, .dtype = dtype, .operands = {{{301}}, {{301}}}});
    const std::vector<double> many = {0, 1, 7, 8, 15, 16, 31, 32, 63, 64, 100};
    check(
        {.op = Op::shift_right, .dtype = dtype, .operands = {{{3, 11}}, given({11}, many, dtype)}});
    check({.op = Op::bitwise_not, .dtype = dtype, .operands = {{{3, 41}}}});
    check({.op = Op::bitwise_not, .dtype = dtype, .operands = {{{3, 0}}}});
  }
}

TEST_CASE("logical ops work on bools and broadcast") {
  for (Op op : {Op::logical_and, Op::logical_or, Op::logical_xor, Op::equal, Op::not_equal}) {
    check({.op = op, .dtype = DType::boolean, .operands = {{{5, 41}}, {{5, 41}}}});
    check({.op = op, .dtype = DType::boolean, .operands = {{{3, 1, 5}}, {{7, 1}}}});
  }
  check({.op = Op::logical_not, .dtype = DType::boolean, .operands = {{{5, 41}}}});
}

TEST_CASE("where chooses element by element and broadcasts all three operands") {
  auto where = [](Dims condition, Dims a, Dims b, DType dtype = DType::f32) {
    check({.op = Op::where,
           .dtype = dtype,
           .operands = {{condition, DType::boolean}, {a}, {b}},
           .specials = dtype == DType::f32});
  };
  for (DType dtype : {DType::f32, DType::f16, DType::i8, DType::f64, DType::boolean, DType::i64})
    where({5, 41}, {5, 41}, {5, 41}, dtype);
  where({5, 41}, {}, {1});
  where({1, 41}, {5, 41}, {5, 1});
  where({}, {3, 5}, {3, 5});
  where({2, 1, 3, 1, 2, 1}, {4, 1, 2, 1, 5}, {1, 1, 1, 1, 1, 5});
  where({3, 0}, {1, 1}, {3, 0});
}

TEST_CASE("reductions of integers") {
  for (DType dtype : {DType::i8, DType::i32, DType::i64, DType::u8, DType::u64})
    for (Op op : {Op::reduce_sum, Op::reduce_max, Op::reduce_min, Op::reduce_prod})
      for (const Dims &axes : {Dims{0}, Dims{1}, Dims{}}) {
        if (op == Op::reduce_prod && axes.size() != 1)
          continue; // beyond what a double holds
        check(
            {.op = op, .dtype = dtype, .operands = {{{7, 9}}}, .attributes = {ints("axes", axes)}});
      }
  check({.op = Op::reduce_sum,
         .dtype = DType::i64,
         .operands = {{{3, 0}}},
         .attributes = {ints("axes", {1})}});
  for (Op op : {Op::reduce_max, Op::reduce_min, Op::reduce_prod})
    check(
        {.op = op, .dtype = DType::i16, .operands = {{{3, 0}}}, .attributes = {ints("axes", {1})}});
}

TEST_CASE("argmin and the last of equal elements") {
  for (DType dtype : {DType::f32, DType::i8, DType::u8, DType::i64})
    for (Op op : {Op::argmax, Op::argmin})
      for (bool last : {false, true})
        for (int64_t axis : {0, 1, 2})
          check({.op = op,
                 .dtype = dtype,
                 .operands = {{{5, 40, 3}}},
                 .attributes = {integer("axis", axis), flag("last", last)},
                 .specials = dtype == DType::f32});
}

TEST_CASE("running sums along any axis, from either end") {
  for (bool exclusive : {false, true})
    for (bool reverse : {false, true}) {
      const ir::Attribute e = flag("exclusive", exclusive), r = flag("reverse", reverse);
      for (const Dims &dims : {Dims{1}, Dims{3, 257}, Dims{2, 1000}, Dims{0, 4}, Dims{4, 0}})
        check({.op = Op::cumsum, .operands = {{dims}}, .attributes = {e, r}});
      check(
          {.op = Op::cumsum, .operands = {{{5, 40, 3}}}, .attributes = {integer("axis", 1), e, r}});
      check(
          {.op = Op::cumsum, .dtype = DType::i64, .operands = {{{3, 300}}}, .attributes = {e, r}});
    }
  check({.op = Op::cumsum, .dtype = DType::i8, .operands = {{{3, 300}}}}); // wraps
  check({.op = Op::cumsum, .operands = {{{3, 300}}}, .attributes = {}, .specials = true});
}

TEST_CASE("running products along any axis, from either end") {
  for (bool exclusive : {false, true})
    for (bool reverse : {false, true}) {
      const ir::Attribute e = flag("exclusive", exclusive), r = flag("reverse", reverse);
      for (const Dims &dims : {Dims{1}, Dims{3, 257}, Dims{0, 4}, Dims{4, 0}})
        check({.op = Op::cumprod, .operands = {{dims}}, .attributes = {e, r}});
      check({.op = Op::cumprod,
             .operands = {{{5, 40, 3}}},
             .attributes = {integer("axis", 1), e, r}});
      check({.op = Op::cumprod, .dtype = DType::i64, .operands = {{{3, 9}}}, .attributes = {e, r}});
    }
  check({.op = Op::cumprod, .dtype = DType::u8, .operands = {{{9, 7}}}}); // wraps
  for (DType dtype : {DType::f16, DType::bf16, DType::f64})
    check({.op = Op::cumprod, .dtype = dtype, .operands = {{{6, 30}}}});
  check({.op = Op::cumprod, .operands = {{{3, 300}}}, .attributes = {}, .specials = true});
}

TEST_CASE("top_k gives the largest or smallest in order, with their places") {
  for (bool largest : {true, false}) {
    const ir::Attribute order = flag("largest", largest);
    auto top = [&](Dims dims, int64_t k, int64_t axis, DType dtype = DType::f32) {
      check({.op = Op::top_k,
             .dtype = dtype,
             .operands = {{dims}},
             .attributes = {integer("k", k), integer("axis", axis), order},
             .specials = dtype == DType::f32});
    };
    top({5, 40}, 3, -1);
    top({5, 300}, 9, 1);
    top({7, 4, 5}, 4, 1);
    top({9, 3}, 9, 0);
    top({1}, 1, 0);
    top({3, 5}, 0, 1);
    top({0, 5}, 2, 1);
    top({4, 60}, 20, 1, DType::i32); // many equal ones
    top({4, 60}, 20, 1, DType::u8);
    // What a warp, a block and a large block hold of a line, and more than all of them.
    for (int64_t length : {256, 257, 4096, 4097, 16384, 16385})
      top({1, length}, 3, 1);
    top({2, 700, 3}, 40, 1);
    for (DType dtype : {DType::i32, DType::u8, DType::f16, DType::i64, DType::f64})
      top({2, 500}, 5, 1, dtype);
  }
}

TEST_CASE("reductions along columns in vectors, shared by blocks, agree with their definitions") {
  auto reduce = [](Op op, DType dtype, Dims x, Dims axes, int64_t multiprocessors) {
    OpTest test{
        .op = op, .dtype = dtype, .operands = {{x}}, .attributes = {ints("axes", std::move(axes))}};
    test.multiprocessors = multiprocessors;
    check(test);
  };
  for (DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (Op op : {Op::reduce_sum, Op::reduce_mean, Op::reduce_max, Op::reduce_min}) {
      reduce(op, dtype, {37, 264}, {0}, 1);        // more than a tile, which ends within a vector's
      reduce(op, dtype, {2, 9, 7, 16}, {1, 2}, 1); // few beside one another
      reduce(op, dtype, {300, 16}, {0}, 132);      // shared by blocks
      reduce(op, dtype, {2, 19, 17, 24}, {1, 2}, 64);
    }
  reduce(Op::reduce_sum, DType::f32, {3, 5, 700, 2, 8}, {1, 3}, 132); // kept and reduced in turns
  reduce(Op::reduce_max, DType::f32, {900, 7}, {0}, 132);             // no vectors
  reduce(Op::reduce_mean, DType::f32, {600, 1}, {0}, 132);
  reduce(Op::reduce_sum, DType::f64, {300, 16}, {0}, 132); // f64 and integers are not shared
  reduce(Op::reduce_prod, DType::i32, {30, 16}, {0}, 132);
  reduce(Op::reduce_max, DType::u8, {300, 32}, {0}, 132);
  reduce(Op::reduce_sum, DType::i8, {5, 600}, {0}, 1);
  reduce(Op::reduce_sum, DType::f32, {0, 16}, {0}, 132);
  reduce(Op::reduce_max, DType::f16, {16, 0}, {0}, 132);
}

TEST_CASE("reductions along columns give the same wherever their operand begins") {
  for (int64_t rows : {40, 400}) { // of one block, and shared
    std::vector<double> expected;
    for (int64_t shift : {0, 1, 4, 8}) { // elements
      const std::string count = std::to_string(rows * 16 + shift);
      const std::string text = "cugrt 1\nfunc @main(%z: tensor<[" + count +
                               "], f16>) -> (tensor<[16], f16>) {\n  %x = view %z, " +
                               std::to_string(2 * shift) + " : tensor<[" + std::to_string(rows) +
                               ", 16], f16>\n  %y = reduce_max(%x) {axes = [0]}\n  return %y\n}\n";
      INFO(text);
      Result<ir::Module> module = ir::parse_and_verify(text, "shifted");
      REQUIRE(module.ok());
      module = passes::find_pass("LegalizeOps")->run(*module, {});
      REQUIRE(module.ok());
      Array z = Array::of({rows * 16 + shift});
      for (size_t i = 0; i < z.values.size(); ++i)
        z.values[i] = i < size_t(shift) ? 1000 : double((i - size_t(shift)) * 37 % 1009) / 16 - 40;
      const std::vector<Array> inputs = {z};
      const auto results = runner().run(*module, module->functions[0], inputs);
      INFO((results.ok() ? "" : results.status().to_string()));
      REQUIRE(results.ok());
      if (shift == 0)
        expected = (*results)[0].values;
      CHECK((*results)[0].values == expected);
    }
  }
}
