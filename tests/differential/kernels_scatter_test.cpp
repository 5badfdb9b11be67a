// Elements and slices at places that are read: scatter_elements, scatter_nd, gather_nd.
#include "kernels_check.h"

TEST_CASE("scatter_elements writes where indices say, negative ones from the end, others nowhere") {
  for (DType ids : {DType::i32, DType::i64})
    for (int64_t axis : {0, 1, 2}) {
      // Along the axis each index is once: 4 of 7 places, one of them none.
      std::vector<double> places;
      for (int64_t i = 0; i < 4 * 4 * 4; ++i) {
        const int64_t at = axis == 0 ? i / 16 : axis == 1 ? i / 4 % 4 : i % 4;
        places.push_back(std::vector<double>{5, -7, 99, 2}[size_t(at)]);
      }
      for (DType dtype : {DType::f32, DType::u8, DType::boolean, DType::f16, DType::i64})
        check_known({.op = Op::scatter_elements,
                     .dtype = dtype,
                     .operands = {{{7, 7, 7}}, given({4, 4, 4}, places, ids), {{4, 4, 4}}},
                     .attributes = {integer("axis", axis)}});
    }
  // Whole vectors, along the axis or behind it.
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::u8})
    for (int64_t axis : {0, 1}) {
      std::vector<double> places;
      for (int64_t i = 0; i < 32; ++i)
        places.push_back(axis     ? double(i % 16 * 3 % 16 - (i % 2) * 20)
                         : i < 16 ? -1
                                  : double(i % 2));
      check_known({.op = Op::scatter_elements,
                   .dtype = dtype,
                   .operands = {{{3, 20}},
                                given({2, 16}, places, axis ? DType::i32 : DType::i64),
                                {{2, 16}}},
                   .attributes = {integer("axis", axis)}});
    }
  check({.op = Op::scatter_elements,
         .operands = {{{4, 9}}, given({4, 2}, {1, -1, 0, 8, 3, 4, 5, -3}, DType::i64), {{4, 2}}},
         .attributes = {integer("axis", 1)}});
  check_known({.op = Op::scatter_elements, .operands = {{{4, 9}}, {{0, 9}, DType::i64}, {{0, 9}}}});
  check_known({.op = Op::scatter_elements,
               .operands = {{{0, 9}}, given({1, 2}, {0, 1}, DType::i64), {{1, 2}}}});
}

TEST_CASE("updates of one place are all taken in") {
  for (const char *reduction : {"add", "mul", "max", "min"})
    for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::i32, DType::i64, DType::u16}) {
      const ir::Attribute r = word("reduction", reduction);
      const double scale = dtype == DType::f16 ? 1 : 2;
      // Indices are random from -3 to 12.
      check_known({.op = Op::scatter_elements,
                   .dtype = dtype,
                   .operands = {{{9, 5}}, {{4, 5}, DType::i64}, {{4, 5}}},
                   .attributes = {r},
                   .scale = scale});
      check_known({.op = Op::scatter_nd,
                   .dtype = dtype,
                   .operands = {{{9, 5}}, {{7, 1}, DType::i32}, {{7, 5}}},
                   .attributes = {r},
                   .scale = scale});
    }
}

TEST_CASE("a NaN wins where the largest or the least is kept") {
  for (const char *reduction : {"max", "min"})
    check_known({.op = Op::scatter_elements,
                 .operands = {{{9, 5}}, {{30, 5}, DType::i64}, {{30, 5}}},
                 .attributes = {word("reduction", reduction)},
                 .specials = true});
}

TEST_CASE("scatter_nd writes elements and slices") {
  for (DType ids : {DType::i32, DType::i64}) {
    for (DType dtype : {DType::f32, DType::i8, DType::boolean, DType::f64})
      check({.op = Op::scatter_nd,
             .dtype = dtype,
             .operands = {{{5, 6, 7}}, given({2, 2}, {1, 2, -1, 0}, ids), {{2, 7}}}});
    check({.op = Op::scatter_nd,
           .operands = {{{5, 6}}, given({2, 2, 2}, {0, 0, 4, -1, 9, 0, 1, -7}, ids), {{2, 2}}}});
    check({.op = Op::scatter_nd, .operands = {{{5, 6}}, given({1}, {3}, ids), {{6}}}});
    check({.op = Op::scatter_nd, .operands = {{{5, 6}}, {{0, 1}, ids}, {{0, 6}}}});
    // Slices of whole vectors, of which one lies nowhere.
    check(
        {.op = Op::scatter_nd, .operands = {{{9, 32}}, given({3, 1}, {8, -9, 9}, ids), {{3, 32}}}});
    check({.op = Op::scatter_nd,
           .dtype = DType::i8,
           .operands = {{{4, 3, 16}}, given({2, 2}, {0, 2, 3, -3}, ids), {{2, 16}}}});
  }
  check({.op = Op::scatter_nd,
         .operands = {{{2, 2, 2, 2, 2, 3}},
                      given({2, 5}, {0, 1, 0, 1, 1, 1, -1, 1, -2, 0}, DType::i64),
                      {{2, 3}}}});
}

TEST_CASE("gather_nd takes elements and slices, in batches too") {
  for (DType ids : {DType::i32, DType::i64}) { // from -3 to 12
    check({.op = Op::gather_nd, .operands = {{{9, 5}}, {{7, 2}, ids}}});
    check({.op = Op::gather_nd, .operands = {{{9, 5, 3}}, {{4, 3, 1}, ids}}});
    check({.op = Op::gather_nd,
           .operands = {{{4, 9, 5}}, {{4, 3, 1}, ids}},
           .attributes = {integer("batch_dims", 1)}});
    check({.op = Op::gather_nd,
           .operands = {{{4, 3, 9, 5}}, {{4, 3, 2}, ids}},
           .attributes = {integer("batch_dims", 2)}});
    check({.op = Op::gather_nd, .operands = {{{9, 5}}, {{0, 2}, ids}}});
    check({.op = Op::gather_nd, .operands = {{{9, 0}}, {{3, 2}, ids}}}); // nothing to take
    // Slices of whole vectors, of one and several, and none to take.
    check({.op = Op::gather_nd, .operands = {{{9, 32}}, {{37, 1}, ids}}});
    check({.op = Op::gather_nd,
           .dtype = DType::i8,
           .operands = {{{2, 5, 3, 16}}, {{2, 7, 2}, ids}},
           .attributes = {integer("batch_dims", 1)}});
    check({.op = Op::gather_nd, .dtype = DType::f64, .operands = {{{3, 4, 2, 3}}, {{6, 2}, ids}}});
    check({.op = Op::gather_nd, .operands = {{{0, 16}}, {{3, 1}, ids}}});
  }
  for (DType dtype : {DType::u8, DType::f16, DType::i64})
    check({.op = Op::gather_nd, .dtype = dtype, .operands = {{{9, 3}}, {{5, 2}, DType::i64}}});
  check({.op = Op::gather_nd, .operands = {{{2, 3, 2, 3, 2, 3}}, {{5, 6}, DType::i64}}});
}
