// Adapters, of the C ABI of include/cugrt/llm.h.
#include "fronts/llm/api/abi.h"

namespace cugrt::llm {

cugrt_status *adapter_open(const cugrt_llm_model *model, const char *path,
                           cugrt_llm_adapter **adapter) {
  return guarded([&]() -> Status {
    CUGRT_TRY(require(model && path && adapter, "model, path or adapter"));
    CUGRT_ASSIGN(std::shared_ptr<const LoraAdapter> opened, LoraAdapter::open(*model->model, path));
    std::string targets = lora_targets_text(opened->targets());
    *adapter = new cugrt_llm_adapter{std::move(opened), std::move(targets)};
    return {};
  });
}

void adapter_free(cugrt_llm_adapter *adapter) { delete adapter; }

cugrt_status *adapter_get_info(const cugrt_llm_adapter *adapter, cugrt_llm_adapter_info *info) {
  return guarded([&]() -> Status {
    CUGRT_TRY(require(adapter, "adapter"));
    auto made = detail::sized<cugrt_llm_adapter_info>();
    made.rank = adapter->adapter->rank();
    made.targets = adapter->targets.c_str();
    return give_struct(made, info, "info");
  });
}

cugrt_status *session_set_adapter(cugrt_llm_session *session, const cugrt_llm_adapter *adapter,
                                  double scale) {
  return guarded([&]() -> Status {
    CUGRT_TRY(require(session, "session"));
    return session->generator->set_adapter(adapter ? adapter->adapter : nullptr, scale);
  });
}

cugrt_status *session_drop_adapter(cugrt_llm_session *session, const cugrt_llm_adapter *adapter) {
  return guarded([&]() -> Status {
    CUGRT_TRY(require(session && adapter, "session or adapter"));
    return session->generator->drop_adapter(*adapter->adapter);
  });
}

} // namespace cugrt::llm
