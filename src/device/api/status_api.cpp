// Statuses and texts of the C ABI.
#include "device/api/entries.h"
#include "device/api/guard.h"

#include "base/check.h"

#include <new>

namespace cugrt::runtime::api {

cugrt_status *status_of_exception() noexcept {
  const auto bug = [](const std::string &what) {
    return give_status(Status::error(Code::internal, "a bug in cugrt, please report it" + what));
  };
  try {
    try {
      throw;
    } catch (const std::bad_alloc &) {
      return out_of_memory_status();
    } catch (const BrokenInvariant &broken) {
      return bug(std::string(": ") + broken.what());
    } catch (const std::exception &unexpected) {
      return bug(std::string(": unexpected exception: ") + unexpected.what());
    } catch (...) {
      return bug("");
    }
  } catch (...) { // memory ran out while the message was made
    return out_of_memory_status();
  }
}

Status null_argument(const char *name) {
  return Status::error(Code::invalid_argument, std::string("argument '") + name + "' is null");
}

Status first_null(std::string_view names, std::initializer_list<bool> given) {
  for (const bool is_given : given) {
    if (!is_given)
      break;
    names.remove_prefix(std::min(names.find(", "), names.size() - 2) + 2);
  }
  return null_argument(std::string(names.substr(0, names.find(", "))).c_str());
}

Status check_size(const char *name, size_t size, size_t first_bytes) {
  if (size >= first_bytes && size <= kMaxStructBytes)
    return {};
  return Status::error(Code::invalid_argument, std::string(name) + ": struct_size is " +
                                                   std::to_string(size) +
                                                   "; initialise the struct with CUGRT_INIT");
}

Status check_tail(const char *name, const void *given, size_t known, size_t size) {
  const auto *bytes = static_cast<const unsigned char *>(given);
  if (size <= known ||
      std::all_of(bytes + known, bytes + size, [](unsigned char byte) { return byte == 0; }))
    return {};
  return Status::error(
      Code::unsupported,
      std::string(name) + " sets a field that this library does not know; use a newer libcugrt.so");
}

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
