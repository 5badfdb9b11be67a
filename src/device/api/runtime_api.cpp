// Runtimes of the C ABI: opening a driver, device information, host builtins, doctor.
#include "device/api/entries.h"
#include "device/api/guard.h"
#include "device/api/handles.h"

#include <cstdio>

namespace cugrt::runtime::api {

namespace {

constexpr size_t kRuntimeInfoBytes = CUGRT_SIZE_THROUGH(cugrt_runtime_info, driver_path);

Result<std::optional<driver::DriverChoice>> driver_choice(const cugrt_runtime_options &options) {
  using driver::DriverChoice, driver::DriverKind;
  switch (options.driver) {
  case CUGRT_DRIVER_DEFAULT: {
    CUGRT_ASSIGN(DriverChoice choice, driver_from_environment());
    return std::optional(choice);
  }
  case CUGRT_DRIVER_SYSTEM:
    return std::optional(DriverChoice{DriverKind::system, ""});
  case CUGRT_DRIVER_EMULATED:
    return std::optional(DriverChoice{DriverKind::emulated, ""});
  case CUGRT_DRIVER_PATH:
    if (!options.driver_path)
      return Status::error(Code::invalid_argument,
                           "the driver is to be opened by its path, but driver_path is null");
    return std::optional(DriverChoice{DriverKind::path, options.driver_path});
  case CUGRT_DRIVER_NONE:
    return std::optional<DriverChoice>();
  default:
    return Status::error(Code::invalid_argument,
                         "unknown driver kind " + std::to_string(options.driver));
  }
}

/// Passes the library's log messages to the client's callback, whose level has another type.
struct LogBridge {
  cugrt_log_callback callback;
  void *user;
  static void call(void *bridge, LogLevel level, const char *message) {
    const auto *self = static_cast<const LogBridge *>(bridge);
    self->callback(self->user, static_cast<cugrt_log_level>(level), message);
  }
};

Result<DeviceOptions> device_options(const cugrt_runtime_options *given) {
  cugrt_runtime_options defaults{};
  defaults.log_level = CUGRT_LOG_WARNING;
  CUGRT_ASSIGN(cugrt_runtime_options options,
               read_struct(given, "cugrt_runtime_options", kRuntimeOptionsBytes, defaults));
  DeviceOptions result;
  CUGRT_ASSIGN(result.driver, driver_choice(options));
  result.ordinal = options.device;
  result.context = options.context;
  result.multiprocessors = options.multiprocessors;
  result.nvrtc_path = options.nvrtc_path ? options.nvrtc_path : "";
  result.cache_folder = options.cache_folder ? options.cache_folder : "";
  if (options.log) {
    auto bridge = std::make_shared<LogBridge>(LogBridge{options.log, options.log_user});
    result.log.callback = LogBridge::call;
    result.log.user = bridge.get();
    result.log.level = static_cast<LogLevel>(
        std::clamp<int32_t>(options.log_level, CUGRT_LOG_ERROR, CUGRT_LOG_DEBUG));
    result.log_owner = std::move(bridge);
  }
  return result;
}

Status runtime_create(const cugrt_runtime_options *options, cugrt_runtime **runtime) {
  CUGRT_REQUIRE(runtime);
  CUGRT_ASSIGN(DeviceOptions device_options_, device_options(options));
  CUGRT_ASSIGN(std::shared_ptr<Device> device, Device::open(std::move(device_options_)));
  *runtime = new cugrt_runtime{std::move(device)};
  return {};
}

void runtime_free(cugrt_runtime *runtime) { delete runtime; }

void copy_text(const std::string &from, char *to, size_t size) {
  std::snprintf(to, size, "%s", from.c_str());
}

Status runtime_get_info(cugrt_runtime *runtime, cugrt_runtime_info *info) {
  CUGRT_REQUIRE(runtime);
  const Device &device = *runtime->device;
  cugrt_runtime_info filled{};
  if (device.has_driver()) {
    const driver::DriverLibrary &library = device.library();
    filled.emulated = library.emulated;
    filled.driver_version = library.version;
    copy_text(library.path, filled.driver_path, sizeof filled.driver_path);
    CUGRT_ASSIGN(driver::DriverReport report, driver::report(library));
    filled.device_count = static_cast<int32_t>(report.devices.size());
    for (const driver::DeviceReport &row : report.devices)
      if (row.ordinal == device.ordinal()) {
        copy_text(row.name, filled.device_name, sizeof filled.device_name);
        filled.memory_bytes = row.total_bytes;
      }
    filled.capability_major = device.context().capability() / 10;
    filled.capability_minor = device.context().capability() % 10;
    CUGRT_ASSIGN(filled.integrated, device.context().attribute(CU_DEVICE_ATTRIBUTE_INTEGRATED));
    CUGRT_ASSIGN(filled.multiprocessors,
                 device.context().attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  }
  return write_struct(filled, info, "info", kRuntimeInfoBytes);
}

Status runtime_register_host_function(cugrt_runtime *runtime, const char *name,
                                      cugrt_host_function function, void *user) {
  CUGRT_REQUIRE(runtime, name, function);
  runtime->device->host_functions().add(name, {function, user});
  return {};
}

} // namespace

cugrt_status *report_doctor(const cugrt_runtime_options *options, cugrt_report_format format,
                            cugrt_text **report, int32_t *usable,
                            DoctorReport (*examine)(const DeviceOptions &)) {
  return guarded([&]() -> Status {
    CUGRT_REQUIRE(report);
    CUGRT_ASSIGN(DeviceOptions device_options_, device_options(options));
    if (format != CUGRT_REPORT_TEXT && format != CUGRT_REPORT_JSON)
      return Status::error(Code::unsupported, "doctor reports as text or JSON");
    DoctorReport found = examine(device_options_);
    auto text = std::make_unique<cugrt_text>();
    text->text = format == CUGRT_REPORT_JSON ? found.to_json() : found.to_text();
    if (usable)
      *usable = found.usable();
    *report = text.release();
    return {};
  });
}

void add_runtime_entries(cugrt_api &table) {
  set_entry<runtime_create>(table.runtime_create);
  table.runtime_free = runtime_free;
  set_entry<runtime_get_info>(table.runtime_get_info);
  set_entry<runtime_register_host_function>(table.runtime_register_host_function);
}

} // namespace cugrt::runtime::api
