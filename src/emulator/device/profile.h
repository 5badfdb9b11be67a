// Device profiles: the properties of the emulated devices. Rows stand in profiles.def.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace cugrt::emulator {

struct DeviceProfile {
  std::string_view name; // "sm_90"
  int major, minor;      // compute capability
  int multiprocessors;
  int max_threads_per_multiprocessor;
  int max_shared_bytes_per_block;       // without opting in: 49152 on all
  int max_shared_bytes_per_block_optin; // by CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
  int max_shared_bytes_per_multiprocessor;
  int clock_khz, memory_clock_khz, memory_bus_bits, l2_bytes; // reported only; nothing is timed
  int integrated; // 1: the device's memory is the host's

  int capability() const { return major * 10 + minor; }
};

/// nullptr when there is no such row.
const DeviceProfile *find_profile(std::string_view name);
/// sm_90, where nobody chose another.
const DeviceProfile &default_profile();

} // namespace cugrt::emulator
