// resize and grid_sample: between elements, and beyond them.
#include "kernels_check.h"

#include <limits>

namespace {

constexpr const char *kCoordinates[] = {"half_pixel",         "half_pixel_symmetric",
                                        "pytorch_half_pixel", "align_corners",
                                        "asymmetric",         "tf_half_pixel_for_nn"};

void resize(Dims from, Dims to, std::vector<ir::Attribute> attributes, DType dtype = DType::f32) {
  check({.op = Op::resize,
         .dtype = dtype,
         .operands = {{from}, shape(to)},
         .attributes = attributes});
}

} // namespace

TEST_CASE("resize makes each element of what lies around its place") {
  for (const char *mode : {"nearest", "linear", "cubic"})
    for (const char *coordinates : kCoordinates) {
      const ir::Attribute m = word("mode", mode), c = word("coordinates", coordinates);
      const ir::Attribute last_two = ints("axes", {2, 3});
      resize({2, 3, 5, 7}, {2, 3, 11, 4}, {m, c, last_two});
      resize({1, 2, 4, 4}, {1, 2, 8, 12}, {m, c, ints("axes", {-2, -1})});
      resize({2, 1, 1, 9}, {2, 1, 3, 1}, {m, c, last_two});
      resize({3, 6}, {3, 13}, {m, c, ints("axes", {1})});
      resize({2, 5, 4, 3}, {2, 7, 9, 3}, {m, c, ints("axes", {1, 2})}); // channels last
    }
}

TEST_CASE("resize of three and four axes, of all of them, and of empty ones") {
  for (const char *mode : {"nearest", "linear", "cubic"}) {
    const ir::Attribute m = word("mode", mode);
    resize({2, 1, 3, 4, 5}, {2, 1, 5, 3, 8}, {m, ints("axes", {2, 3, 4})});
    resize({2, 3, 2, 3}, {3, 4, 3, 2}, {m});
    resize({7}, {3}, {m});
    resize({2, 0, 3}, {2, 0, 5}, {m});
    resize({2, 3}, {0, 5}, {m, ints("axes", {0, 1})});
    resize({4, 0}, {4, 3}, {m, ints("axes", {1})}); // nothing to read: 0
    resize({2, 3, 2, 3, 2, 3, 2, 3}, {2, 5, 2, 3, 2, 4, 2, 3}, {m, ints("axes", {1, 5})});
  }
}

TEST_CASE("resize computes weights once for planes and for vectors of channels") {
  for (const char *mode : {"nearest", "linear", "cubic"})
    for (DType dtype : {DType::f32, DType::f16}) {
      const ir::Attribute m = word("mode", mode);
      OpTest planes{.op = Op::resize,
                    .dtype = dtype,
                    .operands = {{{3, 7, 5, 9}}, shape({3, 7, 11, 18})}, // 21 planes
                    .attributes = {m, ints("axes", {2, 3})}};
      planes.multiprocessors = 1;
      check(planes);
      resize({2, 5, 4, 16}, {2, 9, 7, 16}, {m, ints("axes", {1, 2})}, dtype);
    }
}

TEST_CASE("which element is nearest") {
  for (const char *rule : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"})
    for (const char *coordinates : kCoordinates)
      resize({3, 4}, {3, 6},
             {word("nearest", rule), word("coordinates", coordinates), ints("axes", {1})});
  for (DType dtype : {DType::u8, DType::f16, DType::i64, DType::boolean})
    resize({3, 4}, {3, 6}, {word("nearest", "floor"), ints("axes", {1})}, dtype);
}

TEST_CASE("resize by scales that sizes do not say") {
  const ir::Attribute axes = ints("axes", {2, 3});
  for (const char *mode : {"nearest", "linear", "cubic"})
    for (const char *coordinates : kCoordinates)
      check({.op = Op::resize,
             .operands = {{{2, 1, 5, 4}}, shape({2, 1, 8, 3}), given({2}, {1.7, 0.8}, DType::f32)},
             .attributes = {word("mode", mode), word("coordinates", coordinates), axes}});
}

TEST_CASE("cubic coefficients, and what lies outside left out") {
  for (bool exclude : {false, true})
    for (DType dtype : {DType::f32, DType::f64, DType::bf16})
      resize({2, 5, 6}, {2, 9, 4},
             {word("mode", "cubic"), ints("axes", {1, 2}), real("cubic_coeff", -0.5),
              flag("exclude_outside", exclude)},
             dtype);
}

TEST_CASE("a region, and what stands beyond it") {
  for (const char *mode : {"nearest", "linear", "cubic"})
    check({.op = Op::resize,
           .operands = {{{2, 5, 6}},
                        shape({2, 7, 4}),
                        kAbsent,
                        given({4}, {0.25, -0.5, 1.25, 0.75}, DType::f32)},
           .attributes = {word("mode", mode), word("coordinates", "tf_crop_and_resize"),
                          ints("axes", {1, 2}), real("extrapolation", 1.5)}});
}

TEST_CASE("a NaN is in what is made of it, and nowhere else") {
  for (const char *mode : {"nearest", "linear", "cubic"})
    check({.op = Op::resize,
           .operands = {{{2, 5, 6}}, shape({2, 10, 12})},
           .attributes = {word("mode", mode), ints("axes", {1, 2}),
                          word("coordinates", "asymmetric")},
           .specials = true});
}

TEST_CASE("grid_sample reads at any place, in and out of the image") {
  for (const char *mode : {"nearest", "linear", "cubic"})
    for (const char *padding : {"zeros", "border", "reflection"})
      for (bool corners : {false, true}) {
        const std::vector<ir::Attribute> attributes = {word("mode", mode), word("padding", padding),
                                                       flag("align_corners", corners)};
        auto sample = [&](Dims x, Dims grid, DType dtype = DType::f32, DType places = DType::f32) {
          check({.op = Op::grid_sample,
                 .dtype = dtype,
                 .operands = {{x}, {grid, places}},
                 .attributes = attributes});
        };
        sample({2, 3, 5, 7}, {2, 4, 3, 2});
        sample({1, 1, 1, 1}, {1, 3, 3, 2});
        sample({3, 2, 4, 1}, {3, 2, 5, 2}, DType::f64, DType::f64);
        sample({2, 3, 5, 7}, {2, 4, 3, 2}, DType::f16);
        sample({2, 1, 5, 7}, {2, 4, 3, 2}, DType::bf16, DType::bf16);
        sample({2, 3, 0, 7}, {2, 4, 3, 2});
        sample({2, 0, 5, 7}, {2, 4, 0, 2});
        if (std::string(mode) != "cubic")
          sample({2, 2, 3, 4, 5}, {2, 3, 2, 2, 3});
      }
}

TEST_CASE("grid_sample takes a coordinate that is NaN for -1, and one that has no reflection") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const char *mode : {"nearest", "linear", "cubic"})
    for (const char *padding : {"zeros", "border", "reflection"})
      for (bool corners : {false, true}) {
        std::vector<double> grid = {nan, 0.3, -0.2, nan, nan, nan};
        if (std::string(padding) == "reflection")
          grid.insert(grid.end(), {infinity, 0.3, -infinity, -infinity});
        check({.op = Op::grid_sample,
               .operands = {{{1, 2, 3, 4}},
                            {.dims = {1, 1, int64_t(grid.size() / 2), 2}, .values = grid}},
               .attributes = {word("mode", mode), word("padding", padding),
                              flag("align_corners", corners)}});
      }
}
