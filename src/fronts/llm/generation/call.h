// Failures of the C ABI as statuses.
#pragma once

#include "base/status.h"

#include <cugrt/cugrt.hpp>

namespace cugrt::llm {

/// Takes ownership of `status`.
inline Status call(cugrt_status *status) {
  if (!status)
    return {};
  const detail::Handle<cugrt_status, &cugrt_api::status_free> owner(status);
  return Status::error(static_cast<Code>(api().status_code(status)), api().status_message(status))
      .at(api().status_location(status))
      .with_cuda_error(api().status_cuda_error(status));
}

} // namespace cugrt::llm
