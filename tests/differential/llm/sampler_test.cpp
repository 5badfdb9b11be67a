// The kernel that draws tokens, against its definition: tokens in order, probabilities in double.
#include "fronts/llm/architectures/decoder.h"
#include "fronts/llm/generation/sampler.h"
#include "support/api_fixture.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <optional>
#include <random>

using namespace cugrt;
using namespace cugrt::llm;
using namespace cugrt::test;

namespace {

constexpr int32_t kInPrompt = 1 << 30;
constexpr int64_t kRing = 4; // rows

/// What ends a step, and one launch of @sample_step: nothing ends a text unless it is said.
struct Step {
  const int64_t places, vocabulary;
  std::vector<int32_t> limits, ends, told, steps, ring, published, goes_on;

  Step(int64_t places, int64_t vocabulary)
      : places(places), vocabulary(vocabulary), limits(size_t(places), INT32_MAX),
        ends(size_t(places * ((vocabulary + 31) / 32))), told(size_t(2 + places)), steps(2),
        ring(size_t(kRing * places), -7), published(1, -7), goes_on(1, -7) {}

  void run(const cugrt_tensor &logits, const cugrt_tensor &samplers, const cugrt_tensor &counts,
           const cugrt_tensor &tokens, const cugrt_tensor &positions, const cugrt_tensor &lengths) {
    const std::string p = std::to_string(places), v = std::to_string(vocabulary);
    const auto i32 = [](const std::string &name, const std::string &dims, bool is_written = false) {
      return ", %" + name + ": " + (is_written ? "inout " : "") + "tensor<[" + dims + "], i32>";
    };
    const int64_t end_words = (vocabulary + 31) / 32;
    const std::string text =
        kStateKernels + ("func @main(%logits: tensor<[" + p + ", " + v + "], f32>") +
        i32("samplers", p + ", 8") + i32("counts", p + ", " + v, true) + i32("tokens", p, true) +
        i32("positions", p, true) + i32("lengths", p, true) + i32("limits", p) +
        i32("ends", p + ", " + std::to_string(end_words)) +
        i32("told", std::to_string(2 + places)) + i32("steps", "2", true) +
        i32("ring", std::to_string(kRing) + ", " + p, true) + i32("published", "1", true) +
        i32("goes_on", "1", true) +
        ") {\n  launch @sample_step(%logits, %samplers, %counts, %tokens, %positions, %lengths, "
        "%limits, %ends, %told, %steps, %ring, %published, %goes_on, " +
        p + ", " + v + ", " + std::to_string(kRing) + ")\n  return\n}\n";
    Executable executable(emulated_runtime(), Module::parse(text));
    Session session(executable, emulated_runtime());
    const Buffer l = upload(limits), e = upload(ends), t = upload(told), s = upload(steps),
                 r = upload(ring), m = upload(published), g = upload(goes_on);
    session.run(executable.function("main"),
                {logits, samplers, counts, tokens, positions, lengths,
                 l.tensor(CUGRT_I32, {places}), e.tensor(CUGRT_I32, {places, end_words}),
                 t.tensor(CUGRT_I32, {2 + places}), s.tensor(CUGRT_I32, {2}),
                 r.tensor(CUGRT_I32, {kRing, places}), m.tensor(CUGRT_I32, {1}),
                 g.tensor(CUGRT_I32, {1})});
    session.synchronize();
    steps = download<int32_t>(s.address(), 2);
    ring = download<int32_t>(r.address(), ring.size());
    published = download<int32_t>(m.address(), 1);
    goes_on = download<int32_t>(g.address(), 1);
  }
};

/// Places of one vocabulary, and what is drawn in each by one launch of @sample_step.
struct Places {
  int64_t vocabulary;
  std::vector<float> logits{};
  std::vector<int32_t> samplers{}, counts{}, positions{};

  void add(const std::vector<float> &of, const Sampling &sampling, int32_t position,
           const std::vector<int32_t> &count = {}) {
    logits.insert(logits.end(), of.begin(), of.end());
    const std::array<int32_t, 8> words = sampler_words(sampling);
    samplers.insert(samplers.end(), words.begin(), words.end());
    counts.insert(counts.end(), count.begin(), count.end());
    counts.resize(logits.size());
    positions.push_back(position - 1); // a step goes on by one
  }

  std::vector<int32_t> draw() {
    const auto places = static_cast<int64_t>(positions.size());
    std::vector<int32_t> lengths = positions;
    for (int32_t &length : lengths)
      ++length;
    const Buffer l = upload(logits), s = upload(samplers), c = upload(counts),
                 t = upload(std::vector<int32_t>(positions.size(), -1)), n = upload(positions),
                 k = upload(lengths);
    Step step(places, vocabulary);
    step.run(l.tensor(CUGRT_F32, {places, vocabulary}), s.tensor(CUGRT_I32, {places, 8}),
             c.tensor(CUGRT_I32, {places, vocabulary}), t.tensor(CUGRT_I32, {places}),
             n.tensor(CUGRT_I32, {places}), k.tensor(CUGRT_I32, {places}));
    const auto tokens = download<int32_t>(t.address(), positions.size());
    const auto after = download<int32_t>(c.address(), counts.size());
    const auto at = download<int32_t>(n.address(), positions.size());
    const auto now = download<int32_t>(k.address(), positions.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
      CHECK(at[i] == positions[i] + 1);
      CHECK(now[i] == lengths[i] + 1);
      counts[i * size_t(vocabulary) + size_t(tokens[i])] += 1;
    }
    CHECK(after == counts);
    return tokens;
  }

  /// What @sample_prompt draws in each place, whose code is not that of @sample_step.
  std::vector<int32_t> draw_behind_prompts() const {
    const auto places = static_cast<int64_t>(positions.size());
    const std::string p = std::to_string(places), v = std::to_string(vocabulary);
    const std::string state = "inout tensor<[" + p + "], i32>";
    const std::string text =
        kStateKernels + ("func @main(%request: tensor<[4], i32>, %logits: tensor<[1, " + v) +
        "], f32>, %samplers: tensor<[" + p + ", 8], i32>, %counts: inout tensor<[" + p + ", " + v +
        "], i32>, %tokens: " + state + ", %positions: " + state + ", %lengths: " + state +
        ") {\n  launch @sample_prompt(%request, %logits, %samplers, %counts, %tokens, %positions, "
        "%lengths, " +
        p + ", " + v + ")\n  return\n}\n";
    Executable executable(emulated_runtime(), Module::parse(text));
    Session session(executable, emulated_runtime());
    const std::vector<int32_t> none(positions.size(), -1);
    const Buffer l = upload(logits), s = upload(samplers), c = upload(counts), t = upload(none),
                 n = upload(none), k = upload(none);
    const std::vector<int64_t> each = {places};
    std::vector<int32_t> at = positions, lengths = positions, after = counts;
    for (size_t i = 0; i < positions.size(); ++i) {
      const Buffer request = upload(std::vector<int32_t>{int32_t(i), positions[i] - 2, 3, 1});
      const cugrt_tensor own = make_tensor(l.address() + i * size_t(vocabulary) * 4, CUGRT_F32,
                                           std::vector<int64_t>{1, vocabulary});
      session.run(executable.function("main"),
                  {request.tensor(CUGRT_I32, {4}), own, s.tensor(CUGRT_I32, {places, 8}),
                   c.tensor(CUGRT_I32, {places, vocabulary}), t.tensor(CUGRT_I32, each),
                   n.tensor(CUGRT_I32, each), k.tensor(CUGRT_I32, each)});
      session.synchronize();
      at[i] += 1;
      lengths[i] += 2;
    }
    const auto tokens = download<int32_t>(t.address(), positions.size());
    for (size_t i = 0; i < tokens.size(); ++i)
      after[i * size_t(vocabulary) + size_t(tokens[i])] += 1;
    CHECK(download<int32_t>(n.address(), at.size()) == at);
    CHECK(download<int32_t>(k.address(), at.size()) == lengths);
    CHECK(download<int32_t>(c.address(), after.size()) == after);
    return tokens;
  }
};

using Words = std::array<uint32_t, 4>;

Words philox(Words counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t(0xd2511f53) * counter[0], b = uint64_t(0xcd9e8d57) * counter[2];
    counter = {uint32_t(b >> 32) ^ counter[1] ^ key[0], uint32_t(b),
               uint32_t(a >> 32) ^ counter[3] ^ key[1], uint32_t(a)};
    key = {key[0] + 0x9e3779b9, key[1] + 0xbb67ae85};
  }
  return counter;
}

double uniform_at(uint64_t seed, int32_t position) {
  return double(philox({uint32_t(position), 0, 0, 0}, {uint32_t(seed), uint32_t(seed >> 32)})[0] >>
                8) /
         16777216.0;
}

/// The token by the definition; none where a bound is passed by less than rounding may move it.
std::optional<int32_t> drawn_by_definition(const std::vector<float> &given, const Sampling &how,
                                           int32_t position, const std::vector<int32_t> &counts) {
  constexpr double kClose = 1e-6;
  std::vector<float> logits = given;
  for (size_t i = 0; i < counts.size(); ++i)
    if (counts[i] != 0) {
      const auto repetition = float(how.repetition);
      logits[i] = logits[i] > 0 ? logits[i] / repetition : logits[i] * repetition;
      logits[i] -= float(how.frequency) * float(counts[i] & (kInPrompt - 1));
    }
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(
      order, [&](int32_t a, int32_t b) { return logits[size_t(a)] > logits[size_t(b)]; });
  if (how.temperature == 0)
    return order[0];
  if (how.top_k > 0 && how.top_k < int64_t(order.size()))
    order.resize(size_t(how.top_k));
  const double largest = logits[size_t(order[0])];
  std::vector<double> weights;
  for (int32_t token : order)
    weights.push_back(std::exp((double(logits[size_t(token)]) - largest) / how.temperature));
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (how.top_p > 0 && how.top_p < 1) {
    double reached = 0;
    size_t count = 0;
    while (reached < how.top_p * all) {
      reached += weights[count++];
      if (std::fabs(reached - how.top_p * all) < kClose * all)
        return std::nullopt;
    }
    order.resize(count);
  }
  std::map<int32_t, double> kept; // by token
  for (size_t i = 0; i < order.size(); ++i) {
    if (how.min_p > 0 && std::fabs(weights[i] - how.min_p) < kClose)
      return std::nullopt;
    if (weights[i] >= how.min_p)
      kept[order[i]] = weights[i];
  }
  double sum = 0;
  for (const auto &[token, weight] : kept)
    sum += weight;
  double left = uniform_at(how.seed, position) * sum;
  for (const auto &[token, weight] : kept) {
    if (std::fabs(left - weight) < kClose * sum ||
        (left < kClose * sum && token != kept.begin()->first))
      return std::nullopt;
    if (left < weight)
      return token;
    left -= weight;
  }
  return std::nullopt;
}

} // namespace

TEST_CASE("numbers are those of philox, whose authors' known answers these are") {
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}, {UINT32_MAX, UINT32_MAX}) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  // Of 4096 equal logits the first 12 bits of the number are the token.
  Places places{4096};
  std::vector<int32_t> wanted;
  for (const uint64_t seed : {uint64_t(0), uint64_t(7), uint64_t(0x123456789abcdef0)})
    for (const int32_t position : {1, 2, 1000000}) {
      places.add(std::vector<float>(4096, 1.5f), {.temperature = 1, .seed = seed}, position);
      wanted.push_back(int32_t(uniform_at(seed, position) * 4096));
    }
  CHECK(places.draw() == wanted);
}

TEST_CASE("without a temperature the most likely token is taken, of equals the first") {
  constexpr float kNone = -INFINITY;
  Places places{4};
  places.add({1, 3, 2, 3}, {}, 1);
  places.add({NAN, kNone, -5, kNone}, {}, 1);
  places.add({NAN, NAN, NAN, NAN}, {}, 1);
  places.add({kNone, kNone, NAN, kNone}, {}, 1);
  places.add({NAN, 2, INFINITY, 1}, {.temperature = 1}, 1);
  places.add({-0.0f, 0.0f, -1, -1}, {}, 1);
  CHECK(places.draw_behind_prompts() == std::vector<int32_t>{1, 2, 0, 0, 2, 0});
  CHECK(places.draw() == std::vector<int32_t>{1, 2, 0, 0, 2, 0});
}

TEST_CASE("tokens are drawn as the definition has it, for random logits and samplers") {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 4);
  for (const int64_t vocabulary : {5, 1000, 3001}) {
    Places places{vocabulary};
    std::vector<std::optional<int32_t>> wanted;
    for (int i = 0; i < 60; ++i) {
      std::vector<float> logits(static_cast<size_t>(vocabulary));
      std::vector<int32_t> counts(logits.size());
      for (float &logit : logits) // some equal each other
        logit = i % 3 ? normal(random) : std::round(normal(random));
      for (int j = 0; j < 20; ++j)
        counts[random() % counts.size()] += random() % 2 ? 1 : random() % 2 * kInPrompt;
      for (int32_t &count : counts)
        count = count < 0 ? kInPrompt : count; // twice in the prompt
      Sampling how;
      how.temperature = i % 10 == 0 ? 0 : 0.2 + double(random() % 20) / 10;
      how.top_k = i % 2 ? int64_t(random() % 50) : 0;
      how.top_p = i % 4 >= 2 ? double(random() % 100) / 100 : 0;
      how.min_p = i % 5 == 3 ? 0.07 : 0;
      how.repetition = i % 6 == 5 ? 1.3 : 1;
      how.frequency = i % 7 == 6 ? 0.4 : 0;
      how.seed = (uint64_t(random()) << 32) | random();
      const auto position = int32_t(1 + random() % 1000);
      places.add(logits, how, position, counts);
      wanted.push_back(drawn_by_definition(logits, how, position, counts));
    }
    const std::vector<int32_t> behind_prompts = places.draw_behind_prompts();
    const std::vector<int32_t> drawn = places.draw();
    CHECK(behind_prompts == drawn);
    size_t close = 0;
    for (size_t i = 0; i < drawn.size(); ++i) {
      INFO(vocabulary << " tokens, draw " << i);
      close += !wanted[i];
      CHECK((!wanted[i] || drawn[i] == *wanted[i]));
    }
    CHECK(close < drawn.size() / 10);
  }
}

TEST_CASE("as many tokens are left as a block has threads, one more, and one less") {
  constexpr int64_t kTokens = 2500;
  Places places{kTokens};
  std::vector<std::optional<int32_t>> wanted;
  for (const int64_t left : {1023, 1024, 1025})
    for (const float step : {0.0f, std::ldexp(1.0f, -22)}) // equal, or the last bits alone differ
      for (int32_t position = 1; position <= 8; ++position) {
        std::vector<float> logits(kTokens);
        for (size_t i = 0; i < logits.size(); ++i)
          logits[i] = 2 + float(i) * step;
        const Sampling how{.temperature = 1, .top_k = left, .seed = 9};
        places.add(logits, how, position);
        wanted.push_back(drawn_by_definition(logits, how, position, {}));
      }
  const std::vector<int32_t> behind_prompts = places.draw_behind_prompts();
  const std::vector<int32_t> drawn = places.draw();
  CHECK(behind_prompts == drawn);
  for (size_t i = 0; i < drawn.size(); ++i) {
    INFO("draw " << i);
    REQUIRE(wanted[i]);
    CHECK(drawn[i] == *wanted[i]);
  }
}

TEST_CASE("tokens come as often as their probabilities say") {
  // exp(logit / 2) is 1, 2 and 4: of 7.
  const std::vector<float> logits = {0, float(2 * std::log(2.0)), float(4 * std::log(2.0))};
  constexpr int kDraws = 3000;
  Places places{3};
  for (int position = 1; position <= kDraws; ++position)
    places.add(logits, {.temperature = 2, .seed = 5}, position);
  const std::vector<int32_t> drawn = places.draw();
  for (int32_t token : {0, 1, 2}) {
    const double p = std::pow(2.0, token) / 7, deviation = std::sqrt(kDraws * p * (1 - p));
    INFO(token);
    CHECK(std::abs(double(std::ranges::count(drawn, token)) - kDraws * p) < 4 * deviation);
  }
}

TEST_CASE("an empty place draws nothing") {
  Places places{3};
  places.add({0, 1, 2}, {}, 1);
  const Buffer l = upload(places.logits), s = upload(places.samplers), c = upload(places.counts),
               state = upload(std::vector<int32_t>{9, 0, 0, 0, 8, 0, 0, 0, 0});
  const auto part = [&](uint64_t bytes) {
    return make_tensor(state.address() + bytes, CUGRT_I32, std::vector<int64_t>{1});
  };
  Step step(1, 3);
  step.run(l.tensor(CUGRT_F32, {1, 3}), s.tensor(CUGRT_I32, {1, 8}), c.tensor(CUGRT_I32, {1, 3}),
           part(0), part(16), part(32));
  CHECK(step.ring[0] == -1);
  CHECK(step.goes_on[0] == 0);
  CHECK(download<int32_t>(state.address(), 9) == std::vector<int32_t>{9, 0, 0, 0, 8, 0, 0, 0, 0});
  CHECK(download<int32_t>(c.address(), 3) == std::vector<int32_t>{0, 0, 0});
}

TEST_CASE("the last place of a step publishes its row, and tells whether the loop goes on") {
  // Of three tokens the last is the most likely. Places: open, at the limit, ended by its token,
  // cancelled, empty.
  constexpr int64_t kPlaces = 5;
  struct Case {
    bool is_first_open, is_second_at_limit;
    int32_t made, taken, change, goes_on;
  };
  for (const Case &c : {Case{true, true, 5, 3, 0, 1}, Case{false, false, 5, 3, 0, 1},
                        Case{true, true, 5, 2, 0, 0}, // the ring is full
                        Case{true, true, 5, 5, 1, 0}, Case{false, true, 6, 6, 0, 0},
                        Case{true, true, -1, -2, 0, 1}}) {
    INFO(c.made << " steps, " << c.taken << " taken");
    std::vector<float> logits;
    for (int64_t i = 0; i < kPlaces; ++i)
      logits.insert(logits.end(), {0, 1, 2});
    const std::vector<int32_t> words(kPlaces * 8), counts(kPlaces * 3), at(kPlaces, 6);
    std::vector<int32_t> lengths(kPlaces, 7);
    lengths[0] = c.is_first_open ? 7 : 0;
    lengths[4] = 0;
    Step step(kPlaces, 3);
    step.limits[1] = c.is_second_at_limit ? 7 : 8;
    step.ends[2] = 4;
    step.told = {c.taken, c.change, 0, 0, 0, 1, 0};
    step.steps = {c.made, 0};
    const Buffer l = upload(logits), s = upload(words), n = upload(counts), t = upload(at),
                 p = upload(at), k = upload(lengths);
    step.run(l.tensor(CUGRT_F32, {kPlaces, 3}), s.tensor(CUGRT_I32, {kPlaces, 8}),
             n.tensor(CUGRT_I32, {kPlaces, 3}), t.tensor(CUGRT_I32, {kPlaces}),
             p.tensor(CUGRT_I32, {kPlaces}), k.tensor(CUGRT_I32, {kPlaces}));
    const int32_t token = c.is_first_open ? 2 : -1;
    const auto row = ptrdiff_t(uint32_t(c.made) % kRing) * kPlaces;
    const std::vector<int32_t> wanted = {token, 2, 2, 2, -1};
    CHECK(std::vector(step.ring.begin() + row, step.ring.begin() + row + kPlaces) == wanted);
    CHECK(std::ranges::count(step.ring, -7) == (kRing - 1) * kPlaces);
    CHECK(step.published[0] == c.made + 1);
    CHECK(step.steps == std::vector<int32_t>{c.made + 1, 0});
    CHECK(step.goes_on[0] == c.goes_on);
    CHECK(download<int32_t>(k.address(), kPlaces) ==
          std::vector<int32_t>{c.is_first_open ? 8 : 0, c.is_second_at_limit ? 0 : 8, 0, 0, 0});
  }
}
