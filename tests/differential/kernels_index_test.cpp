// Ops that choose elements: by position, by a slice, by a shape to fill; and padding.
#include "kernels_check.h"

TEST_CASE("gather takes slices along any axis, negative positions from the end") {
  for (DType ids : {DType::i32, DType::i64}) { // from -3 to 12
    check({.op = Op::gather, .operands = {{{9, 33}}, {{5, 7}, ids}}});
    check(
        {.op = Op::gather, .operands = {{{5, 9}}, {{4}, ids}}, .attributes = {integer("axis", 1)}});
    check({.op = Op::gather,
           .operands = {{{3, 9, 5}}, {{2, 3}, ids}},
           .attributes = {integer("axis", 1)}});
    check({.op = Op::gather,
           .operands = {{{3, 9, 5}}, {{}, ids}},
           .attributes = {integer("axis", -1)}});
    check({.op = Op::gather, .operands = {{{3, 9}}, {{0}, ids}}});
  }
  for (DType dtype : {DType::u8, DType::f16, DType::i64})
    check({.op = Op::gather, .dtype = dtype, .operands = {{{9, 3}}, {{5}, DType::i64}}});
  check({.op = Op::gather, .operands = {{{0, 3}}, {{5}, DType::i64}}}); // nothing to take
}

TEST_CASE("gather_elements takes one element for each position") {
  for (DType ids : {DType::i32, DType::i64})
    for (int64_t axis : {0, 1, 2}) {
      Dims positions = {5, 6, 7};
      positions[size_t(axis)] = 4;
      check({.op = Op::gather_elements,
             .operands = {{{5, 6, 7}}, {positions, ids}},
             .attributes = {integer("axis", axis)}});
    }
  // Whole vectors, along the axis or behind it.
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::i8})
    for (int64_t axis : {0, 1})
      check({.op = Op::gather_elements,
             .dtype = dtype,
             .operands = {{{3, 16}}, {{3, 16}, axis ? DType::i32 : DType::i64}},
             .attributes = {integer("axis", axis)}});
  check({.op = Op::gather_elements,
         .dtype = DType::i8,
         .operands = {{{5, 6}}, {{5, 0}, DType::i64}},
         .attributes = {integer("axis", 1)}});
}

TEST_CASE("one_hot rows have one place, or none for ids that are outside") {
  for (DType ids : {DType::i32, DType::i64})
    for (int64_t axis : {0, 1, -1})
      for (DType dtype : {DType::f32, DType::f16, DType::i64, DType::boolean})
        check({.op = Op::one_hot,
               .dtype = ids,
               .operands = {{{5, 7}}},
               .attributes = {integer("depth", 6), integer("axis", axis), type(dtype)}});
  // Whole vectors of each size, one or several a row.
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::i8, DType::boolean})
    for (int64_t depth : {16, 48})
      check({.op = Op::one_hot,
             .dtype = depth == 16 ? DType::i32 : DType::i64,
             .operands = {{{37}}},
             .attributes = {integer("depth", depth), type(dtype)}});
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::boolean})
    for (int64_t axis : {0, 1})
      check({.op = Op::one_hot,
             .dtype = axis ? DType::i32 : DType::i64,
             .operands = {{{3, 32}}},
             .attributes = {integer("depth", 7), integer("axis", axis), type(dtype)}});
  check({.op = Op::one_hot,
         .dtype = DType::i64,
         .operands = {{{41}}},
         .attributes = {integer("depth", 9), real("on", 2.5), real("off", -1)}});
  check({.op = Op::one_hot,
         .dtype = DType::i64,
         .operands = {{{4}}},
         .attributes = {integer("depth", 0)}});
}

TEST_CASE("slices follow Python's rules along every axis") {
  auto slice = [](Dims dims, Dims starts, Dims ends, Dims axes = {}, Dims steps = {}) {
    check({.op = Op::slice,
           .operands = {{dims}},
           .attributes = {ints("starts", starts), ints("ends", ends), ints("axes", axes),
                          ints("steps", steps)}});
  };
  const int64_t kEnd = INT64_MAX, kBegin = INT64_MIN;
  slice({10, 7, 5}, {2}, {6}); // a view
  slice({10, 7, 5}, {1, 2}, {9, 5});
  slice({10, 7, 5}, {-3}, {kEnd});
  slice({10, 7, 5}, {3}, {kEnd});
  slice({10, 7, 5}, {0}, {-2});
  slice({10, 7, 5}, {20}, {30}); // beyond: nothing
  slice({10, 7, 5}, {5}, {2});
  slice({10, 7, 5}, {1, -1}, {100, -100}, {0, 2}, {3, -2});
  slice({10, 7, 5}, {kEnd, -1}, {kBegin, kBegin}, {0, 1}, {-1, -1});
  slice({10, 7, 5}, {8}, {0}, {0}, {-3});
  slice({1, 7, 5}, {2}, {6}, {1}); // a view behind a one
  slice({0, 7}, {0}, {3});
  slice({2, 3, 2, 3, 2, 3, 2, 3}, {1, 1, 1, 1}, {2, 3, 2, 3}, {0, 1, 4, 5});
  for (DType dtype : {DType::u8, DType::f16, DType::f64})
    check({.op = Op::slice,
           .dtype = dtype,
           .operands = {{{9, 11}}},
           .attributes = {ints("starts", {1, 3}), ints("ends", {7, 11})}});
}

TEST_CASE("a slice that is a run of bytes needs no launch") {
  auto launches = [](Dims dims, int64_t axis) {
    std::mt19937 random(1);
    const OpOutcome outcome =
        run_op_test(runner(),
                    {.op = Op::slice,
                     .operands = {{dims}},
                     .attributes = {ints("starts", {2}), ints("ends", {5}), ints("axes", {axis})},
                     .symbolic = true},
                    random);
    INFO(outcome.message);
    CHECK(outcome.ok);
    return outcome.counters.launches;
  };
  CHECK(launches({9, 7}, 0) == 0);
  CHECK(launches({1, 7, 3}, 1) == 1); // the 1 is a symbol
  CHECK(launches({9, 7}, 1) == 1);
}

TEST_CASE("slices begin where a shape says") {
  check({.op = Op::slice, .operands = {{{10, 7}}, shape({0, 2}), shape({10, 3})}});
  check({.op = Op::slice, .operands = {{{10, 7}}, shape({0, 0}), shape({10, 7})}});
}

TEST_CASE("padding with a constant, the edge, or what the edge mirrors") {
  auto pad = [](std::string mode, Dims dims, Dims before, Dims after, DType dtype = DType::f32) {
    check({.op = Op::pad,
           .dtype = dtype,
           .operands = {{dims}},
           .attributes = {
               ints("before", before), ints("after", after), {"mode", mode}, real("value", 1.5)}});
  };
  pad("constant", {3, 5}, {1, 0}, {0, 2});
  pad("constant", {3, 5, 7}, {2, 0, 0}, {1, 0, 0});
  pad("constant", {3, 5, 7}, {0, 0, 3}, {0, 0, 0});
  pad("constant", {0, 5}, {2, 1}, {1, 1});
  pad("constant", {}, {}, {});
  pad("constant", {2, 1, 2, 1, 2, 1}, {1, 1, 1, 1, 1, 1}, {0, 1, 0, 1, 0, 1});
  for (DType dtype : {DType::u8, DType::f16, DType::bf16, DType::f64, DType::i64, DType::boolean})
    pad("constant", {9}, {2}, {3}, dtype);
  std::mt19937 random(1);
  for (const char *mode : {"edge", "reflect"})
    for (bool one_axis : {false, true}) { // these need dimensions that are known
      const OpTest test{.op = Op::pad,
                        .operands = {{{4, 5, 6}}},
                        .attributes = {ints("before", {one_axis ? 0 : 3, 0, 5}),
                                       ints("after", {one_axis ? 0 : 2, 1, 0}),
                                       {"mode", std::string(mode)}}};
      const OpOutcome outcome = run_op_test(runner(), test, random);
      INFO(outcome.message);
      CHECK(outcome.ok);
    }
}

TEST_CASE("a tensor stretches to a shape") {
  check({.op = Op::broadcast_to, .operands = {{{1, 5}}, shape({7, 5})}});
  check({.op = Op::broadcast_to, .operands = {{{5, 1}}, shape({5, 7})}});
  check({.op = Op::broadcast_to, .operands = {{{}}, shape({3, 4})}});
  check({.op = Op::broadcast_to, .operands = {{{5, 3}}, shape({5, 3})}});
  check({.op = Op::broadcast_to,
         .dtype = DType::boolean,
         .operands = {{{3, 1, 2, 1}}, shape({3, 4, 2, 5})}});
  check({.op = Op::broadcast_to, .operands = {{{1, 0}}, shape({4, 0})}});
}

TEST_CASE("sequences of a length or a shape") {
  for (DType dtype :
       {DType::f32, DType::f64, DType::f16, DType::i32, DType::i64, DType::u8, DType::i8})
    check({.op = Op::range,
           .attributes = {type(dtype), integer("length", 301), real("start", 2), real("step", 3)}});
  check({.op = Op::range, .attributes = {type(DType::i64), integer("length", 0)}});
  check({.op = Op::range,
         .attributes = {type(DType::i32), integer("length", 7), real("start", -4),
                        real("step", -2)}});
  check({.op = Op::range, .operands = {shape({17})}, .attributes = {type(DType::i64)}});
}
