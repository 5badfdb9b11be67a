// A device's memory and a loaded program of CUDA C++, which NVRTC compiles while the test runs.
#pragma once

#include "support/emulated.h"
#include "support/nvrtc.h"

namespace cugrt::test {

class EmulatedCuda : public Emulated {
public:
  using Emulated::Emulated;

  /// Compiles and loads; the test fails with the message when either is refused.
  void load_cuda(std::string_view source, std::string_view target = "compute_80",
                 const std::vector<std::string> &options = {}) {
    Compiled compiled = compile_to_ptx(source, target, options);
    if (compiled.ptx.empty())
      FAIL(compiled.log);
    load(compiled.ptx);
  }
};

} // namespace cugrt::test
