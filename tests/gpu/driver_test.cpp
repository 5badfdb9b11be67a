// The driver layer over the machine's own driver and its first device, or over the driver that
// CUGRT_TEST_DRIVER names (`system`, `emulated` or a path). Without them the program ends with 77,
// "skipped", and its last line says why.
#include "support/driver_under_test.h"
#include "support/named_driver.h"

using namespace cugrt;
using namespace cugrt::driver;

const DriverLibrary &driver_under_test() {
  static const std::unique_ptr<DriverLibrary> library = test::open_named_driver("system");
  return *library;
}

// Before the first case runs, so that a machine without a device has none that failed.
static const DriverLibrary &opened_first = driver_under_test();
