// Who is told of races on shared memory.
#pragma once

#include <functional>
#include <string>

namespace cugrt::emulator {

using RaceReport = std::function<void(const std::string &)>;

/// While it lives, launches that its thread makes look for races, which slows them, and tell each
/// in one line: from any of the launch's threads. Null: they are not looked for.
class RaceReportScope {
public:
  explicit RaceReportScope(const RaceReport *report);
  ~RaceReportScope();
  RaceReportScope(const RaceReportScope &) = delete;
  RaceReportScope &operator=(const RaceReportScope &) = delete;
  static const RaceReport *current();

private:
  const RaceReport *before_;
};

} // namespace cugrt::emulator
