// How failures leave: as cugrt.Error, with the code, place and CUDA error of the status.
#pragma once

#include <cugrt/cugrt.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>
#include <string_view>
#include <type_traits>

namespace cugrt::python {

/// Throws cugrt::Error with this code and message. `place` is the place of the message's subject,
/// if it has one.
[[noreturn]] void fail(cugrt_code code, const std::string &message);

/// A text for people as a str; bytes in it that are no UTF-8 are escaped.
nanobind::object shown(std::string_view text);
/// The str() of an object for a message: escaped characters that messages cannot have, and its
/// type's name if there is none.
std::string text_of(nanobind::handle object);

/// The argument `name` from Python; anything but `kind` is an error.
template <class T> T argument(nanobind::handle value, const char *name, const char *kind) {
  if constexpr (std::is_base_of_v<nanobind::handle, T>) {
    if (nanobind::isinstance<T>(value))
      return nanobind::borrow<T>(value);
  } else if (T taken{}; nanobind::try_cast(value, taken))
    return taken;
  fail(CUGRT_INVALID_ARGUMENT, std::string(name) + " is " + kind + ", not of type " +
                                   text_of(value.type().attr("__name__")));
}

/// Work during which other threads of Python run.
template <class Work> auto without_gil(Work work) {
  nanobind::gil_scoped_release released;
  return work();
}
/// The same of a whole function, where it is bound.
using WithoutGil = nanobind::call_guard<nanobind::gil_scoped_release>;

/// Call in a handler: makes the exception Python's current error, for functions that Python calls
/// without nanobind.
void set_python_error() noexcept;

/// Turns cugrt::Error into Python's cugrt.Error, which the package defines. Once, at import.
void translate_errors();

} // namespace cugrt::python
