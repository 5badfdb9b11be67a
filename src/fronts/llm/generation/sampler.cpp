// Samplers as words, and log-probabilities; see sampler.h.
#include "fronts/llm/generation/sampler.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

namespace cugrt::llm {

static int32_t word_of(double value) { return std::bit_cast<int32_t>(static_cast<float>(value)); }

/// A fraction of 1 in units of 2^-bits, within [0, 1].
static int32_t fraction_of(double value, int bits) {
  return std::bit_cast<int32_t>(
      static_cast<uint32_t>(std::ceil(std::ldexp(std::clamp(value, 0.0, 1.0), bits))));
}

std::array<int32_t, 8> sampler_words(const Sampling &sampling) {
  std::array<int32_t, 8> words{};
  if (sampling.temperature > 0)
    words[0] =
        word_of(std::clamp<double>(std::numbers::log2e / sampling.temperature, FLT_MIN, FLT_MAX));
  words[1] = static_cast<int32_t>(std::min<int64_t>(sampling.top_k, INT32_MAX));
  words[2] = sampling.top_p < 1 ? fraction_of(std::min(sampling.top_p, 1 - 0x1p-32), 32) : 0;
  words[3] = fraction_of(sampling.min_p, 31);
  words[4] = word_of(sampling.repetition);
  words[5] = word_of(sampling.frequency);
  words[6] = static_cast<int32_t>(static_cast<uint32_t>(sampling.seed));
  words[7] = static_cast<int32_t>(static_cast<uint32_t>(sampling.seed >> 32));
  return words;
}

Likely likely_of(std::span<const float> logits, int32_t token, size_t count) {
  // A NaN has no place in an order.
  const auto logit = [&](int32_t id) -> double {
    const float value = logits[static_cast<size_t>(id)];
    return std::isnan(value) ? -std::numeric_limits<double>::infinity() : value;
  };
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  count = std::min(count, ids.size());
  const double largest = logit(*std::ranges::max_element(ids, {}, logit));
  double sum = 0;
  for (const int32_t id : ids)
    sum += std::exp(logit(id) - largest);
  const double whole = largest + std::log(sum);

  Likely likely;
  likely.log_probability = logit(token) - whole;
  std::ranges::partial_sort(
      ids, ids.begin() + static_cast<ptrdiff_t>(count),
      [&](int32_t a, int32_t b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; });
  for (const int32_t id : std::span(ids).first(count))
    likely.most.push_back({id, static_cast<float>(logit(id) - whole)});
  return likely;
}

} // namespace cugrt::llm
