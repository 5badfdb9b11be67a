// What became of the cases, what the driver answered, and the files in which answers of hardware
// are kept.
//
// A recording is text, one line a case, columns parted by tabs:
//
//   conformance  1                            the format
//   device       NVIDIA H200                  what answered, and when
//   compute      90
//   driver       13.0
//   date         2026-11-21
//   case         ID  passed|failed  STEP=ANSWER  ...
//
// STEP of an opcode case is "bits" (a hash of its results, with one bit pattern for all NaNs where
// the ISA leaves them open) or "bound" (the class within a bound: that it holds). STEP of a script
// is the number and the name of a step; its answer is the CUresult's name or a value.
#pragma once

#include "driver.h"

#include <map>
#include <string>
#include <vector>

namespace cugrt::conformance {

enum class Verdict { passed, failed, left_out };

struct Answer {
  std::string step, value;
  bool unrecorded = false; // no document states it: only hardware can
};

struct Outcome {
  std::string id;
  bool shared = true; // otherwise for the emulated driver only
  Verdict verdict = Verdict::passed;
  std::string detail; // what failed, or why the case was left out
  std::vector<Answer> answers;
};

/// One run on one device, read from a file.
struct Recording {
  std::string device, driver, date;
  int compute = 0;
  struct Case {
    bool passed = false;
    std::map<std::string, std::string> answers;
  };
  std::map<std::string, Case> cases;
};

bool write_recording(const std::string &file, const Driver &driver,
                     const std::vector<Outcome> &outcomes, std::string &reason);
/// Every .tsv of the folder; an unreadable one is a reason.
bool read_recordings(const std::string &folder, std::vector<Recording> &recordings,
                     std::string &reason);

/// A JSON array with an object a case: `case`; `result`, which is "agrees", "differs", "skipped" or
/// "unrecorded" (it agrees, and has an answer that only hardware can give and none gave yet); and
/// `detail`, which is what failed or why the case was left out.
bool write_rows(const std::string &file, const std::vector<Outcome> &outcomes,
                const std::vector<Recording> &recordings, std::string &reason);

/// Fails cases whose answers differ from what hardware answered.
void compare(std::vector<Outcome> &outcomes, const std::vector<Recording> &recordings);

/// Failures, then the counts; the last line is "N passed, N failed, N skipped". Returns the exit
/// status.
int print_report(const Driver &driver, const std::vector<Outcome> &outcomes,
                 const std::vector<Recording> &recordings);

} // namespace cugrt::conformance
