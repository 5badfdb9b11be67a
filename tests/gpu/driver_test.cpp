// The driver layer over the machine's own driver and its first device, or over the driver that
// CUGRT_TEST_DRIVER names (`system`, `emulated` or a path). Without them the program ends with 77,
// "skipped", and its last line says why.
#include "support/driver_under_test.h"

#include <cstdio>
#include <cstdlib>

using namespace cugrt;
using namespace cugrt::driver;

const DriverLibrary &driver_under_test() {
  static std::unique_ptr<DriverLibrary> library = [] {
    const char *name = std::getenv("CUGRT_TEST_DRIVER");
    auto choice = DriverChoice::parse(name ? name : "system");
    auto opened = open_driver(choice.ok() ? *choice : DriverChoice());
    if (!opened.ok()) {
      std::printf("%s\n", opened.status().message().c_str());
      std::fflush(stdout);
      std::_Exit(77);
    }
    return std::move(opened).value();
  }();
  return *library;
}

// Before the first case runs, so that a machine without a device has none that failed.
static const DriverLibrary &opened_first = driver_under_test();
