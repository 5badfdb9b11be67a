// The choice of a driver that the tool and the examples share.
#pragma once

#include <cugrt/cugrt.hpp>

#include <cstdio>
#include <cstdlib>

namespace tool {

/// Whether the options or the environment (CUGRT_DRIVER) say which driver it is.
inline bool driver_is_chosen(const cugrt::RuntimeOptions &options) {
  const char *environment = std::getenv("CUGRT_DRIVER");
  return options.driver != CUGRT_DRIVER_DEFAULT || (environment && *environment);
}

/// A runtime on the chosen driver; without a choice, on the CUDA driver or else the emulated
/// one. Reports on stderr, after `program`'s name, what is missing, and that results are
/// EMULATED.
inline cugrt::Runtime open_or_emulate(cugrt::RuntimeOptions options, const char *program) {
  auto open = [&] {
    try {
      return cugrt::Runtime(options);
    } catch (const cugrt::Error &error) {
      if (driver_is_chosen(options) ||
          (error.code() != CUGRT_NOT_FOUND && error.code() != CUGRT_UNSUPPORTED))
        throw;
      std::fprintf(stderr, "%s: %s\n", program, error.what());
      options.driver = CUGRT_DRIVER_EMULATED;
      return cugrt::Runtime(options);
    }
  };
  cugrt::Runtime runtime = open();
  if (runtime.info().emulated)
    std::fprintf(stderr, "%s: EMULATED: kernels run on the CPU; times say nothing about a GPU\n",
                 program);
  return runtime;
}

} // namespace tool
