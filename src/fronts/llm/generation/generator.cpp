// Sequences from step to step; see generator.h.
#include "fronts/llm/generation/generator.h"

#include "base/check.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace cugrt::llm {

static double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Result<std::unique_ptr<Generator>> Generator::open(std::shared_ptr<const Model> model,
                                                   cugrt_runtime *runtime,
                                                   const EngineOptions &options) {
  std::unique_ptr<Generator> made(new Generator(std::move(model)));
  CUGRT_ASSIGN(made->engine_, Engine::open(*made->model_, runtime, options));
  return made;
}

Status Generator::check_tokens(std::span<const int32_t> tokens, int64_t position) const {
  if (tokens.empty())
    return Status::error(Code::invalid_argument, "there is no prompt: not one token to go on from");
  for (const int32_t token : tokens)
    if (token < 0 || token >= engine_->vocabulary())
      return Status::error(Code::out_of_range, "token " + std::to_string(token) +
                                                   " of the prompt is not one of the model's " +
                                                   std::to_string(engine_->vocabulary()));
  const auto length = static_cast<int64_t>(tokens.size());
  if (length > engine_->context() - position)
    return Status::error(Code::out_of_range, "a prompt of " + std::to_string(length) +
                                                 " tokens after " + std::to_string(position) +
                                                 " does not fit into a context of " +
                                                 std::to_string(engine_->context()));
  return {};
}

Status Generator::check_prefix(const PromptCache &prefix) const {
  if (prefix.model != identity())
    return Status::error(Code::invalid_argument,
                         "the prompt's caches are another model's, or another adapter's");
  if (prefix.dtype != engine_->cache_dtype())
    return Status::error(Code::invalid_argument, "the prompt's caches are of another dtype");
  CUGRT_TRY(check_tokens(prefix.tokens, 0));
  const auto count = static_cast<int64_t>(prefix.tokens.size());
  if (prefix.bytes.size() != engine_->cache_bytes_of(count))
    return Status::error(Code::invalid_argument, "the prompt's caches have another size");
  return {};
}

Digest Generator::identity() const {
  return adapter_ ? Digester()
                        .field(hex(model_->identity))
                        .field(hex(adapter_->identity()))
                        .field(std::bit_cast<uint64_t>(adapter_scale_))
                        .finish()
                  : model_->identity;
}

Status Generator::set_adapter(std::shared_ptr<const LoraAdapter> adapter, double scale) {
  if (!sequences_.empty())
    return Status::error(Code::busy, "an adapter is set while no sequence runs");
  if (!std::isfinite(scale))
    return Status::error(Code::invalid_argument, "an adapter's scale is finite");
  if (adapter && adapter->model() != model_->identity)
    return Status::error(Code::invalid_argument, "the adapter was opened for another model");
  CUGRT_TRY(engine_->set_adapter(adapter, scale));
  held_ = {};
  adapter_ = scale != 0 ? std::move(adapter) : nullptr;
  adapter_scale_ = scale;
  return {};
}

Status Generator::drop_adapter(const LoraAdapter &adapter) {
  if (adapter_.get() == &adapter)
    return Status::error(Code::busy, "the adapter is set: another one, or none, is set first");
  return engine_->drop_adapter(adapter);
}

Generator::Sequence &Generator::put(Request request, int64_t place, int64_t position) {
  Sequence sequence;
  sequence.number = ++last_number_;
  sequence.place = place;
  sequence.position = position;
  sequence.request = std::move(request);
  sequence.begin = std::chrono::steady_clock::now();
  if (place == 0)
    held_ = {};
  sequences_.push_back(std::move(sequence));
  return sequences_.back();
}

Result<int64_t> Generator::empty_place() const {
  std::vector<bool> is_taken(static_cast<size_t>(engine_->places()));
  for (const Sequence &sequence : sequences_)
    is_taken[static_cast<size_t>(sequence.place)] = true;
  // Looks at place 0 last: it may hold tokens that `generate` left.
  for (size_t place = is_taken.size(); place-- > 0;)
    if (!is_taken[place])
      return static_cast<int64_t>(place);
  return Status::error(Code::busy, "each of the session's " + std::to_string(engine_->places()) +
                                       " places has a sequence");
}

Result<uint64_t> Generator::add(Request request) {
  if (request.prefix)
    CUGRT_TRY(check_prefix(*request.prefix));
  const auto position =
      request.prefix ? static_cast<int64_t>(request.prefix->tokens.size()) : int64_t(0);
  CUGRT_TRY(check_tokens(request.prompt, position));
  if (request.log_probabilities > 0 && engine_->loops_on_device())
    return Status::error(Code::unsupported, "a loop over tokens on the device keeps no "
                                            "log-probabilities; that of the host does");
  CUGRT_ASSIGN(const int64_t place, empty_place());
  return put(std::move(request), place, position).number;
}

Result<PromptCache> Generator::make_prompt(std::vector<int32_t> tokens) {
  CUGRT_TRY(check_tokens(tokens, 0));
  CUGRT_ASSIGN(const int64_t place, empty_place());
  if (place == 0)
    held_ = {};
  const auto count = static_cast<int64_t>(tokens.size());
  for (int64_t at = 0; at < count;) {
    const int64_t part = engine_->part_of(count - at, at);
    CUGRT_TRY(
        engine_->take_in(place, at, std::span(tokens).subspan(size_t(at), size_t(part)), false));
    at += part;
  }
  PromptCache made{identity(), engine_->cache_dtype(), std::move(tokens), {}};
  CUGRT_TRY(engine_->read_caches(place, count, made.bytes));
  return made;
}

Status Generator::cancel(uint64_t sequence) {
  const auto at = std::ranges::find(sequences_, sequence, &Sequence::number);
  if (at == sequences_.end())
    return Status::error(Code::not_found, "no sequence " + std::to_string(sequence) + " runs");
  const bool is_open = at->is_in();
  const int64_t place = at->place;
  sequences_.erase(at);
  return is_open ? engine_->close_place(place) : Status();
}

// Keeps the tokens that `generate` held, with their counts.
Status Generator::begin(Sequence &sequence) {
  const Request &request = sequence.request;
  CUGRT_TRY(engine_->set_sampler(sequence.place, request.sampling));
  // The prompt's last part gives a token, each position from there on another one.
  const int64_t first = sequence.position + static_cast<int64_t>(request.prompt.size());
  const auto room = static_cast<uint64_t>(engine_->context() - first);
  const uint64_t most = request.max_tokens > 0 ? std::min(request.max_tokens - 1, room) : room;
  std::vector<int32_t> ends(model_->tokenizer->ends().begin(), model_->tokenizer->ends().end());
  ends.insert(ends.end(), request.ends.begin(), request.ends.end());
  CUGRT_TRY(engine_->set_end(sequence.place, first + static_cast<int64_t>(most), ends));
  const std::shared_ptr<const PromptCache> prefix = std::move(sequence.request.prefix);
  if (!prefix)
    return sequence.position == 0 ? engine_->set_tokens(sequence.place, {}) : Status();
  CUGRT_TRY(engine_->set_tokens(sequence.place, prefix->tokens));
  return engine_->write_caches(sequence.place, sequence.position, prefix->bytes);
}

Status Generator::take_in(Sequence &sequence) {
  const auto left = std::span<const int32_t>(sequence.request.prompt).subspan(sequence.taken);
  const auto part = left.first(
      static_cast<size_t>(engine_->part_of(static_cast<int64_t>(left.size()), sequence.position)));
  const bool is_last = part.size() == left.size();
  if (sequence.taken == 0)
    CUGRT_TRY(begin(sequence));
  CUGRT_TRY(engine_->take_in(sequence.place, sequence.position, part, is_last));
  sequence.taken += part.size();
  sequence.position += static_cast<int64_t>(part.size());
  if (!sequence.is_in())
    return {};
  CUGRT_ASSIGN(const int32_t token, engine_->read_token(sequence.place));
  sequence.first_step = engine_->steps_made();
  return give(sequence, token, 0);
}

// `row`: of the last run's logits, which the token was drawn from.
Status Generator::give(Sequence &sequence, int32_t token, int64_t row) {
  Outcome &outcome = sequence.outcome;
  (outcome.tokens == 0 ? outcome.prompt_seconds : outcome.seconds) = seconds_since(sequence.begin);
  if (outcome.tokens == 0)
    sequence.begin = std::chrono::steady_clock::now();
  ++outcome.tokens;
  const std::span<const int32_t> ends = model_->tokenizer->ends();
  const bool is_end =
      std::ranges::count(ends, token) || std::ranges::count(sequence.request.ends, token);
  outcome.stop = is_end                                          ? Stop::end
                 : outcome.tokens == sequence.request.max_tokens ? Stop::length
                 : sequence.position == engine_->context()       ? Stop::context
                                                                 : Stop::none;
  TokenEvent event{sequence.number, token, Stop::none, {}, {}};
  if (const size_t count = sequence.request.log_probabilities) {
    std::vector<float> logits;
    CUGRT_TRY(engine_->read_logits(row, logits));
    event.likely = likely_of(logits, token, count - 1);
  }
  if (!is_end && static_cast<size_t>(token) < model_->tokenizer->size())
    event.text = sequence.stream.push(model_->tokenizer->bytes_of(token));
  if (sequence.has_ended())
    event.text += sequence.stream.finish();
  const bool goes_on = !sequence.request.on_token || sequence.request.on_token(token, event.text);
  if (!goes_on && !sequence.has_ended())
    outcome.stop = Stop::caller;
  event.stop = outcome.stop;
  events_.push_back(std::move(event));
  return sequence.has_ended() ? engine_->close_place(sequence.place) : Status();
}

bool Generator::has_open() const {
  return std::ranges::any_of(sequences_, [](const Sequence &sequence) {
    return sequence.is_in() && !sequence.has_ended();
  });
}

// Rows may be older than the sequence that has a place now.
Status Generator::give_row(std::span<const int32_t> tokens, uint32_t step) {
  for (Sequence &sequence : sequences_) {
    if (!sequence.is_in() || sequence.has_ended() || sequence.is_after(step))
      continue;
    const std::span<const int32_t> given = given_to(sequence, tokens);
    CUGRT_CHECK(!given.empty()); // host and device end places by the same rules
    ++verifications_;
    accepted_ += given.size() - 1;
    for (size_t i = 0; i < given.size(); ++i) {
      if (sequence.has_ended()) { // by the caller
        untold_.assign(given.begin() + static_cast<ptrdiff_t>(i), given.end());
        break;
      }
      ++sequence.position;
      CUGRT_TRY(
          give(sequence, given[i], sequence.place * engine_->rows() + static_cast<int64_t>(i)));
    }
  }
  return {};
}

std::span<const int32_t> Generator::given_to(const Sequence &sequence,
                                             std::span<const int32_t> tokens) const {
  const auto rows = static_cast<size_t>(engine_->rows());
  const auto own = tokens.subspan(static_cast<size_t>(sequence.place) * rows, rows);
  return own.first(static_cast<size_t>(std::ranges::find(own, -1) - own.begin()));
}

// The tokens of one step: of a step that was made already, else of the next. Steps are made one by
// one while a prompt waits.
Status Generator::decode() {
  std::vector<int32_t> tokens(static_cast<size_t>(engine_->places() * engine_->rows()));
  const size_t given = events_.size();
  while (has_open() && events_.size() == given) {
    CUGRT_ASSIGN(bool has_row, engine_->take_row(tokens));
    if (!has_row) {
      CUGRT_TRY(engine_->start(!std::ranges::all_of(sequences_, &Sequence::is_in)));
      CUGRT_ASSIGN(has_row, engine_->take_row(tokens));
    }
    if (!has_row)
      return Status::error(Code::internal, "a step of the model told of no tokens");
    CUGRT_TRY(give_row(tokens, next_step_++));
  }
  return {};
}

Status Generator::go_on() {
  events_.clear();
  const auto waiting = std::ranges::find(sequences_, false, &Sequence::is_in);
  if (waiting != sequences_.end())
    CUGRT_TRY(take_in(*waiting));
  return decode();
}

Status Generator::step() {
  CUGRT_TRY(go_on());
  std::erase_if(sequences_, [](const Sequence &sequence) { return sequence.has_ended(); });
  return {};
}

// Drops tokens that the device gave before it knew of the end.
Status Generator::drop_rows(const Sequence &sequence) {
  CUGRT_TRY(engine_->settle());
  CUGRT_TRY(engine_->close_place(sequence.place)); // the loop may have ended before it was told
  std::vector<int32_t> tokens(static_cast<size_t>(engine_->places() * engine_->rows()));
  std::vector<int32_t> dropped = std::move(untold_);
  untold_.clear();
  for (;; ++next_step_) {
    CUGRT_ASSIGN(const bool has_row, engine_->take_row(tokens));
    if (!has_row)
      break;
    const std::span<const int32_t> given = given_to(sequence, tokens);
    if (!sequence.is_after(next_step_))
      dropped.insert(dropped.end(), given.begin(), given.end());
  }
  return engine_->take_back(sequence.place, dropped);
}

Status Generator::generate(Request request, Outcome &outcome) {
  if (!sequences_.empty())
    return Status::error(Code::busy, std::to_string(sequences_.size()) +
                                         " sequences run, which are to end or be cancelled first");
  if (request.prefix && held_.position > 0)
    return Status::error(Code::invalid_argument,
                         "the session holds tokens already, which a prompt's caches cannot follow");
  if (request.prefix)
    CUGRT_TRY(check_prefix(*request.prefix));
  if (held_.pending && !request.prompt.empty())
    request.prompt.insert(request.prompt.begin(), *held_.pending);
  const int64_t position =
      request.prefix ? static_cast<int64_t>(request.prefix->tokens.size()) : held_.position;
  CUGRT_TRY(check_tokens(request.prompt, position));
  untold_.clear();
  put(std::move(request), 0, position);
  const Sequence &sequence = sequences_.front();
  while (!sequence.has_ended())
    CUGRT_TRY(go_on());
  if (sequence.outcome.stop == Stop::caller)
    CUGRT_TRY(drop_rows(sequence));
  outcome = sequence.outcome;
  held_ = {sequence.position, events_.back().token};
  sequences_.clear();
  events_.clear();
  return {};
}

Status Generator::clear() {
  sequences_.clear();
  events_.clear();
  held_ = {};
  CUGRT_TRY(engine_->close_all());
  next_step_ = engine_->steps_made();
  return {};
}

int64_t Generator::empty_places() const {
  return engine_->places() - static_cast<int64_t>(sequences_.size());
}

} // namespace cugrt::llm
