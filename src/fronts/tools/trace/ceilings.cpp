// Ceilings from a device's attributes; see ceilings.h.
#include "fronts/tools/trace/ceilings.h"

#include <nlohmann/json.hpp>

#include <cstdio>

namespace tool {

namespace {

struct CeilingRow {
  int architecture;
  Operations each_clock; // of one multiprocessor
};

constexpr CeilingRow kCeilings[] = {
#define CUGRT_CEILING(architecture, ...) {architecture, {__VA_ARGS__}},
#include "fronts/tools/trace/ceilings.def"
#undef CUGRT_CEILING
};

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

} // namespace

std::optional<double> Ceilings::of_memory(double bytes_moved, double us) const {
  return bytes > 0 && us > 0 ? std::optional(bytes_moved / bytes / us) : std::nullopt;
}

std::optional<double> Ceilings::of_operations(const Operations &done, double us) const {
  double least_us = 0;
  for (size_t kind = 0; kind < done.size(); ++kind) {
    if (done[kind] > 0 && operations[kind] <= 0)
      return std::nullopt;
    if (done[kind] > 0)
      least_us += done[kind] / operations[kind];
  }
  return unknown.empty() && us > 0 ? std::optional(least_us / us) : std::nullopt;
}

std::string Ceilings::text() const {
  if (!unknown.empty())
    return "not known: " + unknown;
  std::string text = bytes > 0 ? short_number(bytes / 1e3) + " GB/s" : "memory not known";
  const char *before = "; Tops: ";
  for (size_t kind = 0; kind < operations.size(); ++kind, before = ", ")
    text += before + (operations[kind] > 0 ? short_number(operations[kind] / 1e6) : "not known") +
            " " + kOperationNames[kind];
  return text;
}

Ceilings device_ceilings(const nlohmann::ordered_json &device, bool emulated) {
  Ceilings ceilings;
  if (emulated) {
    ceilings.unknown = "the emulated driver's times say nothing of a device";
    return ceilings;
  }
  const auto attributes = device.value("attributes", nlohmann::ordered_json::object());
  const auto number = [&](const char *name) { return attributes.value(name, 0.0); };
  if (number("integrated") == 0) // kHz and bits, two transfers a clock
    ceilings.bytes = 2 * number("memory clock kHz") * number("memory bus bits") / 8 / 1e3;
  const std::string architecture = device.value("architecture", std::string());
  const double clocks = number("multiprocessors") * number("clock kHz") / 1e3; // a microsecond
  bool listed = false;
  for (const CeilingRow &row : kCeilings)
    if (architecture == "sm_" + std::to_string(row.architecture)) {
      listed = true;
      for (size_t kind = 0; kind < row.each_clock.size(); ++kind)
        ceilings.operations[kind] = row.each_clock[kind] * clocks;
    }
  if (!listed && ceilings.bytes <= 0)
    ceilings.unknown = "no figures of " + (architecture.empty() ? "this device" : architecture);
  return ceilings;
}

} // namespace tool
