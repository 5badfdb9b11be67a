// The functions of the table, by concern; table.cpp joins them. Meanings stand in cugrt/cugrt.h.
#pragma once

#include "cugrt/cugrt.h"

namespace cugrt::runtime::api {

void add_status_entries(cugrt_api &table);
void add_runtime_entries(cugrt_api &table);
void add_memory_entries(cugrt_api &table);
void add_module_entries(cugrt_api &table);
void add_weights_entries(cugrt_api &table);
void add_executable_entries(cugrt_api &table);
void add_session_entries(cugrt_api &table);
void add_cache_entries(cugrt_api &table);
void add_pack_entries(cugrt_api &table);

} // namespace cugrt::runtime::api
