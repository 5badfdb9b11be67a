// What a pack holds, for people.
#pragma once

#include "device/pack/pack.h"
#include "library/report/module_report.h"

namespace cugrt::runtime {

/// Targets, weights, and each plan: as text or JSON; DOT of a pack with one plan.
Result<std::string> pack_report(const Pack &pack, const PlanReportOptions &options);

} // namespace cugrt::runtime
