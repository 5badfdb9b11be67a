#include "errors.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <new>

namespace nb = nanobind;

namespace cugrt::python {

void fail(cugrt_code code, const std::string &message) {
  check(api().status_create(code, message.c_str()));
  throw std::runtime_error(message); // a status that could not be made
}

namespace {

void raise(const Error &error) {
  nb::object kind = nb::module_::import_("cugrt._errors").attr("Error");
  nb::object value =
      kind(error.what(), static_cast<int>(error.code()), error.location(), error.cuda_error());
  PyErr_SetObject(kind.ptr(), value.ptr());
}

} // namespace

void set_python_error() noexcept {
  try {
    throw;
  } catch (const Error &error) {
    try {
      raise(error);
    } catch (nb::python_error &failure) {
      failure.restore();
    }
  } catch (nb::python_error &error) {
    error.restore();
  } catch (const std::bad_alloc &) {
    PyErr_NoMemory();
  } catch (const std::exception &error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
}

void translate_errors() {
  nb::register_exception_translator([](const std::exception_ptr &failure, void *) {
    try {
      std::rethrow_exception(failure);
    } catch (const Error &error) {
      raise(error);
    }
  });
}

} // namespace cugrt::python
