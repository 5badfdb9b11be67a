// The driver layer over the machine's own driver and its first device. Without them the program
// ends with 77, "skipped", and its last line says why.
#include "support/driver_under_test.h"

#include <cstdio>
#include <cstdlib>

using namespace cugrt;
using namespace cugrt::driver;

const DriverLibrary &driver_under_test() {
  static std::unique_ptr<DriverLibrary> library = [] {
    auto opened = open_driver({DriverKind::system, {}});
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
