#include "progress.h"

namespace nb = nanobind;

namespace cugrt::python {

void Progress::tell(void *user, size_t done, size_t total, const char *kernel, double milliseconds,
                    size_t cached) {
  auto &self = *static_cast<Progress *>(user);
  nb::gil_scoped_acquire acquired;
  if (self.failure_)
    return;
  try {
    if (PyErr_CheckSignals())
      throw nb::python_error();
    if (!self.function_.is_none())
      self.function_(done, total, kernel, milliseconds, cached);
  } catch (...) {
    self.failure_ = std::current_exception();
    self.cancel_ = 1;
  }
}

} // namespace cugrt::python
