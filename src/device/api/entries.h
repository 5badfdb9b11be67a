// Functions of the API table, by concern. table.cpp joins all of them; core_table.cpp joins those
// of the library for devices. cugrt/cugrt.h documents them.
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
/// Makes a table with the entries above, which both libraries have.
cugrt_api make_device_table(const char *version);
// Adds the entries that only the whole library has.
void add_module_entries(cugrt_api &table);
void add_link_entries(cugrt_api &table);
void add_compile_entries(cugrt_api &table);
void add_cache_entries(cugrt_api &table);
void add_report_entries(cugrt_api &table);

/// Implements the entry `doctor`; `examine` fills in what the library can find out.
cugrt_status *report_doctor(const cugrt_runtime_options *options, cugrt_report_format format,
                            cugrt_text **report, int32_t *usable,
                            DoctorReport (*examine)(const DeviceOptions &));

} // namespace cugrt::runtime::api
