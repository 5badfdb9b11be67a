// Examines driver, device, compiler and cache, and says what is missing and how to get it.
#pragma once

#include "base/compiler_report.h"
#include "device/context/device.h"
#include "device/driver/board.h"
#include "device/driver/report.h"

namespace cugrt::runtime {

struct DoctorReport {
  bool driver_wanted = true;
  Status driver_problem; // when the driver cannot be used
  std::optional<driver::DriverReport> driver;
  std::optional<driver::Board> board;          // of a Jetson
  std::optional<jit::CompilerReport> compiler; // nothing: this library compiles nothing

  /// Whether kernels can run: there is a driver with a device and, if modules are compiled, a
  /// compiler or a cache that may hold code.
  bool usable() const;
  /// Whether the only NVRTC found has a newer major version than the driver.
  bool compiler_too_new() const;
  /// Advice on missing parts, a line each.
  std::vector<std::string> remedies() const;
  std::string to_text() const;
  std::string to_json() const;
};

/// Opens the driver, but creates no context. compile/compile.h examines the compiler.
DoctorReport examine_driver(const DeviceOptions &options);

} // namespace cugrt::runtime
