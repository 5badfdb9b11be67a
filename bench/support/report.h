// What every bench reports: flat rows, shown as a table on stdout and written as JSON on request.
#pragma once

#include "support/status.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace cugrt::bench {

/// Keys keep their order; every row of a bench has the same keys.
using Row = nlohmann::ordered_json;

/// One line for each row; numbers to the right, fractions with three digits, null as "-". The
/// column "bench" is left out.
std::string table(const std::vector<Row> &rows);
/// An array of the rows.
Status write_json(const std::string &path, const std::vector<Row> &rows);

/// CPU time of the calling thread, in milliseconds.
double thread_cpu_ms();

} // namespace cugrt::bench
