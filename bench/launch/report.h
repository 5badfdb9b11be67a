// The launch bench's report: rows for JSON, tables in Markdown, and what the figures say in words.
#pragma once

#include "bench/launch/amortise.h"
#include "bench/launch/modes.h"
#include "bench/support/report.h"

namespace cugrt::bench {

/// One graph of one size on one driver.
struct LaunchCase {
  std::string graph;
  uint32_t nodes = 0; // as asked for
  const BenchDriver *driver = nullptr;
  CaseFigures figures;
};

/// A row for each mode.
void add_rows(const LaunchCase &measured, std::vector<Row> &rows);
/// A row for each way of running, in the same fields; `case` begins with amortise_ or mix_.
void add_rows(const AmortisedCase &measured, const BenchDriver &driver, std::vector<Row> &rows);

std::string launch_tables(const std::vector<LaunchCase> &cases);
std::string amortised_tables(const std::vector<AmortisedCase> &cases);

/// Ratios of this run, in words. On a GPU each stands beside the mark that is to be met.
std::string verdict(const std::vector<LaunchCase> &cases);

} // namespace cugrt::bench
