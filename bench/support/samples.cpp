// Quantiles; see samples.h.
#include "bench/support/samples.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace cugrt::bench {

double now_us() {
  using namespace std::chrono;
  return duration<double, std::micro>(steady_clock::now().time_since_epoch()).count();
}

std::optional<double> Samples::quantile(double share) const {
  if (values_.empty())
    return std::nullopt;
  std::vector<double> sorted = values_;
  std::sort(sorted.begin(), sorted.end());
  double place = share * double(sorted.size() - 1);
  auto below = static_cast<size_t>(std::floor(place));
  size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (place - double(below));
}

} // namespace cugrt::bench
