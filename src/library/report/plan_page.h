// A plan as one page for a browser: graph with layers that fold, storage over time, reasons,
// search.
#pragma once

#include "library/report/plan_report.h"

#include <string_view>

namespace cugrt::runtime {

/// plan_page.html, with the word @PLAN@ where the plan's JSON stands.
extern const std::string_view kPlanPage;

/// The page, whole: it names no address and needs no network. Texts of bindings are cut where there
/// are so many that the page would weigh more than some megabytes; names of steps never are.
std::string plan_page(const PlanView &view);

} // namespace cugrt::runtime
