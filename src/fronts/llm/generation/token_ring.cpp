// The host's side of the ring of tokens; see engine.h.
#include "fronts/llm/generation/engine.h"

#include "fronts/llm/architectures/decoder.h"
#include "fronts/llm/generation/call.h"

#include <algorithm>
#include <atomic>

namespace cugrt::llm {

Status TokenRing::make(cugrt_runtime *runtime, int64_t places, int64_t tokens) {
  places_ = places;
  tokens_ = tokens;
  const size_t words = first_row() + size_t(kRows * places * tokens);
  cugrt_buffer *made = nullptr;
  CUGRT_TRY(
      call(api().buffer_create(runtime, CUGRT_MEMORY_PINNED, words * sizeof(uint32_t), &made)));
  buffer_ = detail::Handle<cugrt_buffer, &cugrt_api::buffer_free>(made);
  std::fill_n(words_of_host(), words, 0u);
  return {};
}

uint32_t *TokenRing::words_of_host() const {
  return static_cast<uint32_t *>(api().buffer_host_pointer(buffer_.get()));
}

uint32_t TokenRing::load(size_t at) const {
  return std::atomic_ref(words_of_host()[at]).load(std::memory_order_acquire);
}

void TokenRing::store(size_t at, uint32_t value) {
  std::atomic_ref(words_of_host()[at]).store(value, std::memory_order_release);
}

bool TokenRing::take(std::span<int32_t> tokens) {
  if (is_empty())
    return false;
  const uint32_t taken = load(kTaken);
  const auto count = size_t(places_ * tokens_);
  const uint32_t *row = words_of_host() + first_row() + taken % kRows * count;
  std::transform(row, row + count, tokens.begin(),
                 [](uint32_t word) { return static_cast<int32_t>(word); });
  store(kTaken, taken + 1);
  return true;
}

cugrt_value TokenRing::value(size_t at, std::initializer_list<int64_t> dims) const {
  cugrt_value value{};
  value.kind = CUGRT_VALUE_TENSOR;
  value.as.tensor = make_tensor(api().buffer_address(buffer_.get()) + at * sizeof(uint32_t),
                                CUGRT_I32, std::span(dims.begin(), dims.size()));
  return value;
}

cugrt_value TokenRing::heard() const { return value(kTaken, {kHostWords + places_}); }
cugrt_value TokenRing::rows() const { return value(first_row(), {kRows, places_ * tokens_}); }
cugrt_value TokenRing::published() const { return value(kMade, {1}); }

} // namespace cugrt::llm
