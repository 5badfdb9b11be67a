// Images with channels last against the definitions: convolutions, each in the form that its sizes
// take, and pools.
#include "kernels_check.h"

#include "compiler/passes/pass.h"
#include "ir/text/text.h"

#include <cmath>
#include <tuple>
#include <utility>

namespace {

/// A convolution with a bias launches `entry` on a device of so many multiprocessors.
void convolution(DType dtype, Dims x, Dims w, std::vector<ir::Attribute> attributes,
                 const char *entry, int64_t multiprocessors = 1) {
  OpTest test{.op = x.size() == 5 ? Op::conv3d : Op::conv2d,
              .dtype = dtype,
              .operands = {{x}, {w}, {{w[0]}}},
              .attributes = std::move(attributes)};
  test.multiprocessors = multiprocessors;
  check_entry(test, entry);
}

/// The same of f32 whose factors are rounded to tf32.
void rounded_convolution(Dims x, Dims w, std::vector<ir::Attribute> attributes, const char *entry,
                         int64_t multiprocessors = 1, int64_t compute_capability = 80) {
  OpTest test{.op = x.size() == 5 ? Op::conv3d : Op::conv2d,
              .dtype = DType::f32,
              .operands = {{x}, {w}, {{w[0]}}},
              .attributes = std::move(attributes)};
  test.multiprocessors = multiprocessors;
  test.compute_capability = compute_capability;
  test.precision = "tf32";
  check_entry(test, entry);
}

/// Convolutions whose dtypes are f16 and bf16 in turn, as they are one form.
struct InTurn {
  DType dtype = DType::f16;
  DType next() { return std::exchange(dtype, dtype == DType::f16 ? DType::bf16 : DType::f16); }
  void operator()(Dims x, Dims w, std::vector<ir::Attribute> attributes, const char *entry,
                  int64_t multiprocessors = 1) {
    convolution(next(), std::move(x), std::move(w), std::move(attributes), entry, multiprocessors);
  }
};

} // namespace

TEST_CASE("convolutions with channels last on tensor cores agree with their definition") {
  const ir::Attribute last = flag("channels_last", true);
  for (DType dtype : {DType::f16, DType::bf16}) {
    // Tiles by their number: of the largest that occupy the device.
    convolution(dtype, {1, 12, 11, 32}, {72, 1, 1, 32}, {last}, "conv2d_last_128x128");
    convolution(dtype, {1, 12, 11, 32}, {72, 1, 1, 32}, {last}, "conv2d_last_128x64", 3);
    convolution(dtype, {1, 12, 11, 32}, {72, 1, 1, 32}, {last}, "conv2d_last_64x64", 5);
    convolution(dtype, {1, 12, 11, 32}, {72, 1, 1, 32}, {last}, "conv2d_last_64x32", 132);
  }
  // The rest in one dtype or the other.
  InTurn in_turn;
  // Steps of several taps, several channels of a tap, more channels than a step; few results.
  in_turn({2, 9, 11, 8}, {24, 3, 3, 8}, {last, ints("padding", {1, 1})}, "conv2d_last_64x32");
  in_turn({2, 9, 7, 24}, {40, 3, 2, 24}, {last, ints("padding", {1, 0}), ints("strides", {2, 1})},
          "conv2d_last_128x64");
  in_turn({1, 7, 6, 40}, {33, 2, 3, 40},
          {last, ints("padding", {1, 0, 0, 2}), ints("dilation", {2, 1})}, "conv2d_last_128x64");
  in_turn({3, 5, 5, 64}, {66, 3, 3, 64}, {last, ints("padding", {2, 1}), ints("strides", {2, 3})},
          "conv2d_last_128x128");
  // Kernels of more rows or columns than masks have bits.
  in_turn({1, 16, 5, 8}, {24, 15, 2, 8},
          {last, ints("padding", {7, 0, 8, 1}), ints("dilation", {2, 1})}, "conv2d_last_64x32");
  in_turn({2, 1, 40, 32}, {32, 1, 37, 32}, {last, ints("padding", {0, 5})}, "conv2d_last_64x32");
  // Rows of runs that are no multiple of eight, large kernels, a window beyond the image.
  in_turn({1, 13, 14, 8}, {9, 7, 7, 8}, {last, ints("padding", {3, 3}), ints("strides", {2, 2})},
          "conv2d_last_64x32");
  in_turn({1, 3, 14, 8}, {16, 12, 12, 8}, {last, ints("padding", {5, 5}), ints("dilation", {1, 2})},
          "conv2d_last_64x32");
  // Copies of four and of two elements: several taps in eight elements of k, groups, the tiles.
  in_turn({2, 9, 11, 4}, {24, 3, 3, 4}, {last, ints("padding", {1, 1}), ints("strides", {2, 2})},
          "conv2d_last_64x32");
  in_turn({1, 13, 9, 4}, {130, 7, 5, 4}, {last, ints("padding", {3, 2, 3, 2})},
          "conv2d_last_128x64");
  in_turn({1, 12, 11, 36}, {72, 1, 1, 36}, {last}, "conv2d_last_128x64", 3);
  in_turn({1, 12, 11, 36}, {72, 1, 1, 36}, {last}, "conv2d_last_64x64", 5);
  in_turn({2, 7, 6, 18}, {72, 1, 1, 18}, {last}, "conv2d_last_64x64");
  in_turn({1, 1, 1, 18}, {72, 1, 1, 18}, {last}, "conv2d_last_64x32", 132);
  in_turn({1, 12, 4, 2}, {16, 12, 1, 2}, {last, ints("padding", {11, 0}), ints("strides", {3, 1})},
          "conv2d_last_64x32");
  in_turn({2, 6, 7, 12}, {80, 3, 3, 6},
          {last, integer("groups", 2), ints("padding", {1, 1}), ints("dilation", {2, 1})},
          "conv2d_last_64x64");
  // Groups.
  in_turn({2, 6, 7, 32}, {140, 3, 3, 16}, {last, integer("groups", 2), ints("padding", {1, 1})},
          "conv2d_last_128x128");
  in_turn({1, 6, 7, 24}, {24, 1, 1, 8}, {last, integer("groups", 3)}, "conv2d_last_64x32");
}

TEST_CASE("convolutions read a range of an image's channels") {
  const ir::Attribute last = flag("channels_last", true);
  InTurn in_turn;
  for (bool mma : {true, false}) {
    auto from = [&](int64_t first, Dims x, Dims w, std::vector<ir::Attribute> attributes,
                    const char *entry, int64_t multiprocessors = 1) {
      attributes.insert(attributes.end(), {last, integer("first_channel", first)});
      convolution(mma ? in_turn.next() : DType::f32, x, w, attributes, mma ? entry : "conv2d_last",
                  multiprocessors);
    };
    from(16, {2, 5, 6, 48}, {72, 3, 3, 32}, {ints("padding", {1, 1})}, "conv2d_last_128x128");
    from(0, {1, 12, 11, 40}, {72, 1, 1, 32}, {}, "conv2d_last_64x64", 5);
    from(12, {2, 7, 6, 24}, {24, 3, 2, 12}, {ints("dilation", {2, 1}), ints("strides", {1, 2})},
         "conv2d_last_64x32");
    from(6, {2, 7, 6, 20}, {24, 1, 1, 8}, {}, "conv2d_last_64x32"); // copies of two
    from(8, {1, 7, 7, 80}, {72, 3, 3, 64}, {ints("padding", {1, 1})}, "conv2d_last_64x64", 8);
    from(8, {2, 6, 7, 40}, {48, 3, 3, 16}, {integer("groups", 2)}, "conv2d_last_64x32");
    from(3, {2, 5, 6, 8}, {24, 3, 3, 5}, {}, "conv2d_last");
    for (int64_t first : {16, 4, 2})
      convolution(
          mma ? in_turn.next() : DType::f32, {2, 9, 7, 36}, {16, 3, 3, 1},
          {last, integer("groups", 16), ints("padding", {1, 1}), integer("first_channel", first)},
          "conv2d_last_depthwise");
  }
}

TEST_CASE("convolutions of channels last store them second") {
  const ir::Attribute last = flag("channels_last", true), second = flag("result_second", true);
  InTurn in_turn;
  for (bool mma : {true, false}) {
    auto stored = [&](Dims x, Dims w, std::vector<ir::Attribute> attributes, const char *entry,
                      int64_t multiprocessors = 1) {
      attributes.insert(attributes.end(), {last, second});
      const std::string direct = x.size() == 5 ? "conv3d_last" : "conv2d_last";
      convolution(mma ? in_turn.next() : DType::f32, x, w, attributes, mma ? entry : direct.c_str(),
                  multiprocessors);
    };
    stored({2, 3, 4, 5, 16}, {24, 2, 1, 3, 16}, {ints("padding", {1, 0, 0})}, "conv3d_last_64x32");
    stored({2, 5, 6, 32}, {130, 3, 3, 32}, {ints("padding", {1, 1})}, "conv2d_last_128x128");
    stored({1, 12, 11, 32}, {72, 1, 1, 32}, {}, "conv2d_last_64x64", 5);
    stored({3, 6, 7, 32}, {42, 3, 3, 16}, {integer("groups", 2)}, "conv2d_last_64x32");
    stored({1, 7, 7, 64}, {72, 3, 3, 64}, {ints("padding", {1, 1})}, "conv2d_last_64x64", 8);
    stored({2, 5, 6, 16}, {16, 3, 3, 1}, {integer("groups", 16)}, "conv2d_last");
  }
}

TEST_CASE("convolutions of channels last read pixels with channels second") {
  const ir::Attribute last = flag("channels_last", true), x_second = flag("x_second", true),
                      second = flag("result_second", true);
  InTurn in_turn;
  for (bool mma : {true, false}) {
    auto read = [&](Dims x, Dims w, const char *entry, const char *direct,
                    int64_t multiprocessors = 1) {
      for (bool stores_second : {false, true}) {
        std::vector<ir::Attribute> attributes = {last, x_second};
        if (stores_second)
          attributes.push_back(second);
        convolution(mma ? in_turn.next() : DType::f32, x, w, attributes, mma ? entry : direct,
                    multiprocessors);
      }
    };
    read({2, 32, 12, 14}, {136, 1, 1, 32}, "matmul_mma_large", "matmul_register_large");
    read({2, 36, 12, 13}, {136, 1, 1, 36}, "matmul_mma", "matmul_register_large");
    read({2, 40, 8, 9}, {72, 1, 1, 40}, "matmul_mma_small", "matmul_register", 5);
    read({1, 512, 8, 8}, {33, 1, 1, 512}, "matmul_mma_least", "matmul_tiled", 132);
    read({3, 6, 5, 7}, {17, 1, 1, 6}, "matmul_mma_least", "matmul_tiled", 132);
  }
  rounded_convolution({2, 32, 8, 9}, {72, 1, 1, 32}, {last, x_second}, "matmul_mma_small", 5);
}

TEST_CASE("convolutions of channels last read planes of few channels, and round them") {
  const ir::Attribute last = flag("channels_last", true), x_second = flag("x_second", true);
  InTurn in_turn;
  // Of four planes in tiles, else one by one; x is f32, or of w's dtype.
  auto read = [&](Dims x, Dims w, std::vector<ir::Attribute> attributes, const char *entry,
                  bool is_wide, int64_t multiprocessors = 1) {
    attributes.insert(attributes.end(), {last, x_second});
    const DType dtype = in_turn.next();
    OpTest test{.op = Op::conv2d,
                .dtype = dtype,
                .operands = {{x, is_wide ? DType::f32 : dtype}, {w}, {{w[0]}}},
                .attributes = attributes};
    test.multiprocessors = multiprocessors;
    check_entry(test, entry);
  };
  for (bool is_wide : {true, false}) {
    read({2, 3, 11, 13}, {24, 3, 3, 4}, {ints("padding", {1, 1}), ints("strides", {2, 2})},
         "conv2d_last_64x32", is_wide);
    read({1, 3, 30, 29}, {64, 7, 7, 4}, {ints("padding", {3, 3}), ints("strides", {2, 2})},
         "conv2d_last_128x64", is_wide);
    read({1, 1, 1, 90}, {72, 1, 15, 4}, {ints("padding", {0, 7}), ints("dilation", {1, 2})},
         "conv2d_last_64x64", is_wide);
    read({1, 4, 30, 17}, {130, 1, 1, 4}, {}, is_wide ? "conv2d_last_128x64" : "matmul_mma",
         is_wide);
    read({2, 2, 9, 7}, {8, 3, 2, 3}, {ints("padding", {1, 0, 0, 2})}, "conv2d_last", is_wide);
  }
  const std::vector<ir::Attribute> of_stem = {ints("padding", {3, 3}), ints("strides", {2, 2}),
                                              last, x_second};
  rounded_convolution({2, 3, 14, 15}, {72, 7, 7, 4}, of_stem, "conv2d_last_128x128");
  rounded_convolution({2, 3, 14, 15}, {72, 5, 5, 4}, of_stem, "conv2d_last_128x128", 1, 90);
  convolution(DType::f32, {2, 3, 9, 8}, {16, 3, 3, 4}, of_stem, "conv2d_last");
}

TEST_CASE("convolutions put phases of channels between one another") {
  const ir::Attribute last = flag("channels_last", true), second = flag("result_second", true);
  InTurn in_turn;
  for (bool mma : {true, false}) {
    auto phases = [&](Dims x, Dims w, std::vector<ir::Attribute> attributes, const char *entry,
                      int64_t multiprocessors = 1) {
      attributes.push_back(last);
      const std::string direct = x.size() == 5 ? "conv3d_last" : "conv2d_last";
      convolution(mma ? in_turn.next() : DType::f32, x, w, attributes, mma ? entry : direct.c_str(),
                  multiprocessors);
    };
    phases({2, 5, 6, 32}, {96, 2, 2, 32},
           {ints("padding", {1, 1}), ints("phases", {2, 2}), ints("cut", {1, 0, 1, 2})},
           "conv2d_last_128x128");
    phases({1, 4, 5, 16}, {18, 1, 2, 16}, {ints("phases", {2, 3})}, "conv2d_last_64x32");
    phases({1, 7, 7, 64}, {72, 3, 3, 64},
           {ints("padding", {1, 1}), ints("phases", {3, 1}), ints("cut", {2, 0, 0, 1})},
           "conv2d_last_64x64", 8);
    phases({2, 5, 4, 32}, {24, 2, 2, 32}, {ints("phases", {2, 2}), ints("cut", {0, 1}), second},
           "conv2d_last_64x32");
    phases({1, 2, 3, 4, 16}, {48, 2, 1, 2, 16},
           {ints("padding", {1, 0, 0}), ints("phases", {2, 1, 3}), ints("cut", {1, 0, 2, 0, 1, 0})},
           "conv3d_last_128x64");
    phases({1, 2, 3, 4, 16}, {24, 1, 1, 2, 16}, {ints("phases", {3, 1, 2}), second},
           "conv3d_last_64x32");
  }
}

TEST_CASE("norms of groups of channels agree with their definition") {
  int64_t turn = 0; // of one multiprocessor or of many
  for (DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    ++turn;
    for (const auto &[dims, groups] :
         std::initializer_list<std::pair<Dims, int64_t>>{{{2, 5, 6, 64}, 4},
                                                         {{1, 9, 11, 30}, 30},
                                                         {{2, 7, 33}, 11},
                                                         {{1, 3, 2, 2, 300}, 1},
                                                         {{1, 4, 4, 1024}, 1},
                                                         {{3, 2, 2, 10}, 2},
                                                         {{0, 3, 3, 8}, 2},
                                                         {{2, 0, 3, 8}, 2}})
      check({.op = Op::group_norm,
             .dtype = dtype,
             .operands = {{dims}},
             .attributes = {integer("groups", groups)},
             .multiprocessors = turn++ % 2 ? 1 : 132});
    // Of some of the channels, in vectors and not, and stored as f32.
    for (const auto &[dims, first, channels, groups] :
         std::initializer_list<std::tuple<Dims, int64_t, int64_t, int64_t>>{
             {{2, 5, 6, 64}, 16, 32, 4},
             {{2, 7, 45}, 3, 33, 11},
             {{1, 3, 5, 300}, 0, 75, 1},
             {{1, 4, 4, 24}, 8, 0, 2},
             {{2, 3, 4, 16}, 0, 0, 1}})
      for (bool wide : {false, true}) {
        std::vector<ir::Attribute> attributes = {integer("groups", groups),
                                                 integer("first_channel", first),
                                                 integer("channels", channels)};
        if (wide && dtype != DType::f16 && dtype != DType::bf16)
          continue;
        if (wide)
          attributes.push_back(flag("wide", true));
        check({.op = Op::group_norm,
               .dtype = dtype,
               .operands = {{dims}},
               .attributes = attributes,
               .multiprocessors = turn++ % 2 ? 1 : 132});
      }
  }
}

TEST_CASE("convolutions of f32 with channels last are rounded to tf32 where that is asked for") {
  const ir::Attribute last = flag("channels_last", true);
  // Tiles by their number, the largest of which is stored in two passes.
  rounded_convolution({1, 12, 11, 32}, {72, 1, 1, 32}, {last}, "conv2d_last_128x128");
  rounded_convolution({1, 12, 11, 32}, {72, 1, 1, 32}, {last}, "conv2d_last_128x64", 3);
  rounded_convolution({1, 12, 11, 32}, {72, 1, 1, 32}, {last}, "conv2d_last_64x64", 5);
  rounded_convolution({1, 12, 11, 32}, {72, 1, 1, 32}, {last}, "conv2d_last_64x32", 132);
  // Copies of four, two and one channels: one of several taps in a step, several of a tap, groups.
  rounded_convolution({2, 9, 11, 4}, {24, 3, 3, 4},
                      {last, ints("padding", {1, 1}), ints("strides", {2, 2})},
                      "conv2d_last_64x32");
  rounded_convolution({3, 5, 5, 48}, {66, 3, 3, 48},
                      {last, ints("padding", {2, 1}), ints("strides", {2, 3})},
                      "conv2d_last_128x128");
  rounded_convolution({1, 7, 6, 36}, {33, 2, 3, 36},
                      {last, ints("padding", {1, 0, 0, 2}), ints("dilation", {2, 1})},
                      "conv2d_last_128x64");
  rounded_convolution({2, 7, 6, 18}, {131, 3, 1, 18}, {last}, "conv2d_last_64x64");
  rounded_convolution({2, 7, 6, 9}, {72, 3, 2, 9}, {last, ints("padding", {2, 1})},
                      "conv2d_last_64x64");
  rounded_convolution({1, 12, 4, 1}, {16, 12, 1, 1},
                      {last, ints("padding", {11, 0}), ints("strides", {3, 1})},
                      "conv2d_last_64x32");
  rounded_convolution(
      {2, 6, 7, 6}, {80, 3, 3, 3},
      {last, integer("groups", 2), ints("padding", {1, 1}), ints("dilation", {2, 1})},
      "conv2d_last_64x64");
  rounded_convolution({1, 3, 14, 8}, {16, 12, 12, 8},
                      {last, ints("padding", {5, 5}), ints("dilation", {1, 2})},
                      "conv2d_last_64x32");
  // Blocks that share out a tile.
  rounded_convolution({1, 7, 7, 64}, {72, 3, 3, 64}, {last, ints("padding", {1, 1})},
                      "conv2d_last_64x64", 8);
  rounded_convolution({1, 5, 6, 9}, {24, 5, 4, 9}, {last, ints("padding", {2, 2})},
                      "conv2d_last_64x32", 3);
  // Depthwise ones are not rounded, nor what has too large a kernel; nothing is before sm_80.
  rounded_convolution({2, 9, 7, 16}, {16, 3, 3, 1}, {last, integer("groups", 16)},
                      "conv2d_last_depthwise");
  rounded_convolution({1, 15, 2, 8}, {16, 13, 1, 8}, {last}, "conv2d_last_64x32");
  rounded_convolution({1, 12, 11, 32}, {72, 1, 1, 32}, {last}, "conv2d_last", 1, 75);
  for (Dims x : {Dims{0, 5, 5, 8}, Dims{2, 5, 5, 0}})
    check({.op = Op::conv2d,
           .operands = {{x}, {{16, 3, 3, x[3]}}, {{16}}},
           .attributes = {last},
           .precision = "tf32"});
}

TEST_CASE("convolutions of volumes with channels last agree with their definition") {
  const ir::Attribute last = flag("channels_last", true);
  InTurn in_turn;
  // Tiles by their number.
  in_turn({1, 3, 8, 7, 32}, {72, 1, 1, 1, 32}, {last}, "conv3d_last_128x128");
  in_turn({1, 3, 8, 7, 32}, {72, 1, 1, 1, 32}, {last}, "conv3d_last_128x64", 3);
  in_turn({1, 3, 8, 7, 32}, {72, 1, 1, 1, 32}, {last}, "conv3d_last_64x64", 5);
  in_turn({2, 4, 5, 6, 8}, {24, 3, 3, 3, 8}, {last, ints("padding", {1, 1, 1})},
          "conv3d_last_64x32");
  // Steps of several taps, which end planes; strides, dilation, padding on one side; no
  // multiples.
  in_turn({2, 5, 4, 6, 4}, {66, 3, 2, 2, 4},
          {last, ints("padding", {2, 0, 1}), ints("strides", {2, 1, 3})}, "conv3d_last_64x64");
  in_turn({1, 6, 5, 7, 18}, {33, 2, 3, 2, 18},
          {last, ints("padding", {1, 0, 2, 0, 1, 0}), ints("dilation", {3, 2, 1})},
          "conv3d_last_64x64");
  in_turn({1, 12, 4, 3, 2}, {16, 12, 1, 1, 2},
          {last, ints("padding", {11, 0, 0}), ints("strides", {3, 1, 1})}, "conv3d_last_64x32");
  in_turn({1, 3, 9, 8, 64}, {40, 3, 3, 3, 64}, {last, ints("padding", {1, 1, 1})},
          "conv3d_last_128x64");
  in_turn({2, 3, 4, 5, 32}, {140, 2, 3, 1, 16},
          {last, integer("groups", 2), ints("padding", {1, 0, 1})}, "conv3d_last_128x128");
  // Blocks that share out a tile.
  in_turn({1, 2, 5, 5, 64}, {72, 3, 3, 3, 64}, {last, ints("padding", {1, 1, 1})},
          "conv3d_last_64x64", 8);
  rounded_convolution({1, 3, 9, 8, 16}, {40, 3, 3, 3, 16}, {last, ints("padding", {1, 1, 1})},
                      "conv3d_last_128x64");
  rounded_convolution({2, 5, 4, 6, 3}, {66, 3, 2, 2, 3},
                      {last, ints("padding", {2, 0, 1}), ints("strides", {2, 1, 3})},
                      "conv3d_last_64x64");
  auto check_all = [&](Dims x, Dims w, std::vector<ir::Attribute> attributes) {
    attributes.push_back(last);
    OpTest test{.op = Op::conv3d, .operands = {{x}, {w}, {{w[0]}}}, .attributes = attributes};
    check(test);
    for (DType dtype : {DType::f16, DType::f64}) {
      test.dtype = dtype;
      check_known(test);
    }
  };
  check_all({3, 4, 5, 6, 16}, {40, 3, 3, 3, 16}, {ints("padding", {1, 1, 1})});
  // An odd number of channels, depthwise, too large a kernel, nothing.
  check_all({2, 4, 5, 3, 3}, {5, 3, 1, 2, 3},
            {ints("strides", {2, 1, 3}), ints("padding", {2, 0, 1, 0, 1, 1})});
  check_all({2, 3, 5, 4, 16}, {16, 3, 3, 3, 1},
            {integer("groups", 16), ints("padding", {1, 1, 1})});
  check_all({1, 15, 2, 3, 8}, {16, 13, 1, 1, 8}, {});
  check_all({0, 5, 5, 5, 8}, {16, 3, 3, 3, 8}, {});
  check_all({2, 5, 5, 5, 0}, {16, 3, 3, 3, 0}, {});
}

// Without these blocks fewer tiles of 64 x 64 than multiprocessors would be of 64 x 32.
TEST_CASE("blocks that share out a tile with channels last agree with the definition") {
  const ir::Attribute last = flag("channels_last", true);
  InTurn in_turn;
  // Tiles by splits: 2 by 4, 4 by 3 of steps within taps, 1 by 3 of few channels.
  in_turn({1, 7, 7, 64}, {72, 3, 3, 64}, {last, ints("padding", {1, 1})}, "conv2d_last_64x64", 8);
  in_turn({2, 9, 7, 40}, {70, 3, 3, 40}, {last, ints("padding", {1, 0}), ints("dilation", {2, 1})},
          "conv2d_last_64x64", 12);
  in_turn({1, 5, 6, 24}, {24, 5, 4, 24}, {last, ints("padding", {2, 2})}, "conv2d_last_64x32", 3);
  // Steps that begin behind a tap's row, smaller copies, groups.
  in_turn({1, 9, 9, 4}, {40, 11, 12, 4}, {last, ints("padding", {5, 5})}, "conv2d_last_64x64", 6);
  in_turn({1, 1, 1, 770}, {40, 1, 1, 770}, {last}, "conv2d_last_64x64", 6);
  in_turn({1, 8, 8, 128}, {128, 3, 3, 64},
          {last, integer("groups", 2), ints("padding", {1, 1}), ints("strides", {2, 1})},
          "conv2d_last_64x64", 8);
}

TEST_CASE("convolutions with channels last give the same wherever their images begin") {
  for (const auto &[channels, dtype] : {std::pair<int64_t, const char *>{6, "f16"},
                                        {12, "f16"},
                                        {16, "f16"},
                                        {6, "f32"},
                                        {7, "f32"},
                                        {8, "f32"}}) {
    std::vector<double> expected;
    for (int64_t shift : {0, 1, 2, 4}) { // elements
      const std::string c = std::to_string(channels), count = std::to_string(63 * channels + shift);
      const bool rounds = std::string(dtype) == "f32";
      const std::string end = std::string("], ") + dtype + ">";
      const std::string text =
          "cugrt 1\nfunc @main(%z: tensor<[" + count + end + ", %w: tensor<[24, 3, 3, " + c + end +
          ") -> (tensor<[1, 7, 9, 24" + end + ") {\n  %x = view %z, " +
          std::to_string((rounds ? 4 : 2) * shift) + " : tensor<[1, 7, 9, " + c + end +
          "\n  %y = conv2d(%x, %w) {padding = [1, 1], channels_last = true}\n"
          "  return %y\n}\n";
      INFO(text);
      Result<ir::Module> module = ir::parse_and_verify(text, "shifted");
      REQUIRE(module.ok());
      passes::PassContext context;
      REQUIRE(context.set("mixed.dtype", rounds ? "tf32" : "none").ok());
      module = passes::find_pass("LegalizeOps")->run(*module, context);
      REQUIRE(module.ok());
      Array x = Array::of({63 * channels + shift}), w = Array::of({24, 3, 3, channels});
      for (size_t i = 0; i < x.values.size(); ++i)
        x.values[i] = i < size_t(shift) ? 1000 : double((i - size_t(shift)) * 37 % 101) / 16 - 3;
      for (size_t i = 0; i < w.values.size(); ++i)
        w.values[i] = double(i * 53 % 89) / 16 - 2;
      const std::vector<Array> inputs = {x, w};
      const auto results = runner().run(*module, module->functions[0], inputs);
      INFO((results.ok() ? "" : results.status().to_string()));
      REQUIRE(results.ok());
      if (shift == 0)
        expected = (*results)[0].values;
      CHECK((*results)[0].values == expected);
    }
  }
}

TEST_CASE("products of f16 give the same wherever their rows begin, whatever lies around them") {
  for (const auto &[m, n, k, transposed] :
       {std::tuple(40, 36, 22, false), std::tuple(40, 35, 21, false), std::tuple(33, 40, 20, true),
        std::tuple(1, 33, 30, true), std::tuple(3, 20, 45, true), std::tuple(1, 20, 28, false)}) {
    std::vector<double> expected;
    for (int64_t shift : {0, 1, 2}) { // elements
      auto text = [](int64_t number) { return std::to_string(number); };
      const std::string w = transposed ? text(n) + ", " + text(k) : text(k) + ", " + text(n);
      auto around = [&](int64_t count) { return "tensor<[" + text(count + shift + 1) + "], f16>"; };
      const std::string module_text =
          "cugrt 1\nfunc @main(%p: " + around(m * k) + ", %q: " + around(k * n) + ") -> (tensor<[" +
          text(m) + ", " + text(n) + "], f16>) {\n  %x = view %p, " + text(2 * shift) +
          " : tensor<[" + text(m) + ", " + text(k) + "], f16>\n  %w = view %q, " + text(2 * shift) +
          " : tensor<[" + w + "], f16>\n  %y = matmul(%x, %w)" +
          (transposed ? " {transpose_b = true}" : "") + "\n  return %y\n}\n";
      INFO(module_text);
      Result<ir::Module> module = ir::parse_and_verify(module_text, "shifted");
      REQUIRE(module.ok());
      module = passes::find_pass("LegalizeOps")->run(*module, {});
      REQUIRE(module.ok());
      std::vector<Array> inputs;
      for (const int64_t count : {m * k, k * n}) {
        Array array = Array::of({count + shift + 1});
        for (int64_t i = 0; i < count + shift + 1; ++i)
          array.values[size_t(i)] =
              i < shift || i >= count + shift ? NAN : double((i - shift) * 37 % 101) / 16 - 3;
        inputs.push_back(std::move(array));
      }
      const auto results = runner().run(*module, module->functions[0], inputs);
      INFO((results.ok() ? "" : results.status().to_string()));
      REQUIRE(results.ok());
      if (shift == 0)
        expected = (*results)[0].values;
      CHECK((*results)[0].values == expected);
    }
  }
}

TEST_CASE("depthwise convolutions with channels last agree with their definition") {
  const ir::Attribute last = flag("channels_last", true);
  const char *entry = "conv2d_last_depthwise";
  InTurn in_turn;
  for (bool half : {true, false}) {
    // A pixel a thread, as four would give one multiprocessor no block; and four, of more images.
    const auto conv = [&](Dims x, Dims w, std::vector<ir::Attribute> attributes, const char *of) {
      const DType dtype = half ? in_turn.next() : DType::f32;
      convolution(dtype, x, w, attributes, of);
      x[0] += 8;
      convolution(dtype, x, w, attributes, of);
    };
    conv({2, 9, 7, 16}, {16, 3, 3, 1}, {last, integer("groups", 16), ints("padding", {1, 1})},
         entry);
    conv({1, 11, 6, 24}, {24, 3, 2, 1},
         {last, integer("groups", 24), ints("padding", {1, 0, 2, 3}), ints("strides", {2, 3}),
          ints("dilation", {2, 1})},
         entry);
    conv({1, 3, 30, 8}, {8, 1, 4, 1}, {last, integer("groups", 8)}, entry);
    // Fewer channels a thread: what divides them, and as registers hold taps of.
    conv({1, 9, 5, 12}, {12, 3, 3, 1}, {last, integer("groups", 12)}, entry);
    conv({1, 9, 5, 6}, {6, 3, 3, 1}, {last, integer("groups", 6)}, entry);
    conv({1, 12, 9, 16}, {16, 7, 7, 1}, {last, integer("groups", 16), ints("padding", {3, 3})},
         entry);
    conv({1, 12, 9, 8}, {8, 7, 5, 1},
         {last, integer("groups", 8), ints("padding", {3, 2}), ints("strides", {2, 1})}, entry);
    // Signals with long taps.
    conv({1, 1, 70, 8}, {8, 1, 33, 1}, {last, integer("groups", 8), ints("padding", {0, 16})},
         entry);
    // An odd number of channels, rows far apart, two channels of y for each of x.
    conv({1, 9, 5, 7}, {7, 3, 3, 1}, {last, integer("groups", 7)}, "conv2d_last");
    conv({1, 30, 3, 8}, {8, 3, 1, 1}, {last, integer("groups", 8), ints("strides", {5, 1})},
         "conv2d_last");
    conv({1, 5, 5, 8}, {16, 3, 3, 1}, {last, integer("groups", 8)}, "conv2d_last");
  }
  convolution(DType::f16, {1, 8, 9, 8}, {8, 5, 5, 1},
              {last, integer("groups", 8), ints("padding", {2, 2})}, entry);
  // Two channels a thread: the largest taps that registers hold, of rows in turn and every other.
  for (int64_t images : {1, 5})
    for (int64_t stride : {1, 2}) {
      const std::vector<ir::Attribute> attributes = {
          last, integer("groups", 6), ints("padding", {5, 5}), ints("strides", {stride, stride})};
      convolution(in_turn.next(), {images, 13, 10, 6}, {6, 11, 11, 1}, attributes, entry);
      convolution(in_turn.next(), {images, 9, 14, 6}, {6, 11, 9, 1}, attributes, entry);
    }
  convolution(DType::f16, {1, 13, 9, 8}, {8, 11, 12, 1},
              {last, integer("groups", 8), ints("padding", {5, 6})}, "conv2d_last");
  for (const auto &[taps, of] : {std::pair<int64_t, const char *>{75, entry}, {90, "conv2d_last"}})
    convolution(DType::f16, {1, 1, 99, 6}, {6, 1, taps, 1},
                {last, integer("groups", 6), ints("strides", {1, 2}), ints("dilation", {1, 1})},
                of);
  check({.op = Op::conv2d,
         .dtype = DType::bf16,
         .operands = {{{3, 9, 7, 16}}, {{16, 3, 3, 1}}},
         .attributes = {last, integer("groups", 16), ints("padding", {1, 1})}});
}

TEST_CASE("images with channels last agree with the definitions") {
  const ir::Attribute last = flag("channels_last", true);
  auto conv = [&](Dims x, Dims w, std::vector<ir::Attribute> attributes) {
    attributes.push_back(last);
    OpTest test{.op = Op::conv2d, .operands = {{x}, {w}, {{w[0]}}}, .attributes = attributes};
    check(test);
    for (DType dtype : {DType::f16, DType::bf16}) {
      test.dtype = dtype;
      check_known(test);
    }
  };
  conv({3, 9, 11, 16}, {40, 3, 3, 16}, {ints("padding", {1, 1})});
  // Channels of no multiple of eight, of x or in a group; depthwise; too large a kernel; nothing.
  conv({2, 9, 11, 3}, {5, 3, 2, 3}, {ints("strides", {2, 3}), ints("padding", {2, 0})});
  conv({2, 6, 6, 24}, {8, 3, 3, 12}, {integer("groups", 2), ints("dilation", {2, 1})});
  conv({2, 5, 7, 16}, {16, 3, 3, 1}, {integer("groups", 16), ints("padding", {1, 1})});
  conv({1, 15, 2, 8}, {16, 13, 1, 8}, {});
  conv({0, 5, 5, 8}, {16, 3, 3, 8}, {});
  conv({2, 5, 5, 0}, {16, 3, 3, 0}, {});
  for (Op op : {Op::max_pool2d, Op::avg_pool2d}) {
    auto pool = [&](Dims x, std::vector<ir::Attribute> attributes) {
      attributes.push_back(last);
      check({.op = op, .operands = {{x}}, .attributes = attributes});
    };
    pool({3, 8, 6, 5}, {ints("kernel", {2, 2}), ints("strides", {2, 2})});
    pool({2, 9, 7, 16}, {ints("kernel", {3, 2}), ints("padding", {1, 0, 2, 1}),
                         ints("strides", {2, 3}), flag("ceil_mode", true)});
    pool({1, 9, 7, 3}, {ints("kernel", {2, 3}), ints("dilation", {2, 1})});
  }
}
