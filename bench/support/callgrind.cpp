// Running callgrind and reading its dumps; see callgrind.h.
//
// A dump is lines: "ob=" and "fn=" say where the cost lines that follow were spent ("POSITION
// COST"). "calls=" announces that the next cost line is what a callee spent, which counts there.
#include "bench/support/callgrind.h"

#include "base/file.h"
#include "tests/support/temporary_folder.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <spawn.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace cugrt::bench {
namespace {

constexpr uint64_t kMaxDumpBytes = uint64_t(256) << 20;

Status spawn(const std::vector<std::string> &arguments) {
  std::vector<char *> pointers;
  for (const std::string &argument : arguments)
    pointers.push_back(const_cast<char *>(argument.c_str()));
  pointers.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawnp(&child, pointers[0], nullptr, nullptr, pointers.data(), environ) != 0)
    return Status::error(Code::not_found,
                         "cannot start " + arguments[0] + "; install Debian's package valgrind");
  int result = 0;
  if (waitpid(child, &result, 0) != child || !WIFEXITED(result) || WEXITSTATUS(result) != 0)
    return Status::error(Code::internal, "the measured program failed under " + arguments[0]);
  return {};
}

} // namespace

Result<CallgrindDump> parse_callgrind(const std::string &text,
                                      const std::vector<std::string> &excluded_objects) {
  CallgrindDump dump;
  std::istringstream lines(text);
  std::string line, function;
  bool excluded = false, of_callee = false, named = false;
  while (std::getline(lines, line)) {
    if (line.starts_with("ob=")) {
      excluded = std::any_of(excluded_objects.begin(), excluded_objects.end(),
                             [&](const auto &part) { return line.find(part) != line.npos; });
    } else if (line.starts_with("fn=")) {
      function = line.substr(3);
      named = false;
    } else if (line.starts_with("calls=")) {
      of_callee = true;
    } else if (!line.empty() && std::strchr("0123456789+-*", line[0])) {
      size_t space = line.find(' ');
      uint64_t cost = 0;
      const char *end = line.data() + line.size();
      if (space == line.npos || std::from_chars(line.data() + space + 1, end, cost).ptr != end)
        return Status::error(Code::parse_error, "callgrind wrote a line that is no cost: " + line);
      if (std::exchange(of_callee, false) || excluded || cost == 0)
        continue;
      dump.instructions += cost;
      if (!std::exchange(named, true))
        dump.functions.push_back(function);
    }
  }
  return dump;
}

Result<std::vector<CallgrindDump>> run_callgrind(const CallgrindRun &run,
                                                 const std::vector<std::string> &excluded_objects) {
  TemporaryFolder folder;
  std::string out = folder.path + "/out";
  std::vector<std::string> arguments = {"valgrind",
                                        "-q",
                                        "--tool=callgrind",
                                        "--collect-atstart=no",
                                        "--toggle-collect=" + run.collect_in,
                                        "--dump-before=" + run.dump_before,
                                        "--dump-after=" + run.collect_in,
                                        "--compress-strings=no",
                                        "--compress-pos=no",
                                        "--callgrind-out-file=" + out};
  arguments.insert(arguments.end(), run.program.begin(), run.program.end());
  CUGRT_TRY(spawn(arguments));
  std::vector<CallgrindDump> dumps;
  for (size_t i = 1; std::filesystem::exists(out + "." + std::to_string(i)); ++i) {
    CUGRT_ASSIGN(std::string text, read_file(out + "." + std::to_string(i), kMaxDumpBytes));
    CUGRT_ASSIGN(CallgrindDump dump, parse_callgrind(text, excluded_objects));
    dumps.push_back(std::move(dump));
  }
  return dumps;
}

} // namespace cugrt::bench
