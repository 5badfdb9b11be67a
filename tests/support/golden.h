// Single-file goldens: input, commands and what each must give, in one text file.
//
//   what this case shows, in a sentence or two
//   --- input
//   cugrt 1 ...
//   --- command: print
//   --- expect
//   cugrt 1 ...
//
// Any number of command and expect pairs may follow the input. A file whose name begins with "bad-"
// must give diagnostics (a line with " error: "), any other must not. With CUGRT_UPDATE_GOLDENS=1
// in the environment expectations are rewritten; every case then fails, so that an update never
// passes for a test: read the difference and commit it.
#pragma once

#include <functional>
#include <string>

namespace cugrt::test {

/// What a command gives for an input: text, or rendered diagnostics. Named as after "--- command:
/// ".
using GoldenCommand =
    std::function<std::string(const std::string &command, const std::string &input)>;

/// Registers one Catch2 test case for every .txt file of `folder`, called "SUITE golden: FILE". Use
/// it to initialise a global of the test executable:
///   static const bool registered = cugrt::test::register_goldens("ir", GOLDEN_FOLDER, run);
bool register_goldens(const std::string &suite, const std::string &folder, GoldenCommand run);

} // namespace cugrt::test
