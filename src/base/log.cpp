// Delivery of log messages.
#include "base/log.h"

#include <string>

namespace cugrt {

void Logger::operator()(LogLevel at, std::string_view message) const {
  if (enabled(at))
    callback(user, at, std::string(message).c_str());
}

} // namespace cugrt
