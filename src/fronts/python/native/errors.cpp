#include "errors.h"

#include <algorithm>
#include <new>

namespace nb = nanobind;

namespace cugrt::python {

void fail(cugrt_code code, const std::string &text) {
  std::string message = text;
  std::replace(message.begin(), message.end(), '\0', '?');
  check(api().status_create(code, message.c_str()));
  throw std::runtime_error(message); // a status that could not be made
}

nb::object shown(std::string_view text) {
  nb::object made = nb::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
  if (!made.is_valid())
    throw nb::python_error();
  return made;
}

std::string text_of(nb::handle object) {
  try {
    nb::object text = nb::str(object);
    if (nb::cast<bool>(text.attr("isprintable")()))
      return nb::cast<std::string>(text);
    const std::string quoted = nb::cast<std::string>(nb::steal(PyObject_ASCII(text.ptr())));
    return quoted.substr(1, quoted.size() - 2);
  } catch (const nb::python_error &) {
    return nb::cast<std::string>(nb::handle(object.type()).attr("__name__"));
  }
}

static void raise(const Error &error) {
  nb::object kind = nb::module_::import_("cugrt._errors").attr("Error");
  nb::object value = kind(shown(error.what()), static_cast<int>(error.code()),
                          shown(error.location()), error.cuda_error());
  PyErr_SetObject(kind.ptr(), value.ptr());
}

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
