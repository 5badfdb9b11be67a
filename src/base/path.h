// Names of files, and the environment that names them.
#pragma once

#include <climits>
#include <cstdlib>
#include <string>

namespace cugrt {

/// The folder of a path, without a slash at the end, unless it is the root; "." for a name alone.
inline std::string folder_of(const std::string &path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

/// Absolute, where links end; empty where nothing has this name.
inline std::string real_path(const std::string &path) {
  char buffer[PATH_MAX];
  return ::realpath(path.c_str(), buffer) ? buffer : "";
}

/// Empty where the variable is not set.
inline std::string environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

} // namespace cugrt
