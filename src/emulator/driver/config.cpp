// Reads the environment; see config.h.
#include "emulator/driver/config.h"

#include "base/whole_number.h"
#include "emulator/driver/cuda_api.h"
#include "emulator/exec/draws.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace cugrt::emulator::api {

constexpr std::string_view kVersions[] = {"12.2", "12.3", "12.4", "12.6", "12.8", "13.0",
                                          "13.1", "13.2", "13.3", "13.4", "13.5"};
constexpr int kVersionNumbers[] = {12020, 12030, 12040, 12060, 12080, 13000,
                                   13010, 13020, 13030, 13040, 13050};

static std::optional<uint64_t> bytes(std::string_view text) {
  unsigned shift = 0;
  if (!text.empty() && (text.back() == 'M' || text.back() == 'G')) {
    shift = text.back() == 'M' ? 20 : 30;
    text.remove_suffix(1);
  }
  auto value = whole_number<uint64_t>(text);
  constexpr uint64_t kMax = uint64_t(1) << 40, kMin = uint64_t(1) << 20;
  if (!value || *value > (kMax >> shift) || *value << shift < kMin)
    return std::nullopt;
  return *value << shift;
}

// N:CODE, the code as a number or by name.
static bool read_fault(std::string_view text, Config &config) {
  size_t colon = text.find(':');
  if (colon == std::string_view::npos)
    return false;
  auto call = whole_number<uint64_t>(text.substr(0, colon));
  std::string_view code = text.substr(colon + 1);
  std::optional<int> value = find_error_code(code);
  if (auto as_number = whole_number<uint64_t>(code); !value && as_number && *as_number < 1000)
    value = int(*as_number);
  if (!call || !value)
    return false;
  config.fail_call = *call;
  config.fail_code = *value;
  return true;
}

static bool read_quirks(std::string_view text, Config &config) {
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view name = text.substr(0, comma);
    if (name == "first_edge_data")
      config.first_edge_data = true;
    else if (name == "empty_bodies_hang")
      config.empty_bodies_hang = true;
    else
      return false;
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return true;
}

static bool read_version(std::string_view text, Config &config) {
  for (size_t i = 0; i < std::size(kVersions); ++i)
    if (kVersions[i] == text) {
      config.driver_version = kVersionNumbers[i];
      return true;
    }
  return false;
}

static uint64_t mix_seeds(uint64_t seed, uint64_t order) {
  return Draws(seed + (order << 32)).next();
}

template <class Read>
static void variable(Config &config, const char *name, const char *values, Read &&read) {
  const char *value = std::getenv(name);
  if (value && *value && config.problem.empty() && !read(std::string_view(value)))
    config.problem = std::string(name) + "=" + value + " is not understood: give " + values;
}

Config Config::from_environment() {
  Config config;
  config.profile = &default_profile();
  // First, since problems of the others are reported there.
  variable(config, "CUGRT_EMU_REPORT", "stderr or a file", [&](auto text) {
    config.report = text;
    return true;
  });
  variable(config, "CUGRT_EMU_DRIVER_VERSION", "12.2, 12.3, 12.4, 12.6, 12.8 or 13.0 to 13.5",
           [&](auto text) { return read_version(text, config); });
  variable(config, "CUGRT_EMU_DEVICE", "a device profile such as sm_80 or sm_90", [&](auto text) {
    const DeviceProfile *profile = find_profile(text);
    config.profile = profile ? profile : config.profile;
    return profile != nullptr;
  });
  variable(config, "CUGRT_EMU_MEMORY", "bytes, or a number with M or G", [&](auto text) {
    auto value = bytes(text);
    config.memory_bytes = value.value_or(config.memory_bytes);
    return value.has_value();
  });
  variable(config, "CUGRT_EMU_SEED", "a number", [&](auto text) {
    auto value = whole_number<uint64_t>(text);
    config.seed = value.value_or(config.seed);
    return value.has_value();
  });
  variable(config, "CUGRT_EMU_ORDER", "a number", [&](auto text) {
    config.order = whole_number<uint64_t>(text);
    return config.order.has_value();
  });
  variable(config, "CUGRT_EMU_WORKERS", "a number from 1 to 64", [&](auto text) {
    auto value = whole_number<uint64_t>(text);
    bool sensible = value && *value >= 1 && *value <= 64;
    config.workers = sensible ? unsigned(*value) : config.workers;
    return sensible;
  });
  variable(config, "CUGRT_EMU_FAIL_CALL", "N:CODE, such as 7:CUDA_ERROR_OUT_OF_MEMORY",
           [&](auto text) { return read_fault(text, config); });
  variable(config, "CUGRT_EMU_QUIRKS", "first_edge_data, empty_bodies_hang or both",
           [&](auto text) { return read_quirks(text, config); });
  variable(config, "CUGRT_EMU_CHECK", "all, none, or checks with commas between", [&](auto text) {
    std::optional<CheckSet> checks = parse_checks(text);
    config.checks = checks.value_or(config.checks);
    return checks.has_value();
  });
  // The executor reads these two by itself (exec/thread_pool.cpp, exec/opcodes/handlers.cpp).
  variable(config, "CUGRT_EMU_THREADS", "a number from 1 to 256", [](auto text) {
    auto value = whole_number<uint64_t>(text);
    return value && *value >= 1 && *value <= 256;
  });
  variable(config, "CUGRT_EMU_ISA", "v2, v3 or v4",
           [](auto text) { return text == "v2" || text == "v3" || text == "v4"; });
  if (config.order) { // one task at a time, and graphs of the same seed in another order
    config.workers = 1;
    config.seed = mix_seeds(config.seed, *config.order);
  }
  return config;
}

} // namespace cugrt::emulator::api
