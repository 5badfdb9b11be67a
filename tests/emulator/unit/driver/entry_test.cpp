// How programs reach the driver: exported names, cuGetProcAddress, versions, errors' names; and the
// committed table against cuda.h and the documentation.
#include "emulator/unit/driver/session.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>

namespace {

struct Entry {
  std::string_view symbol;
  bool implemented;
};

constexpr Entry kTable[] = {
#define IMPLEMENTED(base, symbol, version, variant) {#symbol, true},
#define FORWARDED IMPLEMENTED
#define MISSING(base, symbol, version, variant) {#symbol, false},
#include "emulator/driver/entry_points.def"
#undef IMPLEMENTED
#undef FORWARDED
#undef MISSING
};

void *look_up(const char *name, int version, CUdriverProcAddressQueryResult *status = nullptr,
              cuuint64_t flags = 0) {
  void *address = nullptr;
  OK(CU(cuGetProcAddress_v2)(name, &address, version, flags, status));
  return address;
}

std::string read(const char *path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

} // namespace

TEST_CASE("Every function of cuda.h and of the headers beside it is exported under the name that "
          "the real library has") {
  // cuda.h has 685 declarations, one of a moved name; cudaProfiler.h 3, cudaGL.h 18, cudaEGL.h 12
  // and cudaVDPAU.h 5.
  CHECK(std::size(kTable) == 685 + 1 + 3 + 18 + 12 + 5);
  for (const Entry &row : kTable)
    if (!symbol(row.symbol.data()))
      FAIL_CHECK(row.symbol);
}

TEST_CASE("What is not implemented answers CUDA_ERROR_NOT_SUPPORTED and counts as a call") {
  Session session;
  uint64_t before = statistics().calls;
  unsigned missing = 0;
  for (const Entry &row : kTable)
    if (!row.implemented) {
      auto function = reinterpret_cast<int (*)()>(symbol(row.symbol.data()));
      if (function() != CUDA_ERROR_NOT_SUPPORTED)
        FAIL_CHECK(row.symbol);
      ++missing;
    }
  CHECK(missing > 0);
  CHECK(statistics().calls == before + missing);
}

TEST_CASE("The documentation lists exactly what is not implemented") {
  std::string text = read(EMULATOR_DOCS);
  size_t begin = text.find("<!-- not implemented -->"), end = text.find("<!-- end -->");
  REQUIRE(begin != std::string::npos);
  REQUIRE(end != std::string::npos);
  std::istringstream list(text.substr(begin, end - begin));
  std::map<std::string, bool> listed, missing;
  for (std::string word; list >> word;)
    if (word.rfind("cu", 0) == 0)
      listed[word.substr(0, word.find_first_of(",.`"))] = true;
  for (const Entry &row : kTable)
    if (!row.implemented && row.symbol.find("_pt") == std::string_view::npos)
      missing[std::string(row.symbol)] = true;
  CHECK(listed == missing);
}

TEST_CASE("cuGetProcAddress gives the newest ABI that is not newer than the version asked for") {
  FreshDriver driver;
  CHECK(look_up("cuMemAlloc", 13000) == symbol("cuMemAlloc_v2"));
  CHECK(look_up("cuMemAlloc", 3020) == symbol("cuMemAlloc_v2"));
  CHECK(look_up("cuMemAlloc", 3010) == symbol("cuMemAlloc"));
  CHECK(look_up("cuGraphAddKernelNode", 12000) == symbol("cuGraphAddKernelNode_v2"));
  CHECK(look_up("cuGraphAddKernelNode", 11080) == symbol("cuGraphAddKernelNode"));
  CHECK(look_up("cuGraphInstantiate", 12020) == symbol("cuGraphInstantiateWithFlags"));
  CHECK(look_up("cuGraphInstantiate", 11040) == symbol("cuGraphInstantiate_v2"));
  CHECK(look_up("cuEventElapsedTime", 12080) == symbol("cuEventElapsedTime_v2"));
  CHECK(look_up("cuEventElapsedTime", 12060) == symbol("cuEventElapsedTime"));
  CHECK(look_up("cuCtxCreate", 12050) == symbol("cuCtxCreate_v4"));
}

TEST_CASE("cuGetProcAddress finds per-thread forms only when asked to") {
  FreshDriver driver;
  auto flag = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  CHECK(look_up("cuLaunchKernel", 13000) == symbol("cuLaunchKernel"));
  CHECK(look_up("cuLaunchKernel", 13000, nullptr, flag) == symbol("cuLaunchKernel_ptsz"));
  // "If a per-thread version is not found, the API will return the legacy version".
  CHECK(look_up("cuMemAlloc", 13000, nullptr, flag) == symbol("cuMemAlloc_v2"));
}

TEST_CASE("cuGetProcAddress refuses a version above the driver's") {
  FreshDriver driver{"CUGRT_EMU_DRIVER_VERSION=12.4"};
  void *address = nullptr;
  CUdriverProcAddressQueryResult status{};
  int version = MADE(cuDriverGetVersion);
  CHECK(version == 12040);
  // "If the specified CUDA version is greater than the driver version, the API will return
  // CUDA_ERROR_INVALID_VALUE."
  CHECK(CU(cuGetProcAddress_v2)("cuInit", &address, 12060, 0, &status) == CUDA_ERROR_INVALID_VALUE);
  // What came later is unknown to a driver of this version.
  CHECK(look_up("cuGreenCtxGetId", 12040, &status) == nullptr);
  CHECK(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  CHECK(look_up("cuFuncGetParamInfo", 12040, &status) != nullptr);
  CHECK(status == CU_GET_PROC_ADDRESS_SUCCESS);
  // "found but is not supported by cudaVersion specified"
  CHECK(look_up("cuFuncGetParamInfo", 12020, &status) == nullptr);
  CHECK(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  CHECK(look_up("cuNoSuchFunction", 12020, &status) == nullptr);
  CHECK(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

TEST_CASE("Each driver from 13.1 to 13.5 knows the names that its version brought, and no later") {
  struct Row {
    const char *base, *symbol;
    int since;
  };
  const Row row =
      GENERATE(Row{"cuGraphNodeGetToolsId", "cuGraphNodeGetToolsId", 13010},
               Row{"cuGraphNodeGetParams", "cuGraphNodeGetParams", 13020},
               Row{"cuStreamBeginRecaptureToGraph", "cuStreamBeginRecaptureToGraph", 13030},
               Row{"cuGraphAddNode", "cuGraphAddNode_v3", 13040},
               Row{"cuFabricCpyBatchAsync", "cuFabricCpyBatchAsync", 13050});
  for (int version = 13000; version <= 13050; version += 10) {
    FreshDriver driver{"CUGRT_EMU_DRIVER_VERSION=13." + std::to_string(version % 1000 / 10)};
    INFO(row.symbol << " of a driver of version " << version);
    CHECK((look_up(row.base, version) == symbol(row.symbol)) == (version >= row.since));
  }
}

TEST_CASE("Calls before cuInit answer CUDA_ERROR_NOT_INITIALIZED") {
  FreshDriver driver;
  int count = 0;
  CHECK(CU(cuDeviceGetCount)(&count) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(CU(cuInit)(1) == CUDA_ERROR_INVALID_VALUE); // "the Flags parameter must be 0"
  OK(CU(cuInit)(0));
  OK(CU(cuDeviceGetCount)(&count));
  CHECK(count == 1);
}

TEST_CASE("Errors have the names and descriptions of CUDA") {
  const char *text = nullptr;
  OK(CU(cuGetErrorName)(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
  CHECK(std::string(text) == "CUDA_ERROR_ILLEGAL_ADDRESS");
  OK(CU(cuGetErrorString)(CUDA_ERROR_INVALID_VALUE, &text));
  CHECK(std::string(text) == "invalid argument");
  CHECK(CU(cuGetErrorName)(CUresult(12345), &text) == CUDA_ERROR_INVALID_VALUE);
  CHECK(text == nullptr);
}

TEST_CASE("The device is the profile that was chosen") {
  Session session{"CUGRT_EMU_DEVICE=sm_80", "CUGRT_EMU_MEMORY=256M"};
  int major = MADE(cuDeviceGetAttribute, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
  int minor = MADE(cuDeviceGetAttribute, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
  int optin = MADE(cuDeviceGetAttribute, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0);
  int warp = MADE(cuDeviceGetAttribute, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0);
  CHECK(major == 8);
  CHECK(minor == 0);
  CHECK(optin == 163 * 1024);
  CHECK(warp == 32);
  size_t total = MADE(cuDeviceTotalMem_v2, 0);
  CHECK(total == size_t(256) << 20);
  char name[64];
  OK(CU(cuDeviceGetName)(name, sizeof name, 0));
  CHECK(std::string(name).find("EMULATED") != std::string::npos);
  CHECK(CU(cuDeviceGetAttribute)(&warp, CUdevice_attribute(0), 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(CU(cuDeviceGetAttribute)(&warp, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 1) ==
        CUDA_ERROR_INVALID_DEVICE);
}

TEST_CASE("Every profile has the limits that the programming guide gives its compute capability") {
  struct Row {
    const char *device;
    int major, minor, threads, optin_kib; // of a multiprocessor; shared memory of a block
  };
  const Row row = GENERATE(Row{"sm_75", 7, 5, 1024, 64}, Row{"sm_80", 8, 0, 2048, 163},
                           Row{"sm_86", 8, 6, 1536, 99}, Row{"sm_87", 8, 7, 1536, 163},
                           Row{"sm_89", 8, 9, 1536, 99}, Row{"sm_90", 9, 0, 2048, 227},
                           Row{"sm_100", 10, 0, 2048, 227}, Row{"sm_110", 11, 0, 1536, 227},
                           Row{"sm_120", 12, 0, 1536, 99});
  Session session{std::string("CUGRT_EMU_DEVICE=") + row.device};
  auto attribute = [](CUdevice_attribute which) {
    int value = MADE(cuDeviceGetAttribute, which, 0);
    return value;
  };
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) == row.major);
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) == row.minor);
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) == row.threads);
  CHECK(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) == row.optin_kib * 1024);
}

TEST_CASE("Modules and libraries are loaded where their target says: older everywhere, .a exactly, "
          ".f in its family") {
  struct Row {
    const char *target, *device;
    bool loads;
  };
  const Row row = GENERATE(Row{"sm_75", "sm_120", true}, Row{"sm_90", "sm_89", false},
                           Row{"sm_90a", "sm_90", true}, Row{"sm_90a", "sm_100", false},
                           Row{"sm_100f", "sm_100", true}, Row{"sm_100f", "sm_110", false},
                           Row{"sm_100a", "sm_120", false}, Row{"sm_120", "sm_110", false});
  Session session{std::string("CUGRT_EMU_DEVICE=") + row.device};
  CUmodule module = nullptr;
  std::string ptx = std::string(".version 9.0\n.target ") + row.target +
                    "\n.address_size 64\n.visible .entry k() { ret; }";
  INFO(row.target << " on " << row.device);
  CUlibrary library = nullptr;
  const CUresult expected = row.loads ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX;
  CHECK(CU(cuModuleLoadData)(&module, ptx.c_str()) == expected);
  CHECK(CU(cuLibraryLoadData)(&library, ptx.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0) ==
        expected);
  if (row.loads)
    OK(CU(cuLibraryUnload)(library));
}

TEST_CASE("Every version that can be chosen is what the driver says of itself") {
  const auto [name, number] =
      GENERATE(std::pair("12.2", 12020), std::pair("12.4", 12040), std::pair("12.6", 12060),
               std::pair("12.8", 12080), std::pair("13.0", 13000), std::pair("13.1", 13010),
               std::pair("13.2", 13020), std::pair("13.3", 13030), std::pair("13.4", 13040),
               std::pair("13.5", 13050));
  FreshDriver driver{std::string("CUGRT_EMU_DRIVER_VERSION=") + name};
  int version = MADE(cuDriverGetVersion);
  CHECK(version == number);
}

TEST_CASE("Before 13.0 the names of 13.0 that take a context as well do without") {
  const auto [version, expected] =
      GENERATE(std::pair("12.8", CUDA_SUCCESS), std::pair("13.0", CUDA_ERROR_INVALID_CONTEXT));
  Session session{std::string("CUGRT_EMU_DRIVER_VERSION=") + version};
  auto leftover = reinterpret_cast<CUcontext>(77); // what an argument that was not passed may be
  CUdevice device = 7;
  CHECK(CU(cuCtxGetDevice_v2)(&device, leftover) == expected);
  CHECK(device == (expected == CUDA_SUCCESS ? 0 : 7));
  CHECK(CU(cuCtxSynchronize_v2)(leftover) == expected);
  OK(CU(cuCtxGetDevice_v2)(&device, session.context));
  OK(CU(cuCtxSynchronize_v2)(nullptr));
}

TEST_CASE("A variable that makes no sense is an error that names it, written where reports go") {
  const char *wrong = GENERATE("CUGRT_EMU_DEVICE=sm_1", "CUGRT_EMU_DRIVER_VERSION=9",
                               "CUGRT_EMU_THREADS=0", "CUGRT_EMU_THREADS=257",
                               "CUGRT_EMU_THREADS=two", "CUGRT_EMU_ISA=v9", "CUGRT_EMU_WORKERS=0");
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("cugrt-emu-report." + std::to_string(getpid()));
  std::filesystem::remove(file);
  FreshDriver driver{wrong, "CUGRT_EMU_REPORT=" + file.string()};
  CHECK(CU(cuInit)(0) == CUDA_ERROR_INVALID_VALUE);
  char message[256];
  OK(CU(cuEmuGetLastMessage)(message, sizeof message));
  CHECK(std::string(message).find(wrong) == 0);
  std::string line;
  std::getline(std::ifstream(file), line);
  CHECK(line == std::string("cugrt-emu: refused: ") + message);
  std::filesystem::remove(file);
}

TEST_CASE("Threads and instruction sets that there are are accepted") {
  FreshDriver driver{"CUGRT_EMU_THREADS=256", "CUGRT_EMU_ISA=v2"};
  OK(CU(cuInit)(0));
}

TEST_CASE("What is refused as not supported says what it is") {
  Session session({"CUGRT_EMU_CHECK=none"});
  auto refused = [before = std::string()](CUresult result) mutable {
    CHECK(result == CUDA_ERROR_NOT_SUPPORTED);
    const std::string all = findings(), fresh = all.substr(before.size());
    before = all;
    return fresh.substr(0, fresh.find(" not emulated"));
  };
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = {CU_MEM_LOCATION_TYPE_HOST, 0};
  CUmemoryPool pool = nullptr;
  CHECK(refused(CU(cuMemPoolCreate)(&pool, &props)) == "refused: memory pools on the host are");
  CHECK(refused(CU(cuMemGetMemPool)(&pool, &props.location, CU_MEM_ALLOCATION_TYPE_MANAGED)) ==
        "refused: memory pools of managed memory are");
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CHECK(refused(CU(cuMemPoolCreate)(&pool, &props)) == "refused: memory that processes share is");
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_HOST, 0};
  CUmemGenericAllocationHandle memory = 0;
  CHECK(refused(CU(cuMemCreate)(&memory, 2 << 20, &prop, 0)) ==
        "refused: physical memory on the host is");
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.WidthInBytes = copy.Height = 1;
  CHECK(refused(CU(cuMemcpy2D_v2)(&copy)) == "refused: copies of CUDA arrays are");
}
