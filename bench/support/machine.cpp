// The host, from /proc/cpuinfo and uname; see machine.h.
#include "bench/support/machine.h"

#include <fstream>
#include <sys/utsname.h>
#include <thread>

namespace cugrt::bench {
namespace {

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line))
    if (size_t colon = line.find(": "); line.starts_with("model name") && colon != line.npos)
      return line.substr(colon + 2);
  return "unknown";
}

} // namespace

std::string machine_text() {
  std::string text = "processor " + processor() + ", " +
                     std::to_string(std::thread::hardware_concurrency()) + " cores";
  utsname system{};
  if (uname(&system) == 0)
    text += std::string("; ") + system.sysname + " " + system.release;
#if defined(__clang__)
  return text + "; built with clang " + __clang_version__;
#else
  return text + "; built with GCC " + __VERSION__;
#endif
}

} // namespace cugrt::bench
