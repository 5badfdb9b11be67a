// The doctor's report; see doctor.h.
#include "runtime/doctor.h"

#include <nlohmann/json.hpp>

namespace cugrt::runtime {

namespace {

using Json = nlohmann::ordered_json;

std::string mib(uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

class Lines {
public:
  void section(const std::string &title) { text_ += title + "\n"; }
  void line(const std::string &label, const std::string &value) {
    text_ +=
        "  " + label + std::string(label.size() < 16 ? 16 - label.size() : 1, ' ') + value + "\n";
  }
  std::string take() { return std::move(text_); }

private:
  std::string text_;
};

void add_driver(Lines &lines, const DoctorReport &report) {
  lines.section("driver");
  if (!report.driver_wanted) {
    lines.line("state", "none asked for: parse, plan and compile only");
    return;
  }
  if (!report.driver) {
    lines.line("state", "not usable");
    lines.line("problem", report.driver_problem.message());
    return;
  }
  lines.line("library", report.driver->path.empty() ? "-" : report.driver->path);
  lines.line("CUDA version", driver::version_text(report.driver->version));
  if (report.driver->emulated)
    lines.line("EMULATED", "results are computed on the CPU; times say nothing about a GPU");
  for (const std::string &missing : driver::missing_capabilities(report.driver->capabilities))
    lines.line("missing", missing);
  for (const driver::DeviceReport &device : report.driver->devices) {
    lines.section("device " + std::to_string(device.ordinal));
    lines.line("name", device.name);
    lines.line("architecture", device.architecture);
    lines.line("memory", mib(device.total_bytes));
    for (const driver::DeviceReport::Attribute &attribute : device.attributes)
      lines.line(attribute.name, std::to_string(attribute.value));
  }
}

void add_compiler(Lines &lines, const jit::CompilerReport &compiler) {
  lines.section("compiler");
  if (compiler.found) {
    lines.line("library", compiler.library);
    lines.line("found by", compiler.found_by);
    lines.line("headers", compiler.include_folder.empty() ? "none" : compiler.include_folder);
    lines.line("in parallel",
               compiler.worker.empty() ? "no: cugrt-compile is absent or off" : compiler.worker);
    if (compiler.major)
      lines.line("version", std::to_string(compiler.major) + "." + std::to_string(compiler.minor));
  } else {
    lines.line("state", "not found");
    lines.line("problem", compiler.problem);
  }
  lines.section("code cache");
  const jit::CacheReport &cache = compiler.cache;
  lines.line("folder", cache.folder.empty() ? "memory only" : cache.folder);
  if (!cache.read_only_folder.empty())
    lines.line("read-only folder", cache.read_only_folder);
  if (!cache.folder.empty())
    lines.line("writable", cache.writable ? "yes" : "no");
  if (!cache.problem.empty())
    lines.line("problem", cache.problem);
}

} // namespace

DoctorReport examine(const DeviceOptions &options) {
  DoctorReport report;
  report.driver_wanted = options.driver.has_value();
  if (options.driver) {
    auto library = driver::open_driver(*options.driver);
    if (library.ok()) {
      auto found = driver::report(**library);
      if (found.ok())
        report.driver = std::move(*found);
      else
        report.driver_problem = found.take_status();
    } else {
      report.driver_problem = library.take_status();
    }
  }
  report.compiler = jit::Compiler(compiler_config(options), options.log).report();
  return report;
}

bool DoctorReport::usable() const {
  return driver && !driver->devices.empty() && (compiler.found || compiler.cache.readable);
}

std::vector<std::string> DoctorReport::remedies() const {
  std::vector<std::string> list;
  if (driver_wanted && !driver)
    list.push_back("install an NVIDIA driver for CUDA 12.2 or later, or set "
                   "CUGRT_DRIVER=emulated to run on the CPU");
  if (driver && driver->devices.empty())
    list.push_back("the driver finds no device; check that the GPU is visible to this process");
  if (!compiler.found)
    list.push_back("install NVRTC (the CUDA toolkit, or the nvidia-cuda-nvrtc wheel) and set "
                   "CUGRT_NVRTC if it is in an unusual place");
  if (!compiler.cache.folder.empty() && !compiler.cache.writable)
    list.push_back("make the cache folder writable, or name another one in CUGRT_CACHE");
  return list;
}

std::string DoctorReport::to_text() const {
  Lines lines;
  add_driver(lines, *this);
  add_compiler(lines, compiler);
  lines.section(usable() ? "ready to run" : "not ready to run");
  for (const std::string &remedy : remedies())
    lines.line("do", remedy);
  return lines.take();
}

std::string DoctorReport::to_json() const {
  Json json;
  json["usable"] = usable();
  Json &d = json["driver"] = Json::object();
  d["found"] = driver.has_value();
  if (!driver_problem.ok())
    d["problem"] = driver_problem.message();
  if (driver) {
    d["path"] = driver->path;
    d["version"] = driver->version;
    d["emulated"] = driver->emulated;
    d["missing"] = driver::missing_capabilities(driver->capabilities);
    for (const driver::DeviceReport &device : driver->devices) {
      Json row{{"ordinal", device.ordinal},
               {"name", device.name},
               {"uuid", device.uuid},
               {"architecture", device.architecture},
               {"memory_bytes", device.total_bytes}};
      for (const driver::DeviceReport::Attribute &attribute : device.attributes)
        row["attributes"][attribute.name] = attribute.value;
      d["devices"].push_back(std::move(row));
    }
  }
  json["compiler"] = {{"found", compiler.found},       {"problem", compiler.problem},
                      {"library", compiler.library},   {"include_folder", compiler.include_folder},
                      {"found_by", compiler.found_by}, {"major", compiler.major},
                      {"minor", compiler.minor},       {"parallel", compiler.worker}};
  json["cache"] = {{"folder", compiler.cache.folder},
                   {"read_only_folder", compiler.cache.read_only_folder},
                   {"readable", compiler.cache.readable},
                   {"writable", compiler.cache.writable},
                   {"problem", compiler.cache.problem}};
  json["remedies"] = remedies();
  // Paths and names of devices may hold bytes that are not UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace cugrt::runtime
