// What driver, device, compiler and cache are found, what is missing and what to do.
#pragma once

#include "driver/report.h"
#include "runtime/device.h"

namespace cugrt::runtime {

struct DoctorReport {
  bool driver_wanted = true;
  Status driver_problem; // when the driver cannot be used
  std::optional<driver::DriverReport> driver;
  jit::CompilerReport compiler;

  /// Kernels can be run: a driver with a device, and a compiler or a cache that may hold code.
  bool usable() const;
  /// What to do about what is missing, a line each.
  std::vector<std::string> remedies() const;
  std::string to_text() const;
  std::string to_json() const;
};

/// Opens the driver, but creates no context; looks for the compiler without opening it.
DoctorReport examine(const DeviceOptions &options);

} // namespace cugrt::runtime
