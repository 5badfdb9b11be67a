// Collects and writes findings; see findings.h.
#include "emulator/driver/findings.h"

#include <cstdio>

namespace cugrt::emulator::api {

namespace {

struct CheckInfo {
  std::string_view name;
  bool is_free;
};

constexpr bool always = true, on_request = false; // as the table writes them

constexpr CheckInfo kChecks[] = {
#define CHECK(name, when, text) {#name, when},
#include "emulator/driver/findings.def"
};

} // namespace

std::string_view check_name(Check check) { return kChecks[size_t(check)].name; }

CheckSet free_checks() {
  CheckSet set = 0;
  for (size_t i = 0; i < size_t(Check::count); ++i)
    set |= kChecks[i].is_free ? check_bit(Check(i)) : 0;
  return set;
}

CheckSet all_checks() { return check_bit(Check::count) - 1; }

std::optional<CheckSet> parse_checks(std::string_view text) {
  if (text == "all")
    return all_checks();
  CheckSet set = free_checks();
  if (text == "none")
    return set;
  while (!text.empty()) {
    std::string_view name = text.substr(0, text.find(','));
    text.remove_prefix(name.size() == text.size() ? name.size() : name.size() + 1);
    size_t i = 0;
    while (i < size_t(Check::count) && kChecks[i].name != name)
      ++i;
    if (i == size_t(Check::count))
      return std::nullopt;
    set |= check_bit(Check(i));
  }
  return set;
}

void Findings::configure(CheckSet checks, std::string target) {
  std::lock_guard lock(mutex_);
  checks_ = checks;
  target_ = std::move(target);
  lines_.clear();
  known_.clear();
  count_ = 0;
}

void Findings::report_at(Check check, std::string_view site, std::string_view text) noexcept {
  if (!enabled(check))
    return;
  std::lock_guard lock(mutex_);
  ++count_;
  try {
    keep(check, site, text);
  } catch (...) { // no host memory
  }
}

void Findings::keep(Check check, std::string_view site, std::string_view text) {
  const std::string name = std::string(check_name(check)) + ": ";
  if (lines_.size() >= kMaxKept || !known_.insert(name + std::string(site)).second)
    return;
  const std::string line = name + std::string(text);
  lines_.push_back(line);
  write(line);
  if (lines_.size() == kMaxKept)
    write("further findings are counted and not shown");
}

// One write for each line, so that lines of several processes do not mix. A file that cannot be
// written loses the line, not the program.
void Findings::write(const std::string &line) const {
  if (target_.empty())
    return;
  std::FILE *out = target_ == "stderr" ? stderr : std::fopen(target_.c_str(), "a");
  if (!out)
    return;
  std::fprintf(out, "cugrt-emu: %s\n", line.c_str());
  if (out == stderr)
    std::fflush(out);
  else
    std::fclose(out);
}

uint64_t Findings::count() const {
  std::lock_guard lock(mutex_);
  return count_;
}

std::string Findings::text() const {
  std::lock_guard lock(mutex_);
  std::string all;
  for (const std::string &line : lines_)
    all += line + "\n";
  return all;
}

} // namespace cugrt::emulator::api
