// The driver that a test runs on where its user names one.
#pragma once

#include "device/driver/driver_api.h"

#include <cstdio>
#include <cstdlib>
#include <memory>

namespace cugrt::test {

/// Opens what CUGRT_TEST_DRIVER names (`system`, `emulated` or a path), or `otherwise` where it is
/// unset; without it the program ends with 77, "skipped", and its last line says why.
inline std::unique_ptr<driver::DriverLibrary> open_named_driver(const char *otherwise) {
  const char *name = std::getenv("CUGRT_TEST_DRIVER");
  auto choice = driver::DriverChoice::parse(name && *name ? name : otherwise);
  auto opened = driver::open_driver(choice.ok() ? *choice : driver::DriverChoice());
  if (!choice.ok() || !opened.ok()) {
    std::printf("%s\n", (choice.ok() ? opened.status() : choice.status()).message().c_str());
    std::fflush(stdout);
    std::_Exit(77);
  }
  return std::move(opened).value();
}

} // namespace cugrt::test
