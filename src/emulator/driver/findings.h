// Findings of the emulated driver's checks, and where they are reported.
//
// A finding is one line of text of one check (findings.def). It changes no result and no error
// code. All findings are counted; the first kMaxKept are kept for cuEmuGetFindings and written, as
// they come, to where CUGRT_EMU_REPORT says: nowhere by default, since a library does not print. A
// text that was reported before is counted and not told again. Thread-safe; calls nothing of ours,
// so that it may be called with any lock held.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace cugrt::emulator::api {

enum class Check : uint8_t {
#define CHECK(name, when, text) name,
#include "emulator/driver/findings.def"
  count
};

/// One bit a check.
using CheckSet = uint32_t;
constexpr CheckSet check_bit(Check check) { return CheckSet(1) << unsigned(check); }

std::string_view check_name(Check check);
/// The checks that are always on.
CheckSet free_checks();
CheckSet all_checks();
/// "all", "none" or names with commas between; nothing for anything else.
std::optional<CheckSet> parse_checks(std::string_view text);

class Findings {
public:
  static constexpr size_t kMaxKept = 1000;

  /// Forgets everything. `target`: empty, "stderr" or the path of a file to append to.
  void configure(CheckSet checks, std::string target);
  bool enabled(Check check) const { return checks_ & check_bit(check); }

  /// No effect for a check that is off. `text` is one line without the check's name. Where the host
  /// has no memory for it the finding is only counted.
  void report(Check check, std::string_view text) noexcept { report_at(check, text, text); }
  /// Likewise, for a text that is reported once for each `site`.
  void report_at(Check check, std::string_view site, std::string_view text) noexcept;
  uint64_t count() const;
  /// The lines that are kept, each with its end of line.
  std::string text() const;

private:
  void keep(Check check, std::string_view site, std::string_view text);
  void write(const std::string &line) const;

  CheckSet checks_ = 0; // set before any other thread calls
  mutable std::mutex mutex_;
  std::string target_;
  std::vector<std::string> lines_;
  std::unordered_set<std::string> known_;
  uint64_t count_ = 0;
};

} // namespace cugrt::emulator::api
