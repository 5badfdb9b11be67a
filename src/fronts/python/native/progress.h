// Reports progress of compilation to Python, and ends compilation if Python asks for it.
#pragma once

#include <cugrt/cugrt.hpp>

#include <nanobind/nanobind.h>

#include <exception>

namespace cugrt::python {

/// Goes into a struct of options; lives until the call with these has returned. Calls
/// `function(done, total, kernel, milliseconds, cached)`, and listens for Ctrl-C.
class Progress {
public:
  explicit Progress(nanobind::object function) : function_(std::move(function)) {}
  template <class Options> void put_into(Options &options) {
    options.progress = tell;
    options.progress_user = this;
    if constexpr (requires { options.cancel; })
      options.cancel = &cancel_;
  }
  /// Throws what Python threw meanwhile.
  void rethrow() {
    if (failure_)
      std::rethrow_exception(failure_);
  }

private:
  static void tell(void *user, size_t done, size_t total, const char *kernel, double milliseconds,
                   size_t cached);

  nanobind::object function_;
  volatile int32_t cancel_ = 0;
  std::exception_ptr failure_;
};

} // namespace cugrt::python
