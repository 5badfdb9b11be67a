// Generation: a model on a device, and the tokens that it has taken in and given.
//
// What stands on the device is the state of docs/language_models.md: the token that comes next, its
// position, the length, and the caches. A step launches one instance and patches nothing; the host
// reads one token or, where it draws, the logits. One thread at a time.
#pragma once

#include "llm/generation/model.h"
#include "llm/generation/sampler.h"

#include <cugrt/cugrt.hpp>

#include <functional>

namespace cugrt::llm {

struct GeneratorOptions {
  ir::DType dtype = ir::DType::f32;
  int64_t context = 0; // 0: as the model was trained, or what memory leaves
  cugrt_progress_callback progress = nullptr;
  void *progress_user = nullptr;
};

enum class Stop : int32_t { end, length, context, caller };

struct Request {
  std::span<const int32_t> prompt;
  uint64_t max_tokens = 0; // 0: no limit
  Sampling sampling;
  std::span<const int32_t> ends; // besides the file's
  /// False ends the generation.
  std::function<bool(int32_t token, std::string_view text)> on_token;
};

struct Outcome {
  Stop stop = Stop::end;
  uint64_t tokens = 0;
  double prompt_seconds = 0, seconds = 0;
};

struct GeneratorInfo {
  int64_t context = 0;
  uint64_t cache_bytes = 0, decode_nodes = 0;
  cugrt_counters counters{};
};

class Generator {
public:
  static Result<std::unique_ptr<Generator>>
  open(std::shared_ptr<const Model> model, cugrt_runtime *runtime, const GeneratorOptions &options);
  Status generate(const Request &request, Outcome &outcome);
  Status clear();
  Result<GeneratorInfo> info();

private:
  template <class T, auto Free> using Handle = detail::Handle<T, Free>;

  Generator(std::shared_ptr<const Model> model, cugrt_runtime *runtime)
      : model_(std::move(model)), runtime_(runtime) {}
  Status choose_context(const Decoder &decoder, const GeneratorOptions &options);
  Status load(const DecoderModule &built, const GeneratorOptions &options);
  Status make_state(const DecoderModule &built, const Decoder &decoder, ir::DType dtype);
  Status take_in(std::span<const int32_t> tokens);
  Status decode();
  Status next_token(const Sampling &sampling, int32_t &token);
  Status run(const cugrt_function *function, std::span<const cugrt_value> arguments);
  Status note_decode_nodes();

  std::shared_ptr<const Model> model_;
  cugrt_runtime *const runtime_; // kept alive by the session
  Handle<cugrt_executable, &cugrt_api::executable_free> executable_;
  Handle<cugrt_buffer, &cugrt_api::buffer_free> caches_, state_, ids_;
  Handle<cugrt_session, &cugrt_api::session_free>
      session_; // freed first: its work uses the buffers
  const cugrt_function *prefill_ = nullptr, *decode_ = nullptr;
  std::vector<cugrt_value> state_arguments_; // tokens, positions, lengths, caches
  cugrt_value logits_{};                     // of the last run
  std::vector<float> host_logits_;
  int64_t context_ = 0, vocabulary_ = 0;
  int64_t position_ = 0;           // tokens that the caches hold
  std::optional<int32_t> pending_; // the last token given, which they do not
  uint64_t decode_nodes_ = 0;
};

} // namespace cugrt::llm
