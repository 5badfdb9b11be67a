// Describes the driver and its devices for `cugrt doctor`.
#pragma once

#include "device/driver/driver_api.h"

#include <cstdint>
#include <vector>

namespace cugrt::driver {

struct DeviceReport {
  int ordinal = 0;
  std::string name;
  std::string uuid;         // "GPU-xxxxxxxx-...", empty where the driver has none
  std::string architecture; // "sm_90"
  uint64_t total_bytes = 0;
  struct Attribute {
    const char *name; // "multiprocessors"
    int value;
  };
  std::vector<Attribute> attributes;
};

struct DriverReport {
  DriverKind kind = DriverKind::system;
  std::string path;
  int version = 0;
  bool emulated = false;
  std::vector<std::string> missing; // what needs a newer driver, a line each
  std::vector<DeviceReport> devices;
};

/// Asks the driver; creates no context.
Result<DriverReport> report(const DriverLibrary &driver);

/// Members of Capabilities that are off, such as "conditional nodes IF and WHILE need CUDA 12.3".
std::vector<std::string> missing_capabilities(const Capabilities &capabilities);

} // namespace cugrt::driver
