// The driver's and the devices' description for people.
#include "device/driver/report.h"

#include "device/driver/driver_error.h"

#include <cstdio>

namespace cugrt::driver {

namespace {

struct AttributeRow {
  const char *name;
  CUdevice_attribute attribute;
};

// The attributes that decide what cugrt does on the device.
constexpr AttributeRow kAttributes[] = {
    {"multiprocessors", CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
    {"threads per multiprocessor", CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR},
    {"threads per block", CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
    {"shared bytes per block", CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK},
    {"shared bytes per block, opted in", CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN},
    {"L2 bytes", CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE},
    {"clock kHz", CU_DEVICE_ATTRIBUTE_CLOCK_RATE},
    {"memory clock kHz", CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE},
    {"memory bus bits", CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH},
    {"unified addressing", CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING},
    {"integrated", CU_DEVICE_ATTRIBUTE_INTEGRATED},
    {"virtual memory management", CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED},
    {"memory pools", CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED},
    {"priorities, as hints", CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED},
};

std::string uuid_text(const CUuuid &uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char byte[4];
    std::snprintf(byte, sizeof byte, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    text += byte;
    if (i == 3 || i == 5 || i == 7 || i == 9)
      text += '-';
  }
  return text;
}

Result<DeviceReport> report_device(const DriverApi &api, int ordinal) {
  DeviceReport device;
  device.ordinal = ordinal;
  std::string object = "device " + std::to_string(ordinal);
  CUdevice handle = 0;
  CUGRT_DRIVER(api, DeviceGet, (&handle, ordinal), object);
  char name[256] = {};
  CUGRT_DRIVER(api, DeviceGetName, (name, sizeof name - 1, handle), object);
  device.name = name;
  size_t total_bytes = 0;
  CUGRT_DRIVER(api, DeviceTotalMem, (&total_bytes, handle), object);
  device.total_bytes = total_bytes;
  int major = 0, minor = 0;
  CUGRT_DRIVER(api, DeviceGetAttribute,
               (&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, handle), object);
  CUGRT_DRIVER(api, DeviceGetAttribute,
               (&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, handle), object);
  device.architecture = "sm_" + std::to_string(major * 10 + minor);
  if (CUuuid uuid; api.DeviceGetUuid && api.DeviceGetUuid(&uuid, handle) == CUDA_SUCCESS)
    device.uuid = uuid_text(uuid);
  // Leaves out attributes that this driver does not know.
  for (const AttributeRow &row : kAttributes)
    if (int value = 0; api.DeviceGetAttribute(&value, row.attribute, handle) == CUDA_SUCCESS)
      device.attributes.push_back({row.name, value});
  return device;
}

} // namespace

Result<DriverReport> report(const DriverLibrary &driver) {
  DriverReport result;
  result.kind = driver.kind;
  result.path = driver.path;
  result.version = driver.version;
  result.emulated = driver.emulated;
  result.missing = missing_capabilities(driver.capabilities());
  if (!driver.api.GraphNodeGetToolsId)
    result.missing.emplace_back("ids of nodes in a profiler's report need CUDA 13.1");
  int count = 0;
  CUGRT_DRIVER(driver.api, DeviceGetCount, (&count), "");
  for (int i = 0; i < count; ++i) {
    CUGRT_ASSIGN(DeviceReport device, report_device(driver.api, i));
    result.devices.push_back(std::move(device));
  }
  return result;
}

std::vector<std::string> missing_capabilities(const Capabilities &capabilities) {
  const struct {
    bool present;
    const char *text;
  } rows[] = {
      {capabilities.edge_data, "programmatic dependent launch needs CUDA 12.3"},
      {capabilities.conditional_if_while, "conditional nodes IF and WHILE need CUDA 12.3"},
      {capabilities.kernel_param_info, "checking arguments against kernels needs CUDA 12.4"},
      {capabilities.green_contexts, "parts of a device's multiprocessors need CUDA 12.4"},
      {capabilities.cooperative_bodies,
       "cooperative launches in conditional bodies need CUDA 12.6"},
      {capabilities.empty_bodies, "conditional bodies without work need CUDA 12.8"},
      {capabilities.conditional_else_switch, "conditional nodes ELSE and SWITCH need CUDA 12.8"},
      {capabilities.virtual_memory, "growing arenas need virtual memory management"},
      {capabilities.async_allocation, "stream-ordered allocation is missing"},
  };
  std::vector<std::string> missing;
  for (const auto &row : rows)
    if (!row.present)
      missing.emplace_back(row.text);
  return missing;
}

} // namespace cugrt::driver
