// Weights of few bits in blocks, as files have them, in the block formats that matmul_blocks takes.
#pragma once

#include "fronts/onnx/import.h"

#include <optional>
#include <vector>

namespace cugrt::onnx {

/// Row r, column c is (quants[r, c] - zeros[r, c / block]) * scales[r, c / block].
struct BlockWeights {
  int64_t rows = 0, columns = 0, block = 0;
  std::vector<int16_t> quants{};
  std::vector<float> scales{}, zeros{}; // a row's blocks one behind the other
};

/// The same numbers as a tensor [rows, columns] of the smallest of the formats q4_0, q4_1 and q8_0
/// that holds them exactly; none: no one does, or the tensor is small. Scales of these formats are
/// f16, blocks have 32 columns.
std::optional<HostTensor> packed(const BlockWeights &weights);

/// Elements of 2, 4 or 8 bits, packed from the lowest bit of each byte on.
std::vector<int16_t> numbers_of_bits(std::string_view bytes, int64_t bits, size_t count);

} // namespace cugrt::onnx
