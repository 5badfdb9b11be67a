// Images: frames of a camera in the place of an input, norms within convolutions, RoiAlign,
// deformable convolutions and pools with positions, against arithmetic in double precision.
#include "support/onnx_run.h"

using namespace cugrt;
using namespace cugrt::test;
using namespace cugrt::test::onnx_bytes;
using namespace cugrt::test::onnx_run;

namespace {

Given bytes_of(const std::string &name, std::vector<int64_t> dims,
               const std::vector<uint8_t> &values, unsigned declared) {
  Given given{name, kU8, std::move(dims), raw(values)};
  given.declared = declared;
  return given;
}

/// A model that gives its input back, of frames.
Ran<float> through_frames(const std::vector<std::string> &image, const Given &frame,
                          const std::string &text) {
  Given given = frame;
  given.names = image;
  return run_model<float>(node("Identity", {"x"}, {"y"}), {given}, {.preprocess = {"x=" + text}});
}

/// Linear between the four elements around, by half pixels.
double resized(const std::vector<std::vector<double>> &image, size_t row, size_t column,
               size_t rows, size_t columns) {
  auto place = [](size_t i, size_t size, size_t from) {
    const double at = (double(i) + 0.5) * double(from) / double(size) - 0.5;
    return std::min(std::max(at, 0.0), double(from - 1));
  };
  const double y = place(row, rows, image.size()), x = place(column, columns, image[0].size());
  const size_t y0 = size_t(y), x0 = size_t(x), y1 = std::min(y0 + 1, image.size() - 1),
               x1 = std::min(x0 + 1, image[0].size() - 1);
  const double a = y - double(y0), b = x - double(x0);
  return (1 - a) * ((1 - b) * image[y0][x0] + b * image[y0][x1]) +
         a * ((1 - b) * image[y1][x0] + b * image[y1][x1]);
}

std::vector<uint8_t> some_bytes(size_t count) {
  std::vector<uint8_t> all(count);
  for (size_t i = 0; i < count; ++i)
    all[i] = uint8_t(i * i * 7 + i * 31 + 5);
  return all;
}

} // namespace

TEST_CASE("frames of bytes are resized, normalised and transposed, also with channels swapped") {
  constexpr size_t kRows = 7, kColumns = 9, kOutRows = 4, kOutColumns = 12, kFrames = 2;
  const auto frame = some_bytes(kFrames * kRows * kColumns * 3);
  const double mean[] = {0.5, 0.25, 0.125}, deviation[] = {0.5, 0.25, 2};
  for (bool swap : {false, true}) {
    std::vector<double> expected;
    for (size_t n = 0; n < kFrames; ++n)
      for (size_t c = 0; c < 3; ++c) {
        std::vector<std::vector<double>> plane(kRows, std::vector<double>(kColumns));
        for (size_t i = 0; i < kRows * kColumns; ++i)
          plane[i / kColumns][i % kColumns] =
              frame[(n * kRows * kColumns + i) * 3 + (swap ? 2 - c : c)];
        for (size_t i = 0; i < kOutRows * kOutColumns; ++i)
          expected.push_back(
              (resized(plane, i / kOutColumns, i % kOutColumns, kOutRows, kOutColumns) / 255 -
               mean[c]) /
              deviation[c]);
      }
    const auto y = through_frames(
        {"n", "3", "4", "12"}, bytes_of("x", {kFrames, kRows, kColumns, 3}, frame, kF32),
        std::string("hwc,mean=0.5:0.25:0.125,std=0.5:0.25:2") + (swap ? ",swap" : ""));
    CHECK(y.dims == std::vector<int64_t>{kFrames, 3, kOutRows, kOutColumns});
    check_close(y.values, expected, 1e-5);
  }
}

TEST_CASE("frames of the model's own size keep their elements, whatever that size is") {
  const auto frame = some_bytes(5 * 6);
  const auto y =
      through_frames({"1", "h", "w", "1"}, bytes_of("x", {1, 5, 6, 1}, frame, kF32), "hwc,scale=1");
  CHECK(y.dims == std::vector<int64_t>{1, 5, 6, 1});
  CHECK(y.values == std::vector<float>(frame.begin(), frame.end()));
}

TEST_CASE("NV12 frames become red, green and blue by BT.601") {
  constexpr size_t kRows = 6, kColumns = 8;
  auto frame = some_bytes(kRows * 3 / 2 * kColumns);
  std::vector<double> expected;
  for (size_t c = 0; c < 3; ++c) {
    std::vector<std::vector<double>> plane(kRows, std::vector<double>(kColumns));
    for (size_t r = 0; r < kRows; ++r)
      for (size_t k = 0; k < kColumns; ++k) {
        const double y = frame[r * kColumns + k];
        const size_t pair = kRows * kColumns + r / 2 * kColumns + k / 2 * 2;
        const double u = frame[pair] - 128.0, v = frame[pair + 1] - 128.0;
        // ITU-R BT.601: luma from 16 to 235, Kr = 0.299, Kb = 0.114.
        const double luma = (y - 16) * 255 / 219, scale = 255.0 / 112;
        const double red = luma + scale * (1 - 0.299) * v, blue = luma + scale * (1 - 0.114) * u;
        const double green = luma - scale * (1 - 0.299) * 0.299 / 0.587 * v -
                             scale * (1 - 0.114) * 0.114 / 0.587 * u;
        plane[r][k] = std::min(255.0, std::max(0.0, c == 0 ? red : c == 1 ? green : blue));
      }
    for (size_t i = 0; i < 9; ++i)
      expected.push_back(resized(plane, i / 3, i % 3, 3, 3) / 255);
  }
  const auto y =
      through_frames({"1", "3", "3", "3"}, bytes_of("x", {1, kRows * 3 / 2, kColumns}, frame, kF32),
                     "nv12,size=6x8");
  check_close(y.values, expected, 1e-5);
  const auto any_size = through_frames(
      {"1", "3", "3", "3"}, bytes_of("x", {1, kRows * 3 / 2, kColumns}, frame, kF32), "nv12");
  CHECK(any_size.values == y.values);
}

TEST_CASE("a convolution with its norm, in groups and transposed, with a bias and without") {
  constexpr size_t kIn = 4, kOut = 6, kGroups = 2, kSize = 5;
  const auto x = numbers(kIn * kSize * kSize, 1), w = numbers(kOut * kIn / kGroups * 4, 2),
             bias = numbers(kOut, 3), scale = numbers(kOut, 4), shift = numbers(kOut, 5),
             mean = numbers(kOut, 6);
  std::vector<float> variance = numbers(kOut, 7);
  for (float &one : variance)
    one = one * one + 0.5f;
  for (bool transposed : {false, true})
    for (bool with_bias : {false, true}) {
      const size_t size = transposed ? kSize + 1 : kSize - 1;
      std::vector<double> h(kOut * size * size, 0);
      for (size_t o = 0; o < kOut; ++o)
        for (size_t i = 0; i < kIn / kGroups; ++i)
          for (size_t r = 0; r < size; ++r)
            for (size_t k = 0; k < size; ++k)
              for (size_t tap = 0; tap < 4; ++tap) {
                const size_t group = o / (kOut / kGroups), from = group * (kIn / kGroups) + i;
                const size_t y = transposed ? r - tap / 2 : r + tap / 2,
                             z = transposed ? k - tap % 2 : k + tap % 2;
                if (y >= kSize || z >= kSize) // also what is below 0
                  continue;
                const size_t at = transposed
                                      ? (from * (kOut / kGroups) + o % (kOut / kGroups)) * 4 + tap
                                      : (o * (kIn / kGroups) + i) * 4 + tap;
                h[(o * size + r) * size + k] +=
                    double(x[(from * kSize + y) * kSize + z]) * double(w[at]);
              }
      std::vector<double> expected;
      for (size_t i = 0; i < h.size(); ++i) {
        const size_t o = i / size / size;
        expected.push_back((h[i] + (with_bias ? double(bias[o]) : 0) - double(mean[o])) /
                               std::sqrt(double(variance[o]) + 1e-3) * double(scale[o]) +
                           double(shift[o]));
      }
      std::vector<std::string> inputs = {"x", "w"};
      if (with_bias)
        inputs.push_back("bias");
      const std::vector<int64_t> w_dims = transposed
                                              ? std::vector<int64_t>{kIn, kOut / kGroups, 2, 2}
                                              : std::vector<int64_t>{kOut, kIn / kGroups, 2, 2};
      check_close(
          run<float>(node(transposed ? "ConvTranspose" : "Conv", inputs, {"h"},
                          integer_attribute("group", kGroups)) +
                         node("BatchNormalization", {"h", "scale", "shift", "mean", "variance"},
                              {"y"}, float_attribute("epsilon", 1e-3f)),
                     {floats("x", {1, kIn, kSize, kSize}, x), weight(floats("w", w_dims, w)),
                      weight(floats("bias", {kOut}, bias)), weight(floats("scale", {kOut}, scale)),
                      weight(floats("shift", {kOut}, shift)), weight(floats("mean", {kOut}, mean)),
                      weight(floats("variance", {kOut}, variance))}),
          expected, 1e-5);
    }
}

TEST_CASE("a norm behind a convolution's own activation stays behind it") {
  const std::vector<float> x = {-2, 3};
  // A kernel of 1: relu(w x), less 1, times 2.
  check_close(run<float>(microsoft_node("FusedConv", {"x", "w"}, {"h"},
                                        text_attribute("activation", "Relu")) +
                             node("BatchNormalization", {"h", "two", "zero", "one", "one"}, {"y"},
                                  float_attribute("epsilon", 0)),
                         {floats("x", {1, 1, 1, 2}, x), weight(floats("w", {1, 1, 1, 1}, {0.5f})),
                          weight(floats("zero", {1}, {0})), weight(floats("one", {1}, {1})),
                          weight(floats("two", {1}, {2}))}),
              {-2, 1}, 1e-5);
}

TEST_CASE(
    "an activation that a product names has the parameters that the node gives, else ONNX's") {
  // a b = {-2, 0.5} times 2
  auto with = [](const std::string &attributes) {
    return run<float>(microsoft_node("FusedGemm", {"a", "b"}, {"y"}, attributes),
                      {floats("a", {2, 1}, {-2, 0.5f}), weight(floats("b", {1, 1}, {2}))});
  };
  check_close(with(""), {-4, 1}, 0);
  check_close(with(text_attribute("activation", "LeakyRelu")), {-0.04f, 1}, 1e-6);
  check_close(
      with(text_attribute("activation", "HardSigmoid") + float_attribute("activation_beta", 0.75f)),
      {0, 0.95f}, 1e-6); // max(0, min(1, 0.2 x + 0.75))
  check_close(
      with(text_attribute("activation", "Clip") + float_attribute("activation_alpha", -1.5f)),
      {-1.5f, 1}, 0);
}

TEST_CASE("a deformable convolution whose offsets are whole numbers reads what they say") {
  constexpr int64_t kSize = 5, kChannels = 2, kOut = 3, kTaps = 4, kPlane = 16;
  const auto x = numbers(kChannels * kSize * kSize, 1), w = numbers(kOut * kChannels * kTaps, 2),
             mask = numbers(kTaps * kPlane, 3);
  std::vector<float> offsets(2 * kTaps * kPlane);
  for (size_t i = 0; i < offsets.size(); ++i)
    offsets[i] = float(int(i * 7 % 5) - 2);
  std::vector<double> expected;
  for (int64_t o = 0; o < kOut; ++o)
    for (int64_t place = 0; place < kPlane; ++place) {
      double sum = 0;
      for (int64_t c = 0; c < kChannels; ++c)
        for (int64_t tap = 0; tap < kTaps; ++tap) {
          const auto at = size_t(2 * tap * kPlane + place);
          const int64_t r = place / 4 + tap / 2 + int64_t(offsets[at]),
                        k = place % 4 + tap % 2 + int64_t(offsets[at + kPlane]);
          if (r >= 0 && r < kSize && k >= 0 && k < kSize)
            sum += double(x[size_t((c * kSize + r) * kSize + k)]) *
                   double(w[size_t((o * kChannels + c) * kTaps + tap)]) *
                   double(mask[size_t(tap * kPlane + place)]);
        }
      expected.push_back(sum);
    }
  check_close(run<float>(node("DeformConv", {"x", "w", "offsets", "", "mask"}, {"y"},
                              integers_attribute("kernel_shape", {2, 2}) +
                                  integers_attribute("pads", {0, 0, 0, 0})),
                         {floats("x", {1, kChannels, kSize, kSize}, x),
                          weight(floats("w", {kOut, kChannels, 2, 2}, w)),
                          floats("offsets", {1, 2 * kTaps, 4, 4}, offsets),
                          floats("mask", {1, kTaps, 4, 4}, mask)}),
              expected, 1e-5);
}

TEST_CASE("RoiAlign of an image that grows by one a row has the rows' middles") {
  std::vector<float> x(2 * 8 * 8);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = float(i / 8 % 8) + 100.0f * float(i / 64);
  // Of image 1: rows 1 to 5, columns 2 to 6; by half pixels the places are half an element less.
  const auto y = run_model<float>(node("RoiAlign", {"x", "regions", "images"}, {"y"},
                                       integer_attribute("output_height", 2) +
                                           integer_attribute("output_width", 1) +
                                           integer_attribute("sampling_ratio", 2)),
                                  {floats("x", {2, 1, 8, 8}, x),
                                   floats("regions", {1, 4}, {2, 1, 6, 5}),
                                   {"images", kI64, {1}, raw(std::vector<int64_t>{1})}});
  CHECK(y.dims == std::vector<int64_t>{1, 1, 2, 1});
  check_close(y.values, {100 + 1.5, 100 + 3.5}, 1e-6);
}

TEST_CASE("positions of a pool's largest elements lead back to where they stood") {
  const std::vector<float> x = {1, 5, 2, 0, 3, 4, 9, 8, 7, 6, 5, 4, 9, 1, 2, 3};
  const std::string window =
      integers_attribute("kernel_shape", {2, 2}) + integers_attribute("strides", {2, 2});
  const auto positions = run_model<int64_t>(node("MaxPool", {"x"}, {"largest", "y"}, window),
                                            {floats("x", {1, 1, 4, 4}, x)});
  CHECK(positions.values == std::vector<int64_t>{1, 6, 12, 10});
  const auto back = run<float>(node("MaxPool", {"x"}, {"largest", "at"}, window) +
                                   node("MaxUnpool", {"largest", "at"}, {"y"}, window),
                               {floats("x", {1, 1, 4, 4}, x)});
  CHECK(back == std::vector<float>{0, 5, 0, 0, 0, 0, 9, 0, 0, 0, 5, 0, 9, 0, 0, 0});
}

TEST_CASE("GroupNorm and SkipGroupNorm: channels last or first, what is summed before, and SiLU") {
  constexpr size_t kBatch = 2, kPlaces = 6, kChannels = 8, kGroups = 2, kOf = kChannels / kGroups;
  const std::vector<float> x = numbers(kBatch * kPlaces * kChannels, 1),
                           scale = numbers(kChannels, 2), shift = numbers(kChannels, 3),
                           bias = numbers(kChannels, 4);
  for (const bool last : {true, false})
    for (const size_t skips : {size_t(0), size_t(1), kPlaces}) { // one of all places, or of each
      const std::vector<float> skip = numbers(kBatch * kChannels * std::max<size_t>(skips, 1), 5);
      auto at = [&](size_t n, size_t place, size_t channel, size_t places) {
        return last ? (n * places + place) * kChannels + channel
                    : (n * kChannels + channel) * places + place;
      };
      std::vector<double> sum(x.begin(), x.end()), expected(x.size());
      for (size_t n = 0; n < kBatch; ++n)
        for (size_t place = 0; place < kPlaces; ++place)
          for (size_t c = 0; skips && c < kChannels; ++c)
            sum[at(n, place, c, kPlaces)] +=
                double(skip[at(n, skips == 1 ? 0 : place, c, skips)]) + double(bias[c]);
      for (size_t n = 0; n < kBatch; ++n)
        for (size_t g = 0; g < kGroups; ++g) {
          double mean = 0, variance = 0;
          for (size_t i = 0; i < kPlaces * kOf; ++i)
            mean += sum[at(n, i / kOf, g * kOf + i % kOf, kPlaces)] / (kPlaces * kOf);
          for (size_t i = 0; i < kPlaces * kOf; ++i)
            variance += std::pow(sum[at(n, i / kOf, g * kOf + i % kOf, kPlaces)] - mean, 2) /
                        (kPlaces * kOf);
          for (size_t i = 0; i < kPlaces * kOf; ++i) {
            const size_t c = g * kOf + i % kOf, place = at(n, i / kOf, c, kPlaces);
            const double y = (sum[place] - mean) / std::sqrt(variance + 1e-3) * double(scale[c]) +
                             double(shift[c]);
            expected[place] = skips ? y / (1 + std::exp(-y)) : y;
          }
        }
      const std::string attributes =
          integer_attribute("groups", kGroups) + float_attribute("epsilon", 1e-3f) +
          integer_attribute("activation", skips != 0) +
          (last ? "" : integer_attribute("channels_last", 0)); // last unless said otherwise
      auto shape = [&](int64_t rows, int64_t columns) -> std::vector<int64_t> {
        return last ? std::vector<int64_t>{kBatch, rows, columns, kChannels}
                    : std::vector<int64_t>{kBatch, kChannels, rows, columns};
      };
      const std::vector<Given> given = {
          floats("x", shape(2, 3), x), weight(floats("scale", {kChannels}, scale)),
          weight(floats("shift", {kChannels}, shift)), weight(floats("bias", {kChannels}, bias))};
      auto with = [&](std::vector<int64_t> dims) {
        std::vector<Given> all = given;
        all.push_back(floats("skip", std::move(dims), skip));
        return all;
      };
      if (!skips) {
        check_close(
            run<float>(microsoft_node("GroupNorm", {"x", "scale", "shift"}, {"y"}, attributes),
                       given),
            expected, 1e-5);
        continue;
      }
      auto skip_norm = [&](const std::vector<std::string> &outputs) {
        return microsoft_node("SkipGroupNorm", {"x", "scale", "shift", "skip", "bias"}, outputs,
                              attributes);
      };
      const std::vector<int64_t> dims = skips == 1 ? shape(1, 1) : shape(2, 3);
      check_close(run<float>(skip_norm({"y"}), with(dims)), expected, 1e-5);
      check_close(run<float>(skip_norm({"n", "y"}), with(dims)), sum, 1e-6);
      if (skips == 1) // a vector for each image
        check_close(run<float>(skip_norm({"y"}), with({kBatch, kChannels})), expected, 1e-5);
    }
}

TEST_CASE("BiasSplitGelu: one half times the other's Gelu") {
  constexpr size_t kRows = 3, kHalf = 4;
  const std::vector<float> x = numbers(kRows * 2 * kHalf, 1), bias = numbers(2 * kHalf, 2);
  std::vector<double> expected;
  for (size_t i = 0; i < kRows * kHalf; ++i) {
    const size_t row = i / kHalf, column = i % kHalf;
    auto of = [&](size_t c) { return double(x[row * 2 * kHalf + c]) + double(bias[c]); };
    const double gate = of(column + kHalf);
    expected.push_back(of(column) * 0.5 * gate * (1 + std::erf(gate / std::sqrt(2.0))));
  }
  check_close(run<float>(microsoft_node("BiasSplitGelu", {"x", "bias"}, {"y"}),
                         {floats("x", {1, kRows, 2 * kHalf}, x),
                          weight(floats("bias", {2 * kHalf}, bias))}),
              expected, 1e-5);
}

TEST_CASE("NhwcConv: channels last in the image and in the weights") {
  constexpr size_t kRows = 4, kColumns = 5, kIn = 4, kOut = 6, kGroups = 2, kOf = kIn / kGroups;
  const std::vector<float> x = numbers(kRows * kColumns * kIn, 1),
                           w = numbers(kOut * 3 * 3 * kOf, 2), bias = numbers(kOut, 3);
  std::vector<double> expected; // padded by one row above, and apart by two columns
  for (size_t r = 0; r < kRows - 1; ++r)
    for (size_t c = 0; c < 2; ++c)
      for (size_t o = 0; o < kOut; ++o) {
        double sum = double(bias[o]);
        for (size_t i = 0; i < 3 * 3 * kOf; ++i) {
          const size_t row = r + i / (3 * kOf), column = 2 * c + i / kOf % 3,
                       channel = o / (kOut / kGroups) * kOf + i % kOf;
          if (row > 0)
            sum += double(w[o * 9 * kOf + i]) *
                   double(x[((row - 1) * kColumns + column) * kIn + channel]);
        }
        expected.push_back(sum);
      }
  check_close(
      run<float>(microsoft_node("NhwcConv", {"x", "w", "bias"}, {"y"},
                                integers_attribute("kernel_shape", {3, 3}) +
                                    integers_attribute("pads", {1, 0, 0, 0}) +
                                    integers_attribute("strides", {1, 2}) +
                                    integer_attribute("group", kGroups)),
                 {floats("x", {1, kRows, kColumns, kIn}, x),
                  weight(floats("w", {kOut, 3, 3, kOf}, w)), weight(floats("bias", {kOut}, bias))}),
      expected, 1e-5);
}
