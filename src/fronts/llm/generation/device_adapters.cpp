// Copies of adapters on a device; see lora_adapter.h.
#include "fronts/llm/generation/lora_adapter.h"

#include "fronts/llm/generation/call.h"

#include <algorithm>

namespace cugrt::llm {

Result<DeviceAdapters::Placed>
DeviceAdapters::place(const std::shared_ptr<const LoraAdapter> &adapter) const {
  CUGRT_ASSIGN(const std::string bytes, adapter->pack(*layout_));
  cugrt_buffer *made = nullptr;
  CUGRT_TRY(call(group_ ? api().group_buffer_create(group_, bytes.size(), &made)
                        : api().buffer_create(runtime_, CUGRT_MEMORY_DEVICE, bytes.size(), &made)));
  Placed placed{adapter, Buffer(made)};
  CUGRT_TRY(call(api().copy_to_device(runtime_, api().buffer_address(made), bytes.data(),
                                      bytes.size(), nullptr)));
  return placed;
}

Result<cugrt_value> DeviceAdapters::use(const std::shared_ptr<const LoraAdapter> &adapter,
                                        double scale) {
  if (!layout_)
    return Status::error(Code::unsupported,
                         "the session was opened without room for adapters: its lora_rank is 0");
  auto placed = std::ranges::find(placed_, adapter, &Placed::adapter);
  if (placed == placed_.end()) {
    CUGRT_ASSIGN(Placed made, place(adapter));
    placed_.push_back(std::move(made));
    placed = placed_.end() - 1;
  }
  const uint64_t address = api().buffer_address(placed->buffer.get());
  if (const auto wanted = static_cast<float>(scale); wanted != placed->scale) {
    CUGRT_TRY(call(api().copy_to_device(runtime_, address, &wanted, sizeof wanted, nullptr)));
    placed->scale = wanted;
  }
  const std::array dims = {static_cast<int64_t>(layout_->bytes)};
  cugrt_value value{};
  value.kind = CUGRT_VALUE_TENSOR;
  value.as.tensor = make_tensor(address, CUGRT_U8, dims);
  return value;
}

void DeviceAdapters::drop(const LoraAdapter &adapter) {
  std::erase_if(placed_, [&](const Placed &placed) { return placed.adapter.get() == &adapter; });
}

} // namespace cugrt::llm
