// Generation: the sequences of a batch, each in a place of an engine with its own prompt, sampling
// and end, stepped together; and one sequence by itself. One thread at a time.
#pragma once

#include "fronts/llm/generation/engine.h"
#include "fronts/llm/generation/prompt_cache.h"
#include "fronts/llm/generation/sampler.h"

#include <chrono>
#include <functional>
#include <optional>

namespace cugrt::llm {

enum class Stop : int32_t { none = -1, end, length, context, caller };

struct Request {
  std::vector<int32_t> prompt;
  uint64_t max_tokens = 0; // 0: no limit
  Sampling sampling;
  std::vector<int32_t> ends;                 // besides the file's
  std::shared_ptr<const PromptCache> prefix; // what the sequence begins with, before the prompt
  size_t log_probabilities = 0;              // of the token and of so many less one; 0: of none
  /// False ends the generation.
  std::function<bool(int32_t token, std::string_view text)> on_token;
};

struct Outcome {
  Stop stop = Stop::none;
  uint64_t tokens = 0;
  double prompt_seconds = 0, seconds = 0;
};

/// A token of a sequence; of the last one, why it is that.
struct TokenEvent {
  uint64_t sequence = 0;
  int32_t token = 0;
  Stop stop = Stop::none;
  std::string text;
  Likely likely; // where the request asks for it
};

class Generator {
public:
  static Result<std::unique_ptr<Generator>>
  open(std::shared_ptr<const Model> model, cugrt_runtime *runtime, const EngineOptions &options);

  /// Runs one sequence to its end, behind the tokens that the last such call left in place 0.
  Status generate(Request request, Outcome &outcome);

  /// The number of a sequence that has taken an empty place.
  Result<uint64_t> add(Request request);
  Status cancel(uint64_t sequence);
  /// The caches of tokens; takes an empty place meanwhile.
  Result<PromptCache> make_prompt(std::vector<int32_t> tokens);
  /// A part of the oldest prompt that is not in, and a token of every sequence whose prompt is,
  /// with drafts several; a loop on the device may have made several steps beforehand, which come
  /// first, one a call.
  Status step();
  std::span<const TokenEvent> events() const { return events_; }

  Status clear();
  /// All later sequences add the adapter times `scale` (finite; 0: nothing, as for null). Forgets
  /// the tokens that `generate` left. Code::busy while sequences run.
  Status set_adapter(std::shared_ptr<const LoraAdapter> adapter, double scale);
  /// Frees the adapter's device memory. Code::busy if it is the one in use.
  Status drop_adapter(const LoraAdapter &adapter);
  int64_t empty_places() const;
  const Engine &engine() const { return *engine_; }
  Result<EngineInfo> info() { return engine_->info(); }
  /// Steps of sequences, counted for each of them, and drafts that were given.
  uint64_t verifications() const { return verifications_; }
  uint64_t accepted() const { return accepted_; }

private:
  struct Sequence {
    uint64_t number = 0;
    int64_t place = 0, position = 0; // tokens that the caches hold of it
    Request request;
    size_t taken = 0;        // of the prompt
    uint32_t first_step = 0; // that it takes part in, of the engine's; once its prompt is in
    Utf8Stream stream;
    Outcome outcome;
    std::chrono::steady_clock::time_point begin;

    bool is_in() const { return taken == request.prompt.size(); }
    bool has_ended() const { return outcome.stop != Stop::none; }
    bool is_after(uint32_t step) const { return static_cast<int32_t>(step - first_step) < 0; }
  };
  /// Tokens that `generate` left in place 0: `position`, and one that the caches do not hold.
  struct Held {
    int64_t position = 0;
    std::optional<int32_t> pending;
  };

  explicit Generator(std::shared_ptr<const Model> model) : model_(std::move(model)) {}
  Status check_tokens(std::span<const int32_t> tokens, int64_t position) const;
  Status check_prefix(const PromptCache &prefix) const;
  /// Digest of the model and the present adapter, on which caches depend.
  Digest identity() const;
  Result<int64_t> empty_place() const;
  Sequence &put(Request request, int64_t place, int64_t position);
  Status go_on();
  Status begin(Sequence &sequence);
  Status take_in(Sequence &sequence);
  Status decode();
  Status give_row(std::span<const int32_t> tokens, uint32_t step);
  /// Tokens of a step.
  std::span<const int32_t> given_to(const Sequence &sequence,
                                    std::span<const int32_t> tokens) const;
  Status drop_rows(const Sequence &sequence);
  bool has_open() const;
  Status give(Sequence &sequence, int32_t token, int64_t row);

  std::shared_ptr<const Model> model_;
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<const LoraAdapter> adapter_; // that is set
  double adapter_scale_ = 0;
  std::vector<Sequence> sequences_; // in the order of their numbers
  std::vector<TokenEvent> events_;  // of the last step
  std::vector<int32_t> untold_;     // of a caller's end, the tokens behind it in its step
  Held held_;
  uint32_t next_step_ = 0; // of the engine's, that was not given yet
  uint64_t last_number_ = 0, verifications_ = 0, accepted_ = 0;
};

} // namespace cugrt::llm
