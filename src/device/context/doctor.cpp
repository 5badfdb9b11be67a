// The doctor's report; see doctor.h.
#include "device/context/doctor.h"

#include "base/json.h"

namespace cugrt::runtime {

namespace {

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
  for (const std::string &missing : report.driver->missing)
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

void add_board(Lines &lines, const driver::Board &board) {
  lines.section("board");
  if (!board.model.empty())
    lines.line("model", board.model);
  const std::string jetpack = board.jetpack();
  lines.line("L4T", board.l4t_version + (jetpack.empty() ? "" : ", of " + jetpack));
  if (board.power_mode >= 0)
    lines.line("power mode", std::to_string(board.power_mode) +
                                 (board.power_name.empty() ? "" : ", " + board.power_name));
  lines.line("memory", "one for host and device: weights are read in the host's pages");
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
    if (!compiler.architectures.empty())
      lines.line("compiles up to", "sm_" + std::to_string(compiler.architectures.back()));
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

DoctorReport examine_driver(const DeviceOptions &options) {
  DoctorReport report;
  report.driver_wanted = options.driver.has_value();
  report.board = driver::read_board();
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
  return report;
}

bool DoctorReport::usable() const {
  return driver && !driver->devices.empty() && !compiler_too_new() &&
         (!compiler || compiler->found || compiler->cache.readable);
}

bool DoctorReport::compiler_too_new() const {
  if (!driver || driver->emulated || !compiler || !compiler->found)
    return false;
  const int major = compiler->major ? compiler->major : compiler->named_major;
  return major > driver->version / 1000;
}

std::vector<std::string> DoctorReport::remedies() const {
  std::vector<std::string> list;
  if (compiler_too_new())
    list.push_back("install NVRTC " + std::to_string(driver->version / 1000) +
                   ", or a newer driver: a driver of CUDA " +
                   driver::version_text(driver->version) + " does not load what " +
                   compiler->library + " makes");
  if (driver_wanted && !driver)
    list.push_back("install an NVIDIA driver for CUDA 12.2 or later, or set "
                   "CUGRT_DRIVER=emulated to run on the CPU");
  if (driver && driver->devices.empty())
    list.push_back("the driver finds no device; check that the GPU is visible to this process");
  if (board && board->l4t < 36)
    list.push_back("install JetPack 6 or later: the driver of L4T " + board->l4t_version +
                   " is older than CUDA 12.2, unless NVIDIA's package cuda-compat is there");
  if (board && !board->power_name.empty() && board->power_name.rfind("MAXN", 0) != 0)
    list.push_back("nvpmodel, as root, chooses another power mode than " + board->power_name +
                   ", of which one named MAXN is the fastest; jetson_clocks makes times steady");
  if (!compiler)
    return list;
  if (!compiler->found)
    list.push_back("install NVRTC (the CUDA toolkit, or the nvidia-cuda-nvrtc wheel) and set "
                   "CUGRT_NVRTC if it is in an unusual place");
  if (!compiler->cache.folder.empty() && !compiler->cache.writable)
    list.push_back("make the cache folder writable, or name another one in CUGRT_CACHE");
  return list;
}

std::string DoctorReport::to_text() const {
  Lines lines;
  add_driver(lines, *this);
  if (board)
    add_board(lines, *board);
  if (compiler)
    add_compiler(lines, *compiler);
  lines.section(usable() ? "ready to run" : "not ready to run");
  for (const std::string &remedy : remedies())
    lines.line("do", remedy);
  return lines.take();
}

static void write_device(JsonWriter &json, const driver::DeviceReport &device) {
  json.begin_object().key("ordinal").number(int64_t(device.ordinal));
  json.key("name").text(device.name).key("uuid").text(device.uuid);
  json.key("architecture").text(device.architecture);
  json.key("memory_bytes").number(uint64_t(device.total_bytes));
  if (!device.attributes.empty()) {
    json.key("attributes").begin_object();
    for (const driver::DeviceReport::Attribute &attribute : device.attributes)
      json.key(attribute.name).number(int64_t(attribute.value));
    json.end_object();
  }
  json.end_object();
}

static void write_texts(JsonWriter &json, std::string_view key,
                        const std::vector<std::string> &texts) {
  json.key(key).begin_list();
  for (const std::string &text : texts)
    json.text(text);
  json.end_list();
}

static void write_compiler(JsonWriter &json, const jit::CompilerReport &compiler) {
  json.key("compiler").begin_object();
  json.key("found").boolean(compiler.found).key("problem").text(compiler.problem);
  json.key("library").text(compiler.library);
  json.key("include_folder").text(compiler.include_folder);
  json.key("found_by").text(compiler.found_by);
  json.key("major").number(int64_t(compiler.major)).key("minor").number(int64_t(compiler.minor));
  json.key("architectures").begin_list();
  for (int number : compiler.architectures)
    json.number(int64_t(number));
  json.end_list();
  json.key("parallel").text(compiler.worker).end_object();
  const jit::CacheReport &cache = compiler.cache;
  json.key("cache").begin_object().key("folder").text(cache.folder);
  json.key("read_only_folder").text(cache.read_only_folder);
  json.key("readable").boolean(cache.readable).key("writable").boolean(cache.writable);
  json.key("problem").text(cache.problem).end_object();
}

std::string DoctorReport::to_json() const {
  JsonWriter json;
  json.begin_object().key("usable").boolean(usable());
  json.key("driver").begin_object().key("found").boolean(driver.has_value());
  if (!driver_problem.ok())
    json.key("problem").text(driver_problem.message());
  if (driver) {
    json.key("path").text(driver->path).key("version").number(int64_t(driver->version));
    json.key("emulated").boolean(driver->emulated);
    write_texts(json, "missing", driver->missing);
    if (!driver->devices.empty()) {
      json.key("devices").begin_list();
      for (const driver::DeviceReport &device : driver->devices)
        write_device(json, device);
      json.end_list();
    }
  }
  json.end_object();
  if (board) {
    json.key("board").begin_object().key("model").text(board->model);
    json.key("l4t").text(board->l4t_version).key("jetpack").text(board->jetpack());
    json.key("power_mode").number(int64_t(board->power_mode));
    json.key("power_name").text(board->power_name).end_object();
  }
  if (compiler)
    write_compiler(json, *compiler);
  write_texts(json, "remedies", remedies());
  return json.end_object().take();
}

} // namespace cugrt::runtime
