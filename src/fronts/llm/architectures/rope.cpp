// Tables of angles; see decoder.h.
#include "fronts/llm/architectures/decoder.h"

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
  /// Factor of cosines and sines: longer contexts flatten attention's scores.
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

/// Angles by which a position turns each pair.
std::vector<double> frequencies(const Rope &rope, int64_t turned, const gguf::Tensor *divisors) {
  const Yarn yarn(rope, turned);
  std::vector<double> out;
  for (int64_t pair = 0; pair < turned / 2; ++pair) {
    float divisor = 1;
    if (divisors)
      std::memcpy(&divisor, divisors->bytes.data() + size_t(pair) * sizeof divisor, sizeof divisor);
    const double own = std::pow(rope.base, -2.0 * double(pair) / double(turned)) / double(divisor);
    out.push_back(rope.scaling == RopeScaling::yarn     ? yarn.frequency(own, pair)
                  : rope.scaling == RopeScaling::linear ? own / rope.factor
                                                        : own);
  }
  return out;
}

} // namespace

RotaryTables rotary_tables(const Rope &rope, int64_t turned, int64_t context,
                           const gguf::Tensor *divisors, const std::string &name) {
  const auto table = [=](double (*of_angle)(double)) {
    const double magnitude =
        (rope.scaling == RopeScaling::yarn ? Yarn(rope, turned).magnitude() : 1) *
        rope.attention_factor;
    const std::vector<double> pairs = frequencies(rope, turned, divisors);
    std::string bytes;
    bytes.reserve(size_t(context) * pairs.size() * sizeof(float));
    for (int64_t position = 0; position < context; ++position)
      for (const double frequency : pairs) {
        const auto rounded = static_cast<float>(magnitude * of_angle(double(position) * frequency));
        bytes.append(reinterpret_cast<const char *>(&rounded), sizeof rounded);
      }
    return bytes;
  };
  const std::vector<int64_t> dims = {context, turned / 2};
  return {{name + ".cosines",
           ir::DType::f32,
           dims,
           {},
           [table] { return table([](double angle) { return std::cos(angle); }); }},
          {name + ".sines", ir::DType::f32, dims, {}, [table] {
             return table([](double angle) { return std::sin(angle); });
           }}};
}

} // namespace cugrt::llm
