// Stream capture, for comparison: the one place of the project that captures.
//
// The entry points are asked of the driver library that is open already; the product's table does
// not have them.
#pragma once

#include "device/driver/graph.h"

namespace cugrt::bench {

class CaptureApi {
public:
  /// `library` must come from a file. It outlives this.
  static Result<CaptureApi> of(const driver::DriverLibrary &library);

  /// Thread-local mode: other threads go on. Context current.
  Status begin(driver::StreamRef stream) const;
  /// The caller destroys the graph.
  Result<CUgraph> end(driver::StreamRef stream) const;

private:
  const driver::DriverApi *api_ = nullptr;
  PFN_cuStreamBeginCapture_v10010 begin_ = nullptr;
  PFN_cuStreamEndCapture_v10000 end_ = nullptr;
};

} // namespace cugrt::bench
