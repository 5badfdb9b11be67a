// Devices: one, as the profile describes it.
#include "emulator/driver/device_limits.h"
#include "emulator/driver/driver.h"

#include <algorithm>
#include <cstring>

namespace cugrt::emulator::api {

int max_blocks_per_multiprocessor(const DeviceProfile &p) {
  switch (p.capability()) {
  case 75:
  case 86:
  case 87:
    return 16;
  case 89:
  case 110:
  case 120:
    return 24;
  default:
    return 32;
  }
}

int device_attribute(const DeviceProfile &p, CUdevice_attribute attribute) {
  switch (attribute) {
#define ATTRIBUTE(name, value)                                                                     \
  case CU_DEVICE_ATTRIBUTE_##name:                                                                 \
    return value;
#include "emulator/driver/device_attributes.def"
#undef ATTRIBUTE
  default:
    return 0;
  }
}

std::string device_name(const DeviceProfile &p) { return "cugrt EMULATED " + std::string(p.name); }

CUuuid device_uuid(const DeviceProfile &p) {
  char bytes[17] = "cugrtEMULATED\0\0\0";
  bytes[14] = char(p.major);
  bytes[15] = char(p.minor);
  CUuuid uuid;
  std::memcpy(uuid.bytes, bytes, sizeof uuid.bytes);
  return uuid;
}

static CUresult copy_text(const std::string &text, char *out, int bytes) {
  if (!out || bytes <= 0)
    return CUDA_ERROR_INVALID_VALUE;
  size_t length = std::min(text.size(), size_t(bytes) - 1);
  std::memcpy(out, text.data(), length);
  out[length] = 0;
  return CUDA_SUCCESS;
}

constexpr char kBusId[] = "0000:00:01.0";

// cudaProfiler.h declares these, which not every installation of the headers has.
#define TYPED_cuProfilerStart() void
#define TYPED_cuProfilerStop() void

CALL(cuDeviceGet, device, ordinal) {
  if (!device)
    return CUDA_ERROR_INVALID_VALUE;
  if (ordinal != 0)
    return CUDA_ERROR_INVALID_DEVICE;
  *device = 0;
  return CUDA_SUCCESS;
}

CALL(cuDeviceGetCount, count) { return give(count, 1); }

DEVICE_CALL(cuDeviceGetName, name, bytes, device) {
  return copy_text(device_name(*driver.config.profile), name, bytes);
}

DEVICE_CALL(cuDeviceGetUuid_v2, uuid, device) {
  return give(uuid, device_uuid(*driver.config.profile));
}

DEVICE_CALL(cuDeviceTotalMem_v2, bytes, device) { return give(bytes, driver.config.memory_bytes); }

DEVICE_CALL(cuDeviceGetAttribute, value, attribute, device) {
  if (!value || attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  *value = device_attribute(*driver.config.profile, attribute);
  return CUDA_SUCCESS;
}

DEVICE_CALL(cuDeviceComputeCapability, major, minor, device) {
  if (!major || !minor)
    return CUDA_ERROR_INVALID_VALUE;
  *major = driver.config.profile->major;
  *minor = driver.config.profile->minor;
  return CUDA_SUCCESS;
}

DEVICE_CALL(cuDeviceGetProperties, properties, device) {
  if (!properties)
    return CUDA_ERROR_INVALID_VALUE;
  const DeviceProfile &p = *driver.config.profile;
  *properties = CUdevprop{1024,
                          {1024, 1024, 64},
                          {2147483647, 65535, 65535},
                          p.max_shared_bytes_per_block,
                          65536,
                          32,
                          2147483647,
                          65536,
                          p.clock_khz,
                          512};
  return CUDA_SUCCESS;
}

DEVICE_CALL(cuDeviceGetPCIBusId, text, bytes, device) { return copy_text(kBusId, text, bytes); }

CALL(cuDeviceGetByPCIBusId, device, text) {
  if (!device || !text)
    return CUDA_ERROR_INVALID_VALUE;
  if (std::strcmp(text, kBusId) != 0)
    return CUDA_ERROR_INVALID_DEVICE;
  *device = 0;
  return CUDA_SUCCESS;
}

DEVICE_CALL(cuDeviceCanAccessPeer, can, device, peer) {
  if (!can)
    return CUDA_ERROR_INVALID_VALUE;
  if (peer != 0)
    return CUDA_ERROR_INVALID_DEVICE;
  *can = 0; // a device is not its own peer
  return CUDA_SUCCESS;
}

DEVICE_CALL(cuDeviceGetExecAffinitySupport, supported, type, device) {
  if (!supported || type < 0 || type >= CU_EXEC_AFFINITY_TYPE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  *supported = 0;
  return CUDA_SUCCESS;
}

ENTRY(cuProfilerStart, ) {
  return call([](Driver &) { return CUDA_SUCCESS; });
}

ENTRY(cuProfilerStop, ) {
  return call([](Driver &) { return CUDA_SUCCESS; });
}

} // namespace cugrt::emulator::api
