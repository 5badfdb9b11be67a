// INT4, UINT4, FLOAT8E4M3FN and FLOAT8E5M2 in models: what they are computed as, what becomes one.
// Right values are computed from the numbers themselves; of floats, from all that a dtype has.
#include "support/onnx_run.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace cugrt;
using namespace cugrt::test;
using namespace cugrt::test::onnx_bytes;
using namespace cugrt::test::onnx_run;

namespace {

constexpr unsigned kE4M3 = 17, kE5M2 = 19, kU4 = 21, kI4 = 22; // ONNX's numbers of dtypes
using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

/// Two a byte, the first one in the lower half.
std::string packed(const Ints &values) {
  std::string out((values.size() + 1) / 2, '\0');
  for (size_t i = 0; i < values.size(); ++i)
    out[i / 2] = char(out[i / 2] | (values[i] & 15) << (i % 2 ? 4 : 0));
  return out;
}
Given narrow(const std::string &name, unsigned dtype, Ints dims, const Ints &values) {
  return weight({name, dtype, std::move(dims), packed(values)});
}
/// A tensor whose bytes stand in int32_data, a number each.
std::string typed(const std::string &name, unsigned dtype, const Ints &dims,
                  const std::string &of_bytes) {
  std::string tensor, list;
  for (int64_t dim : dims)
    tensor += number(1, uint64_t(dim));
  for (char one : of_bytes)
    list += varint(static_cast<unsigned char>(one));
  return bytes(5, tensor + number(2, dtype) + bytes(5, list) + bytes(8, name));
}

/// Of a float of 8 bits with so many bits of its fraction, by its definition.
float value_of(int code, bool is_e4m3) {
  const int fraction_bits = is_e4m3 ? 3 : 2, bias = is_e4m3 ? 7 : 15;
  const int fraction = code & ((1 << fraction_bits) - 1), exponent = (code & 127) >> fraction_bits;
  const float sign = code & 128 ? -1.0f : 1.0f;
  if (is_e4m3 ? (code & 127) == 127 : exponent == 31 && fraction)
    return std::numeric_limits<float>::quiet_NaN();
  if (!is_e4m3 && exponent == 31)
    return sign * std::numeric_limits<float>::infinity();
  const float one = float(1 << fraction_bits);
  return sign * (exponent ? std::ldexp(1 + float(fraction) / one, exponent - bias)
                          : std::ldexp(float(fraction) / one, 1 - bias));
}

/// The nearest of all finite values, of two as near ones that with an even code.
float nearest(float x, bool is_e4m3, bool saturate) {
  if (std::isnan(x))
    return x;
  const float largest = is_e4m3 ? 448 : 57344, half_step = is_e4m3 ? 16 : 4096;
  const float beyond = saturate  ? largest
                       : is_e4m3 ? std::numeric_limits<float>::quiet_NaN()
                                 : std::numeric_limits<float>::infinity();
  // Half a step above the largest one is as near to it as to what would come next: whose code, or
  // the largest one's, is even decides.
  if (std::fabs(x) > largest + half_step || (!is_e4m3 && std::fabs(x) == largest + half_step))
    return std::copysign(beyond, x);
  int best = 0;
  for (int code = 0; code < 128; ++code) {
    const double value = value_of(code, is_e4m3), distance = std::fabs(std::fabs(x) - value);
    const double shortest = std::fabs(std::fabs(x) - double(value_of(best, is_e4m3)));
    if (std::isfinite(value) && (distance < shortest || (distance == shortest && code % 2 == 0)))
      best = code;
  }
  return std::copysign(value_of(best, is_e4m3), x);
}

void check_same(const Floats &got, const Floats &wanted) {
  REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("element " << i << ": " << got[i] << " where " << wanted[i] << " is right");
    CHECK(((std::isnan(got[i]) && std::isnan(wanted[i])) || got[i] == wanted[i]));
  }
}

/// Floats at, beside and between values of both dtypes, and beyond them.
Floats samples() {
  Floats x = {0,     -0.0f,  0.1f,    1.0625f,  1.1875f,    -3.3f,    447,        448,     463.5f,
              464,   464.5f, 480,     1000,     57344,      61439,    61440,      61441,   65536,
              1e30f, -1e30f, 0x1p-9f, 0x1p-10f, 0x1.8p-10f, 0x1p-17f, 0x1.8p-17f, 0x1p-30f};
  x.push_back(std::numeric_limits<float>::infinity());
  x.push_back(-std::numeric_limits<float>::infinity());
  x.push_back(std::numeric_limits<float>::quiet_NaN());
  for (int i = 0; i < 60; ++i)
    x.push_back(std::ldexp(float(i * 37 % 101) / 64 - 0.7f, i % 25 - 14));
  return x;
}

} // namespace

TEST_CASE("weights of four bits along each axis, in blocks, an odd number of them, raw and typed") {
  struct Case {
    unsigned dtype;
    int64_t axis, block; // no block: 0
  };
  const int64_t rows = 3, columns = 5;
  for (const Case &one : {Case{kI4, 0, 0}, Case{kI4, 1, 0}, Case{kI4, -1, 0}, Case{kU4, 0, 0},
                          Case{kU4, 1, 0}, Case{kI4, 0, 2}, Case{kI4, 1, 2}, Case{kU4, 1, 3}})
    for (bool is_raw : {true, false}) {
      INFO("dtype " << one.dtype << ", axis " << one.axis << ", block " << one.block);
      const bool by_rows = one.axis == 0;
      auto groups = [&](int64_t size) {
        return one.block ? (size + one.block - 1) / one.block : size;
      };
      const int64_t own = groups(by_rows ? rows : columns);
      const Ints scale_dims = !one.block ? Ints{own}
                              : by_rows  ? Ints{own, columns}
                                         : Ints{rows, own};
      const int64_t scales_count = one.block ? own * (by_rows ? columns : rows) : own;
      const int64_t least = one.dtype == kI4 ? -8 : 0;
      Ints w, zeros;
      Floats scales, wanted;
      for (int64_t i = 0; i < rows * columns; ++i)
        w.push_back(least + i * 11 % 16);
      for (int64_t i = 0; i < scales_count; ++i)
        zeros.push_back(least + i * 5 % 16), scales.push_back(0.25f * float(1 + i));
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) {
          const int64_t along = by_rows ? r : c, group = one.block ? along / one.block : along;
          const size_t at = size_t(!one.block ? group
                                   : by_rows  ? group * columns + c
                                              : r * own + group);
          wanted.push_back(float(w[size_t(r * columns + c)] - zeros[at]) * scales[at]);
        }
      std::string nodes =
          node("DequantizeLinear", {"w", "s", "z"}, {"d"},
               integer_attribute("axis", uint64_t(one.axis)) +
                   (one.block ? integer_attribute("block_size", uint64_t(one.block)) : "")) +
          node("Add", {"d", "x"}, {"y"});
      std::vector<Given> given = {floats("x", {1}, {0}), weight(floats("s", scale_dims, scales)),
                                  narrow("z", one.dtype, scale_dims, zeros)};
      if (is_raw)
        given.push_back(narrow("w", one.dtype, {rows, columns}, w));
      else
        nodes += typed("w", one.dtype, {rows, columns}, packed(w));
      const auto y = run_model<float>(nodes, given, {}, 21);
      CHECK(y.dims == Ints{rows, columns});
      check_same(y.values, wanted);
    }
}

TEST_CASE("weights of four bits are transposed and reshaped before they are numbers") {
  const Ints w = {-8, -7, -3, 0, 7, 5, 2, 1, -1};
  const auto y = run_model<float>(
      node("Transpose", {"w"}, {"t"}) + node("Reshape", {"t", "all"}, {"r"}) +
          node("DequantizeLinear", {"r", "s"}, {"d"}) + node("Add", {"d", "x"}, {"y"}) +
          integers("all", {9}),
      {floats("x", {1}, {0}), weight(floats("s", {}, {0.5f})), narrow("w", kI4, {3, 3}, w)}, {},
      21);
  check_same(y.values, {-4, 0, 1, -3.5f, 3.5f, 0.5f, -1.5f, 2.5f, -0.5f});
}

TEST_CASE("quantised to four bits: rounded half to even, limited, by the zero point's dtype") {
  const Floats x = {-100, -4.25f, -0.75f, -0.25f, 0.25f, 0.75f, 1.25f, 3.4f, 50};
  for (unsigned dtype : {kI4, kU4})
    for (int64_t zero : {0, 3}) {
      const auto y = run_model<float>(
          node("QuantizeLinear", {"x", "s", "z"}, {"q"}) +
              node("DequantizeLinear", {"q", "s", "z"}, {"y"}),
          {floats("x", {9}, x), weight(floats("s", {}, {0.5f})), narrow("z", dtype, {}, {zero})},
          {}, 21);
      const double least = dtype == kI4 ? -8 : 0, most = dtype == kI4 ? 7 : 15;
      Floats wanted;
      for (float one : x)
        wanted.push_back(
            float((std::clamp(std::nearbyint(double(one) / 0.5) + double(zero), least, most) -
                   double(zero)) *
                  0.5));
      check_same(y.values, wanted);
    }
}

TEST_CASE("a cast to four bits keeps the low ones") {
  for (unsigned dtype : {kI4, kU4}) {
    const auto y = run_model<int64_t>(node("Cast", {"x"}, {"q"}, integer_attribute("to", dtype)) +
                                          node("Cast", {"q"}, {"y"}, integer_attribute("to", kI64)),
                                      {{"x", kI64, {6}, raw(Ints{-9, -8, 7, 8, 15, 16})}}, {}, 21);
    CHECK(y.values == (dtype == kI4 ? Ints{7, -8, 7, -8, -1, 0} : Ints{7, 8, 7, 8, 15, 0}));
  }
}

TEST_CASE("a cast of floats to four bits rounds half to even") {
  for (unsigned dtype : {kI4, kU4}) {
    const auto y =
        run_model<int64_t>(node("Cast", {"x"}, {"q"}, integer_attribute("to", dtype)) +
                               node("Cast", {"q"}, {"y"}, integer_attribute("to", kI64)),
                           {floats("x", {6}, {0.5f, 1.5f, 2.5f, 1.7f, 6.4f, 0.2f})}, {}, 21);
    CHECK(y.values == Ints{0, 2, 2, 2, 6, 0});
  }
}

TEST_CASE("each code of a float of 8 bits is the number that its definition says") {
  std::string codes;
  for (int code = 0; code < 256; ++code)
    codes += char(code);
  for (unsigned dtype : {kE4M3, kE5M2})
    for (bool is_raw : {true, false}) {
      std::string nodes = node("Cast", {"w"}, {"f"}, integer_attribute("to", kF32)) +
                          node("Add", {"f", "x"}, {"y"});
      std::vector<Given> given = {floats("x", {1}, {0})};
      if (is_raw)
        given.push_back(weight({"w", dtype, {256}, codes}));
      else
        nodes += typed("w", dtype, {256}, codes);
      Floats wanted;
      for (int code = 0; code < 256; ++code)
        wanted.push_back(value_of(code, dtype == kE4M3));
      check_same(run_model<float>(nodes, given, {}, 19).values, wanted);
    }
}

TEST_CASE("to floats of 8 bits: the nearest one, and beyond the largest by `saturate`") {
  const Floats x = samples();
  for (unsigned dtype : {kE4M3, kE5M2})
    for (bool saturate : {true, false}) {
      INFO("dtype " << dtype << ", saturate " << saturate);
      const std::string attribute = integer_attribute("saturate", saturate);
      Floats cast, quantized;
      for (float one : x) {
        cast.push_back(nearest(one, dtype == kE4M3, saturate));
        quantized.push_back(nearest(one / 4, dtype == kE4M3, saturate) * 4);
      }
      const Given given = floats("x", {int64_t(x.size())}, x);
      check_same(
          run_model<float>(node("Cast", {"x"}, {"q"}, integer_attribute("to", dtype) + attribute) +
                               node("Cast", {"q"}, {"y"}, integer_attribute("to", kF32)),
                           {given}, {}, 19)
              .values,
          cast);
      check_same(run_model<float>(node("QuantizeLinear", {"x", "s", "z"}, {"q"}, attribute) +
                                      node("DequantizeLinear", {"q", "s", "z"}, {"y"}),
                                  {given, weight(floats("s", {}, {4})),
                                   weight({"z", dtype, {}, std::string(1, '\0')})},
                                  {}, 19)
                     .values,
                 quantized);
    }
}
