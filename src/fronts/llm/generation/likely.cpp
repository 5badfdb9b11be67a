// Log-probabilities; see likely.h.
#include "fronts/llm/generation/likely.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace cugrt::llm {

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
