// The end of every bench: its table on stdout, its rows as JSON, its errors on stderr.
#pragma once

#include "bench/support/report.h"

#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

namespace cugrt::bench {

/// Prints the rows as a table and writes them to `json`, where that is given. `shown`, when not
/// null, is what is printed in their place.
Status show(const std::vector<Row> &rows, const std::optional<std::string> &json,
            const std::vector<Row> *shown = nullptr);

/// 0, or 1 after the error was told as "bench NAME: ...".
int exit_status(const char *name, const Status &status);

/// main() of a bench: `parse` makes arguments of the command line, `run` does the rest. What the
/// C++ API throws is an error like any other.
template <class Parse, class Run>
int bench_main(const char *name, int count, char **values, Parse parse, Run run) {
  Status status;
  try {
    auto arguments = parse(count, values);
    status = arguments.ok() ? run(*arguments) : arguments.take_status();
  } catch (const std::exception &error) {
    status = Status::error(Code::internal, error.what());
  }
  return exit_status(name, status);
}

} // namespace cugrt::bench
