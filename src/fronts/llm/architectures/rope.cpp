// Tables of angles; see rope.h.
#include "fronts/llm/architectures/rope.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

namespace cugrt::llm {

namespace {

/// YaRN (Peng et al., 2023): pairs that turn often within the original context stay as they are,
/// those that turn less than once are slowed down by the factor, and between them it goes over.
class Yarn {
public:
  Yarn(const Rope &rope, int64_t turned) : rope_(rope), turned_(double(turned)) {
    const double last = turned_ - 1;
    low_ = std::clamp(std::floor(pair_that_turns(rope.beta_fast)), 0.0, last);
    high_ = std::clamp(std::ceil(pair_that_turns(rope.beta_slow)), 0.0, last);
  }

  double frequency(double own, int64_t pair) const {
    const double ramp = std::clamp((double(pair) - low_) / std::max(high_ - low_, 0.001), 0.0, 1.0);
    return own * (1 - ramp) + own / rope_.factor * ramp;
  }
  /// Of cosines and sines: longer contexts flatten what attention sees.
  double magnitude() const { return rope_.factor <= 1 ? 1 : 1 + 0.1 * std::log(rope_.factor); }

private:
  /// The pair that turns `times` within the original context.
  double pair_that_turns(double times) const {
    return turned_ * std::log(rope_.original_context / (times * 2 * std::numbers::pi)) /
           (2 * std::log(rope_.base));
  }

  const Rope &rope_;
  const double turned_;
  double low_ = 0, high_ = 0;
};

} // namespace

RotaryTables rotary_tables(const Rope &rope, int64_t turned, int64_t context,
                           const gguf::Tensor *divisors, const std::string &name) {
  const Yarn yarn(rope, turned);
  const bool is_yarn = rope.scaling == RopeScaling::yarn;
  std::vector<double> frequencies;
  for (int64_t pair = 0; pair < turned / 2; ++pair) {
    float divisor = 1;
    if (divisors)
      std::memcpy(&divisor, divisors->bytes.data() + size_t(pair) * sizeof divisor, sizeof divisor);
    const double own = std::pow(rope.base, -2.0 * double(pair) / double(turned)) / double(divisor);
    frequencies.push_back(is_yarn                               ? yarn.frequency(own, pair)
                          : rope.scaling == RopeScaling::linear ? own / rope.factor
                                                                : own);
  }
  const double magnitude = (is_yarn ? yarn.magnitude() : 1) * rope.attention_factor;
  auto cosines = std::make_shared<std::string>(), sines = std::make_shared<std::string>();
  cosines->reserve(size_t(context) * frequencies.size() * sizeof(float));
  sines->reserve(cosines->capacity());
  const auto append = [](std::string &to, double value) {
    const auto rounded = static_cast<float>(value);
    to.append(reinterpret_cast<const char *>(&rounded), sizeof rounded);
  };
  for (int64_t position = 0; position < context; ++position)
    for (const double frequency : frequencies) {
      append(*cosines, magnitude * std::cos(double(position) * frequency));
      append(*sines, magnitude * std::sin(double(position) * frequency));
    }
  const std::vector<int64_t> dims = {context, turned / 2};
  return {{name + ".cosines", ir::DType::f32, dims, *cosines, cosines},
          {name + ".sines", ir::DType::f32, dims, *sines, sines}};
}

} // namespace cugrt::llm
