// The emulated NVML: errors, forms of its questions, and that it leaves the driver's counts alone.
#include "emulator/nvml/nvml_types.h"
#include "emulator/unit/driver/session.h"

#include <cstring>

namespace {

template <class... Args> nvmlReturn_t nvml(const char *name, Args... args) {
  auto function = reinterpret_cast<nvmlReturn_t (*)(Args...)>(symbol(name));
  REQUIRE(function);
  return function(args...);
}

struct Nvml {
  nvmlDevice_t device = nullptr;
  Nvml() {
    REQUIRE(nvml("nvmlInit_v2") == NVML_SUCCESS);
    REQUIRE(nvml("nvmlDeviceGetHandleByIndex_v2", 0u, &device) == NVML_SUCCESS);
  }
  ~Nvml() { CHECK(nvml("nvmlShutdown") == NVML_SUCCESS); }
};

constexpr const char *kNotSupported[] = {
#define NVML_NOT_SUPPORTED(function) #function,
#include "emulator/nvml/not_supported.def"
#undef NVML_NOT_SUPPORTED
};

} // namespace

TEST_CASE("NVML answers nothing before it is initialised, as often as it is shut down") {
  FreshDriver driver;
  unsigned count = 7;
  CHECK(nvml("nvmlDeviceGetCount_v2", &count) == NVML_ERROR_UNINITIALIZED);
  CHECK(nvml("nvmlDeviceGetPowerUsage") == NVML_ERROR_UNINITIALIZED);
  CHECK(nvml("nvmlShutdown") == NVML_ERROR_UNINITIALIZED);
  CHECK(nvml("nvmlInit") == NVML_SUCCESS);
  CHECK(nvml("nvmlInitWithFlags", 1u) == NVML_SUCCESS);
  CHECK(nvml("nvmlShutdown") == NVML_SUCCESS);
  CHECK(nvml("nvmlDeviceGetCount", &count) == NVML_SUCCESS);
  CHECK(count == 1);
  CHECK(nvml("nvmlShutdown") == NVML_SUCCESS);
  CHECK(nvml("nvmlDeviceGetCount", &count) == NVML_ERROR_UNINITIALIZED);
}

TEST_CASE("NVML is of no device when the environment makes no sense") {
  FreshDriver driver{"CUGRT_EMU_DEVICE=sm_1", "CUGRT_EMU_REPORT="};
  CHECK(nvml("nvmlInit_v2") == NVML_ERROR_DRIVER_NOT_LOADED);
}

TEST_CASE("NVML tells of the device that was chosen, before and without the driver's cuInit") {
  FreshDriver driver{"CUGRT_EMU_DEVICE=sm_89", "CUGRT_EMU_MEMORY=256M",
                     "CUGRT_EMU_DRIVER_VERSION=12.4"};
  Nvml nvml_session;
  const nvmlDevice_t device = nvml_session.device;
  char text[64];
  CHECK(nvml("nvmlDeviceGetName", device, text, unsigned(sizeof text)) == NVML_SUCCESS);
  CHECK(std::string(text) == "cugrt EMULATED sm_89");
  CHECK(nvml("nvmlDeviceGetUUID", device, text, unsigned(sizeof text)) == NVML_SUCCESS);
  // "cugrtEMULATED", 0 and the compute capability, as hexadecimal digits.
  CHECK(std::string(text) == "GPU-63756772-7445-4d55-4c41-544544000809");
  int major = 0, minor = 0, version = 0;
  CHECK(nvml("nvmlDeviceGetCudaComputeCapability", device, &major, &minor) == NVML_SUCCESS);
  CHECK(std::pair(major, minor) == std::pair(8, 9));
  nvmlMemory_t memory{};
  CHECK(nvml("nvmlDeviceGetMemoryInfo", device, &memory) == NVML_SUCCESS);
  CHECK(memory.total == 256u << 20);
  CHECK(memory.used == 0);
  CHECK(memory.free == memory.total);
  CHECK(nvml("nvmlSystemGetCudaDriverVersion", &version) == NVML_SUCCESS);
  CHECK(version == 12040);
  CHECK(nvml("nvmlSystemGetDriverVersion", text, unsigned(sizeof text)) == NVML_SUCCESS);
  CHECK(std::string(text) == "550.54.14");
  unsigned architecture = 0, bits = 0;
  CHECK(nvml("nvmlDeviceGetArchitecture", device, &architecture) == NVML_SUCCESS);
  CHECK(architecture == 8); // NVML_DEVICE_ARCH_ADA
  CHECK(nvml("nvmlDeviceGetMemoryBusWidth", device, &bits) == NVML_SUCCESS);
  CHECK(bits == 384);
}

TEST_CASE("NVML's questions are held to their arguments") {
  FreshDriver driver;
  Nvml nvml_session;
  const nvmlDevice_t device = nvml_session.device;
  char text[8];
  CHECK(nvml("nvmlDeviceGetName", device, text, unsigned(sizeof text)) ==
        NVML_ERROR_INSUFFICIENT_SIZE);
  CHECK(nvml("nvmlDeviceGetName", device, static_cast<char *>(nullptr), 64u) ==
        NVML_ERROR_INVALID_ARGUMENT);
  for (auto wrong : {nvmlDevice_t(nullptr), reinterpret_cast<nvmlDevice_t>(text)})
    CHECK(nvml("nvmlDeviceGetName", wrong, text, 64u) == NVML_ERROR_INVALID_ARGUMENT);
  nvmlDevice_t found = nullptr;
  CHECK(nvml("nvmlDeviceGetHandleByIndex", 1u, &found) == NVML_ERROR_INVALID_ARGUMENT);
  const char *const none = nullptr;
  CHECK(nvml("nvmlDeviceGetHandleByUUID", "GPU-1", &found) == NVML_ERROR_NOT_FOUND);
  CHECK(nvml("nvmlDeviceGetHandleByUUID", none, &found) == NVML_ERROR_INVALID_ARGUMENT);
  CHECK(nvml("nvmlDeviceGetHandleByPciBusId", none, &found) == NVML_ERROR_INVALID_ARGUMENT);
  CHECK(nvml("nvmlDeviceGetHandleByPciBusId_v2", "0000:00:02.0", &found) == NVML_ERROR_NOT_FOUND);
  for (const char *bus : {"0000:00:01.0", "00000000:00:01.0"}) {
    found = nullptr;
    CHECK(nvml("nvmlDeviceGetHandleByPciBusId_v2", bus, &found) == NVML_SUCCESS);
    CHECK(found == device);
  }
  nvmlMemory_v2_t memory{};
  CHECK(nvml("nvmlDeviceGetMemoryInfo_v2", device, &memory) ==
        NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
  memory.version = 0x02000028; // NVML_STRUCT_VERSION(Memory, 2)
  CHECK(nvml("nvmlDeviceGetMemoryInfo_v2", device, &memory) == NVML_SUCCESS);
  CHECK(memory.total == uint64_t(4) << 30);
  CHECK(memory.reserved == 0);
  nvmlPciInfo_t pci{};
  nvmlPciInfo_v2_t old{};
  CHECK(nvml("nvmlDeviceGetPciInfo_v3", device, &pci) == NVML_SUCCESS);
  CHECK(nvml("nvmlDeviceGetPciInfo_v2", device, &old) == NVML_SUCCESS);
  CHECK(nvml("nvmlDeviceGetPciInfo", device, &old) == NVML_SUCCESS);
  CHECK(std::string(pci.bus_id) == "00000000:00:01.0");
  CHECK(std::string(pci.bus_id_legacy) == old.bus_id);
  CHECK(pci.device == 1);
  CHECK(sizeof pci == 68); // of nvml.h
  CHECK(sizeof old == 52);
}

TEST_CASE("What an emulated device has not is not supported, by every name that is exported") {
  FreshDriver driver;
  Nvml nvml_session;
  for (const char *name : kNotSupported)
    if (nvml(name) != NVML_ERROR_NOT_SUPPORTED)
      FAIL_CHECK(name);
  CHECK(symbol("nvmlUnitGetCount") == nullptr);
  auto text = reinterpret_cast<const char *(*)(nvmlReturn_t)>(symbol("nvmlErrorString"));
  CHECK(std::string(text(NVML_ERROR_NOT_SUPPORTED)) ==
        "The requested operation is not available on target device");
  CHECK(std::string(text(nvmlReturn_t(12345))) == "Unknown Error");
}

TEST_CASE("NVML's calls are none of the driver's: they are not counted, and none is made to fail") {
  Session session;
  Nvml nvml_session;
  OK(CU(cuEmuSetFaultInjection)(1, CUDA_ERROR_UNKNOWN));
  const uint64_t before = statistics().calls;
  CUdeviceptr memory = 0;
  nvmlMemory_t use{};
  CHECK(nvml("nvmlDeviceGetMemoryInfo", nvml_session.device, &use) == NVML_SUCCESS);
  CHECK(use.used == 0);
  CHECK(statistics().calls == before);
  CHECK(CU(cuMemAlloc_v2)(&memory, 4096) == CUDA_ERROR_UNKNOWN);
  OK(CU(cuMemAlloc_v2)(&memory, 4096));
  CHECK(nvml("nvmlDeviceGetMemoryInfo", nvml_session.device, &use) == NVML_SUCCESS);
  size_t total = 0;
  size_t free_bytes = MADE(cuMemGetInfo_v2, &total);
  CHECK(use.used == total - free_bytes);
  CHECK(use.used > 0);
  OK(CU(cuMemFree_v2)(memory));
}
