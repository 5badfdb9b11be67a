// The most that a device can do, by its attributes and the table ceilings.def.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <optional>
#include <string>

namespace tool {

/// Operations by what devices have rates of their own for, as the plan's report names them.
inline constexpr std::array<const char *, 4> kOperationNames = {"vector", "f16", "int8", "f64"};
using Operations = std::array<double, kOperationNames.size()>;

struct Ceilings {
  std::string unknown;     // why there are none; empty where there are
  double bytes = 0;        // of memory, a microsecond; 0: not known
  Operations operations{}; // a microsecond, of each kind alone; 0: not known

  /// The part of the memory's rate that `us` microseconds use; none if that is unknown.
  std::optional<double> of_memory(double bytes_moved, double us) const;
  /// The time that these operations take at the ceilings, as a part of `us`.
  std::optional<double> of_operations(const Operations &done, double us) const;
  /// "3352 GB/s; Tops: 66.9 vector, 1070.5 f16, 2141.0 int8, 33.5 f64", or why there are none.
  std::string text() const;
};

/// `device`: a device of the doctor's report as JSON. Memory gives two transfers a clock of its
/// bus; for an integrated device the driver reports another clock. Clocks are the highest ones.
Ceilings device_ceilings(const nlohmann::ordered_json &device, bool emulated);

} // namespace tool
