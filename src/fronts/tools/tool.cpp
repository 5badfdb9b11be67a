// Shared parts of the commands.
#include "tool.h"

#include "base/file.h"
#include "base/first_bytes.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <iostream>
#include <iterator>

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

CLI::Option *repeatable(CLI::Option *option) {
  return option->expected(1)->allow_extra_args(false)->multi_option_policy(
      CLI::MultiOptionPolicy::TakeAll);
}

cugrt::Module load_module(const std::string &path) {
  if (is_pack(path))
    throw UserError("'" + path +
                    "' is a pack, whose module is planned and compiled already: run, bench, "
                    "trace and plan take packs");
  if (path != "-")
    return cugrt::Module::load(path);
  std::string text(std::istreambuf_iterator<char>(std::cin), {});
  return cugrt::Module::parse(text, "<stdin>", ".");
}

void write_whole(const std::string &path, std::string_view bytes) {
  if (const cugrt::Status status = cugrt::write_file(path, bytes); !status.ok())
    throw UserError(status.message());
}

bool is_pack(const std::string &path) {
  return path != "-" && cugrt::first_bytes(path).starts_with(CUGRT_PACK_MAGIC);
}

cugrt::RuntimeOptions runtime_options(const std::string &driver) {
  cugrt::RuntimeOptions options;
  options.log = print_log;
  options.log_level = log_level_from_environment();
  if (driver.empty())
    options.driver = CUGRT_DRIVER_DEFAULT;
  else if (driver == "system")
    options.driver = CUGRT_DRIVER_SYSTEM;
  else if (driver == "emulated")
    options.driver = CUGRT_DRIVER_EMULATED;
  else if (driver == "none")
    options.driver = CUGRT_DRIVER_NONE;
  else {
    options.driver = CUGRT_DRIVER_PATH;
    options.driver_path = driver;
  }
  return options;
}

cugrt::Runtime open_runtime(const std::string &driver, uint32_t multiprocessors) {
  cugrt::RuntimeOptions options = runtime_options(driver);
  options.multiprocessors = multiprocessors;
  return open_or_emulate(std::move(options), "cugrt");
}

Symbols parse_symbols(const std::vector<std::string> &settings) {
  static constexpr char kTakes[] = "--set takes SYMBOL=N, as in --set n=8";
  Symbols symbols;
  for (const std::string &setting : settings)
    for (const std::string &piece : split_at_commas(setting)) {
      size_t equals = piece.find('=');
      if (equals == 0 || equals == std::string::npos)
        throw UserError(std::string(kTakes) + ", not '" + setting + "'");
      std::string name = piece.substr(0, equals);
      for (const auto &symbol : symbols)
        if (symbol.first == name)
          throw UserError("--set gives symbol '" + name + "' twice");
      symbols.emplace_back(name, parse_symbol_value(piece.substr(equals + 1), kTakes, setting));
    }
  return symbols;
}

cugrt_policy parse_policy(const std::string &name) {
  return name == "seed" ? CUGRT_POLICY_SEED : CUGRT_POLICY_PATCH;
}

void add_planning_options(CLI::App &command, PlanningOptions &options) {
  command.add_option("--policy", options.policy, "What makes a region")
      ->check(CLI::IsMember({"patch", "seed"}));
  command
      .add_option("--max-lanes", options.max_lanes,
                  "Steps of a graph that may run side by side; default: no limit")
      ->check(CLI::Range(1, 32));
  command.add_flag("--host-control", options.host_control,
                   "The host runs every branch and loop, none becomes a node of a graph");
  command.add_flag("--full-edges", options.full_edges,
                   "No kernel of a graph begins before its predecessors have ended");
  command
      .add_option_function<std::string>(
          "--precision",
          [&options](const std::string &dtype) {
            options.pass_options.push_back("mixed.dtype=" + dtype);
          },
          "f16, bf16 or tf32: products of an f32 model are computed in it, as --option mixed.dtype "
          "says")
      ->check(CLI::IsMember({"f16", "bf16", "tf32"}));
  // Behind --precision, which is an option of a pass, too.
  repeatable(command.add_option_function<std::vector<std::string>>(
      "--option",
      [&options](const std::vector<std::string> &given) {
        options.pass_options.insert(options.pass_options.end(), given.begin(), given.end());
      },
      "NAME=VALUE, as mixed.dtype=f16: an option of the default passes"));
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
  std::fprintf(stderr,
               "kernels loaded %llu bytes, %llu of them from %llu bytes that no kernel wrote (%.2f "
               "times)\n",
               loaded, constant_loaded, constant,
               constant > 0 ? double(constant_loaded) / double(constant) : 0.0);
}

} // namespace tool
