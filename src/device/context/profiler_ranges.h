// Named ranges for profilers, by NVTX: a profiler that is attached names a library in the
// environment, which NVTX's header opens when the first range begins. Without one nothing is
// opened, and without the header (it is part of the toolkit) there are no ranges.
#pragma once

#include <string>

namespace cugrt::runtime {

/// Whether a profiler sees the ranges: it has set NVTX_INJECTION64_PATH, and the library was built
/// with NVTX's header.
bool profiler_attached();

/// A range from construction to destruction, on this thread. An empty one does nothing.
class ProfilerRange {
public:
  ProfilerRange() = default;
  ProfilerRange(bool attached, const std::string &name) : open_(attached) {
    if (open_)
      begin(name);
  }
  ~ProfilerRange() {
    if (open_)
      end();
  }
  ProfilerRange(const ProfilerRange &) = delete;

private:
  static void begin(const std::string &name);
  static void end();
  bool open_ = false;
};

} // namespace cugrt::runtime
