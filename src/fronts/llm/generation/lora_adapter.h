// An adapter (LoRA) in host memory: PEFT's adapter_config.json and adapter_model.safetensors,
// checked against a model. Immutable; its factors stay in the file's pages.
#pragma once

#include "fronts/llm/adapters/lora_config.h"
#include "fronts/llm/architectures/lora_layout.h"
#include "fronts/llm/generation/model.h"

#include <cugrt/cugrt.hpp>

#include <map>

namespace cugrt::llm {

class LoraAdapter {
public:
  /// `path`: the folder, or the file of tensors, beside which the other one lies. A tensor that has
  /// no place in the model or is of other sizes is named, and so is a key or tensor whose meaning
  /// is not followed (Code::unsupported).
  static Result<std::shared_ptr<const LoraAdapter>> open(const Model &model,
                                                         const std::string &path);

  /// The largest of its modules', from 1 to kMaxLoraRank.
  int64_t rank() const { return rank_; }
  LoraTargets targets() const { return targets_; }
  /// Digest of its factors and their scales.
  const Digest &identity() const { return identity_; }
  /// Digest of the model that it was checked against.
  const Digest &model() const { return model_; }
  /// Its piece of memory for a layout of that model, with a scale of 1. Code::invalid_argument
  /// where the layout has too few columns, or not all of its targets.
  Result<std::string> pack(const LoraLayout &layout) const;

private:
  struct Module {
    std::string path; // without the prefix of PEFT's tensors
    LoraSite site;
    int64_t rank = 0;
    double scale = 0;
    std::optional<cugrt_tensor> a, b; // [rank, in], [out, rank]; f32, f16 or bf16
  };

  Status take(const Decoder &decoder, int64_t vocabulary, const std::string &name,
              const cugrt_tensor &tensor);
  Status check(const LoraConfig &config);
  void note_identity();

  std::string name_; // of the file of tensors
  detail::Handle<cugrt_weights, &cugrt_api::weights_free> weights_;
  std::map<std::string, Module> modules_; // by the name of their site
  int64_t rank_ = 0;
  LoraTargets targets_ = 0;
  Digest identity_{}, model_{};
};

// The adapters that a session has on its device, each in a buffer of its own; which is in use is
// the session's to know. No step runs while they change, and every copy is waited for: a step sees
// an adapter whole.

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
