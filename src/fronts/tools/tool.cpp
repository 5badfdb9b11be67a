// What commands share beside options; see tool.h.
#include "tool.h"

#include "base/file.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>

namespace tool {

static void print_log(void *, cugrt_log_level level, const char *message) {
  static constexpr const char *kNames[] = {"error", "warning", "info", "debug"};
  std::fprintf(stderr, "cugrt: %s: %s\n", kNames[level], message);
}

// CUGRT_LOG: error, warning (the default), info or debug.
static cugrt_log_level log_level_from_environment() {
  const char *text = std::getenv("CUGRT_LOG");
  std::string_view level = text ? text : "warning";
  if (level == "error")
    return CUGRT_LOG_ERROR;
  if (level == "warning" || level.empty())
    return CUGRT_LOG_WARNING;
  if (level == "info")
    return CUGRT_LOG_INFO;
  if (level == "debug")
    return CUGRT_LOG_DEBUG;
  throw UserError("CUGRT_LOG is '" + std::string(level) +
                  "'; it may be error, warning, info or debug");
}

void write_whole(const std::string &path, std::string_view bytes) {
  if (const cugrt::Status status = cugrt::write_file(path, bytes); !status.ok())
    throw UserError(status.message());
}

cugrt::RuntimeOptions with_log(cugrt::RuntimeOptions options) {
  options.log = print_log;
  options.log_level = log_level_from_environment();
  return options;
}

cugrt::Runtime open_runtime(const cugrt::RuntimeOptions &options) {
  return open_or_emulate(with_log(options), "cugrt");
}

LoadCount::LoadCount(const cugrt::Runtime &runtime, bool counts) {
  const cugrt_runtime_info info = runtime.info();
  if (!counts || !info.emulated)
    return;
  driver_ = dlopen(info.driver_path, RTLD_NOW | RTLD_NOLOAD);
  if (auto *count = driver_ ? dlsym(driver_, "cuEmuCountLoads") : nullptr)
    reinterpret_cast<int (*)(int)>(count)(1);
}

void LoadCount::print() const {
  using Count = unsigned long long;
  Count loaded = 0, constant_loaded = 0, constant = 0;
  auto *get = driver_ ? dlsym(driver_, "cuEmuGetLoads") : nullptr;
  if (!get)
    return;
  reinterpret_cast<int (*)(Count *, Count *, Count *)>(get)(&loaded, &constant_loaded, &constant);
  std::fprintf(
      stderr,
      "kernels loaded %llu bytes, %llu of them from %llu bytes that no kernel wrote (%.2f times)\n",
      loaded, constant_loaded, constant,
      constant > 0 ? double(constant_loaded) / double(constant) : 0.0);
}

} // namespace tool
