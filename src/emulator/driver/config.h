// Environment variables of the emulated driver; docs/emulator.md lists them. cuInit
// reports a value that makes no sense: a test must not run on another device than it
// says.
#pragma once

#include "emulator/device/profile.h"
#include "emulator/driver/findings.h"

#include <cstdint>
#include <optional>
#include <string>

namespace cugrt::emulator::api {

struct Config {
  int driver_version = 13000;                // CUGRT_EMU_DRIVER_VERSION=12.4
  const DeviceProfile *profile = nullptr;    // CUGRT_EMU_DEVICE=sm_90
  uint64_t memory_bytes = uint64_t(4) << 30; // CUGRT_EMU_MEMORY=bytes, or with suffix M or G
  uint64_t seed = 1;                         // CUGRT_EMU_SEED
  unsigned workers = 1;                      // CUGRT_EMU_WORKERS: device tasks at a time
  std::optional<uint64_t> order;             // CUGRT_EMU_ORDER: what is unordered is drawn
  bool first_edge_data = false;              // CUGRT_EMU_QUIRKS=first_edge_data,
  bool empty_bodies_hang = false;            // empty_bodies_hang
  uint64_t fail_call = 0;                    // CUGRT_EMU_FAIL_CALL=N:CODE
  int fail_code = 0;
  CheckSet checks = free_checks(); // CUGRT_EMU_CHECK=all, or names with commas between
  std::string report;              // CUGRT_EMU_REPORT=stderr, or a file
  std::string problem;             // empty, or which variable is wrong and what it may be

  static Config from_environment();
};

} // namespace cugrt::emulator::api
