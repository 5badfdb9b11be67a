// Calls of functions that the caller gave.
#pragma once

#include "base/status.h"

#include <exception>
#include <string>

namespace cugrt::runtime {

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
