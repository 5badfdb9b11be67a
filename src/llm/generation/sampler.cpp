// Sampling on the host; see sampler.h.
#include "llm/generation/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace cugrt::llm {

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t(0xd2511f53) * counter[0], b = uint64_t(0xcd9e8d57) * counter[2];
    counter = {uint32_t(b >> 32) ^ counter[1] ^ key[0], uint32_t(b),
               uint32_t(a >> 32) ^ counter[3] ^ key[1], uint32_t(a)};
    key = {key[0] + 0x9e3779b9, key[1] + 0xbb67ae85};
  }
  return counter;
}

double uniform_at(uint64_t seed, uint64_t position) {
  const auto drawn = philox({uint32_t(position), uint32_t(position >> 32), 0, 0},
                            {uint32_t(seed), uint32_t(seed >> 32)});
  return double(drawn[0] >> 8) / 16777216.0;
}

int32_t sample(std::span<const float> logits, const Sampling &sampling, uint64_t position) {
  const auto before = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::erase_if(ids, [&](int32_t id) { return std::isnan(logits[static_cast<size_t>(id)]); });
  if (ids.empty())
    return 0;
  const auto kept =
      sampling.top_k > 0 ? std::min(ids.size(), static_cast<size_t>(sampling.top_k)) : ids.size();
  if (!(sampling.temperature > 0))
    return *std::ranges::min_element(ids, before);
  std::partial_sort(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(kept), ids.end(), before);
  ids.resize(kept);

  std::vector<double> weights;
  const double largest = logits[static_cast<size_t>(ids[0])];
  double sum = 0;
  for (int32_t id : ids) {
    const double logit = logits[static_cast<size_t>(id)];
    weights.push_back(logit == largest ? 1 : std::exp((logit - largest) / sampling.temperature));
    sum += weights.back();
  }
  if (sampling.top_p > 0 && sampling.top_p < 1) {
    double reached = 0;
    size_t count = 0;
    while (count < weights.size() && reached < sampling.top_p * sum)
      reached += weights[count++];
    weights.resize(count);
    sum = reached;
  }
  double left = uniform_at(sampling.seed, position) * sum;
  for (size_t i = 0; i + 1 < weights.size(); ++i) {
    if (left < weights[i])
      return ids[i];
    left -= weights[i];
  }
  return ids[weights.size() - 1];
}

} // namespace cugrt::llm
