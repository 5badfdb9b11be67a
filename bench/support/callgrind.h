// Counting instructions with valgrind's callgrind: runs a program of ours under it, and reads what
// it wrote.
#pragma once

#include "base/status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace cugrt::bench {

struct CallgrindRun {
  std::vector<std::string> program; // file and arguments
  std::string collect_in;           // function: instructions count while it runs
  std::string dump_before;          // function: figures are written before it and start at zero
};

/// The part of a dump that counts: instructions of all objects but the excluded ones, and the names
/// of the functions that they were executed in.
struct CallgrindDump {
  uint64_t instructions = 0;
  std::vector<std::string> functions;
};

/// Runs to the end and returns the dumps in order: at each call of `dump_before`, and after each
/// call of `collect_in`. Objects are excluded by a part of their path. Fails (not_found) where
/// there is no valgrind.
Result<std::vector<CallgrindDump>> run_callgrind(const CallgrindRun &run,
                                                 const std::vector<std::string> &excluded_objects);

/// One dump's text (callgrind's format, version 1), written without compressed names.
Result<CallgrindDump> parse_callgrind(const std::string &text,
                                      const std::vector<std::string> &excluded_objects);

} // namespace cugrt::bench
