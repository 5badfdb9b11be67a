// Declarations of NVIDIA's nvml.h that the emulated NVML has. Toolkits for compiling programs do
// not always bring that header.
#pragma once

#include <stdint.h>

extern "C" {

typedef struct nvmlDevice_st *nvmlDevice_t;

enum nvmlReturn_t {
#define NVML_ERROR_ROW(name, value, text) name = value,
#include "emulator/nvml/nvml_errors.def"
#undef NVML_ERROR_ROW
};

struct nvmlMemory_t {
  unsigned long long total, free, used;
};
struct nvmlMemory_v2_t {
  unsigned version; // bytes of the struct, and 2 in the highest byte
  unsigned long long total, reserved, free, used;
};
struct nvmlPciInfo_t {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
/// For nvmlDeviceGetPciInfo and _v2.
struct nvmlPciInfo_v2_t {
  char bus_id[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id, reserved[4];
};

} // extern "C"
