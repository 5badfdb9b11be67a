// What the tool's commands share beside options (options.h): where they are added, the runtime, log
// output, files.
//
// Data goes to stdout, everything else to stderr; whatever the emulated driver computed is marked
// EMULATED.
#pragma once

#include "open_runtime.h"
#include "options.h"

#include <string>
#include <string_view>
#include <vector>

namespace tool {

/// Each command adds its options to `app` and a callback that runs it.
void add_run(CLI::App &app);
void add_plan(CLI::App &app);
void add_compile(CLI::App &app);
void add_opt(CLI::App &app);
void add_doctor(CLI::App &app);
void add_bench(CLI::App &app);
void add_trace(CLI::App &app);
void add_attribute(CLI::App &app);
void add_cache(CLI::App &app);
void add_tokenize(CLI::App &app);
void add_generate(CLI::App &app);
void add_chat(CLI::App &app);
void add_import(CLI::App &app);
void add_link(CLI::App &app);
void add_compare(CLI::App &app);

/// `command` is what emulate runs: the rest of the command line, which is the program's own and not
/// to be parsed. It is taken from the end of argv.
std::vector<std::string> take_emulated_command(int &argc, char **argv);
void add_emulate(CLI::App &app, const std::vector<std::string> &command);

/// The file is written whole, or what was there stays (base/file.h).
void write_whole(const std::string &path, std::string_view bytes);

/// Adds a log callback that writes to stderr what CUGRT_LOG asks for.
cugrt::RuntimeOptions with_log(cugrt::RuntimeOptions options);

/// Opens the runtime by open_or_emulate().
cugrt::Runtime open_runtime(const cugrt::RuntimeOptions &options);

/// Counts loads of kernels from global memory from now on; only the emulated driver counts them.
/// `counts`: whether to count.
class LoadCount {
public:
  LoadCount(const cugrt::Runtime &runtime, bool counts);
  /// Prints one line on stderr, if there is a count.
  void print() const;

private:
  void *driver_ = nullptr; // counts
};

} // namespace tool
