// The log callback. The library is silent unless its user installs one.
//
// A Logger is a value passed down explicitly; copies share the callback. Calls may come from any
// thread that uses the library; the callback must be thread-safe and must not call back into cugrt.
#pragma once

#include <string_view>

namespace cugrt {

/// The values are part of the C ABI (cugrt_log_level): append only.
enum class LogLevel : int { error = 0, warning = 1, info = 2, debug = 3 };

struct Logger {
  using Callback = void (*)(void *user, LogLevel level, const char *message);
  Callback callback = nullptr;
  void *user = nullptr;
  LogLevel level = LogLevel::warning;

  bool enabled(LogLevel at) const { return callback && at <= level; }
  void operator()(LogLevel at, std::string_view message) const;
};

} // namespace cugrt
