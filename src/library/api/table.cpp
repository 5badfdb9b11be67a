// The library's one exported function; that of the library for devices is in core_table.cpp.
#include "device/api/entries.h"

static cugrt_api make_table() {
  using namespace cugrt::runtime::api;
  cugrt_api table = make_device_table(CUGRT_VERSION);
  add_module_entries(table);
  add_link_entries(table);
  add_compile_entries(table);
  add_cache_entries(table);
  add_report_entries(table);
  return table;
}

const cugrt_api *cugrt_get_api(uint32_t version) {
  // Made on the first call; C++ makes that safe for several threads.
  static const cugrt_api table = make_table();
  return version >= 1 && version <= CUGRT_API_VERSION ? &table : nullptr;
}
