// Weights of few bits in block formats: decoded by the layouts of GGUF, they are the numbers given.
#include "fronts/onnx/file/block_weights.h"
#include "support/catch.h"

#include <cmath>
#include <cstring>

using namespace cugrt;
using namespace cugrt::onnx;
using ir::DType;

namespace {

float f16_at(const char *bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes, 2);
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float size = exponent ? std::ldexp(float(1024 + fraction), exponent - 25)
                              : std::ldexp(float(fraction), -24);
  return bits & 0x8000 ? -size : size;
}

/// Elements of blocks of 32, row after row.
std::vector<float> decoded(const HostTensor &tensor) {
  std::vector<float> values;
  const bool has_minimum = tensor.dtype == DType::q4_1, has_bytes = tensor.dtype == DType::q8_0;
  const size_t head = has_minimum ? 4 : 2, size = head + (has_bytes ? 32 : 16);
  for (size_t at = 0; at + size <= tensor.bytes.size(); at += size) {
    const char *block = tensor.bytes.data() + at, *quants = block + head;
    const float scale = f16_at(block), minimum = has_minimum ? f16_at(block + 2) : 0;
    for (int i = 0; i < 32; ++i) {
      const int nibble = (static_cast<unsigned char>(quants[i % 16]) >> (i < 16 ? 0 : 4)) & 15;
      values.push_back(has_bytes     ? float(static_cast<signed char>(quants[i])) * scale
                       : has_minimum ? float(nibble) * scale + minimum
                                     : float(nibble - 8) * scale);
    }
  }
  return values;
}

BlockWeights drawn(int least, int most, float scale, std::vector<float> zeros) {
  BlockWeights w{48, 128, 64, {}, {}, {}};
  for (int64_t i = 0; i < w.rows * w.columns; ++i)
    w.quants.push_back(int16_t(least + (i * 7919 + i / 128) % (most - least + 1)));
  for (int64_t i = 0; i < w.rows * 2; ++i) {
    w.scales.push_back(std::ldexp(scale, int(i % 5) - 2));
    w.zeros.push_back(zeros[size_t(i) % zeros.size()]);
  }
  return w;
}

void check(const BlockWeights &w, DType format) {
  const std::optional<HostTensor> tensor = packed(w);
  REQUIRE(tensor);
  CHECK(tensor->dtype == format);
  CHECK(tensor->dims == std::vector<int64_t>{w.rows, w.columns});
  const std::vector<float> values = decoded(*tensor);
  REQUIRE(values.size() == w.quants.size());
  size_t wrong = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t block = i / size_t(w.block);
    wrong += values[i] != (float(w.quants[i]) - w.zeros[block]) * w.scales[block];
  }
  CHECK(wrong == 0);
}

} // namespace

TEST_CASE("numbers of few bits in blocks take the smallest format that holds them exactly") {
  check(drawn(-8, 7, 0.125f, {0}), DType::q4_0);
  check(drawn(0, 15, 0x1p-9f, {8}), DType::q4_0);
  check(drawn(0, 3, 0.25f, {2}), DType::q4_0);
  check(drawn(0, 15, 0.125f, {0, 3, 15}), DType::q4_1);
  check(drawn(-8, 7, 0.125f, {-5, 2}), DType::q4_1);
  check(drawn(0, 15, 0x1.8f4p0f, {7, 13}), DType::q8_0); // thirteen times that is no f16
  check(drawn(0, 255, 0.5f, {128}), DType::q8_0);
  check(drawn(-128, 127, 0.5f, {0}), DType::q8_0);
}

TEST_CASE("numbers that no block format holds exactly stay as they are") {
  CHECK(!packed(drawn(-8, 7, 0.1f, {0})));     // scales beyond f16
  CHECK(!packed(drawn(0, 15, 0.5f, {7.5f})));  // a zero point between numbers
  CHECK(!packed(drawn(0, 255, 0.5f, {0})));    // 255 above the zero point
  CHECK(!packed(drawn(-8, 7, 70000.0f, {0}))); // infinite
  BlockWeights w = drawn(-8, 7, 0.5f, {0});
  w.block = 16; // and blocks of 32 would have two scales
  CHECK(!packed(w));
}

TEST_CASE("bytes hold numbers of 2, 4 and 8 bits from their lowest bit on") {
  const std::string bytes = "\x1b\xf0";
  CHECK(numbers_of_bits(bytes, 2, 7) == std::vector<int16_t>{3, 2, 1, 0, 0, 0, 3});
  CHECK(numbers_of_bits(bytes, 4, 4) == std::vector<int16_t>{11, 1, 0, 15});
  CHECK(numbers_of_bits(bytes, 8, 2) == std::vector<int16_t>{0x1b, 0xf0});
}
