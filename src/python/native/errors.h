// How failures leave: as cugrt.Error, with the code, place and CUDA error of the status.
#pragma once

#include <cugrt/cugrt.hpp>

#include <string>

namespace cugrt::python {

/// Throws cugrt::Error with this code and message. `place` is what the message is about, if it is
/// somewhere.
[[noreturn]] void fail(cugrt_code code, const std::string &message);

/// In a handler: makes the exception Python's current error, for functions that Python calls
/// without nanobind.
void set_python_error() noexcept;

/// Turns cugrt::Error into Python's cugrt.Error, which the package defines. Once, at import.
void translate_errors();

} // namespace cugrt::python
