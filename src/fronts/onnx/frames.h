// Frames of a camera in the place of an input that is an image: what --preprocess says of them.
#pragma once

#include "base/status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cugrt::onnx {

/// Bytes, resized linearly to what the model takes, where that is a number; then
/// (scale value - mean) / deviation, with one number or one a channel of the model's.
struct Frames {
  bool nv12 = false; // [n, 3 rows / 2, columns]; else [n, rows, columns, channels]
  bool swap = false; // red and blue are the other way round in the model
  std::optional<int64_t> rows, columns; // of a frame; none: what runs are given
  double scale = 1.0 / 255;
  std::vector<double> mean{0}, deviation{1};
};

/// "hwc" or "nv12", and with commas: "swap", "size=ROWSxCOLUMNS", "scale=A", "mean=A:B:C",
/// "std=A:B:C". Errors name what is wrong in the text.
Result<Frames> parse_frames(const std::string &text);

} // namespace cugrt::onnx
