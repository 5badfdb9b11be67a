// Limits of the device, from the profile: for attributes, launch checks and occupancy.
#pragma once

#include "emulator/device/profile.h"
#include "emulator/driver/cuda_api.h"

namespace cugrt::emulator::api {

/// A bank size that CUDA knows; devices since compute capability 5.0 have four bytes whatever is
/// set.
inline bool is_shared_config(CUsharedconfig config) {
  return config >= CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE &&
         config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE;
}

int max_blocks_per_multiprocessor(const DeviceProfile &profile);
/// 0 for an attribute that is not emulated.
int device_attribute(const DeviceProfile &profile, CUdevice_attribute attribute);

/// From here on kernels may begin before the preceding kernel has ended; older devices take
/// programmatic edges as ordinary ones.
constexpr int kProgrammaticCapability = 90;
/// From here on devices have clusters.
constexpr int kClusterCapability = 90;
constexpr uint32_t kMaxThreadsPerBlock = 1024;
/// Larger ones take an attribute of the function.
constexpr uint32_t kPortableClusterBlocks = 8;

std::string device_name(const DeviceProfile &profile);
/// The same on every machine and in every run.
CUuuid device_uuid(const DeviceProfile &profile);

} // namespace cugrt::emulator::api
