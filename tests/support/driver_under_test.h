// What driver_cases.cpp runs on; each executable that takes it in defines this function.
#pragma once

#include "device/driver/driver_api.h"

/// Opened at the first call; lives as long as the process.
const cugrt::driver::DriverLibrary &driver_under_test();
