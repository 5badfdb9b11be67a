// What the tests of jit share: environment variables for a scope, files as they are, children.
#pragma once
#include "support/must.h"

#include "base/file.h"
#include "base/status.h"
#include "jit/compiler.h"
#include "jit/request_key.h"

#include <cstdlib>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>

namespace cugrt::jit {

using test::contains;
using test::must;

/// Sets an environment variable for a scope; null unsets it.
struct Environment {
  std::string name;
  std::optional<std::string> before;
  Environment(const char *variable, const char *value) : name(variable) {
    if (const char *old = std::getenv(variable))
      before = old;
    set(value);
  }
  ~Environment() { set(before ? before->c_str() : nullptr); }
  void set(const char *value) { value ? setenv(name.c_str(), value, 1) : unsetenv(name.c_str()); }
};

inline void overwrite(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

inline std::string read(const std::string &path) { return must(read_file(path, 1 << 26)); }

inline CompileRequest request(std::string name, std::string source,
                              OutputKind kind = OutputKind::ptx) {
  CompileRequest r;
  r.name = std::move(name);
  r.source = std::move(source);
  r.kind = kind;
  r.architecture = "sm_90";
  return r;
}

inline CompilerConfig without_disk() {
  CompilerConfig config;
  config.cache.disk = false;
  return config;
}

inline CacheKey key_of(const CompileRequest &request) {
  IncludedFiles files("");
  return request_key(request, files).key;
}

/// Runs `body` in a child, whose exit status tells whether all was well: for what depends on which
/// libraries a process has loaded.
inline bool in_child(const std::function<bool()> &body) {
  pid_t child = ::fork();
  if (child == 0)
    ::_exit(body() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

} // namespace cugrt::jit
