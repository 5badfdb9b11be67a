// A model on a device: its weights, the state of docs/language_models.md, and the two functions
// over them. Places and positions are the caller's to count; all are within their bounds. One
// thread at a time.
#pragma once

#include "base/status.h"
#include "base/type/dtype.h"
#include "fronts/llm/generation/lora_adapter.h"
#include "fronts/llm/generation/model.h"
#include "fronts/llm/generation/sampler.h"

#include <cugrt/cugrt.hpp>

#include <algorithm>
#include <initializer_list>
#include <span>

namespace cugrt::llm {

// Pinned memory that the host and the steps of a decoder share: the tokens of steps, and words to
// them (kernels/language/sample.cu, docs/language_models.md). The host's side; one thread at a
// time, while steps run or not.

class TokenRing {
public:
  static constexpr int64_t kRows = 64; // a power of two, so that counts may wrap

  /// A row has so many tokens of each place.
  Status make(cugrt_runtime *runtime, int64_t places, int64_t tokens);
  /// Steps that were made since it was made, modulo 2^32.
  uint32_t made() const { return load(kMade); }
  bool is_empty() const { return made() == load(kTaken); }
  /// The oldest row that was not taken: the tokens of each place, -1 behind them. False where there
  /// is none.
  bool take(std::span<int32_t> tokens);
  void drop_all() { store(kTaken, made()); }
  /// Whether a loop ends behind the next step that begins.
  void set_change(bool is_set) { store(kChange, is_set); }
  /// Whether the place's next step that begins makes it empty.
  void set_cancel(int64_t place, bool is_set) { store(kCancel + size_t(place), is_set); }

  /// Arguments of a step: the words that it reads at its beginning, its rows, and their number.
  cugrt_value heard() const;
  cugrt_value rows() const;
  cugrt_value published() const;

private:
  // Positions of i32: words that steps publish; words of the host, each place's last; the rows.
  // Each begins at a line of its own.
  static constexpr size_t kLine = 32, kMade = 0, kTaken = kLine, kChange = kTaken + 1,
                          kCancel = kChange + 1;
  uint32_t load(size_t at) const;
  void store(size_t at, uint32_t value);
  size_t first_row() const { return (kCancel + size_t(places_) + kLine - 1) / kLine * kLine; }
  uint32_t *words_of_host() const;
  cugrt_value value(size_t at, std::initializer_list<int64_t> dims) const;

  detail::Handle<cugrt_buffer, &cugrt_api::buffer_free> buffer_;
  int64_t places_ = 0, tokens_ = 1;
};

/// The starter of each token's step: the host, with a launch each, or a loop on the device.
enum class Loop : uint8_t { host, device };

/// The source of drafts that a step verifies together: none, or the tokens that followed an earlier
/// place of the last tokens in the sequence's own text.
enum class Draft : uint8_t { none, ngram };

struct EngineOptions {
  ir::DType dtype = ir::DType::f32; // of what is computed
  std::optional<ir::DType> cache{}; // of what is cached: f32, f16, bf16 or q8_0; none: as computed
  int64_t context = 0;              // 0: as the model was trained, or what memory leaves
  int64_t places = 1;
  Loop loop = Loop::host;
  Draft draft = Draft::none;
  int64_t lora_rank = 0; // that adapters may have, at most kMaxLoraRank; 0: there are none
  LoraTargets lora_targets = kLayerLoraTargets; // that they may add to
  bool all_logits = false;      // take_in keeps those of every token, not of the last alone
  cugrt_group *group = nullptr; // and so on: of the session of its steps
  const char *exclusive = nullptr;
  int32_t priority = 0, wait = 0, time_steps = 0;
  std::string pack; // a file of the compiled module, whose options then count; "": it is compiled
  cugrt_progress_callback progress = nullptr;
  void *progress_user = nullptr;

  ir::DType cache_dtype() const { return cache.value_or(dtype); }
  /// Rows of a place in a step: as many as products take together in one order of sums, so that
  /// drafts change no token, but at least one draft.
  int64_t rows() const {
    return draft == Draft::none ? 1 : std::max<int64_t>(kMostRows / places, 2);
  }
};

struct EngineInfo {
  uint64_t cache_bytes = 0, decode_nodes = 0; // nodes: of one step
  cugrt_counters counters{};
};

/// Memory that opening takes, beside the arena.
struct EngineMemory {
  uint64_t weight_bytes = 0, table_bytes = 0, cache_bytes = 0;
  uint64_t adapter_bytes = 0; // of one; 0 where there are none
};
Result<EngineMemory> memory_of(const Model &model, const Decoder &decoder,
                               const EngineOptions &options);

class Engine {
public:
  static Result<std::unique_ptr<Engine>> open(const Model &model, cugrt_runtime *runtime,
                                              const EngineOptions &options);
  int64_t context() const { return context_; }
  int64_t places() const { return places_; }
  /// Rows of a place in a step: its token, and drafts.
  int64_t rows() const { return rows_; }
  int64_t vocabulary() const { return vocabulary_; }
  bool loops_on_device() const { return loops_on_device_; }
  /// Largest rank of adapters; 0: the engine takes none.
  int64_t lora_rank() const { return adapters_.rank(); }
  ir::DType cache_dtype() const { return cache_dtype_; }

  /// How many tokens, of `left` that come from `position` on, one call of take_in takes.
  int64_t part_of(int64_t left, int64_t position) const;
  /// How the place's tokens are drawn from here on, and where it becomes empty: when it holds
  /// `limit` tokens, at most a context, or was given one of `ends`.
  Status set_sampler(int64_t place, const Sampling &sampling);
  Status set_end(int64_t place, int64_t limit, std::span<const int32_t> ends);
  /// The tokens that the place holds are these, of a prompt; penalties and drafts know no others.
  Status set_tokens(int64_t place, std::span<const int32_t> tokens);
  /// Tokens that the place was given do not count.
  Status take_back(int64_t place, std::span<const int32_t> tokens);
  /// Takes in tokens of a place from `position` on; with the last ones of a prompt the place is
  /// open, and its next token is there.
  Status take_in(int64_t place, int64_t position, std::span<const int32_t> tokens, bool is_last);
  /// Reads that token.
  Result<int32_t> read_token(int64_t place);

  /// Begins steps of all places that are open: one, or, where the device loops and nothing is to
  /// change, as many as go on without the host. None may run.
  Status start(bool only_one);
  /// The tokens of the oldest step that were not taken yet, waiting while steps run: [places,
  /// rows], the next ones of every place, -1 behind them. False where there are none.
  Result<bool> take_row(std::span<int32_t> tokens);
  /// Ends steps behind the next that begins, and waits for it; their rows stay. Every other call
  /// but those above does so too.
  Status settle();
  /// Steps that were made so far, modulo 2^32; none runs.
  uint32_t steps_made() const { return ring_.made(); }

  /// Logits of the last call: row 0 of a take_in, or with all_logits the row of a token; one of the
  /// rows [places, rows] of a step, which a loop on the device does not keep.
  Status read_logits(int64_t row, std::vector<float> &logits);
  /// Reads the first `count` positions of a place's caches: cache by cache, position by position.
  Status read_caches(int64_t place, int64_t count, std::string &bytes);
  Status write_caches(int64_t place, int64_t count, std::string_view bytes);
  uint64_t cache_bytes_of(int64_t positions) const {
    return uint64_t(positions) * cache_count_ * cache_row_bytes_;
  }
  /// Makes a place empty; while steps run, with their next one, which is not waited for.
  Status close_place(int64_t place);
  Status close_all();
  /// Later calls add the adapter of this model to products; null: none. The first call copies it to
  /// the device, where it stays. Code::invalid_argument if it does not fit the options.
  Status set_adapter(const std::shared_ptr<const LoraAdapter> &adapter, double scale);
  /// Frees the copy of one that is not set.
  Status drop_adapter(const LoraAdapter &adapter);
  Result<EngineInfo> info();
  cugrt_session *steps() const { return session_.get(); }
  ~Engine(); // waits for steps

private:
  template <class T, auto Free> using Handle = detail::Handle<T, Free>;

  explicit Engine(cugrt_runtime *runtime) : runtime_(runtime) {}
  Status choose_context(const Model &model, const Decoder &decoder, const EngineOptions &options);
  Status check_loop(Loop wanted) const;
  Status compile(DecoderModule &built, const std::string &name, const EngineOptions &options);
  Status load_pack(const std::string &path);
  Status open_session(const DecoderModule &built, const gguf::File &file,
                      const EngineOptions &options);
  Status make_state(const DecoderModule &built, const Decoder &decoder, cugrt_group *group);
  /// The functions of one pair, without an adapter or with one.
  struct Functions {
    const cugrt_function *prefill = nullptr, *decode = nullptr;
  };
  Status find_functions(bool has_adapters);
  const Functions &functions() const { return has_adapter_ ? adapted_ : plain_; }
  /// The last one of `arguments` is the adapter.
  Status run(const cugrt_function *function, std::span<const cugrt_value> arguments);
  Status noted(Status status); // of a run
  Status count_steps_anew();
  Status note_decode_nodes();
  Status write(uint64_t address, const void *from, uint64_t bytes);
  int64_t end_words() const { return (vocabulary_ + 31) / 32; }
  uint64_t cache_address(uint64_t cache, int64_t place) const;
  uint64_t state_address(uint64_t tensor, int64_t place) const;

  cugrt_runtime *const runtime_; // kept alive by the session
  Handle<cugrt_executable, &cugrt_api::executable_free> executable_;
  TokenRing ring_;
  Handle<cugrt_buffer, &cugrt_api::buffer_free> caches_, state_, counts_, ends_, texts_, prompt_;
  Handle<cugrt_session, &cugrt_api::session_free>
      session_;                                // freed first: its work uses the buffers
  Functions plain_, adapted_;                  // the latter where there may be adapters
  std::vector<cugrt_value> prefill_arguments_; // ids, request, state, caches, adapter
  std::vector<cugrt_value> decode_arguments_;  // state, caches, what ends a step, adapter
  DeviceAdapters adapters_;
  cugrt_value logits_{}; // of the last run
  bool loops_on_device_ = false, is_running_ = false;
  bool has_adapter_ = false;
  bool has_failed_ = false; // a run, since steps were counted anew
  ir::DType cache_dtype_ = ir::DType::f32;
  int64_t context_ = 0, chunk_ = 0, places_ = 1, rows_ = 1, vocabulary_ = 0;
  uint64_t cache_count_ = 0, cache_row_bytes_ = 0, cache_stride_ = 0; // a row: of a position
  uint64_t state_stride_ = 0, decode_nodes_ = 0;
};

} // namespace cugrt::llm
