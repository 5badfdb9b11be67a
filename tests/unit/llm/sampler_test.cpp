// Drawing of tokens, against numbers worked out by hand.
#include "llm/generation/sampler.h"
#include "support/catch.h"

#include <cmath>
#include <map>
#include <vector>

using namespace cugrt::llm;

TEST_CASE("philox gives the numbers of its authors' known answers") {
  CHECK(philox({0, 0, 0, 0}, {0, 0}) ==
        std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}, {UINT32_MAX, UINT32_MAX}) ==
        std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  CHECK(uniform_at(0, 0) == double(0x6627e8) / 16777216);
}

TEST_CASE("without a temperature the most likely token is taken, of equals the first") {
  CHECK(sample(std::vector<float>{1, 3, 2, 3}, {}, 0) == 1);
  CHECK(sample(std::vector<float>{NAN, -INFINITY, -5}, {}, 0) == 2);
  CHECK(sample(std::vector<float>{NAN}, {}, 0) == 0);
}

TEST_CASE("tokens come as often as their probabilities say") {
  // exp(logit / 2) is 1, 2 and 4: of 7.
  const std::vector<float> logits = {0, float(2 * std::log(2.0)), float(4 * std::log(2.0))};
  std::map<int32_t, int> counts;
  constexpr int kDraws = 70000;
  for (uint64_t position = 0; position < kDraws; ++position)
    ++counts[sample(logits, {2, 0, 0, 5}, position)];
  for (int32_t token : {0, 1, 2}) {
    const double p = std::pow(2.0, token) / 7, deviation = std::sqrt(kDraws * p * (1 - p));
    INFO(token);
    CHECK(std::abs(counts[token] - kDraws * p) < 4 * deviation);
  }
}

TEST_CASE("top_k and top_p leave the most likely ones") {
  // Probabilities 0.1, 0.4, 0.2, 0.3.
  const std::vector<float> logits = {std::log(1.f), std::log(4.f), std::log(2.f), std::log(3.f)};
  const auto drawn = [&](int64_t top_k, double top_p) {
    std::map<int32_t, int> counts;
    for (uint64_t position = 0; position < 4000; ++position)
      ++counts[sample(logits, {1, top_k, top_p, 1}, position)];
    return counts;
  };
  CHECK(drawn(1, 0).size() == 1);
  CHECK(drawn(2, 0).size() == 2);
  CHECK(drawn(2, 0).contains(3));
  CHECK(drawn(0, 0.3).size() == 1); // 0.4 reaches it
  CHECK(drawn(0, 0.5).size() == 2);
  CHECK(drawn(0, 0.85).size() == 3);
  CHECK(drawn(0, 1).size() == 4);
  CHECK(drawn(9, 0).size() == 4);
  CHECK(drawn(3, 0.5).size() == 2); // 0.4 of 0.9 does not reach half
}

TEST_CASE("a seed and a position give the same token") {
  const std::vector<float> logits(1000, 1.0f);
  const Sampling sampling{1, 0, 0, 99};
  CHECK(sample(logits, sampling, 7) == sample(logits, sampling, 7));
  CHECK(sample(logits, sampling, 7) == static_cast<int32_t>(uniform_at(99, 7) * 1000));
}
