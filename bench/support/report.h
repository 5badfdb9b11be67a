// What every bench reports: flat rows, shown as a table on stdout and written as JSON on request.
#pragma once

#include "base/status.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace cugrt::bench {

/// Keys keep their order; every row of a bench has the same keys.
using Row = nlohmann::ordered_json;

/// One line for each row; numbers to the right, fractions with three digits, null as "-". The
/// column "bench" is left out.
std::string table(const std::vector<Row> &rows);

/// A Markdown table: a header and lines of cells, the first `left` columns to the left, the others
/// to the right.
std::string markdown_table(const std::vector<std::string> &header,
                           const std::vector<std::vector<std::string>> &lines, size_t left = 1);

/// A number with three significant digits, "-" without one: 1234, 56.7, 0.012.
std::string figure_text(std::optional<double> value);

/// An array of the rows.
Status write_json(const std::string &path, const std::vector<Row> &rows);

/// CPU time of the calling thread, in milliseconds.
double thread_cpu_ms();

} // namespace cugrt::bench
