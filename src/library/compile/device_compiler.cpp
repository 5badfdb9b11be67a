// Making a device's compiler; see compile.h.
#include "library/compile/compile.h"

namespace cugrt::runtime {

jit::CompilerConfig compiler_config(const std::string &nvrtc_path, const std::string &cache_folder,
                                    int driver_version) {
  jit::CompilerConfig config;
  config.nvrtc_path = nvrtc_path;
  config.newest_major = driver_version / 1000;
  if (cache_folder == "off")
    config.cache.folder.clear(), config.cache.disk = false;
  else if (!cache_folder.empty())
    config.cache.folder = cache_folder, config.cache.disk = true;
  return config;
}

jit::Compiler &compiler_of(Device &device) {
  CompilerPlace &place = device.compiler_place();
  std::lock_guard lock(place.mutex);
  if (!place.compiler)
    place.compiler = std::make_shared<jit::Compiler>(
        compiler_config(place.nvrtc_path, place.cache_folder,
                        device.has_driver() ? device.library().version : 0),
        device.log());
  return *place.compiler;
}

DoctorReport examine(const DeviceOptions &options) {
  DoctorReport report = examine_driver(options);
  const int version = report.driver ? report.driver->version : 0;
  jit::Compiler compiler(compiler_config(options.nvrtc_path, options.cache_folder, version),
                         options.log);
  (void)compiler.architectures().ok(); // why it does not open stands in the report
  report.compiler = compiler.report();
  return report;
}

} // namespace cugrt::runtime
