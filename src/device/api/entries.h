// The functions of the table, by concern; table.cpp joins them, and core_table.cpp those that the
// library for devices has. Meanings stand in cugrt/cugrt.h.
#pragma once

#include "cugrt/cugrt.h"
#include "device/context/doctor.h"

namespace cugrt::runtime::api {

void add_status_entries(cugrt_api &table);
void add_runtime_entries(cugrt_api &table);
void add_memory_entries(cugrt_api &table);
void add_weights_entries(cugrt_api &table);
void add_executable_entries(cugrt_api &table);
void add_session_entries(cugrt_api &table);
void add_group_entries(cugrt_api &table);
void add_pack_entries(cugrt_api &table);
/// A table with the entries above, which both libraries have.
cugrt_api make_device_table(const char *version);
// Of the whole library alone.
void add_module_entries(cugrt_api &table);
void add_link_entries(cugrt_api &table);
void add_compile_entries(cugrt_api &table);
void add_cache_entries(cugrt_api &table);
void add_report_entries(cugrt_api &table);

/// The entry `doctor`; `examine` looks at what the library has.
cugrt_status *report_doctor(const cugrt_runtime_options *options, cugrt_report_format format,
                            cugrt_text **report, int32_t *usable,
                            DoctorReport (*examine)(const DeviceOptions &));

} // namespace cugrt::runtime::api
