// Recordings and the printed report.
#include "report.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <set>

namespace cugrt::conformance {

namespace {

constexpr char kFormat[] = "1";

std::string today() {
  char text[16];
  std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%d", &parts));
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::vector<std::string> columns(const std::string &line) {
  std::vector<std::string> parts;
  for (size_t from = 0; from <= line.size();) {
    size_t to = std::min(line.find('\t', from), line.size());
    parts.push_back(line.substr(from, to - from));
    from = to + 1;
  }
  return parts;
}

bool read_recording(const std::filesystem::path &file, Recording &recording) {
  std::ifstream in(file);
  std::string line;
  bool known = false;
  while (std::getline(in, line)) {
    std::vector<std::string> parts = columns(line);
    if (parts.size() < 2)
      continue;
    if (parts[0] == "conformance")
      known = parts[1] == kFormat;
    else if (parts[0] == "device")
      recording.device = parts[1];
    else if (parts[0] == "driver")
      recording.driver = parts[1];
    else if (parts[0] == "date")
      recording.date = parts[1];
    else if (parts[0] == "compute")
      recording.compute = std::atoi(parts[1].c_str());
    else if (parts[0] == "case" && parts.size() > 2) {
      Recording::Case &recorded = recording.cases[parts[1]];
      recorded.passed = parts[2] == "passed";
      for (size_t i = 3; i < parts.size(); ++i)
        if (size_t equals = parts[i].find('='); equals != std::string::npos)
          recorded.answers[parts[i].substr(0, equals)] = parts[i].substr(equals + 1);
    }
  }
  return known && !recording.device.empty();
}

size_t confirmed_cases(const std::vector<Outcome> &outcomes, const Recording &recording) {
  return size_t(std::count_if(outcomes.begin(), outcomes.end(), [&](const Outcome &outcome) {
    auto it = recording.cases.find(outcome.id);
    return outcome.shared && it != recording.cases.end() && it->second.passed;
  }));
}

/// Steps that no document states and no recording answers.
size_t unrecorded_steps(const Outcome &outcome, const std::vector<Recording> &recordings) {
  size_t count = 0;
  for (const Answer &answer : outcome.answers) {
    bool answered = std::any_of(recordings.begin(), recordings.end(), [&](const Recording &r) {
      auto it = r.cases.find(outcome.id);
      return it != r.cases.end() && it->second.answers.count(answer.step);
    });
    count += answer.unrecorded && !answered;
  }
  return count;
}

std::string quoted(const std::string &text) {
  std::string out = "\"";
  for (char c : text)
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (c == '\n')
      out += "\\n";
    else
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  return out + '"';
}

void print_indented(const std::string &text) {
  for (size_t from = 0; from < text.size();) {
    size_t to = std::min(text.find('\n', from), text.size());
    std::printf("  %s\n", text.substr(from, to - from).c_str());
    from = to + 1;
  }
}

} // namespace

bool write_recording(const std::string &file, const Driver &driver,
                     const std::vector<Outcome> &outcomes, std::string &reason) {
  std::ofstream out(file);
  out << "conformance\t" << kFormat << "\ndevice\t" << driver.device_name << "\ncompute\t"
      << driver.compute << "\ndriver\t" << version_text(driver.version) << "\ndate\t" << today()
      << "\n";
  for (const Outcome &outcome : outcomes) {
    if (outcome.verdict == Verdict::left_out || !outcome.shared)
      continue;
    out << "case\t" << outcome.id << "\t"
        << (outcome.verdict == Verdict::passed ? "passed" : "failed");
    for (const Answer &answer : outcome.answers)
      out << "\t" << answer.step << "=" << answer.value;
    out << "\n";
  }
  if (!out.flush()) {
    reason = file + ": cannot be written";
    return false;
  }
  return true;
}

bool write_rows(const std::string &file, const std::vector<Outcome> &outcomes,
                const std::vector<Recording> &recordings, std::string &reason) {
  std::ofstream out(file);
  const char *before = "[\n";
  for (const Outcome &outcome : outcomes) {
    const char *result = outcome.verdict == Verdict::left_out    ? "skipped"
                         : outcome.verdict == Verdict::failed    ? "differs"
                         : unrecorded_steps(outcome, recordings) ? "unrecorded"
                                                                 : "agrees";
    out << before << R"( {"case": )" << quoted(outcome.id) << R"(, "result": ")" << result
        << R"(", "detail": )" << quoted(outcome.detail) << "}";
    before = ",\n";
  }
  if (!(out << "\n]\n").flush()) {
    reason = file + ": cannot be written";
    return false;
  }
  return true;
}

bool read_recordings(const std::string &folder, std::vector<Recording> &recordings,
                     std::string &reason) {
  std::error_code error;
  std::set<std::filesystem::path> files;
  for (const auto &entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().extension() == ".tsv")
      files.insert(entry.path());
  if (error) {
    reason = folder + ": " + error.message();
    return false;
  }
  for (const auto &file : files)
    if (Recording recording; read_recording(file, recording))
      recordings.push_back(std::move(recording));
    else {
      reason = file.string() + ": is no recording of this format";
      return false;
    }
  return true;
}

void compare(std::vector<Outcome> &outcomes, const std::vector<Recording> &recordings) {
  for (Outcome &outcome : outcomes)
    for (const Recording &recording : recordings) {
      auto it = recording.cases.find(outcome.id);
      if (it == recording.cases.end() || outcome.verdict == Verdict::left_out)
        continue;
      for (const Answer &answer : outcome.answers) {
        auto recorded = it->second.answers.find(answer.step);
        if (recorded == it->second.answers.end() || recorded->second == answer.value)
          continue;
        outcome.verdict = Verdict::failed;
        outcome.detail += answer.step + " is " + answer.value + "; " + recording.device +
                          " answered " + recorded->second + " (driver " + recording.driver + ", " +
                          recording.date + ")\n";
      }
    }
}

int print_report(const Driver &driver, const std::vector<Outcome> &outcomes,
                 const std::vector<Recording> &recordings) {
  size_t passed = 0, failed = 0, left_out = 0, shared = 0;
  std::map<std::string, size_t> reasons;
  for (const Outcome &outcome : outcomes) {
    shared += outcome.shared;
    passed += outcome.verdict == Verdict::passed;
    failed += outcome.verdict == Verdict::failed;
    if (outcome.verdict == Verdict::left_out)
      ++left_out, ++reasons[outcome.detail];
    if (outcome.verdict != Verdict::failed)
      continue;
    std::printf("failed: %s\n", outcome.id.c_str());
    print_indented(outcome.detail);
  }
  std::printf("\n%zu cases on %s (driver %s): %zu shared, %zu for the emulated driver only\n",
              outcomes.size(), driver.device_name.c_str(), version_text(driver.version).c_str(),
              shared, outcomes.size() - shared);
  for (const Recording &recording : recordings)
    std::printf("%zu confirmed on %s (driver %s, %s)\n", confirmed_cases(outcomes, recording),
                recording.device.c_str(), recording.driver.c_str(), recording.date.c_str());
  if (recordings.empty())
    std::printf("none confirmed on a GPU yet\n");
  size_t unrecorded = 0;
  for (const Outcome &outcome : outcomes)
    unrecorded += unrecorded_steps(outcome, recordings);
  std::printf("%zu answers that no document states are unrecorded\n", unrecorded);
  for (const auto &[reason, count] : reasons)
    std::printf("%zu left out: %s\n", count, reason.c_str());
  std::printf("%zu passed, %zu failed, 0 skipped\n", passed, failed);
  return failed ? 1 : 0;
}

} // namespace cugrt::conformance
