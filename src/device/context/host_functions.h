// Host builtins: functions that modules call by name. The embedding program adds some; the library
// has its own (plan/format/host_builtins.h).
#pragma once

#include "base/status.h"
#include "cugrt/cugrt.h"

#include <map>
#include <shared_mutex>
#include <string>

namespace cugrt::runtime {

struct HostFunction {
  cugrt_host_function function = nullptr;
  void *user = nullptr;
};

class Device;

/// A table by name. May be used by several threads at once.
class HostFunctions {
public:
  /// Adds the library's own builtins, for a device that owns the table.
  void add_builtins(Device &device);
  /// Adds a function and replaces an earlier one with that name.
  void add(const std::string &name, HostFunction function);
  /// not_found names the function and says what to do.
  Result<HostFunction> find(const std::string &name) const;

private:
  mutable std::shared_mutex mutex_;
  std::map<std::string, HostFunction> functions_;
};

} // namespace cugrt::runtime
