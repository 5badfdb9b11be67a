// Statuses as handles; see abi_types.h.
#include "device/context/abi_types.h"

#include <new>

namespace cugrt::runtime {

/// Made when the library is loaded, so that reporting a failed allocation allocates nothing.
static cugrt_status g_out_of_memory{
    Status::error(Code::out_of_host_memory, "host memory ran out; free some and try again")};

cugrt_status *out_of_memory_status() noexcept { return &g_out_of_memory; }

cugrt_status *give_status(Status status) noexcept {
  if (status.ok())
    return nullptr;
  if (auto *handle = new (std::nothrow) cugrt_status{std::move(status)})
    return handle;
  return out_of_memory_status();
}

void free_status(cugrt_status *status) noexcept {
  if (status != out_of_memory_status())
    delete status;
}

Status take_status(cugrt_status *status) {
  if (!status)
    return {};
  Status taken =
      status == out_of_memory_status() ? status->status.clone() : std::move(status->status);
  free_status(status);
  return taken;
}

} // namespace cugrt::runtime
