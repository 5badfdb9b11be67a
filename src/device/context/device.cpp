// Opening a device and what it remembers; see device.h.
#include "device/context/device.h"

#include "device/context/cost_model.h"

#include <cstdlib>
#include <map>

namespace cugrt::runtime {

Result<driver::DriverChoice> driver_from_environment() {
  const char *text = std::getenv("CUGRT_DRIVER");
  auto choice = driver::DriverChoice::parse(text ? text : "");
  return choice.ok() ? std::move(choice)
                     : Result<driver::DriverChoice>(choice.take_status().in("CUGRT_DRIVER"));
}

Result<bool> verify_nodes_from_environment() {
  const char *text = std::getenv("CUGRT_VERIFY_NODES");
  const std::string_view value = text ? text : "";
  if (value.empty()) {
#ifdef CUGRT_VERIFY_NODES_ALWAYS
    return true;
#else
    return false;
#endif
  }
  if (value == "0" || value == "1")
    return value == "1";
  return Status::error(Code::invalid_argument,
                       "CUGRT_VERIFY_NODES is '" + std::string(value) + "'; it may be 0 or 1");
}

Result<std::shared_ptr<Device>> Device::open(DeviceOptions options) {
  std::unique_ptr<driver::DriverLibrary> library;
  if (options.driver) {
    CUGRT_ASSIGN(library, driver::open_driver(*options.driver));
  }
  return open(std::move(library), std::move(options));
}

Result<std::shared_ptr<Device>> Device::open(std::unique_ptr<driver::DriverLibrary> library,
                                             DeviceOptions options) {
  std::shared_ptr<Device> device(new Device);
  device->host_functions_.add_builtins(*device);
  device->log_ = options.log;
  device->compiler_place_.nvrtc_path = options.nvrtc_path;
  device->compiler_place_.cache_folder = options.cache_folder;
  device->log_owner_ = options.log_owner;
  device->library_ = std::move(library);
  CUGRT_ASSIGN(device->verifies_nodes_, verify_nodes_from_environment());
  if (options.multiprocessors != 0 && (!device->library_ || options.context))
    return Status::error(Code::invalid_argument,
                         "multiprocessors is for a context that cugrt makes on a device: a runtime "
                         "without a driver has none, and a caller's context has its own");
  if (device->library_)
    CUGRT_TRY(device->open_context(options));
  bool shared = device->library_ && device->library_->kind != driver::DriverKind::table;
  device->health_ =
      DeviceHealth::of(shared ? device->library_->path : std::string(), device->ordinal_);
  CUGRT_TRY(device->check());
  return device;
}

/// Runs leave the context current on threads that had none; on this one it must not outlive us.
Device::~Device() {
  CUcontext current = nullptr;
  if (library_ && context_.is_primary() && api().CtxGetCurrent(&current) == CUDA_SUCCESS &&
      current == context_.get())
    (void)api().CtxSetCurrent(nullptr);
}

Status Device::open_context(const DeviceOptions &options) {
  if (options.context) {
    CUGRT_ASSIGN(context_,
                 driver::Context::borrow(library_->api, static_cast<CUcontext>(options.context)));
    ordinal_ = context_.device();
  } else {
    ordinal_ = options.ordinal;
    CUGRT_ASSIGN(context_,
                 options.multiprocessors == 0
                     ? driver::Context::retain_primary(library_->api, ordinal_)
                     : driver::Context::make_green(*library_, ordinal_, options.multiprocessors));
  }
  return read_limits();
}

Status Device::read_limits() {
  auto read = [&](CUdevice_attribute attribute, uint32_t &to) -> Status {
    CUGRT_ASSIGN(int value, context_.attribute(attribute));
    if (value > 0)
      to = static_cast<uint32_t>(value);
    return {};
  };
  CUGRT_TRY(read(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, limits_.grid[0]));
  CUGRT_TRY(read(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, limits_.grid[1]));
  CUGRT_TRY(read(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, limits_.grid[2]));
  CUGRT_TRY(read(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, limits_.block[0]));
  CUGRT_TRY(read(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, limits_.block[1]));
  CUGRT_TRY(read(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, limits_.block[2]));
  CUGRT_TRY(read(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, limits_.threads_per_block));
  CUGRT_TRY(
      read(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, limits_.shared_bytes_per_block));
  if (library_->capabilities().cooperative_bodies) {
    CUGRT_ASSIGN(const int shared, context_.attribute(CU_DEVICE_ATTRIBUTE_MPS_ENABLED));
    cooperative_bodies_ = shared == 0;
  }
  if (library_->capabilities().async_allocation) {
    CUGRT_ASSIGN(int pools, context_.attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED));
    if (pools != 0) {
      auto pool = driver::MemoryPool::create(context_);
      if (pool.ok())
        pool_ = std::move(*pool);
      else if (pool.status().code() != Code::unsupported)
        return pool.take_status();
    }
  }
  return {};
}

Result<InstanceCost> Device::costs() {
  std::lock_guard lock(costs_mutex_);
  if (!costs_) {
    auto measured = measure_costs(*this);
    if (!measured.ok())
      return measured.take_status().in("measuring what graph instances cost");
    costs_ = *measured;
  }
  return *costs_;
}

Status Device::require_driver() const {
  if (has_driver())
    return {};
  return Status::error(Code::unsupported, "the runtime was created without a driver and can only "
                                          "compile; create one with a driver to run");
}

Status Device::note(Status status) {
  if (status.code() == Code::device_lost)
    health_->lose(status);
  return status;
}

std::shared_ptr<DeviceHealth> DeviceHealth::of(const std::string &library_path, int ordinal) {
  if (library_path.empty())
    return std::make_shared<DeviceHealth>();
  static std::mutex mutex; // guards open
  static std::map<std::pair<std::string, int>, std::weak_ptr<DeviceHealth>> open;
  std::lock_guard lock(mutex);
  std::weak_ptr<DeviceHealth> &entry = open[{library_path, ordinal}];
  std::shared_ptr<DeviceHealth> health = entry.lock();
  if (!health)
    entry = health = std::make_shared<DeviceHealth>();
  return health;
}

void DeviceHealth::lose(const Status &cause) {
  std::lock_guard lock(mutex_);
  if (!lost()) {
    cause_ = cause.clone();
    lost_.store(true, std::memory_order_release);
  }
}

Status DeviceHealth::cause() const {
  std::lock_guard lock(mutex_);
  return cause_.clone().in("the device was lost by an earlier error");
}

} // namespace cugrt::runtime
