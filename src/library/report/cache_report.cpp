// Reports of the code cache; see module_report.h.
#include "library/report/module_report.h"

#include <nlohmann/json.hpp>

#include <ctime>

namespace cugrt::runtime {

namespace {

/// The entry's key, which is its file's name.
std::string key_of(const jit::CacheEntryInfo &entry) {
  size_t slash = entry.path.rfind('/');
  std::string name = slash == std::string::npos ? entry.path : entry.path.substr(slash + 1);
  return name.substr(0, name.find('.'));
}

const char *kind_of(const jit::CacheEntryInfo &entry) {
  return entry.kind == jit::OutputKind::ptx ? "ptx" : "cubin";
}

std::string compiler_of(const jit::CacheEntryInfo &entry) {
  return std::to_string(entry.compiler.major) + "." + std::to_string(entry.compiler.minor);
}

std::string utc(int64_t ns) {
  auto seconds = static_cast<time_t>(ns / 1000000000);
  tm parts{};
  char text[32] = "";
  if (gmtime_r(&seconds, &parts))
    (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

struct Totals {
  uint64_t bytes = 0, broken = 0;
};

Totals total(std::span<const jit::CacheEntryInfo> entries) {
  Totals totals;
  for (const jit::CacheEntryInfo &entry : entries) {
    totals.bytes += entry.size_bytes;
    totals.broken += !entry.valid;
  }
  return totals;
}

} // namespace

std::string cache_text(const jit::CacheReport &report,
                       std::span<const jit::CacheEntryInfo> entries) {
  std::string text;
  for (const jit::CacheEntryInfo &entry : entries) {
    text += key_of(entry).substr(0, 16) + "  " + utc(entry.last_read_ns) + "  ";
    text += entry.valid ? std::string(kind_of(entry)) + " " + entry.architecture + ", NVRTC " +
                              compiler_of(entry)
                        : "BROKEN";
    text += ", " + std::to_string(entry.size_bytes) + " bytes\n";
  }
  Totals totals = total(entries);
  return text + report.folder + ": " + std::to_string(entries.size()) + " entries, " +
         std::to_string(totals.bytes) + " bytes, " + std::to_string(totals.broken) + " broken\n";
}

std::string cache_json(const jit::CacheReport &report,
                       std::span<const jit::CacheEntryInfo> entries) {
  nlohmann::ordered_json json;
  Totals totals = total(entries);
  json["folder"] = report.folder;
  json["writable"] = report.writable;
  json["bytes"] = totals.bytes;
  json["broken"] = totals.broken;
  json["entries"] = nlohmann::ordered_json::array();
  for (const jit::CacheEntryInfo &entry : entries) {
    nlohmann::ordered_json row{{"key", key_of(entry)},
                               {"valid", entry.valid},
                               {"bytes", entry.size_bytes},
                               {"last_read", utc(entry.last_read_ns)}};
    if (entry.valid) {
      row["kind"] = kind_of(entry);
      row["architecture"] = entry.architecture;
      row["compiler"] = compiler_of(entry);
    }
    json["entries"].push_back(std::move(row));
  }
  // Paths may hold bytes that are not UTF-8.
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

} // namespace cugrt::runtime
