// Exports cugrt_get_api in the library for devices, which runs packs only. Its table has the same
// entries; those that the library lacks return CUGRT_UNSUPPORTED.
#include "device/api/entries.h"
#include "device/api/guard.h"

namespace {

using namespace cugrt::runtime::api;

enum class Lacks { text, compiler, reports };

template <Lacks what> cugrt::Status refusal() {
  constexpr const char *kSentences[] = {
      "libcugrt-core.so runs packs and reads no module's text; load a pack, or link with "
      "libcugrt.so",
      "libcugrt-core.so runs packs and compiles nothing; make a pack with libcugrt.so or `cugrt "
      "compile`",
      "libcugrt-core.so runs packs and draws no reports; use libcugrt.so or the tool cugrt"};
  return cugrt::Status::error(cugrt::Code::unsupported, kSentences[size_t(what)]);
}

template <Lacks what, class... Arguments> void lack(cugrt_status *(*&entry)(Arguments...)) {
  entry = [](Arguments...) { return guarded([] { return refusal<what>(); }); };
}

void add_lacking_entries(cugrt_api &table) {
  lack<Lacks::text>(table.module_load);
  lack<Lacks::text>(table.module_parse);
  lack<Lacks::text>(table.module_adopt);
  table.module_free = [](cugrt_module *) {}; // there is none
  lack<Lacks::text>(table.module_print);
  lack<Lacks::text>(table.module_run_passes);
  table.pass_count = []() -> size_t { return 0; };
  table.pass_name = table.pass_description = [](size_t) -> const char * { return nullptr; };
  lack<Lacks::text>(table.module_plan_report);
  lack<Lacks::text>(table.module_import);
  lack<Lacks::text>(table.module_weights);
  lack<Lacks::text>(table.module_link);
  table.module_input_name = table.module_result_name =
      [](const cugrt_module *, size_t) -> const char * { return nullptr; };
  lack<Lacks::compiler>(table.executable_compile);
  lack<Lacks::compiler>(table.pack_write);
  lack<Lacks::compiler>(table.cache_list);
  lack<Lacks::compiler>(table.cache_remove_broken);
  lack<Lacks::compiler>(table.cache_prune);
  lack<Lacks::compiler>(table.cache_export);
  lack<Lacks::reports>(table.pack_report);
  lack<Lacks::reports>(table.session_graph_report);
  lack<Lacks::reports>(table.function_key_difference);
}

cugrt_status *doctor(const cugrt_runtime_options *options, cugrt_report_format format,
                     cugrt_text **report, int32_t *usable) {
  return report_doctor(options, format, report, usable, cugrt::runtime::examine_driver);
}

cugrt_api make_table() {
  cugrt_api table = make_device_table(CUGRT_VERSION);
  add_lacking_entries(table);
  table.doctor = doctor;
  return table;
}

} // namespace

const cugrt_api *cugrt_get_api(uint32_t version) {
  // Made on the first call; C++ makes that safe for several threads.
  static const cugrt_api table = make_table();
  return version >= 1 && version <= CUGRT_API_VERSION ? &table : nullptr;
}
