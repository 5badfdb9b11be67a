// Repeated measurements of one figure: their median and spread.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace cugrt::bench {

/// Microseconds since some point in the past.
double now_us();

class Samples {
public:
  void add(double value) { values_.push_back(value); }
  size_t count() const { return values_.size(); }
  bool empty() const { return values_.empty(); }

  /// The quantile by linear interpolation between the closest ranks: 0.5 is the median. Nothing
  /// without samples.
  std::optional<double> quantile(double share) const;
  std::optional<double> median() const { return quantile(0.5); }

private:
  std::vector<double> values_;
};

} // namespace cugrt::bench
