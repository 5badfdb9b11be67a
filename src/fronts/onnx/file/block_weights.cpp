// Blocks of weights in the formats of GGUF; see block_weights.h. Their layouts: ggml's block_q4_0,
// block_q4_1 and block_q8_0.
#include "fronts/onnx/file/block_weights.h"

#include "base/type/element.h"

#include <algorithm>
#include <cmath>

namespace cugrt::onnx {

namespace {

using ir::DType;

constexpr int64_t kBlock = 32, kHalf = kBlock / 2;
/// A smaller tensor is a constant of the module's text, which has no blocks.
constexpr int64_t kFewest = 4096;

bool is_f16(float value) {
  std::string bytes;
  return std::isfinite(value) && ir::append_float(DType::f16, double(value), bytes) &&
         float(ir::float_at(DType::f16, bytes.data())) == value;
}

class Packer {
public:
  explicit Packer(const BlockWeights &weights)
      : w_(weights), blocks_((w_.columns + w_.block - 1) / w_.block) {}

  std::optional<DType> format() const {
    const bool exact_scales = std::ranges::all_of(w_.scales, is_f16);
    const bool whole = std::ranges::all_of(w_.zeros, [](float z) { return z == std::rint(z); });
    if (!exact_scales || !whole)
      return {};
    int least = 0, most = 0;
    for (int64_t r = 0; r < w_.rows; ++r)
      for (int64_t c = 0; c < w_.columns; ++c) {
        const int number = above_zero(r, c);
        least = std::min(least, number), most = std::max(most, number);
      }
    if (least >= -8 && most <= 7)
      return DType::q4_0;
    if (has_nibbles() && has_exact_minima())
      return DType::q4_1;
    if (least >= -128 && most <= 127)
      return DType::q8_0;
    return {};
  }

  std::string pack(DType dtype) const {
    std::string bytes;
    bytes.reserve(size_t(w_.rows * (w_.columns / kBlock)) * ir::info(dtype).bytes_per_block);
    for (int64_t r = 0; r < w_.rows; ++r)
      for (int64_t c = 0; c < w_.columns; c += kBlock) {
        const size_t at = block_of(r, c);
        ir::append_float(DType::f16, double(w_.scales[at]), bytes);
        if (dtype == DType::q4_1)
          ir::append_float(DType::f16, double(minimum(at)), bytes);
        if (dtype == DType::q8_0) {
          for (int64_t i = 0; i < kBlock; ++i)
            bytes += char(above_zero(r, c + i));
          continue;
        }
        auto nibble = [&](int64_t column) {
          return dtype == DType::q4_0 ? above_zero(r, column) + 8 : quant(r, column) - lowest_;
        };
        for (int64_t i = 0; i < kHalf; ++i)
          bytes += char(nibble(c + i) | nibble(c + i + kHalf) << 4);
      }
    return bytes;
  }

private:
  int quant(int64_t r, int64_t c) const { return w_.quants[size_t(r * w_.columns + c)]; }
  size_t block_of(int64_t r, int64_t c) const { return size_t(r * blocks_ + c / w_.block); }
  int above_zero(int64_t r, int64_t c) const {
    return quant(r, c) - int(std::clamp(w_.zeros[block_of(r, c)], -1024.0f, 1024.0f));
  }
  bool has_nibbles() const {
    return std::ranges::all_of(w_.quants, [&](int q) { return q >= lowest_ && q < lowest_ + 16; });
  }
  /// The value of nibble 0 in a block.
  float minimum(size_t at) const { return (float(lowest_) - w_.zeros[at]) * w_.scales[at]; }
  bool has_exact_minima() const {
    for (size_t at = 0; at < w_.scales.size(); ++at)
      if (!is_f16(minimum(at)))
        return false;
    return true;
  }

  const BlockWeights &w_;
  const int64_t blocks_; // of a row
  const int lowest_ = w_.quants.empty() ? 0 : *std::ranges::min_element(w_.quants) < 0 ? -8 : 0;
};

} // namespace

std::optional<HostTensor> packed(const BlockWeights &weights) {
  if (weights.block < 1 || weights.block % kBlock != 0 || weights.columns % kBlock != 0 ||
      weights.rows * weights.columns < kFewest)
    return {};
  const Packer packer(weights);
  const std::optional<DType> dtype = packer.format();
  if (!dtype)
    return {};
  HostTensor made{*dtype, {weights.rows, weights.columns}, {}, {}};
  made.owned = std::make_shared<const std::string>(packer.pack(*dtype));
  made.bytes = *made.owned;
  return made;
}

std::vector<int16_t> numbers_of_bits(std::string_view bytes, int64_t bits, size_t count) {
  std::vector<int16_t> numbers;
  numbers.reserve(count);
  const size_t each = size_t(8 / bits);
  for (size_t i = 0; i < count && i / each < bytes.size(); ++i)
    numbers.push_back(int16_t((static_cast<unsigned char>(bytes[i / each]) >> i % each * bits) &
                              ((1 << bits) - 1)));
  return numbers;
}

} // namespace cugrt::onnx
