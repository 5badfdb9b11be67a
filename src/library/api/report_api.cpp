// Reports of the C ABI, on packs, graphs and keys.
#include "device/api/entries.h"
#include "device/api/guard.h"
#include "device/api/handles.h"
#include "library/report/module_report.h"

namespace cugrt::runtime::api {

static Status pack_report(const cugrt_pack *pack, const cugrt_plan_options *given,
                          cugrt_text **report) {
  CUGRT_REQUIRE(pack, report);
  CUGRT_ASSIGN(cugrt_plan_options options,
               read_struct(given, "cugrt_plan_options", kPlanOptionsBytes, cugrt_plan_options{}));
  CUGRT_REQUIRE(options.symbols || !options.symbol_count);
  PlanReportOptions plan_options;
  plan_options.format = static_cast<cugrt_report_format>(options.format);
  plan_options.symbols = {options.symbols, options.symbol_count};
  CUGRT_ASSIGN(std::string text, runtime::pack_report(pack->pack, plan_options));
  *report = new cugrt_text{std::move(text)};
  return {};
}

static Status session_graph_report(cugrt_session *session, cugrt_report_format format,
                                   cugrt_text **report) {
  CUGRT_REQUIRE(session, report);
  Result<std::string> text = std::string();
  auto write = [&](const std::vector<GraphCache::View> &views) {
    text = graph_report(session->executable->plan(), views, format);
  };
  CUGRT_TRY(session->session->visit_instances(write));
  if (!text.ok())
    return text.take_status();
  *report = new cugrt_text{std::move(*text)};
  return {};
}

static Status function_key_difference(const cugrt_function *function,
                                      const cugrt_symbol_value *from, size_t from_count,
                                      const cugrt_symbol_value *to, size_t to_count,
                                      cugrt_report_format format, cugrt_text **report) {
  CUGRT_REQUIRE(function, from || !from_count, to || !to_count, report);
  CUGRT_ASSIGN(std::string text, key_difference(*function->executable, function->index,
                                                {from, from_count}, {to, to_count}, format));
  *report = new cugrt_text{std::move(text)};
  return {};
}

void add_report_entries(cugrt_api &table) {
  set_entry<pack_report>(table.pack_report);
  set_entry<session_graph_report>(table.session_graph_report);
  set_entry<function_key_difference>(table.function_key_difference);
}

} // namespace cugrt::runtime::api
