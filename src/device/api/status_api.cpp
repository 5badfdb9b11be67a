// Statuses and texts of the C ABI.
#include "device/api/entries.h"
#include "device/api/guard.h"

namespace cugrt::runtime::api {

namespace {

cugrt_status *status_create(cugrt_code code, const char *message) {
  if (code == CUGRT_OK)
    return nullptr;
  try {
    bool known = code > CUGRT_OK && code <= CUGRT_INTERNAL;
    return give_status(
        Status::error(known ? static_cast<Code>(code) : Code::internal, message ? message : ""));
  } catch (...) {
    return out_of_memory_status();
  }
}

cugrt_code status_code(const cugrt_status *status) {
  return status ? static_cast<cugrt_code>(status->status.code()) : CUGRT_OK;
}
const char *status_message(const cugrt_status *status) {
  return status ? status->status.message().c_str() : "";
}
const char *status_location(const cugrt_status *status) {
  return status ? status->status.location().c_str() : "";
}
const char *status_cuda_error(const cugrt_status *status) {
  return status ? status->status.cuda_error().c_str() : "";
}
void status_free(cugrt_status *status) { free_status(status); }

const char *text_data(const cugrt_text *text) { return text ? text->text.c_str() : ""; }
size_t text_size(const cugrt_text *text) { return text ? text->text.size() : 0; }
void text_free(cugrt_text *text) { delete text; }

} // namespace

void add_status_entries(cugrt_api &table) {
  table.status_create = status_create;
  table.status_code = status_code;
  table.status_message = status_message;
  table.status_location = status_location;
  table.status_cuda_error = status_cuda_error;
  table.status_free = status_free;
  table.text_data = text_data;
  table.text_size = text_size;
  table.text_free = text_free;
}

cugrt_api make_device_table(const char *version) {
  cugrt_api table{};
  table.struct_size = sizeof table;
  table.version = CUGRT_API_VERSION;
  table.version_string = version;
  for (void (*const add)(cugrt_api &) :
       {add_status_entries, add_runtime_entries, add_memory_entries, add_weights_entries,
        add_executable_entries, add_session_entries, add_group_entries, add_pack_entries})
    add(table);
  return table;
}

} // namespace cugrt::runtime::api
