// Device: a driver with one context on it, and the host builtins. The first user of its
// compiler makes it (compile/compile.h). Behind cugrt_runtime; everything made from it shares
// it.
//
// A sticky driver error ends CUDA for the process. The first one is kept, and everything that
// belongs to the same driver and device repeats it (check()), whichever Device met it.
#pragma once

#include "base/log.h"
#include "device/context/host_functions.h"
#include "device/context/instance_cost.h"
#include "device/driver/memory.h"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace cugrt::jit {
class Compiler;
}

namespace cugrt::runtime {

/// The place for a device's compiler, and its maker. The library for devices leaves it empty.
struct CompilerPlace {
  std::string nvrtc_path, cache_folder;
  std::mutex mutex; // guards compiler
  std::shared_ptr<jit::Compiler> compiler;
};

struct DeviceOptions {
  std::optional<driver::DriverChoice> driver; // empty: no device; compile only
  int ordinal = 0;
  uint32_t multiprocessors = 0;         // of a green context; 0: all of the device
  void *context = nullptr;              // CUcontext of the caller; null: the device's primary one
  std::string nvrtc_path, cache_folder; // empty: from the environment; "off": no cache folder
  Logger log;
  std::shared_ptr<void> log_owner; // what log.user points to, when it is ours
};

/// Limits of launches, asked of the device once.
struct DeviceLimits {
  std::array<uint32_t, 3> grid{INT32_MAX, 65535, 65535}, block{1024, 1024, 64};
  uint32_t threads_per_block = 1024;
  uint32_t shared_bytes_per_block = 48 << 10; // with opting in
};

/// The first sticky error of one driver's device. All Devices that are open on it share this; it
/// ends with the last of them, since the driver itself repeats such an error.
class DeviceHealth {
public:
  /// The health of device `ordinal`; an empty `library_path` counts as a driver of its own.
  static std::shared_ptr<DeviceHealth> of(const std::string &library_path, int ordinal);

  bool lost() const { return lost_.load(std::memory_order_acquire); }
  void lose(const Status &cause);
  Status cause() const;

private:
  std::atomic<bool> lost_ = false;
  mutable std::mutex mutex_; // guards cause_
  Status cause_;
};

class Device {
public:
  static Result<std::shared_ptr<Device>> open(DeviceOptions options);
  /// Opens a device of a driver that is already open (tests and benches bring their own table).
  static Result<std::shared_ptr<Device>> open(std::unique_ptr<driver::DriverLibrary> library,
                                              DeviceOptions options);
  ~Device();
  Device(const Device &) = delete;

  bool has_driver() const { return library_ != nullptr; }
  /// unsupported when the device was opened without a driver.
  Status require_driver() const;
  const driver::DriverLibrary &library() const { return *library_; }
  const driver::Context &context() const { return context_; }
  const driver::DriverApi &api() const { return library_->api; }
  const DeviceLimits &limits() const { return limits_; }
  bool emulated() const { return library_ && library_->emulated; }
  int ordinal() const { return ordinal_; }
  CompilerPlace &compiler_place() { return compiler_place_; }
  HostFunctions &host_functions() { return host_functions_; }
  const Logger &log() const { return log_; }
  /// Whether setters of an instance reach nodes in the bodies of its conditional nodes; empty until
  /// an instance has tried. Any thread.
  std::optional<bool> setters_reach_bodies() const {
    int8_t known = body_setters_.load(std::memory_order_relaxed);
    return known < 0 ? std::nullopt : std::optional<bool>(known != 0);
  }
  void set_setters_reach_bodies(bool reach) {
    body_setters_.store(reach, std::memory_order_relaxed);
  }
  /// Whether bodies of conditional nodes take cooperative launches: with driver 12.6 and newer,
  /// unless MPS shares the device.
  bool cooperative_bodies() const { return cooperative_bodies_; }
  /// Whether instances read their nodes back when they are built or patched: CUGRT_VERIFY_NODES.
  bool verifies_nodes() const { return verifies_nodes_; }
  /// The pool for unplanned tensors; null if driver or device has none. All sessions share it.
  const driver::MemoryPool *pool() const { return pool_ ? &pool_ : nullptr; }

  /// The first caller measures them; see cost_model.h. Any thread.
  Result<InstanceCost> costs();

  /// Returns the first sticky error, if any. Costs one load if there is none.
  Status check() const {
    if (!health_->lost()) [[likely]]
      return {};
    return health_->cause();
  }
  /// Keeps the cause of a lost device and returns the status.
  Status note(Status status);

private:
  Device() = default;
  Status open_context(const DeviceOptions &options);
  Status read_limits();

  Logger log_;
  std::shared_ptr<void> log_owner_;
  std::unique_ptr<driver::DriverLibrary> library_; // outlives the context
  driver::Context context_;
  int ordinal_ = 0;
  DeviceLimits limits_;
  driver::MemoryPool pool_;
  std::atomic<int8_t> body_setters_ = -1; // -1: not known
  bool verifies_nodes_ = false, cooperative_bodies_ = false;
  CompilerPlace compiler_place_; // its compiler logs to log_owner_
  HostFunctions host_functions_;
  std::shared_ptr<DeviceHealth> health_; // never null
  std::mutex costs_mutex_;               // guards costs_; held while it is measured
  std::optional<InstanceCost> costs_;
};

/// CUGRT_VERIFY_NODES: 1, or 0 (unset: 0; in builds with the option verify_nodes 1).
Result<bool> verify_nodes_from_environment();

/// The driver that CUGRT_DRIVER names; system when it is unset.
Result<driver::DriverChoice> driver_from_environment();

} // namespace cugrt::runtime
