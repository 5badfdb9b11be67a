// Structs behind the C ABI's statuses and texts. Host functions hand statuses to the runtime, which
// therefore knows these structs, too.
#pragma once

#include "base/status.h"
#include "cugrt/cugrt.h"

#include <exception>
#include <string>

struct cugrt_status {
  cugrt::Status status;
};

struct cugrt_text {
  std::string text;
};

namespace cugrt::runtime {

/// Frees the handle, except out_of_memory_status(), which nobody owns.
void free_status(cugrt_status *status) noexcept;
/// The status that a handle holds; frees the handle. Null is success.
Status take_status(cugrt_status *status);
/// Returns a handle for a status; null for success. If memory runs out meanwhile, returns
/// out_of_memory_status().
cugrt_status *give_status(Status status) noexcept;
/// A status that needs no memory. Never freed.
cugrt_status *out_of_memory_status() noexcept;

/// Runs `call`, a caller's function. The C ABI has no exceptions, so an exception that it throws
/// becomes an error that names `what`.
template <class Call> Status call_back(const std::string &what, Call &&call) {
  try {
    call();
    return {};
  } catch (const std::exception &thrown) {
    return Status::error(Code::invalid_argument, what + " threw an exception: " + thrown.what());
  } catch (...) {
    return Status::error(Code::invalid_argument, what + " threw what is no std::exception");
  }
}

} // namespace cugrt::runtime
