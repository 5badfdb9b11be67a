// A model on a device: its weights, the state of docs/language_models.md, and the two functions
// over them. Places and positions are the caller's to count; all are within their bounds. One
// thread at a time.
#pragma once

#include "llm/generation/model.h"
#include "llm/generation/sampler.h"

#include <cugrt/cugrt.hpp>

namespace cugrt::llm {

struct EngineOptions {
  ir::DType dtype = ir::DType::f32;
  int64_t context = 0; // 0: as the model was trained, or what memory leaves
  int64_t places = 1;
  cugrt_progress_callback progress = nullptr;
  void *progress_user = nullptr;
};

struct EngineInfo {
  uint64_t cache_bytes = 0, decode_nodes = 0;
  cugrt_counters counters{};
};

/// What opening takes, beside the arena.
struct EngineMemory {
  uint64_t weight_bytes = 0, table_bytes = 0, cache_bytes = 0;
};
EngineMemory memory_of(const Model &model, const Decoder &decoder, const EngineOptions &options);

/// The module for a context and places.
Result<DecoderModule> module_of(const Model &model, const Decoder &decoder,
                                const EngineOptions &options);

class Engine {
public:
  static Result<std::unique_ptr<Engine>> open(const Model &model, cugrt_runtime *runtime,
                                              const EngineOptions &options);
  int64_t context() const { return context_; }
  int64_t places() const { return places_; }
  int64_t vocabulary() const { return vocabulary_; }
  ir::DType dtype() const { return dtype_; }

  /// How many tokens, of `left` that come from `position` on, one call of take_in takes.
  int64_t part_of(int64_t left, int64_t position) const;
  /// How the place's tokens are drawn from here on.
  Status set_sampler(int64_t place, const Sampling &sampling);
  /// The tokens that the place holds are these, of a prompt; penalties know no others.
  Status set_counts(int64_t place, std::span<const int32_t> tokens);
  /// Takes in tokens of a place from `position` on; with the last ones of a prompt the place is
  /// open, and its next token is there.
  Status take_in(int64_t place, int64_t position, std::span<const int32_t> tokens, bool is_last);
  /// One step of all places that are open.
  Status decode();
  /// The next token of every place; that of one which is not open means nothing.
  Status read_tokens(std::span<int32_t> tokens);
  /// Of the last call: row 0 of a take_in, row `place` of a decode.
  Status read_logits(int64_t row, std::vector<float> &logits);
  /// Of the first `count` positions of a place's caches: cache by cache, position by position.
  Status read_caches(int64_t place, int64_t count, std::string &bytes);
  Status write_caches(int64_t place, int64_t count, std::string_view bytes);
  uint64_t cache_bytes_of(int64_t positions) const {
    return uint64_t(positions) * cache_count_ * cache_row_bytes_;
  }
  Status close_place(int64_t place);
  Status close_all();
  Result<EngineInfo> info();

private:
  template <class T, auto Free> using Handle = detail::Handle<T, Free>;

  explicit Engine(cugrt_runtime *runtime) : runtime_(runtime) {}
  Status choose_context(const Model &model, const Decoder &decoder, const EngineOptions &options);
  Status load(const DecoderModule &built, const std::string &name, const EngineOptions &options);
  Status make_state(const DecoderModule &built, const Decoder &decoder, ir::DType dtype);
  Status run(const cugrt_function *function, std::span<const cugrt_value> arguments);
  Status note_decode_nodes();
  Status write(uint64_t address, const void *from, uint64_t bytes);
  uint64_t cache_address(uint64_t cache, int64_t place) const;
  uint64_t state_address(uint64_t tensor, int64_t place) const;

  cugrt_runtime *const runtime_; // kept alive by the session
  Handle<cugrt_executable, &cugrt_api::executable_free> executable_;
  Handle<cugrt_buffer, &cugrt_api::buffer_free> caches_, state_, counts_, prompt_;
  Handle<cugrt_session, &cugrt_api::session_free>
      session_; // freed first: its work uses the buffers
  const cugrt_function *prefill_ = nullptr, *decode_ = nullptr;
  std::vector<cugrt_value> prefill_arguments_; // ids, request, and those of decode
  cugrt_value logits_{};                       // of the last run
  ir::DType dtype_ = ir::DType::f32;           // of the caches
  int64_t context_ = 0, places_ = 1, vocabulary_ = 0;
  uint64_t cache_count_ = 0, cache_row_bytes_ = 0, cache_stride_ = 0; // a row: of a position
  uint64_t state_stride_ = 0, decode_nodes_ = 0;
};

} // namespace cugrt::llm
