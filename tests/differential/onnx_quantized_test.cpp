// Products between DequantizeLinear and QuantizeLinear, as quantisers write them, against sums of
// integers: bytes are the same, but where a quotient lies at a half within the rounding of floats.
#include "support/onnx_run.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

using namespace cugrt;
using namespace cugrt::test;
using namespace cugrt::test::onnx_bytes;
using namespace cugrt::test::onnx_run;

namespace {

using Ints = std::vector<int64_t>;

struct Numbers {
  std::string name;
  unsigned dtype; // kU8, kI8 or kI32
  Ints dims, values;
};
Given given(const Numbers &numbers) {
  std::string raw_bytes;
  for (int64_t value : numbers.values)
    if (numbers.dtype == kI32)
      raw_bytes += raw(std::vector<int32_t>{int32_t(value)});
    else
      raw_bytes += char(value);
  return weight({numbers.name, numbers.dtype, numbers.dims, raw_bytes});
}

/// Numbers of a dtype, of `seed`.
Ints drawn(size_t count, unsigned dtype, int64_t seed) {
  Ints values;
  for (size_t i = 0; i < count; ++i)
    values.push_back((int64_t(i) * 7919 + seed * 104729 + int64_t(i * i % 251)) % 256 -
                     (dtype == kI8 ? 128 : 0));
  return values;
}

/// Checks a byte against what it should round to.
void check_byte(int64_t got, double quotient, int64_t zero, unsigned dtype) {
  const double least = dtype == kI8 ? -128 : 0, most = dtype == kI8 ? 127 : 255;
  const double wanted = std::clamp(std::nearbyint(quotient) + double(zero), least, most);
  const bool at_half = std::fabs(std::fabs(quotient - std::floor(quotient)) - 0.5) < 1e-4;
  INFO(got << " where " << wanted << " is right, of " << quotient);
  CHECK(std::fabs(double(got) - wanted) <= (at_half ? 1 : 0));
}

/// How bytes stand for numbers: of x, of weights (one or one a channel) and of the result.
struct Form {
  unsigned x_dtype;
  int64_t x_zero;
  unsigned w_dtype;
  int64_t w_zero;
  bool by_channel, has_bias;
};
constexpr Form kForms[] = {{kU8, 121, kI8, 0, true, true},
                           {kI8, -7, kI8, 0, false, true},
                           {kU8, 0, kU8, 131, false, false},
                           {kI8, 5, kU8, 117, false, true},
                           {kU8, 255, kI8, -3, true, false}};
constexpr float kXScale = 0.03f, kYScale = 0.7f;
constexpr int64_t kYZero = 117;

std::vector<float> scales_of(const Form &form, int64_t channels) {
  std::vector<float> scales;
  for (int64_t c = 0; c < (form.by_channel ? channels : 1); ++c)
    scales.push_back(0.01f + 0.001f * float(c % 5));
  return scales;
}

/// The model's parts that all products have: x, w and a bias as floats, y as bytes again.
std::string around(const std::string &product, int64_t w_axis) {
  return node("DequantizeLinear", {"xq", "xs", "xz"}, {"x"}) +
         node("DequantizeLinear", {"wq", "ws", "wz"}, {"w"},
              integer_attribute("axis", uint64_t(w_axis))) +
         node("DequantizeLinear", {"bq", "bs"}, {"b"}, integer_attribute("axis", 0)) + product +
         node("Relu", {"f"}, {"r"}) + node("QuantizeLinear", {"r", "ys", "yz"}, {"y"});
}

std::vector<Given> inputs(const Form &form, const Ints &x_dims, const Ints &x, const Ints &w_dims,
                          const Ints &w, const Ints &bias) {
  const auto channels = int64_t(bias.size());
  const std::vector<float> scales = scales_of(form, channels);
  const Ints of_scales = form.by_channel ? Ints{channels} : Ints{};
  std::vector<float> bias_scales;
  for (int64_t c = 0; c < channels; ++c)
    bias_scales.push_back(kXScale * scales[form.by_channel ? size_t(c) : 0]);
  Given bytes_of_x = given({"xq", form.x_dtype, x_dims, x});
  bytes_of_x.is_weight = false;
  return {bytes_of_x,
          weight(floats("xs", {}, {kXScale})),
          given({"xz", form.x_dtype, {}, {form.x_zero}}),
          given({"wq", form.w_dtype, w_dims, w}),
          weight(floats("ws", of_scales, scales)),
          given({"wz", form.w_dtype, of_scales, Ints(scales.size(), form.w_zero)}),
          given({"bq", kI32, {channels}, bias}),
          weight(floats("bs", {channels}, bias_scales)),
          weight(floats("ys", {}, {kYScale})),
          given({"yz", kU8, {}, {kYZero}})};
}

double quotient_of(const Form &form, int64_t sum, int64_t channel, int64_t bias) {
  const std::vector<float> scales = scales_of(form, channel + 1);
  const float scale = scales[form.by_channel ? size_t(channel) : 0];
  const double y = double(sum) * double(kXScale) * double(scale) +
                   (form.has_bias ? double(bias) * double(kXScale * scale) : 0);
  return std::max(y, 0.0) / double(kYScale);
}

} // namespace

TEST_CASE("quantised convolutions: strides, uneven padding, dilation, groups, a scale a channel") {
  struct Case {
    int64_t channels, outputs, kernel, stride, dilation, groups;
    Ints pads;
  };
  const Case cases[] = {{3, 17, 7, 2, 1, 1, {3, 3, 3, 3}},
                        {16, 24, 3, 1, 2, 1, {2, 0, 1, 3}},
                        {8, 8, 3, 1, 1, 8, {1, 1, 1, 1}},
                        {8, 32, 1, 2, 1, 2, {0, 0, 0, 0}}};
  const int64_t batch = 2, height = 11, width = 9;
  for (const Form &form : kForms)
    for (const Case &one : cases) {
      INFO("x of dtype " << form.x_dtype << ", w of " << form.w_dtype << ", " << one.channels
                         << " channels");
      const int64_t in_group = one.channels / one.groups, k = one.kernel;
      const Ints x = drawn(size_t(batch * one.channels * height * width), form.x_dtype, 1),
                 w = drawn(size_t(one.outputs * in_group * k * k), form.w_dtype, 2);
      Ints bias;
      for (int64_t c = 0; c < one.outputs; ++c)
        bias.push_back(c * 37 % 101 * 50 - 2500);
      std::vector<std::string> operands = {"x", "w"};
      if (form.has_bias)
        operands.push_back("b");
      const auto y = run_model<uint8_t>(
          around(node("Conv", operands, {"f"},
                      integers_attribute("pads", one.pads) +
                          integers_attribute("strides", {one.stride, one.stride}) +
                          integers_attribute("dilations", {one.dilation, one.dilation}) +
                          integer_attribute("group", uint64_t(one.groups))),
                 0),
          inputs(form, {batch, one.channels, height, width}, x, {one.outputs, in_group, k, k}, w,
                 bias));
      const int64_t reach = (k - 1) * one.dilation + 1,
                    out_h = (height + one.pads[0] + one.pads[2] - reach) / one.stride + 1,
                    out_w = (width + one.pads[1] + one.pads[3] - reach) / one.stride + 1;
      REQUIRE(y.dims == Ints{batch, one.outputs, out_h, out_w});
      for (size_t i = 0; i < y.values.size(); ++i) {
        const auto at = int64_t(i);
        const int64_t column = at % out_w, row = at / out_w % out_h,
                      channel = at / out_w / out_h % one.outputs,
                      image = at / out_w / out_h / one.outputs;
        int64_t sum = 0;
        for (int64_t c = 0; c < in_group; ++c)
          for (int64_t r = 0; r < k; ++r)
            for (int64_t q = 0; q < k; ++q) {
              const int64_t h = row * one.stride - one.pads[0] + r * one.dilation,
                            v = column * one.stride - one.pads[1] + q * one.dilation;
              if (h < 0 || h >= height || v < 0 || v >= width)
                continue;
              const int64_t in = channel / (one.outputs / one.groups) * in_group + c;
              sum += (x[size_t(((image * one.channels + in) * height + h) * width + v)] -
                      form.x_zero) *
                     (w[size_t(((channel * in_group + c) * k + r) * k + q)] - form.w_zero);
            }
        check_byte(y.values[i], quotient_of(form, sum, channel, bias[size_t(channel)]), kYZero,
                   kU8);
      }
    }
}

TEST_CASE("quantised transposed convolutions: phases, uneven padding, output padding") {
  struct Case {
    int64_t channels, outputs, kernel, stride, more;
    Ints pads;
  };
  const Case cases[] = {{3, 5, 2, 2, 0, {0, 0, 0, 0}},
                        {16, 24, 4, 2, 0, {1, 1, 1, 1}},
                        {5, 7, 3, 2, 1, {1, 0, 1, 2}},
                        {4, 6, 3, 1, 0, {1, 1, 2, 0}},
                        {8, 8, 2, 3, 0, {0, 0, 0, 0}}};
  const int64_t batch = 2, height = 6, width = 5;
  for (const Form &form : kForms)
    for (const Case &one : cases) {
      INFO("x of dtype " << form.x_dtype << ", w of " << form.w_dtype << ", " << one.channels
                         << " channels");
      const int64_t k = one.kernel;
      const Ints x = drawn(size_t(batch * one.channels * height * width), form.x_dtype, 1),
                 w = drawn(size_t(one.channels * one.outputs * k * k), form.w_dtype, 2);
      Ints bias;
      for (int64_t c = 0; c < one.outputs; ++c)
        bias.push_back(c * 37 % 101 * 50 - 2500);
      std::vector<std::string> operands = {"x", "w"};
      if (form.has_bias)
        operands.push_back("b");
      const auto y = run_model<uint8_t>(
          around(node("ConvTranspose", operands, {"f"},
                      integers_attribute("pads", one.pads) +
                          integers_attribute("strides", {one.stride, one.stride}) +
                          integers_attribute("output_padding", {one.more, one.more})),
                 1),
          inputs(form, {batch, one.channels, height, width}, x, {one.channels, one.outputs, k, k},
                 w, bias));
      const int64_t out_h = (height - 1) * one.stride + k - one.pads[0] - one.pads[2] + one.more,
                    out_w = (width - 1) * one.stride + k - one.pads[1] - one.pads[3] + one.more;
      REQUIRE(y.dims == Ints{batch, one.outputs, out_h, out_w});
      Ints sums(y.values.size(), 0); // what each element of x adds, where it does
      for (int64_t image = 0; image < batch; ++image)
        for (int64_t c = 0; c < one.channels; ++c)
          for (int64_t h = 0; h < height; ++h)
            for (int64_t v = 0; v < width; ++v)
              for (int64_t o = 0; o < one.outputs; ++o)
                for (int64_t r = 0; r < k; ++r)
                  for (int64_t q = 0; q < k; ++q) {
                    const int64_t row = h * one.stride - one.pads[0] + r,
                                  column = v * one.stride - one.pads[1] + q;
                    if (row < 0 || row >= out_h || column < 0 || column >= out_w)
                      continue;
                    sums[size_t(((image * one.outputs + o) * out_h + row) * out_w + column)] +=
                        (x[size_t(((image * one.channels + c) * height + h) * width + v)] -
                         form.x_zero) *
                        (w[size_t(((c * one.outputs + o) * k + r) * k + q)] - form.w_zero);
                  }
      for (size_t i = 0; i < y.values.size(); ++i) {
        const int64_t channel = int64_t(i) / (out_h * out_w) % one.outputs;
        check_byte(y.values[i], quotient_of(form, sums[i], channel, bias[size_t(channel)]), kYZero,
                   kU8);
      }
    }
}

TEST_CASE("quantised products: MatMul with an Add behind it, Gemm with turned weights") {
  const int64_t rows = 5, inner = 70, columns = 33;
  for (const Form &form : kForms)
    for (bool turned : {false, true}) {
      INFO("x of dtype " << form.x_dtype << ", w of " << form.w_dtype << ", turned " << turned);
      const Ints x = drawn(size_t(rows * inner), form.x_dtype, 3),
                 w = drawn(size_t(inner * columns), form.w_dtype, 4);
      Ints bias;
      for (int64_t c = 0; c < columns; ++c)
        bias.push_back(c * 53 % 89 * 60 - 2000);
      std::vector<std::string> operands = {"x", "w"};
      if (form.has_bias)
        operands.push_back("b");
      const std::string product =
          turned          ? node("Gemm", operands, {"f"}, integer_attribute("transB", 1))
          : form.has_bias ? node("MatMul", {"x", "w"}, {"m"}) + node("Add", {"m", "b"}, {"f"})
                          : node("MatMul", {"x", "w"}, {"f"});
      const auto y =
          run_model<uint8_t>(around(product, turned ? 0 : 1),
                             inputs(form, {rows, inner}, x,
                                    turned ? Ints{columns, inner} : Ints{inner, columns}, w, bias));
      REQUIRE(y.dims == Ints{rows, columns});
      for (int64_t i = 0; i < rows * columns; ++i) {
        const int64_t row = i / columns, column = i % columns;
        int64_t sum = 0;
        for (int64_t k = 0; k < inner; ++k)
          sum += (x[size_t(row * inner + k)] - form.x_zero) *
                 (w[size_t(turned ? column * inner + k : k * columns + column)] - form.w_zero);
        check_byte(y.values[size_t(i)], quotient_of(form, sum, column, bias[size_t(column)]),
                   kYZero, kU8);
      }
    }
}

TEST_CASE("what is quantised again as it was is the bytes, through what moves them") {
  const Ints x = drawn(2 * 3 * 4 * 4, kU8, 5);
  Given xq = given({"xq", kU8, {2, 3, 4, 4}, x});
  xq.is_weight = false;
  const auto y = run_model<uint8_t>(
      node("DequantizeLinear", {"xq", "s", "z"}, {"x"}) +
          node("Transpose", {"x"}, {"t"}, integers_attribute("perm", {1, 0, 3, 2})) +
          node("MaxPool", {"t"}, {"p"},
               integers_attribute("kernel_shape", {2, 2}) + integers_attribute("strides", {2, 2})) +
          node("QuantizeLinear", {"p", "s", "z"}, {"y"}),
      {xq, weight(floats("s", {}, {0.37f})), given({"z", kU8, {}, {77}})});
  REQUIRE(y.dims == Ints{3, 2, 2, 2});
  for (size_t i = 0; i < y.values.size(); ++i) {
    const size_t column = i % 2, row = i / 2 % 2, image = i / 4 % 2, channel = i / 8;
    int64_t most = 0;
    for (size_t r = 0; r < 2; ++r)
      for (size_t c = 0; c < 2; ++c)
        most = std::max(most, x[((image * 3 + channel) * 4 + column * 2 + c) * 4 + row * 2 + r]);
    CHECK(int64_t(y.values[i]) == most);
  }
}

TEST_CASE("bytes of a range that the data has: the text's numbers, a scale above 0, NaN as 0") {
  struct Case {
    std::vector<float> x;
    float scale;
    std::vector<uint8_t> zero, y;
  };
  const float nan = std::nanf("");
  const Case cases[] = {
      {{0, 2, -3, -2.5f, 1.34f, 0.5f}, 5.f / 255, {153}, {153, 255, 0, 26, 221, 179}},
      {{-1, -2.1f, -1.3f, -2.5f, -3.34f, -4}, 4.f / 255, {255}, {191, 121, 172, 96, 42, 0}},
      {{1, 2.1f, 1.3f, 2.5f, 3.34f, 4}, 4.f / 255, {0}, {64, 134, 83, 159, 213, 255}},
      {{0, 0, 0, 0, 0, 0}, 1, {0}, {0, 0, 0, 0, 0, 0}},
      {{nan, 255, 0.5f, 1.5f, nan, 2.5f}, 1, {0}, {0, 255, 0, 2, 0, 2}},
      {{-255, -0.5f, -1.5f, nan, 0, -2.5f}, 1, {255}, {0, 255, 253, 0, 255, 253}}};
  for (const Case &one : cases) {
    INFO("the first of x is " << one.x[0]);
    auto made = [](const std::vector<std::string> &names) {
      return node("DynamicQuantizeLinear", {"x"}, names);
    };
    const std::vector<Given> x = {floats("x", {2, 3}, one.x)};
    CHECK(run<uint8_t>(made({"y", "s", "z"}), x) == one.y);
    CHECK(run<float>(made({"q", "y", "z"}), x) == std::vector{one.scale});
    CHECK(run<uint8_t>(made({"q", "s", "y"}), x) == one.zero);
  }
}

TEST_CASE(
    "weights of four bits in blocks are multiplied as they are, through a transposition too") {
  const int64_t rows = 3, inner = 128, columns = 40, block = 64;
  std::vector<float> x;
  for (int64_t i = 0; i < rows * inner; ++i)
    x.push_back(float(i * 37 % 101) / 50 - 1);
  // Of the last scale no block format has all bits: these weights are floats.
  for (float unit : {0x1p-7f, 0x1.8f4p-3f, 0.01f})
    for (int64_t zero : {0, 5})
      for (bool turned : {false, true}) {
        INFO("scales " << unit << ", zero point " << zero << ", turned " << turned);
        auto at = [&](int64_t k, int64_t n) { return turned ? n * inner + k : k * columns + n; };
        auto block_at = [&](int64_t b, int64_t n) {
          return turned ? n * (inner / block) + b : b * columns + n;
        };
        std::vector<float> scales(size_t(inner / block * columns));
        std::string nibbles(size_t(inner * columns / 2), '\0');
        auto number_at = [](int64_t k, int64_t n) { return (k * 11 + n * 5) % 16 - 8; };
        for (int64_t n = 0; n < columns; ++n) {
          for (int64_t b = 0; b < inner / block; ++b)
            scales[size_t(block_at(b, n))] = std::ldexp(unit, int((n + b) % 4));
          for (int64_t k = 0; k < inner; ++k) {
            char &two = nibbles[size_t(at(k, n) / 2)];
            two = char(two | (number_at(k, n) & 15) << (at(k, n) % 2 ? 4 : 0));
          }
        }
        const Ints dims = turned ? Ints{columns, inner} : Ints{inner, columns},
                   blocks = turned ? Ints{columns, inner / block} : Ints{inner / block, columns};
        const char zeros = char((zero & 15) * 17);
        const auto y = run_model<float>(
            node("DequantizeLinear", {"w", "s", "z"}, {turned ? "t" : "d"},
                 integer_attribute("axis", turned) +
                     integer_attribute("block_size", uint64_t(block))) +
                (turned ? node("Transpose", {"t"}, {"d"}, integers_attribute("perm", {1, 0}))
                        : "") +
                node("MatMul", {"x", "d"}, {"y"}),
            {floats("x", {rows, inner}, x), weight({"w", 22, dims, nibbles}),
             weight(floats("s", blocks, scales)),
             weight({"z", 22, blocks, std::string(scales.size() / 2, zeros)})},
            {}, 21);
        REQUIRE(y.dims == Ints{rows, columns});
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t n = 0; n < columns; ++n) {
            double sum = 0, size = 0;
            for (int64_t k = 0; k < inner; ++k) {
              const double product = double(x[size_t(r * inner + k)]) *
                                     double(number_at(k, n) - zero) *
                                     double(scales[size_t(block_at(k / block, n))]);
              sum += product, size += std::fabs(product);
            }
            CHECK(std::fabs(double(y.values[size_t(r * columns + n)]) - sum) <= 1e-5 * size);
          }
      }
}

TEST_CASE("weights of a model in blocks have the bytes of their blocks") {
  // 40 rows of 128 in blocks of 64, zero points 0 and scales that f16 has: q4_0.
  const int64_t rows = 40, inner = 128, block = 64;
  const std::string nibbles(size_t(rows * inner / 2), '\x21');
  const std::vector<float> scales(size_t(rows * inner / block), 0.25f);
  std::string graph =
      node("DequantizeLinear", {"w", "s"}, {"t"},
           integer_attribute("axis", 1) + integer_attribute("block_size", uint64_t(block))) +
      node("Transpose", {"t"}, {"d"}, integers_attribute("perm", {1, 0})) +
      node("MatMul", {"x", "d"}, {"y"}) + input("x", kF32, {"3", "128"}) + output("y", kF32, {});
  auto constant = [&](const std::string &name, unsigned dtype, int64_t columns,
                      const std::string &content) {
    graph += bytes(5, number(1, uint64_t(rows)) + number(1, uint64_t(columns)) + number(2, dtype) +
                          bytes(8, name) + bytes(9, content));
  };
  constant("w", 22, inner, nibbles);
  constant("s", kF32, inner / block, raw(scales));
  const TemporaryFolder folder;
  std::ofstream(folder.path + "/m.onnx", std::ios::binary) << model(graph, 21);
  const Module module = Module::load(folder.path + "/m.onnx", {});
  const Weights weights = module.weights();
  REQUIRE(weights.count() == 1);
  const std::string saved = folder.path + "/w.safetensors";
  weights.save(saved);
  std::ifstream file(saved, std::ios::binary);
  uint64_t header = 0;
  file.read(reinterpret_cast<char *>(&header), sizeof header);
  CHECK(std::filesystem::file_size(saved) - sizeof header - header ==
        uint64_t(rows * inner / 32 * 18));
  CHECK(Weights::load(saved).count() == 1);
}
