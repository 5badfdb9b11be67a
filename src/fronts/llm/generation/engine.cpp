// Steps of a model that is open on a device; see engine.h.
#include "fronts/llm/generation/engine.h"

#include "fronts/llm/generation/call.h"
#include "fronts/llm/generation/session_module.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <thread>

namespace cugrt::llm {

// The session, which is freed first, waits for its work.
Engine::~Engine() {
  if (is_running_)
    ring_.set_change(true);
}

uint64_t Engine::cache_address(uint64_t cache, int64_t place) const {
  return api().buffer_address(caches_.get()) + cache * cache_stride_ +
         uint64_t(place * context_) * cache_row_bytes_;
}

uint64_t Engine::state_address(uint64_t tensor, int64_t place) const {
  return api().buffer_address(state_.get()) + tensor * state_stride_ +
         uint64_t(place) * kTokenBytes;
}

Status Engine::write(uint64_t address, const void *from, uint64_t bytes) {
  return call(api().copy_to_device(runtime_, address, from, bytes, nullptr));
}

Status Engine::run(const cugrt_function *function, std::span<const cugrt_value> arguments) {
  auto options = detail::sized<cugrt_run_options>();
  options.arguments = arguments.data();
  options.argument_count = arguments.size() - (has_adapter_ ? 0 : 1);
  options.results = &logits_;
  options.result_count = api().function_result_count(function);
  logits_ = {};
  return noted(call(api().session_run(session_.get(), function, &options)));
}

Status Engine::noted(Status status) {
  has_failed_ = has_failed_ || !status.ok();
  return status;
}

// A step that failed may have counted some of its blocks.
Status Engine::count_steps_anew() {
  CUGRT_TRY(settle());
  const std::array<uint32_t, kStepWords> steps = {ring_.made(), 0};
  CUGRT_TRY(write(state_address(kSteps, 0), steps.data(), sizeof steps));
  has_failed_ = false;
  return {};
}

// A part has so many rows that it takes few sizes, and none of them stands beyond the caches. Up to
// kLittle rows, weights take longer to come than rows do to be computed, so that those which are
// not real cost little; of more rows a quarter at most is not real.
int64_t Engine::part_of(int64_t left, int64_t position) const {
  constexpr int64_t kLittle = 128;
  const int64_t room = context_ - position;
  const auto most = static_cast<int64_t>(std::bit_floor(uint64_t(std::min(chunk_, room))));
  if (left >= most)
    return most;
  const auto rows = static_cast<int64_t>(std::bit_ceil(uint64_t(left)));
  return rows > kLittle && left <= rows / 4 * 3 ? rows / 2 : left;
}

Status Engine::take_in(int64_t place, int64_t position, std::span<const int32_t> tokens,
                       bool is_last) {
  std::array<int32_t, kChunk> ids{};
  std::ranges::copy(tokens, ids.begin());
  const uint64_t rows = std::bit_ceil(tokens.size());
  const std::array<int32_t, kRequest> request = {int32_t(place), int32_t(position),
                                                 int32_t(tokens.size()), int32_t(is_last)};
  const uint64_t prompt = api().buffer_address(prompt_.get());
  CUGRT_TRY(settle()); // the last part has been read
  CUGRT_TRY(write(prompt, ids.data(), rows * kTokenBytes));
  CUGRT_TRY(write(prompt + kIdBytes, request.data(), sizeof request));
  prefill_arguments_[0] = tensor_value(prompt, ir::DType::i32, {int64_t(rows)});
  return run(functions().prefill, prefill_arguments_);
}

Status Engine::start(bool only_one) {
  if (has_failed_)
    CUGRT_TRY(count_steps_anew());
  ring_.set_change(only_one);
  is_running_ = true;
  CUGRT_TRY(run(functions().decode, decode_arguments_));
  return decode_nodes_ == 0 ? note_decode_nodes() : Status();
}

Result<bool> Engine::take_row(std::span<int32_t> tokens) {
  constexpr auto kNap = std::chrono::microseconds(20); // much less than a step takes
  while (!ring_.take(tokens)) {
    if (!is_running_)
      return false;
    if (!loops_on_device_) {
      CUGRT_TRY(settle());
      continue;
    }
    int32_t is_idle = 0;
    CUGRT_TRY(call(api().session_is_idle(session_.get(), &is_idle)));
    if (is_idle)
      is_running_ = false; // its last row may have come meanwhile
    else if (ring_.is_empty())
      std::this_thread::sleep_for(kNap);
  }
  return true;
}

Status Engine::settle() {
  if (is_running_)
    ring_.set_change(true);
  is_running_ = false;
  return noted(call(api().session_synchronize(session_.get())));
}

Status Engine::note_decode_nodes() {
  std::vector<cugrt_launch_record> records(64, detail::sized<cugrt_launch_record>());
  size_t count = 0;
  CUGRT_TRY(
      call(api().session_read_launches(session_.get(), records.data(), records.size(), &count)));
  for (size_t i = 0; i < count; ++i)
    if (records[i].function == std::string_view(api().function_name(functions().decode)))
      decode_nodes_ = std::max(decode_nodes_, records[i].nodes);
  constexpr uint64_t kAroundLoop = 2; // what begins it, and its own node
  decode_nodes_ -= loops_on_device_ ? std::min(decode_nodes_, kAroundLoop) : 0;
  return {};
}

Result<int32_t> Engine::read_token(int64_t place) {
  int32_t token = 0;
  CUGRT_TRY(settle());
  CUGRT_TRY(call(
      api().copy_to_host(runtime_, &token, state_address(kTokens, place), sizeof token, nullptr)));
  return token;
}

Status Engine::set_sampler(int64_t place, const Sampling &sampling) {
  const std::array<int32_t, kSamplerWords> words = sampler_words(sampling);
  CUGRT_TRY(settle());
  return write(state_address(kSamplers, place * kSamplerWords), words.data(), sizeof words);
}

Status Engine::set_end(int64_t place, int64_t limit, std::span<const int32_t> ends) {
  const auto limit_word = static_cast<int32_t>(limit);
  std::vector<uint32_t> bits(static_cast<size_t>(end_words()));
  for (const int32_t token : ends)
    if (token >= 0 && token < vocabulary_)
      bits[static_cast<size_t>(token / 32)] |= 1u << (token % 32);
  const uint64_t bytes = bits.size() * kTokenBytes;
  CUGRT_TRY(settle());
  ring_.set_cancel(place, false);
  CUGRT_TRY(write(state_address(kLimits, place), &limit_word, sizeof limit_word));
  return write(api().buffer_address(ends_.get()) + uint64_t(place) * bytes, bits.data(), bytes);
}

Status Engine::take_back(int64_t place, std::span<const int32_t> tokens) {
  CUGRT_TRY(settle());
  for (const int32_t token : tokens) {
    const uint64_t address =
        api().buffer_address(counts_.get()) + uint64_t(place * vocabulary_ + token) * kTokenBytes;
    int32_t count = 0;
    CUGRT_TRY(call(api().copy_to_host(runtime_, &count, address, sizeof count, nullptr)));
    --count;
    CUGRT_TRY(write(address, &count, sizeof count));
  }
  return {};
}

Status Engine::set_tokens(int64_t place, std::span<const int32_t> tokens) {
  constexpr int32_t kInPrompt = 1 << 30; // of kernels/language/sampler.cuh
  std::vector<int32_t> counts(static_cast<size_t>(vocabulary_));
  for (const int32_t token : tokens)
    counts[static_cast<size_t>(token)] = kInPrompt;
  const uint64_t bytes = counts.size() * kTokenBytes;
  CUGRT_TRY(settle());
  CUGRT_TRY(
      write(api().buffer_address(counts_.get()) + uint64_t(place) * bytes, counts.data(), bytes));
  if (!texts_.get() || tokens.empty())
    return {};
  return write(api().buffer_address(texts_.get()) + uint64_t(place * context_) * kTokenBytes,
               tokens.data(), tokens.size_bytes());
}

Status Engine::read_caches(int64_t place, int64_t count, std::string &bytes) {
  const uint64_t each = uint64_t(count) * cache_row_bytes_;
  bytes.resize(cache_count_ * each);
  CUGRT_TRY(settle());
  for (uint64_t cache = 0; cache < cache_count_; ++cache)
    CUGRT_TRY(call(api().copy_to_host(runtime_, bytes.data() + cache * each,
                                      cache_address(cache, place), each, nullptr)));
  return {};
}

Status Engine::write_caches(int64_t place, int64_t count, std::string_view bytes) {
  const uint64_t each = uint64_t(count) * cache_row_bytes_;
  CUGRT_TRY(settle());
  for (uint64_t cache = 0; cache < cache_count_; ++cache)
    CUGRT_TRY(write(cache_address(cache, place), bytes.data() + cache * each, each));
  return {};
}

Status Engine::read_logits(int64_t row, std::vector<float> &logits) {
  if (logits_.kind != CUGRT_VALUE_TENSOR)
    return Status::error(Code::unsupported, "a loop on the device keeps no logits");
  logits.resize(static_cast<size_t>(vocabulary_));
  const uint64_t bytes = logits.size() * sizeof(float);
  CUGRT_TRY(settle());
  return call(api().copy_to_host(
      runtime_, logits.data(), logits_.as.tensor.address + uint64_t(row) * bytes, bytes, nullptr));
}

Status Engine::close_place(int64_t place) {
  constexpr int32_t kNone = 0;
  if (is_running_ && loops_on_device_) {
    ring_.set_cancel(place, true);
    return {};
  }
  CUGRT_TRY(settle());
  return write(state_address(kLengths, place), &kNone, sizeof kNone);
}

Status Engine::close_all() {
  CUGRT_TRY(settle());
  ring_.drop_all();
  return call(api().fill(runtime_, state_address(0, 0), 0, kStateTensors * state_stride_, nullptr));
}

Status Engine::set_adapter(const std::shared_ptr<const LoraAdapter> &adapter, double scale) {
  CUGRT_TRY(settle());
  cugrt_value value{};
  if (adapter) {
    CUGRT_ASSIGN(value, adapters_.use(adapter, scale));
  }
  has_adapter_ = adapter && scale != 0;
  prefill_arguments_.back() = decode_arguments_.back() = value;
  decode_nodes_ = 0; // are counted anew
  return {};
}

Status Engine::drop_adapter(const LoraAdapter &adapter) {
  CUGRT_TRY(settle());
  adapters_.drop(adapter);
  return {};
}

Result<EngineInfo> Engine::info() {
  EngineInfo info;
  info.cache_bytes = api().buffer_bytes(caches_.get());
  info.decode_nodes = decode_nodes_;
  info.counters = detail::sized<cugrt_counters>();
  CUGRT_TRY(call(api().session_get_counters(session_.get(), &info.counters)));
  return info;
}

} // namespace cugrt::llm
