// Opening a driver library and resolving its entry points.
//
// Three entry points are taken by name (cuInit, cuDriverGetVersion, cuGetProcAddress_v2: their ABI
// has never changed); everything else comes from cuGetProcAddress_v2 at the version of its row.
// Asking for a version above the driver's is an error there, so such rows stay null without being
// asked for.
#include "device/driver/driver_api.h"

#include "base/file.h"
#include "device/driver/driver_error.h"

#include <cstdlib>
#include <dlfcn.h>
#include <vector>

namespace cugrt::driver {

namespace {

constexpr const char *kEmulatorName = "libcugrt-emu.so";
constexpr const char *kNoDriverAdvice =
    "install the NVIDIA driver, or choose the emulated one (CUGRT_DRIVER=emulated)";

enum class Need { required, optional };

struct Row {
  const char *entry;
  int version;
  Need need;
  void (*set)(DriverApi &, void *);
  bool (*is_set)(const DriverApi &);
};

constexpr Row kRows[] = {
#define CUGRT_DRIVER_CALL(field, entry, version, need)                                             \
  {"cu" #entry, version, Need::need,                                                               \
   [](DriverApi &api, void *pointer) {                                                             \
     api.field = reinterpret_cast<decltype(DriverApi::field)>(pointer);                            \
   },                                                                                              \
   [](const DriverApi &api) { return api.field != nullptr; }},
#include "device/driver/driver_api.def"
#undef CUGRT_DRIVER_CALL
};

#define CUGRT_DRIVER_CALL(field, entry, version, need)                                             \
  static_assert(version <= kOldestDriver || Need::need == Need::optional,                          \
                "cu" #entry " is newer than the oldest driver, so it cannot be required");
#include "device/driver/driver_api.def"
#undef CUGRT_DRIVER_CALL

/// The entry points of a library file that was opened.
struct Library {
  void *handle = nullptr;
  std::string path;
  template <class Function> Function symbol(const char *name) const {
    return reinterpret_cast<Function>(dlsym(handle, name));
  }
};

/// Opens by file or loader name; on failure the loader's reason goes to `reason`.
Library open_library(const std::string &name, std::string &reason) {
  Library library;
  // Skips pipes, where the loader would wait for a writer. It finds a reason for missing files.
  if (name.find('/') != name.npos)
    if (const auto file = open_regular(name);
        !file.ok() && file.status().code() != Code::not_found) {
      reason = file.status().message();
      return library;
    }
  library.handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library.handle) {
    const char *text = dlerror();
    reason = text ? text : name + ": cannot be loaded";
    return library;
  }
  library.path = name;
  Dl_info info;
  if (void *init = dlsym(library.handle, "cuInit"); init && dladdr(init, &info) && info.dli_fname)
    library.path = info.dli_fname;
  return library;
}

Status too_old(const std::string &path, int version) {
  return Status::error(Code::unsupported, "the CUDA driver " + path + " is of version " +
                                              version_text(version) + "; cugrt needs " +
                                              version_text(kOldestDriver) +
                                              " or newer: update the driver");
}

Status stub_library(const std::string &path) {
  return Status::error(Code::unsupported,
                       "no CUDA driver: " + path + " is the toolkit's stub; " + kNoDriverAdvice);
}

bool is_stub(CUresult result) { return result == CUDA_ERROR_STUB_LIBRARY; }

/// Makes an error of a call before the table is filled: the library itself gives the names.
Status early_error(const Library &library, CUresult result, std::string_view call) {
  DriverApi names;
  names.GetErrorName = library.symbol<decltype(names.GetErrorName)>("cuGetErrorName");
  names.GetErrorString = library.symbol<decltype(names.GetErrorString)>("cuGetErrorString");
  return driver_error(names, result, call, library.path);
}

/// Fills the table. Rows that a supported driver must have are errors when they are missing.
Status resolve(DriverLibrary &driver, const Library &library, PFN_cuGetProcAddress_v12000 get) {
  for (const Row &row : kRows) {
    if (row.version > driver.version)
      continue;
    void *pointer = nullptr;
    CUdriverProcAddressQueryResult found{};
    CUresult result =
        get(row.entry, &pointer, row.version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found);
    if (result == CUDA_SUCCESS && pointer && found == CU_GET_PROC_ADDRESS_SUCCESS)
      row.set(driver.api, pointer);
    else if (row.need == Need::optional)
      continue;
    else if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_FOUND)
      return early_error(library, result, std::string("cuGetProcAddress of ") + row.entry);
    else
      return Status::error(Code::unsupported,
                           "the CUDA driver " + driver.path + " has no " + row.entry + " of CUDA " +
                               version_text(row.version) + "; reinstall the driver");
  }
  return {};
}

/// Calls cuInit, whose failures have causes of their own.
Status initialise(const DriverLibrary &driver) {
  CUresult result = driver.api.Init(0);
  if (result == CUDA_SUCCESS)
    return {};
  if (is_stub(result))
    return stub_library(driver.path);
  if (result == CUDA_ERROR_NO_DEVICE)
    return Status::error(Code::unsupported,
                         "the CUDA driver " + driver.path +
                             " finds no device; check CUDA_VISIBLE_DEVICES and that this machine "
                             "or container has a GPU, or choose the emulated driver "
                             "(CUGRT_DRIVER=emulated)")
        .with_cuda_error(error_name(driver.api, result));
  return driver_error(driver.api, result, "cuInit", driver.path);
}

/// Adds the reason that the emulated driver gives, such as a bad variable of its own.
Status with_emulators_reason(const Library &library, const Status &status) {
  using GetLastMessage = CUresult (*)(char *, size_t);
  char reason[512] = "";
  auto get = library.symbol<GetLastMessage>("cuEmuGetLastMessage");
  if (!get || get(reason, sizeof reason) != CUDA_SUCCESS || !*reason)
    return status.clone();
  return Status::error(status.code(), status.message() + ": " + reason)
      .with_cuda_error(status.cuda_error());
}

Result<std::unique_ptr<DriverLibrary>> from_library(const Library &library, DriverKind kind) {
  auto init = library.symbol<PFN_cuInit_v2000>("cuInit");
  auto get_version = library.symbol<PFN_cuDriverGetVersion_v2020>("cuDriverGetVersion");
  if (!init || !get_version)
    return Status::error(Code::unsupported, library.path + " is no CUDA driver: it has no cuInit");
  auto driver = std::make_unique<DriverLibrary>();
  driver->kind = kind;
  driver->path = library.path;
  driver->emulated = dlsym(library.handle, "cuEmuGetStatistics") != nullptr;
  if (CUresult result = get_version(&driver->version); result != CUDA_SUCCESS) {
    if (is_stub(result))
      return stub_library(library.path);
    return early_error(library, result, "cuDriverGetVersion");
  }
  auto get = library.symbol<PFN_cuGetProcAddress_v12000>("cuGetProcAddress_v2");
  if (driver->version < kOldestDriver || !get)
    return too_old(library.path, driver->version);
  CUGRT_TRY(resolve(*driver, library, get));
  if (Status status = initialise(*driver); !status.ok())
    return with_emulators_reason(library, status);
  return driver;
}

Result<std::unique_ptr<DriverLibrary>> open_system() {
  std::string reasons;
  for (const char *name : {"libcuda.so.1", "libcuda.so"}) {
    std::string reason;
    Library library = open_library(name, reason);
    if (library.handle) {
      // Either name may be a stub; then the next name may be the driver.
      auto get_version = library.symbol<PFN_cuDriverGetVersion_v2020>("cuDriverGetVersion");
      int version = 0;
      if (!get_version || !is_stub(get_version(&version)))
        return from_library(library, DriverKind::system);
      reason = library.path + " is the toolkit's stub";
    }
    reasons += (reasons.empty() ? "" : "; ") + reason;
  }
  return Status::error(Code::unsupported, "no CUDA driver (" + reasons + "); " + kNoDriverAdvice);
}

Result<std::unique_ptr<DriverLibrary>> open_path(const std::string &path, DriverKind kind) {
  std::string reason;
  Library library = open_library(path, reason);
  if (!library.handle)
    return Status::error(Code::not_found, "cannot load the CUDA driver '" + path + "': " + reason);
  return from_library(library, kind);
}

/// A caller that asks for the emulated driver must not get a device.
Result<std::unique_ptr<DriverLibrary>> open_named_emulator(const std::string &path) {
  auto driver = open_path(path, DriverKind::emulated);
  if (!driver.ok())
    return driver.take_status().in("CUGRT_EMULATOR");
  if (!driver.value()->emulated)
    return Status::error(Code::invalid_argument,
                         "CUGRT_EMULATOR: '" + path + "' is no emulated driver");
  return driver;
}

Result<std::unique_ptr<DriverLibrary>> open_emulated() {
  if (const char *path = std::getenv("CUGRT_EMULATOR"); path && *path)
    return open_named_emulator(path);
  std::vector<std::string> names;
  if (std::string folder = own_folder(); !folder.empty())
    names.push_back(folder + kEmulatorName);
  names.push_back(kEmulatorName);
  std::string reason;
  for (const std::string &name : names)
    if (Library library = open_library(name, reason); library.handle)
      return from_library(library, DriverKind::emulated);
  return Status::error(Code::not_found, "cannot load the emulated driver: " + reason + "; put " +
                                            kEmulatorName +
                                            " beside libcugrt.so, or name it in CUGRT_EMULATOR");
}

} // namespace

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Result<DriverChoice> DriverChoice::parse(std::string_view text) {
  if (text.empty() || text == "system")
    return DriverChoice{DriverKind::system, {}};
  if (text == "emulated")
    return DriverChoice{DriverKind::emulated, {}};
  if (text.find('/') != std::string_view::npos || text.find(".so") != std::string_view::npos)
    return DriverChoice{DriverKind::path, std::string(text)};
  return Status::error(Code::invalid_argument,
                       "unknown driver '" + std::string(text) +
                           "': expected system, emulated or the path of a library");
}

Capabilities DriverLibrary::capabilities() const {
  Capabilities c;
  c.edge_data = api.GraphAddDependencies_v2 != nullptr;
  c.conditional_if_while = api.GraphAddNode_v2 && api.GraphConditionalHandleCreate;
  c.kernel_param_info = api.FuncGetParamInfo != nullptr;
  c.green_contexts = api.DeviceGetDevResource && api.DevSmResourceSplitByCount &&
                     api.DevResourceGenerateDesc && api.GreenCtxCreate && api.GreenCtxDestroy &&
                     api.GreenCtxGetDevResource && api.CtxFromGreenCtx && api.LibraryLoadData &&
                     api.LibraryUnload && api.LibraryGetKernel && api.LibraryGetGlobal &&
                     api.KernelGetFunction;
  c.cooperative_bodies = c.conditional_if_while && version >= 12060;
  c.empty_bodies = c.conditional_if_while && version >= 12080;
  c.conditional_else_switch = c.conditional_if_while && version >= 12080;
  c.virtual_memory = api.MemAddressReserve && api.MemAddressFree && api.MemCreate &&
                     api.MemRelease && api.MemMap && api.MemUnmap && api.MemSetAccess &&
                     api.MemGetAllocationGranularity;
  c.async_allocation = api.MemAllocFromPoolAsync && api.MemFreeAsync && api.MemPoolCreate &&
                       api.MemPoolDestroy && api.MemPoolSetAttribute && api.MemPoolTrimTo;
  return c;
}

Result<std::unique_ptr<DriverLibrary>> open_driver(const DriverChoice &choice) {
  switch (choice.kind) {
  case DriverKind::system:
    return open_system();
  case DriverKind::emulated:
    return open_emulated();
  case DriverKind::path:
    return open_path(choice.path, DriverKind::path);
  case DriverKind::table:
    break;
  }
  return Status::error(Code::invalid_argument,
                       "a driver of kind 'table' is made by make_driver, not opened");
}

Result<std::unique_ptr<DriverLibrary>> make_driver(const DriverApi &api) {
  for (const Row &row : kRows)
    if (row.need == Need::required && !row.is_set(api))
      return Status::error(Code::invalid_argument,
                           std::string("the driver table has no ") + row.entry);
  auto driver = std::make_unique<DriverLibrary>();
  driver->kind = DriverKind::table;
  driver->path = "(table)";
  driver->api = api;
  CUGRT_DRIVER(api, DriverGetVersion, (&driver->version), "driver table");
  if (driver->version < kOldestDriver)
    return too_old(driver->path, driver->version);
  for (const Row &row : kRows)
    if (row.version > driver->version)
      row.set(driver->api, nullptr);
  CUGRT_TRY(initialise(*driver));
  return driver;
}

} // namespace cugrt::driver
