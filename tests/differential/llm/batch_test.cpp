// Batches: sequences that come and go in the places of one decode step, on the emulated driver.
#include "differential/llm/sequences.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <utility>

using namespace cugrt;
using namespace cugrt::llm;
using namespace cugrt::test;

namespace {

using Logits = std::vector<std::vector<float>>;

void make_step(Engine &engine) {
  std::vector<int32_t> tokens(static_cast<size_t>(engine.places()));
  REQUIRE(engine.start(true).ok());
  const Result<bool> has_row = engine.take_row(tokens);
  REQUIRE(has_row.ok());
  REQUIRE(*has_row);
}

/// The logits of `steps` decode steps of one place.
Logits follow(Engine &engine, int64_t place, int steps) {
  Logits all(static_cast<size_t>(steps));
  for (std::vector<float> &logits : all) {
    make_step(engine);
    REQUIRE(engine.read_logits(place, logits).ok());
  }
  return all;
}

} // namespace

TEST_CASE("four sequences of different lengths have the logits of each alone, bit for bit") {
  auto engine = Engine::open(*small_model(), emulated_runtime().get(), of_places(4));
  REQUIRE(engine.ok());
  constexpr int kSteps = 5;
  const std::vector<size_t> lengths = {1, 70, 9, 33}; // 70: of two parts
  std::vector<Logits> alone;
  for (int64_t place = 0; place < 4; ++place) {
    take_in(**engine, place, prompt_of(lengths[size_t(place)], int32_t(place)));
    alone.push_back(follow(**engine, place, kSteps));
    REQUIRE((*engine)->close_all().ok());
  }
  for (int64_t place : {2, 0, 3, 1})
    take_in(**engine, place, prompt_of(lengths[size_t(place)], int32_t(place)));
  for (int step = 0; step < kSteps; ++step) {
    make_step(**engine);
    for (int64_t place = 0; place < 4; ++place) {
      std::vector<float> logits;
      REQUIRE((*engine)->read_logits(place, logits).ok());
      INFO("step " << step << ", place " << place);
      CHECK(logits == alone[size_t(place)][size_t(step)]);
    }
  }
  // Another place is another part of the same caches, and of the same arithmetic.
  REQUIRE((*engine)->close_all().ok());
  take_in(**engine, 3, prompt_of(lengths[1], 1));
  CHECK(follow(**engine, 3, kSteps) == alone[1]);
}

TEST_CASE("on request a part of a prompt has the logits of each of its tokens") {
  auto whole = of_places(1), single = of_places(1);
  whole.all_logits = true;
  auto engine = Engine::open(*small_model(), emulated_runtime().get(), whole);
  auto one_by_one = Engine::open(*small_model(), emulated_runtime().get(), single);
  REQUIRE(engine.ok());
  REQUIRE(one_by_one.ok());
  const std::vector<int32_t> prompt = prompt_of(13, 2); // of 16 rows, three of which are none
  take_in(**engine, 0, prompt);
  for (size_t i = 0; i < prompt.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    std::vector<float> logits, wanted;
    REQUIRE((*engine)->read_logits(at, logits).ok());
    REQUIRE((*one_by_one)->take_in(0, at, std::span(prompt).subspan(i, 1), false).ok());
    REQUIRE((*one_by_one)->read_logits(0, wanted).ok());
    INFO("token " << i);
    for (size_t token = 0; token < wanted.size(); ++token)
      REQUIRE(std::abs(logits[token] - wanted[token]) < 1e-4f * (1 + std::abs(wanted[token])));
  }
  take_in(**one_by_one, 0, prompt);
  const Result<int32_t> next = (*engine)->read_token(0), wanted = (*one_by_one)->read_token(0);
  REQUIRE(next.ok());
  REQUIRE(wanted.ok());
  CHECK(*next == *wanted); // drawn from the last one's
}

TEST_CASE("a decode step is five launches a layer and six at most, also of mixed formats") {
  for (const bool is_mixed : {false, true}) {
    SmallLanguageModel small;
    if (is_mixed)
      small.products = SmallLanguageModel::Products::blocks;
    small.width = is_mixed ? 256 : small.width;
    small.inner = is_mixed ? 512 : small.inner;
    small.layers = 3;
    small.context = 512; // attention is split
    TemporaryFolder folder;
    const auto model = Model::open(small.write(folder.path));
    REQUIRE(model.ok());
    auto engine = Engine::open(**model, emulated_runtime().get(), of_places(1));
    REQUIRE(engine.ok());
    take_in(**engine, 0, prompt_of(5, 7));
    for (const std::vector<float> &logits : follow(**engine, 0, 2))
      CHECK(std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); }));
    const auto info = (*engine)->info();
    REQUIRE(info.ok());
    CHECK(info->decode_nodes > 0);
    CHECK(info->decode_nodes <= 5 * small.layers + 6);
  }
}

TEST_CASE("caches of a dtype of their own take its bytes, and move logits by its rounding alone",
          "[large]") {
  SmallLanguageModel small;
  small.width = 128; // heads of 32
  TemporaryFolder folder;
  const auto model = Model::open(small.write(folder.path));
  REQUIRE(model.ok());
  const std::vector<int32_t> prompt = prompt_of(70, 3);
  const auto opened = [&](std::optional<ir::DType> cache) {
    EngineOptions options = of_places(2);
    options.cache = cache;
    auto engine = Engine::open(**model, emulated_runtime().get(), options);
    REQUIRE(engine.ok());
    return std::move(*engine);
  };
  const auto logits_of = [&](Engine &engine, int64_t place) {
    take_in(engine, place, prompt);
    return follow(engine, place, 3);
  };
  const auto whole = opened(std::nullopt);
  const Logits exact = logits_of(*whole, 0);
  const uint64_t elements = 2 * 2 * 96 * 64 * small.layers; // sides, places, positions, a row
  CHECK(whole->cache_bytes_of(1) == elements / 96 / 2 * 4);
  // Least difference that shows rounding, and the most that it can make of logits of up to 10.
  for (const auto &[cache, bytes, most] : {std::tuple{ir::DType::f16, elements * 2, 0.02},
                                           {ir::DType::bf16, elements * 2, 0.2},
                                           {ir::DType::q8_0, elements / 32 * 34, 0.2}}) {
    CAPTURE(ir::info(cache).name);
    const auto engine = opened(cache);
    CHECK((*engine->info()).cache_bytes == bytes);
    const Logits got = logits_of(*engine, 0);
    double furthest = 0;
    for (size_t step = 0; step < got.size(); ++step)
      for (size_t i = 0; i < got[step].size(); ++i)
        furthest = std::max(furthest, std::fabs(double(got[step][i]) - double(exact[step][i])));
    CHECK(furthest > 1e-6);
    CHECK(furthest < most);
    // Another place, while the first is stepped; and restored caches, bit for bit.
    CHECK(logits_of(*engine, 1) == got);
    REQUIRE(engine->close_all().ok());
    std::string bytes_of_prompt;
    take_in(*engine, 1, std::span(prompt).first(64));
    REQUIRE(engine->read_caches(1, 64, bytes_of_prompt).ok());
    CHECK(bytes_of_prompt.size() == bytes / 2 / 96 * 64);
    REQUIRE(engine->close_all().ok());
    REQUIRE(engine->write_caches(0, 64, bytes_of_prompt).ok());
    REQUIRE(engine->take_in(0, 64, std::span(prompt).subspan(64), true).ok());
    CHECK(follow(*engine, 0, 3) == got);
    const auto info = engine->info();
    CHECK(info->decode_nodes <= (cache == ir::DType::q8_0 ? 7 : 5) * small.layers + 6);
  }
}

TEST_CASE("a position beyond the caches is clamped on the device, and the next call is refused") {
  auto engine = Engine::open(*small_model(), emulated_runtime().get(), of_places(2));
  REQUIRE(engine.ok());
  const std::vector<int32_t> prompt = prompt_of(96, 5); // a whole context
  take_in(**engine, 1, prompt);
  std::string before, after;
  REQUIRE((*engine)->read_caches(1, 96, before).ok());
  take_in(**engine, 0, prompt);
  REQUIRE((*engine)->settle().ok());
  REQUIRE((*engine)->take_in(0, 95, std::span(prompt).first(2), false).ok());
  const Status refused = (*engine)->settle();
  CHECK(refused.code() == Code::out_of_range);
  INFO(refused.message());
  CHECK(refused.message().find("symbol position of function @prefill") != std::string::npos);
  CHECK(refused.message().find("0 to 95") != std::string::npos);
  REQUIRE((*engine)->read_caches(1, 96, after).ok());
  CHECK(after == before); // what lies behind the cache of place 0
}

TEST_CASE("heads that are no whole blocks are refused for caches of blocks") {
  EngineOptions options = of_places(1);
  options.cache = ir::DType::q8_0;
  const auto refused = Engine::open(*small_model(), emulated_runtime().get(), options);
  CHECK(refused.status().code() == Code::unsupported);
  CHECK(refused.status().message().find("caches in q8_0 take heads of a multiple of 32 elements; "
                                        "these have 8") != std::string::npos);
}

TEST_CASE("a prompt that is taken in while others are stepped disturbs none") {
  auto engine = Engine::open(*small_model(), emulated_runtime().get(), of_places(2));
  REQUIRE(engine.ok());
  const std::vector<int32_t> first = prompt_of(5, 1), second = prompt_of(90, 2);
  take_in(**engine, 0, first);
  const Logits alone = follow(**engine, 0, 4);
  REQUIRE((*engine)->close_all().ok());
  take_in(**engine, 1, second);
  const Logits other = follow(**engine, 1, 2);
  REQUIRE((*engine)->close_all().ok());

  take_in(**engine, 0, first);
  Logits got = follow(**engine, 0, 1);
  REQUIRE((*engine)->take_in(1, 0, std::span(second).first(64), false).ok());
  got.push_back(follow(**engine, 0, 1)[0]);
  const std::span<const int32_t> rest = std::span(second).subspan(64);
  REQUIRE((*engine)->part_of(int64_t(rest.size()), 64) == 26);
  REQUIRE((*engine)->take_in(1, 64, rest, true).ok());
  for (int step = 0; step < 2; ++step) {
    make_step(**engine);
    std::vector<float> logits;
    REQUIRE((*engine)->read_logits(1, logits).ok());
    CHECK(logits == other[size_t(step)]);
    REQUIRE((*engine)->read_logits(0, got.emplace_back()).ok());
  }
  CHECK(got == alone);
}

TEST_CASE("sequences end each by its own rule, and their places are empty then") {
  auto made = Generator::open(small_model(), emulated_runtime().get(), of_places(3, 24));
  REQUIRE(made.ok());
  Generator &generator = **made;
  Request by_length = request_of(3, 1, 4), by_context = request_of(20, 2, 0),
          by_caller = request_of(2, 3, 0);
  int calls = 0;
  by_caller.on_token = [&](int32_t, std::string_view) { return ++calls < 3; };
  const uint64_t a = *generator.add(by_length), b = *generator.add(by_context),
                 c = *generator.add(by_caller);
  CHECK(generator.empty_places() == 0);
  CHECK(generator.add(by_length).status().code() == Code::busy);
  std::map<uint64_t, Stop> stops;
  std::map<uint64_t, int> counts;
  while (generator.empty_places() < 3) {
    REQUIRE(generator.step().ok());
    for (const TokenEvent &event : generator.events()) {
      CHECK(!stops.contains(event.sequence));
      ++counts[event.sequence];
      if (event.stop != Stop::none)
        stops[event.sequence] = event.stop;
    }
  }
  CHECK(stops ==
        std::map<uint64_t, Stop>{{a, Stop::length}, {b, Stop::context}, {c, Stop::caller}});
  CHECK(counts == std::map<uint64_t, int>{{a, 4}, {b, 5}, {c, 3}}); // of b the last has no place
  CHECK(generator.cancel(a).code() == Code::not_found);
  REQUIRE(generator.step().ok());
  CHECK(generator.events().empty());

  Request by_end = request_of(3, 1, 0);
  const uint64_t first = *generator.add(request_of(3, 1, 4));
  const std::vector<int32_t> tokens = run_all(generator)[first];
  by_end.ends = {tokens[2]};
  const uint64_t second = *generator.add(by_end);
  const size_t wanted = size_t(std::ranges::find(tokens, tokens[2]) - tokens.begin()) + 1;
  CHECK(run_all(generator)[second] == std::vector(tokens.begin(), tokens.begin() + long(wanted)));
}

TEST_CASE("log-probabilities are those of a softmax, the most likely first") {
  const float two = std::log(2.0f), five = std::log(5.0f);
  const std::vector<float> logits = {3.0f, 3 + two, 3 + five, -INFINITY, NAN, 3 + two};
  const Likely likely = likely_of(logits, 5, 4); // weights 1, 2, 5, 0, 0, 2 of 10
  CHECK(std::abs(std::exp(likely.log_probability) - 0.2) < 1e-6);
  REQUIRE(likely.most.size() == 4);
  const std::array<int32_t, 4> tokens = {2, 1, 5, 0};
  const std::array<double, 4> expected = {0.5, 0.2, 0.2, 0.1};
  for (size_t i = 0; i < 4; ++i) {
    CHECK(likely.most[i].token == tokens[i]);
    CHECK(std::abs(std::exp(likely.most[i].log_probability) - expected[i]) < 1e-6);
  }
  CHECK(likely_of(logits, 0, 100).most.size() == 6);
  CHECK(likely_of(logits, 0, 0).most.empty());
}

TEST_CASE("a sequence's log-probabilities are of the logits that its tokens were drawn from") {
  const std::shared_ptr<const Model> model = small_model();
  // The logits that the most likely token follows, four times.
  const std::vector<int32_t> prompt = prompt_of(5, 3);
  const auto opened = Engine::open(*model, emulated_runtime().get(), of_places(2));
  REQUIRE(opened.ok());
  Engine &engine = **opened;
  Logits logits(1);
  REQUIRE(engine.set_sampler(1, {}).ok());
  take_in(engine, 1, prompt);
  REQUIRE(engine.read_logits(0, logits[0]).ok());
  for (std::vector<float> &row : follow(engine, 1, 3))
    logits.push_back(std::move(row));

  const auto made = Generator::open(model, emulated_runtime().get(), of_places(2));
  REQUIRE(made.ok());
  Generator &generator = **made;
  Request asking = request_of(5, 3, 4), drawn = request_of(5, 3, 4);
  asking.log_probabilities = 3;
  drawn.log_probabilities = 1;
  drawn.sampling.temperature = 4;
  drawn.sampling.repetition = 2;
  const uint64_t first = *generator.add(asking);
  REQUIRE(generator.add(drawn).ok());
  size_t step = 0;
  bool is_first_of_drawn = true;
  while (generator.empty_places() < 2) {
    REQUIRE(generator.step().ok());
    for (const TokenEvent &event : generator.events()) {
      const bool is_asking = event.sequence == first;
      CHECK(event.likely.most.size() == (is_asking ? 2 : 0));
      if (!is_asking && !std::exchange(is_first_of_drawn, false))
        continue;
      const std::vector<float> &row = logits[is_asking ? step : 0];
      double sum = 0;
      for (const float logit : row)
        sum += std::exp(static_cast<double>(logit));
      const auto token = static_cast<size_t>(event.token);
      CHECK(std::abs(std::exp(event.likely.log_probability) - std::exp(row[token]) / sum) < 1e-6);
      if (is_asking) {
        CHECK(event.likely.most[0].token == event.token);
        CHECK(event.likely.most[1].log_probability <= event.likely.most[0].log_probability);
        ++step;
      }
    }
  }
  CHECK(step == 4);
}

TEST_CASE("a generation goes on behind what it held, until a sequence takes the place") {
  auto made = Generator::open(small_model(), emulated_runtime().get(), of_places(2));
  REQUIRE(made.ok());
  Generator &generator = **made;
  std::vector<int32_t> tokens;
  const auto generate = [&](std::vector<int32_t> prompt, uint64_t count) {
    Request request;
    request.prompt = std::move(prompt);
    request.max_tokens = count;
    tokens.clear();
    request.on_token = [&](int32_t token, std::string_view) {
      tokens.push_back(token);
      return true;
    };
    Outcome outcome;
    const Status status = generator.generate(request, outcome);
    REQUIRE(status.ok());
    CHECK(outcome.tokens == count);
    return tokens;
  };
  std::vector<int32_t> all = prompt_of(6, 4);
  const std::vector<int32_t> first = generate(all, 3);
  all.insert(all.end(), first.begin(), first.end());
  all.push_back(7);
  const std::vector<int32_t> second = generate({7}, 4);
  REQUIRE(generator.clear().ok());
  CHECK(generate(all, 4) == second);

  // The other place is taken first; then the one that holds something.
  const uint64_t other = *generator.add(request_of(4, 5, 3));
  Outcome outcome;
  CHECK(generator.generate(request_of(1, 1, 1), outcome).code() == Code::busy);
  const std::vector<int32_t> of_other = run_all(generator)[other];
  const std::vector<int32_t> third = generate({8}, 2);
  REQUIRE(generator.clear().ok());
  REQUIRE(generate(all, 4) == second);
  const uint64_t x = *generator.add(request_of(4, 5, 3)), y = *generator.add(request_of(4, 5, 3));
  auto got = run_all(generator);
  CHECK(got[x] == of_other);
  CHECK(got[y] == of_other);
  const std::vector<int32_t> anew = generate(all, 4);
  CHECK(anew == second); // nothing was held
  CHECK(generate({8}, 2) == third);
}
