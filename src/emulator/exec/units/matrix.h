// What the decoder and the handlers of matrix operations agree on.
#pragma once

#include "emulator/exec/opcodes/op.h"

#include <array>

namespace cugrt::emulator {

/// Register cells of mma: d = a * b + c. As many of each as the shape has.
struct MatrixSite {
  std::array<uint32_t, 8> d{}, a{}, b{}, c{};
  uint32_t d_count = 0, a_count = 0, b_count = 0, c_count = 0;
  bool saturates = false;
};

} // namespace cugrt::emulator
