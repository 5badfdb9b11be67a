// Who goes from one token to the next, the host or a loop on the device: the same tokens, whoever
// comes, goes, is cancelled or reads slowly. Run with several drivers and devices.
#include "differential/llm/sequences.h"

#include <random>
#include <thread>

using namespace cugrt;
using namespace cugrt::llm;
using namespace cugrt::test;

namespace {

bool has_loops() { return emulated_runtime().info().driver_version >= 12030; }

std::vector<Loop> loops() {
  return has_loops() ? std::vector{Loop::host, Loop::device} : std::vector{Loop::host};
}

std::unique_ptr<Generator> open(Loop loop, int64_t places, int64_t context = 0) {
  EngineOptions options = of_places(places, context);
  options.loop = loop;
  auto made = Generator::open(small_model(), emulated_runtime().get(), options);
  REQUIRE(made.ok());
  CHECK((*made)->engine().loops_on_device() == (loop == Loop::device));
  return std::move(*made);
}

/// What one request gives, and how it ends; `on_token` is called first.
std::vector<int32_t> generate(Generator &generator, Request request, Outcome &outcome,
                              const std::function<bool(size_t)> &on_token = {}) {
  std::vector<int32_t> tokens;
  request.on_token = [&](int32_t token, std::string_view) {
    tokens.push_back(token);
    return !on_token || on_token(tokens.size());
  };
  const Status status = generator.generate(std::move(request), outcome);
  INFO(status.message());
  REQUIRE(status.ok());
  return tokens;
}

uint64_t launches(Generator &generator) {
  const cugrt_counters counters = (*generator.info()).counters;
  return counters.regions_built + counters.regions_hit + counters.regions_patched;
}

/// Waits until the device has made so many steps.
void wait_for_steps(const Generator &generator, uint32_t steps) {
  while (generator.engine().steps_made() < steps)
    std::this_thread::yield();
}

} // namespace

TEST_CASE("a driver without loops says so, and a loop that it keeps no log-probabilities") {
  if (has_loops()) {
    Request request = request_of(3, 1, 4);
    request.log_probabilities = 1;
    const auto refused = open(Loop::device, 1)->add(request);
    CHECK(refused.status().code() == Code::unsupported);
    CHECK(refused.status().message() == "a loop over tokens on the device keeps no "
                                        "log-probabilities; that of the host does");
    return;
  }
  EngineOptions options = of_places(1);
  options.loop = Loop::device;
  const auto refused = Engine::open(*small_model(), emulated_runtime().get(), options);
  CHECK(refused.status().code() == Code::unsupported);
  CHECK(refused.status().message() ==
        "a loop over tokens on the device needs a driver of CUDA 12.3; this one is of 12.2");
}

TEST_CASE("a loop on the device gives the host's tokens, in few launches, of nodes that stay") {
  if (!has_loops())
    return;
  const auto host = open(Loop::host, 1), device = open(Loop::device, 1);
  Request request = request_of(5, 3, 40);
  request.sampling = {.temperature = 1.2, .frequency = 0.25, .seed = 5};
  Outcome outcome;
  const std::vector<int32_t> wanted = generate(*host, request, outcome);
  const uint64_t before = launches(*device);
  CHECK(generate(*device, request, outcome) == wanted);
  CHECK(outcome.stop == Stop::length);
  CHECK(launches(*device) - before == 2); // the prompt, and the loop
  REQUIRE(device->clear().ok());
  const cugrt_counters first = (*device->info()).counters;
  CHECK(generate(*device, request, outcome) == wanted);
  const cugrt_counters second = (*device->info()).counters;
  CHECK(second.regions_built == first.regions_built);
  CHECK(second.fields_patched == first.fields_patched);
  CHECK(second.regions_eager == 0);
  // A step in a body has one node more, which sets the loop's condition.
  const EngineInfo of_host = *host->info(), of_device = *device->info();
  CHECK(of_host.decode_nodes > 10);
  CHECK(of_device.decode_nodes > 10);
  CHECK(of_device.decode_nodes <= of_host.decode_nodes + 1);
}

TEST_CASE("a step of one launch is one in the loop, too, where bodies take cooperative launches",
          "[long]") {
  TemporaryFolder folder;
  SmallLanguageModel file;
  file.width = 64;
  const std::shared_ptr<const Model> model = *Model::open(file.write(folder.path));
  for (const Draft draft : {Draft::none, Draft::ngram})
    for (const ir::DType cache : {ir::DType::f16, ir::DType::bf16}) {
      std::vector<int32_t> wanted;
      for (const Loop loop : loops()) {
        EngineOptions options = of_places(1);
        options.dtype = options.cache.emplace(cache);
        options.loop = loop;
        options.draft = draft;
        auto made = Generator::open(model, emulated_runtime().get(), options);
        REQUIRE(made.ok());
        Outcome outcome;
        const std::vector<int32_t> given = generate(**made, request_of(5, 3, 12), outcome);
        CHECK((loop == Loop::host || given == wanted));
        wanted = given;
        const EngineInfo info = *(*made)->info();
        CHECK(info.counters.regions_eager == 0);
        const bool is_one = loop == Loop::host || emulated_runtime().info().driver_version >= 12060;
        CHECK((info.decode_nodes < 10) == is_one);
      }
    }
}

TEST_CASE(
    "a host that reads slowly loses no token: a full ring ends the loop, which begins again") {
  if (!has_loops())
    return;
  constexpr auto kRows = static_cast<uint32_t>(TokenRing::kRows);
  const auto host = open(Loop::host, 1, 400), device = open(Loop::device, 1, 400);
  const Request request = request_of(3, 7, 200);
  Outcome outcome;
  const std::vector<int32_t> wanted = generate(*host, request, outcome);
  const uint64_t before = launches(*device);
  CHECK(generate(*device, request, outcome, [&](size_t count) {
          // Of the first token, the prompt's, there is no row: count - 1 were taken.
          if (count == 2 || count == 100)
            wait_for_steps(*device, uint32_t(count) - 1 + kRows);
          return true;
        }) == wanted);
  CHECK(outcome.tokens == 200);
  CHECK(launches(*device) - before >= 4); // the prompt, and three loops
  CHECK(device->engine().steps_made() == 199);
}

TEST_CASE("a cancelled sequence ends in the loop, and disturbs neither others nor who comes next") {
  for (const Loop loop : loops()) {
    const auto generator = open(loop, 2, 200);
    const Request first = request_of(4, 1, 0), second = request_of(9, 2, 30),
                  third = request_of(6, 3, 12);
    const uint64_t a = *generator->add(second);
    const std::vector<int32_t> of_second = run_all(*generator)[a];
    const uint64_t b = *generator->add(third);
    const std::vector<int32_t> of_third = run_all(*generator)[b];

    const uint64_t cancelled = *generator->add(first), stays = *generator->add(second);
    std::map<uint64_t, std::vector<int32_t>> tokens;
    const auto step = [&] {
      REQUIRE(generator->step().ok());
      for (const TokenEvent &event : generator->events())
        tokens[event.sequence].push_back(event.token);
    };
    while (tokens[stays].size() < 8)
      step();
    REQUIRE(generator->cancel(cancelled).ok());
    const size_t given = tokens[cancelled].size();
    const uint64_t next = *generator->add(third);
    while (generator->empty_places() < 2)
      step();
    CHECK(tokens[cancelled].size() == given);
    CHECK(tokens[stays] == of_second);
    CHECK(tokens[next] == of_third);
  }
}

TEST_CASE("the cancel word alone ends a loop whose ring has room") {
  if (!has_loops())
    return;
  auto made = open(Loop::device, 1, 4000);
  auto &engine = const_cast<Engine &>(made->engine());
  REQUIRE(engine.take_in(0, 0, prompt_of(3, 1), true).ok());
  REQUIRE(engine.start(false).ok());
  std::vector<int32_t> tokens(1);
  for (int i = 0; i < 3; ++i)
    REQUIRE(*engine.take_row(tokens));
  REQUIRE(engine.close_place(0).ok());
  while (*engine.take_row(tokens)) // a ring that is emptied never ends the loop
    ;
  CHECK(engine.steps_made() >= 3);
  CHECK(engine.steps_made() < 3900);
}

TEST_CASE("what the device gave beyond a caller's end does not count for penalties") {
  Outcome outcome;
  std::vector<std::vector<int32_t>> given;
  for (const Loop loop : loops()) {
    const auto generator = open(loop, 1);
    Request request = request_of(5, 2, 0);
    request.sampling = {.temperature = 0.7, .repetition = 1.3, .frequency = 2, .seed = 3};
    std::vector<int32_t> tokens = generate(*generator, request, outcome, [&](size_t count) {
      if (loop == Loop::device && count == 2)
        wait_for_steps(*generator, 20);
      return count < 6;
    });
    CHECK(outcome.stop == Stop::caller);
    CHECK(tokens.size() == 6);
    request.prompt = {7, 8};
    request.max_tokens = 20;
    const std::vector<int32_t> more = generate(*generator, request, outcome);
    tokens.insert(tokens.end(), more.begin(), more.end());
    given.push_back(tokens);
  }
  CHECK(given.front().size() == 26);
  CHECK(given.back() == given.front());
}

TEST_CASE("a text that ends does so on the device, and a session that is closed ends its loop") {
  for (const Loop loop : loops()) {
    Outcome outcome;
    const auto generator = open(loop, 1);
    Request request = request_of(3, 1, 20);
    const std::vector<int32_t> tokens = generate(*generator, request, outcome);
    REQUIRE(generator->clear().ok());
    request.ends = {tokens[9], 39, 12345, -1}; // two of them are no tokens
    const auto at = std::ranges::find(tokens, tokens[9]);
    const auto count = static_cast<size_t>(at - tokens.begin()) + 1;
    const uint32_t before = generator->engine().steps_made();
    CHECK(generate(*generator, request, outcome) ==
          std::vector(tokens.begin(), tokens.begin() + static_cast<long>(count)));
    CHECK(outcome.stop == Stop::end);
    CHECK(generator->engine().steps_made() - before == count - 1);
    REQUIRE(generator->clear().ok());
    REQUIRE(generator->add(request_of(3, 1, 0)).ok());
    REQUIRE(generator->step().ok());
  }
}

TEST_CASE("random adds, ends, cancels and restores leave every sequence as it is alone, in graphs "
          "that stay",
          "[large]") {
  const Loop loop = GENERATE(Loop::host, Loop::device);
  if (loop == Loop::device && !has_loops())
    return;
  const auto made = open(loop, 4);
  Generator &generator = *made;
  constexpr size_t kKinds = 10;
  std::mt19937 random(11);
  std::vector<Request> kinds;
  std::vector<std::vector<int32_t>> alone;
  for (size_t i = 0; i < kKinds; ++i) {
    Request request = request_of(1 + random() % 80, int32_t(i), 1 + random() % 12);
    if (i % 2)
      request.sampling = {.temperature = 1.5,
                          .top_k = int64_t(i % 3) * 8,
                          .top_p = i % 4 == 1 ? 0.9 : 0,
                          .min_p = i % 5 == 3 ? 0.05 : 0,
                          .repetition = i == 7 ? 1.5 : 1,
                          .frequency = i == 9 ? 0.5 : 0,
                          .seed = i};
    if (i % 3 == 2) { // begins with caches that are restored
      Result<PromptCache> prefix =
          generator.make_prompt(prompt_of(1 + random() % 8, int32_t(i + 3)));
      REQUIRE(prefix.ok());
      request.prompt.resize(std::min<size_t>(request.prompt.size(), 70));
      request.prefix = std::make_shared<const PromptCache>(std::move(*prefix));
    }
    kinds.push_back(request);
    const uint64_t number = *generator.add(request);
    alone.push_back(run_all(generator)[number]);
  }
  for (size_t length : {1, 2, 4, 8, 16, 32, 64}) { // an instance for each
    REQUIRE(generator.add(request_of(length, 0, 1)).ok());
    run_all(generator);
  }
  const cugrt_counters before = (*generator.info()).counters;

  std::map<uint64_t, size_t> kind_of, given;
  size_t ended = 0, cancelled = 0, restored = 0;
  for (int round = 0; round < 1000; ++round) {
    const uint32_t what = random() % 8;
    if (what < 3) {
      const size_t kind = random() % kKinds;
      const Result<uint64_t> number = generator.add(kinds[kind]);
      CHECK(number.ok() == (kind_of.size() < 4));
      if (number.ok())
        kind_of[*number] = kind;
      restored += number.ok() && kinds[kind].prefix;
    } else if (what == 3 && !kind_of.empty()) {
      const auto at = std::next(kind_of.begin(), long(random() % kind_of.size()));
      REQUIRE(generator.cancel(at->first).ok());
      kind_of.erase(at);
      ++cancelled;
    } else {
      REQUIRE(generator.step().ok());
      for (const TokenEvent &event : generator.events()) {
        REQUIRE(kind_of.contains(event.sequence));
        const std::vector<int32_t> &wanted = alone[kind_of[event.sequence]];
        const size_t at = given[event.sequence]++;
        REQUIRE(event.token == wanted.at(at));
        CHECK((event.stop != Stop::none) == (at + 1 == wanted.size()));
        if (event.stop != Stop::none) {
          kind_of.erase(event.sequence);
          ++ended;
        }
      }
    }
    CHECK(generator.empty_places() == 4 - int64_t(kind_of.size()));
  }
  CHECK(ended > 50);
  CHECK(cancelled > 50);
  CHECK(restored > 50);
  const cugrt_counters after = (*generator.info()).counters;
  CHECK(after.regions_built == before.regions_built);
  CHECK(after.fields_patched == before.fields_patched);
  CHECK(after.regions_eager == before.regions_eager);
}
