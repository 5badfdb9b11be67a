// The adapters that a session has on its device, each in a buffer of its own; which is in use is
// the session's to know. No step runs while they change, and every copy is waited for: a step sees
// an adapter whole.
#pragma once

#include "fronts/llm/generation/lora_adapter.h"

namespace cugrt::llm {

class DeviceAdapters {
public:
  /// `group`: whose budget they count in, or null. `layout` null: there is room for none.
  void open(cugrt_runtime *runtime, cugrt_group *group, std::shared_ptr<const LoraLayout> layout) {
    runtime_ = runtime;
    group_ = group;
    layout_ = std::move(layout);
  }
  int64_t rank() const { return layout_ ? layout_->rank : 0; }
  /// Its memory, with that scale; copied there when it is first asked for.
  Result<cugrt_value> use(const std::shared_ptr<const LoraAdapter> &adapter, double scale);
  /// Frees its memory, if there is any.
  void drop(const LoraAdapter &adapter);

private:
  using Buffer = detail::Handle<cugrt_buffer, &cugrt_api::buffer_free>;
  struct Placed {
    std::shared_ptr<const LoraAdapter> adapter; // so that its address is no other one's
    Buffer buffer;
    float scale = 1;
  };
  Result<Placed> place(const std::shared_ptr<const LoraAdapter> &adapter) const;

  cugrt_runtime *runtime_ = nullptr;
  cugrt_group *group_ = nullptr;
  std::shared_ptr<const LoraLayout> layout_;
  std::vector<Placed> placed_;
};

} // namespace cugrt::llm
