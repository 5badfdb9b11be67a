// The CUDA driver as a table of functions, and where it comes from.
//
// Nothing of cugrt links libcuda: a library is opened at run time and each entry point is asked for
// by cuGetProcAddress at the version that introduced the ABI we use (driver_api.def). The table is
// passed explicitly, by address; there is no global one, so several drivers (a real one, an
// emulated one, a test's) can live in one process. A table is constant after it is made and may be
// used by any number of threads.
#pragma once

#include "base/status.h"

#include <cuda.h>
#include <cudaTypedefs.h>

#include <memory>
#include <string>

#if CUDA_VERSION < 13010 // of headers that are older than an entry
typedef CUresult(CUDAAPI *PFN_cuGraphNodeGetToolsId_v13010)(CUgraphNode, unsigned long long *);
#endif

namespace cugrt::driver {

/// Versions as the driver writes them: 1000 * major + 10 * minor.
inline constexpr int kOldestDriver = 12020;

struct DriverApi {
#define CUGRT_DRIVER_CALL(field, entry, version, need) PFN_cu##entry##_v##version field = nullptr;
#include "device/driver/driver_api.def"
#undef CUGRT_DRIVER_CALL
};

/// Features in which drivers between 12.2 and 13.0 differ. All accepted drivers have the rest.
struct Capabilities {
  bool edge_data = false;               // 12.3: typed edges, so programmatic dependent launch
  bool conditional_if_while = false;    // 12.3
  bool kernel_param_info = false;       // 12.4: cuFuncGetParamInfo
  bool green_contexts = false;          // 12.4: parts of a device's multiprocessors
  bool cooperative_bodies = false;      // 12.6: cooperative launches in bodies, but for MPS
  bool empty_bodies = false;            // 12.8: bodies without work, which hang before
  bool conditional_else_switch = false; // 12.8
  bool virtual_memory = false;          // the entry points; a device may still lack it
  bool async_allocation = false;        // likewise
};

enum class DriverKind {
  system,   // libcuda.so.1, then libcuda.so
  emulated, // CUGRT_EMULATOR, else libcugrt-emu.so beside libcugrt.so, else by the loader's path
  path,     // DriverChoice::path
  table,    // made by make_driver from a caller's table
};

struct DriverChoice {
  DriverKind kind = DriverKind::system;
  std::string path; // for DriverKind::path only

  /// "system", "emulated" or a path (anything with a slash, or ending in .so or .so.N): the forms
  /// of CUGRT_DRIVER. An empty text means system.
  static Result<DriverChoice> parse(std::string_view text);
};

/// An opened and initialised driver. It is never unloaded: threads of the driver may outlive us.
struct DriverLibrary {
  DriverApi api;
  DriverKind kind = DriverKind::system;
  std::string path; // of the file that was opened; empty for a table
  int version = 0;
  bool emulated = false; // the library says of itself that it is the emulated driver

  Capabilities capabilities() const;
};

/// "12.4" for 12040.
std::string version_text(int version);

/// Opens, resolves and initialises (cuInit). Errors:
///   unsupported  no driver (also: the toolkit's stub), older than CUDA 12.2, no device, or an
///                entry point is missing; the message says which and what to do
///   not_found    the file named by a path or CUGRT_EMULATOR does not exist or cannot be loaded
Result<std::unique_ptr<DriverLibrary>> open_driver(const DriverChoice &choice);

/// A driver from a table of pointers (tests, benches): checks that the required members are set and
/// calls cuInit and cuDriverGetVersion through it.
Result<std::unique_ptr<DriverLibrary>> make_driver(const DriverApi &api);

} // namespace cugrt::driver
