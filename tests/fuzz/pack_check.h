// What is done with a pack that was read, by the fuzz targets of bytes and of grammars.
#pragma once

#include "cugrt/cugrt.h"
#include "device/pack/pack_open.h"
#include "library/report/module_report.h"

#include <cstdio>
#include <cstdlib>

namespace cugrt::test {

/// Reads the bytes as a pack, writes it back to the same bytes, reports it, finds its weights and
/// makes it an executable for several devices. False: they were refused.
inline bool check_pack(std::string bytes) {
  using namespace runtime;
  const auto file = std::make_shared<const std::string>(std::move(bytes));
  const auto pack = read_pack(file, "input");
  if (!pack.ok())
    return false;
  if (write_pack(pack->contents) != *file) {
    std::fprintf(stderr, "what was read is not written as it was\n");
    std::abort();
  }
  PlanReportOptions options;
  for (cugrt_report_format format : {CUGRT_REPORT_TEXT, CUGRT_REPORT_JSON}) {
    options.format = format;
    (void)pack_report(*pack, options).ok();
  }
  (void)pack_weights(*pack, "").ok();
  for (int device : {75, 90, 120})
    for (bool only_ptx : {false, true})
      if (const auto target = choose_target(*pack, device, only_ptx); target.ok())
        (void)make_executable(*pack, *target).ok();
  return true;
}

} // namespace cugrt::test
