// What stands behind the C ABI's statuses and texts. Host functions hand statuses to the runtime,
// so it knows them, too.
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

/// Frees the handle, unless it is the one that says that memory ran out, which is nobody's.
void free_status(cugrt_status *status) noexcept;
/// The status that a handle holds; frees the handle. Null is success.
Status take_status(cugrt_status *status);
/// Hands a status out; null for success. When memory runs out while it does,
/// out_of_memory_status().
cugrt_status *give_status(Status status) noexcept;
/// A status that needs no memory. Never freed.
cugrt_status *out_of_memory_status() noexcept;

/// Runs `call`. The C ABI has no exceptions: what the caller's function throws all the same is an
/// error that names `what`.
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
