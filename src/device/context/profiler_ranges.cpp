// NVTX, where its header is there; see profiler_ranges.h.
#include "device/context/profiler_ranges.h"

#include <cstdlib>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define CUGRT_HAS_NVTX 1
#else
#define CUGRT_HAS_NVTX 0
#endif

namespace cugrt::runtime {

bool profiler_attached() {
  const char *path = std::getenv("NVTX_INJECTION64_PATH");
  return CUGRT_HAS_NVTX && path && *path;
}

void ProfilerRange::begin([[maybe_unused]] const std::string &name) {
#if CUGRT_HAS_NVTX
  nvtxRangePushA(name.c_str());
#endif
}

void ProfilerRange::end() {
#if CUGRT_HAS_NVTX
  nvtxRangePop();
#endif
}

} // namespace cugrt::runtime
