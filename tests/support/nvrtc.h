// CUDA C++ to PTX with the NVRTC that the build found: for tests of what executes PTX.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cugrt::test {

struct Compiled {
  std::string ptx; // empty: see log
  std::string log;
};

/// The target is "compute_90"; options are NVRTC's. Terminates the test process when NVRTC itself
/// cannot be loaded.
Compiled compile_to_ptx(std::string_view source, std::string_view target,
                        const std::vector<std::string> &options = {});

} // namespace cugrt::test
