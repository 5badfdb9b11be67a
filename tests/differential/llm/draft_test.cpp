// Steps that verify drafts from a sequence's own text: the tokens are those of plain steps.
#include "differential/llm/sequences.h"

using namespace cugrt;
using namespace cugrt::llm;
using namespace cugrt::test;

namespace {

bool has_loops() { return emulated_runtime().info().driver_version >= 12030; }

std::vector<Loop> loops() {
  return has_loops() ? std::vector{Loop::host, Loop::device} : std::vector{Loop::host};
}

std::unique_ptr<Generator> open(Draft draft, Loop loop, int64_t places, int64_t context = 0) {
  EngineOptions options = of_places(places, context);
  options.draft = draft;
  options.loop = loop;
  auto made = Generator::open(small_model(), emulated_runtime().get(), options);
  INFO((made.ok() ? std::string() : std::string(made.status().message())));
  REQUIRE(made.ok());
  return std::move(*made);
}

std::vector<int32_t> generate(Generator &generator, Request request, Outcome &outcome,
                              size_t most = SIZE_MAX) {
  std::vector<int32_t> tokens;
  request.on_token = [&](int32_t token, std::string_view) {
    tokens.push_back(token);
    return tokens.size() < most;
  };
  const Status status = generator.generate(std::move(request), outcome);
  INFO(status.message());
  REQUIRE(status.ok());
  return tokens;
}

} // namespace

namespace {

/// The same requests with drafts, by each loop, and without them.
void check_same(int64_t context, const std::vector<Request> &requests) {
  const auto plain = open(Draft::none, Loop::host, 1, context);
  std::vector<Outcome> wanted(requests.size());
  std::vector<std::vector<int32_t>> tokens;
  for (size_t i = 0; i < requests.size(); ++i) {
    tokens.push_back(generate(*plain, requests[i], wanted[i]));
    REQUIRE(plain->clear().ok());
  }
  for (const Loop loop : loops()) {
    const auto drafting = open(Draft::ngram, loop, 1, context);
    uint64_t further = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      INFO("context " << context << ", request " << i << ", loop " << int(loop));
      Outcome outcome;
      CHECK(generate(*drafting, requests[i], outcome) == tokens[i]);
      CHECK(outcome.stop == wanted[i].stop);
      REQUIRE(drafting->clear().ok());
      further += tokens[i].size() - 1; // the first is the prompt's
    }
    CHECK(drafting->accepted() > 0);
    CHECK(drafting->verifications() + drafting->accepted() == further);
  }
}

} // namespace

TEST_CASE("drafts change no token, greedy or drawn, up to the end of the context", "[long]") {
  std::vector<Request> requests = {request_of(1, 0, 0), request_of(15, 1, 40)};
  for (int i = 2; i < 6; ++i) {
    requests.push_back(request_of(size_t(1 + 7 * i), i, i % 2 ? 25 : 0));
    requests.back().sampling = {.temperature = 0.3 * (i - 2),
                                .top_k = i == 3 ? 10 : 0,
                                .repetition = i == 4 ? 1.2 : 1,
                                .frequency = i == 5 ? 0.5 : 0,
                                .seed = uint64_t(i)};
  }
  check_same(96, requests);
}

TEST_CASE("drafts change no token where attention is cut", "[large]") {
  std::vector<Request> requests = {request_of(100, 2, 0), request_of(270, 1, 30)};
  requests[1].sampling = {.temperature = 0.5, .seed = 3};
  check_same(300, requests);
}

TEST_CASE("a text ends inside of drafts that are accepted: by its length, a token or its caller") {
  const auto plain = open(Draft::none, Loop::host, 1), drafting = open(Draft::ngram, Loop::host, 1);
  // A prompt that the model goes on from by what it has given before: 31 is one, while its kernels
  // add as they do.
  Request request = request_of(3, 0, 40);
  std::vector<int32_t> tokens;
  Outcome outcome, wanted;
  bool is_found = false;
  for (int tried = 0; tried < 40 && !is_found; ++tried) {
    request.prompt = prompt_of(3, (31 + tried) % 40);
    request.max_tokens = 40;
    tokens = generate(*plain, request, outcome);
    request.prompt.insert(request.prompt.end(), tokens.begin(), tokens.begin() + 30);
    request.max_tokens = 12;
    REQUIRE(plain->clear().ok());
    tokens = generate(*plain, request, outcome);
    REQUIRE(plain->clear().ok());
    const uint64_t steps = drafting->verifications(), drafts = drafting->accepted();
    REQUIRE(generate(*drafting, request, outcome) == tokens);
    REQUIRE(drafting->clear().ok());
    is_found = tokens[1] != tokens[0] && // of the first step, whose row before it is the prompt's
               drafting->accepted() - drafts >= 2 * (drafting->verifications() - steps);
  }
  REQUIRE(is_found);
  const uint64_t before = drafting->verifications();
  for (uint64_t length = 1; length <= 12; ++length) {
    request.max_tokens = length;
    CHECK(generate(*drafting, request, outcome) ==
          std::vector(tokens.begin(), tokens.begin() + ptrdiff_t(length)));
    CHECK(outcome.stop == Stop::length);
    REQUIRE(drafting->clear().ok());
  }
  CHECK(drafting->verifications() - before < 50); // of 66 steps without drafts
  request.max_tokens = 12;
  request.ends = {tokens[1]};
  CHECK(generate(*drafting, request, outcome) == std::vector(tokens.begin(), tokens.begin() + 2));
  CHECK(outcome.stop == Stop::end);
  REQUIRE(drafting->clear().ok());
  request.ends.clear();
  // What stands behind a caller's end counts for nothing that comes after it.
  for (size_t most = 2; most <= 7; ++most) {
    INFO(most);
    Request behind = request_of(2, 5, 10);
    behind.sampling = {.repetition = 1.3, .frequency = 1.5};
    for (Generator *generator : {plain.get(), drafting.get()})
      CHECK(generate(*generator, request, outcome, most) ==
            std::vector(tokens.begin(), tokens.begin() + ptrdiff_t(most)));
    CHECK(outcome.stop == Stop::caller);
    CHECK(generate(*drafting, behind, outcome) == generate(*plain, behind, wanted));
    REQUIRE(plain->clear().ok());
    REQUIRE(drafting->clear().ok());
  }
}

TEST_CASE("each place is given its own number of drafts, and what it is given alone", "[long]") {
  for (const int64_t places : {2, 4}) {
    const auto plain = open(Draft::none, Loop::host, places);
    const auto prefix = std::make_shared<const PromptCache>(*plain->make_prompt(prompt_of(9, 4)));
    std::vector<Request> requests;
    for (int i = 0; i < 6; ++i) {
      requests.push_back(request_of(size_t(3 + 5 * i), i, uint64_t(10 + 7 * i)));
      if (i % 3 == 1)
        requests.back().sampling = {.temperature = 0.4, .frequency = 0.1, .seed = uint64_t(i)};
      if (i % 3 == 2)
        requests.back().prefix = prefix;
      requests.back().log_probabilities = 1;
    }
    const auto run = [&](Generator &generator, std::vector<std::vector<TokenEvent>> &given) {
      std::map<uint64_t, size_t> number;
      size_t next = 0;
      bool has_uneven = false;
      while (next < requests.size() || generator.empty_places() < places) {
        while (next < requests.size() && generator.empty_places() > 0)
          number[*generator.add(requests[next])] = next, ++next;
        REQUIRE(generator.step().ok());
        std::map<uint64_t, size_t> counts;
        for (const TokenEvent &event : generator.events()) {
          given[number[event.sequence]].push_back(event);
          ++counts[event.sequence];
        }
        for (const auto &[sequence, count] : counts)
          has_uneven = has_uneven || count != counts.begin()->second;
      }
      return has_uneven;
    };
    std::vector<std::vector<TokenEvent>> wanted(requests.size()), found(requests.size());
    run(*plain, wanted);
    const auto drafting = open(Draft::ngram, Loop::host, places);
    CHECK(run(*drafting, found));
    CHECK(drafting->accepted() > 0);
    for (size_t i = 0; i < requests.size(); ++i) {
      INFO(places << " places, sequence " << i);
      REQUIRE(found[i].size() == wanted[i].size());
      for (size_t k = 0; k < found[i].size(); ++k) {
        REQUIRE(found[i][k].token == wanted[i][k].token);
        REQUIRE(found[i][k].stop == wanted[i][k].stop);
        REQUIRE(found[i][k].likely.log_probability == wanted[i][k].likely.log_probability);
      }
    }
  }
}

TEST_CASE("more places than products take in one order of sums have one draft each") {
  const auto drafting = open(Draft::ngram, Loop::host, 8);
  CHECK(drafting->engine().rows() == 2);
  for (int i = 0; i < 8; ++i)
    REQUIRE(drafting->add(request_of(size_t(3 + i), i, 30)).ok());
  const std::map<uint64_t, std::vector<int32_t>> given = run_all(*drafting);
  for (const auto &[sequence, tokens] : given)
    CHECK(tokens.size() == 30);
  CHECK(drafting->verifications() + drafting->accepted() == 8 * 29);
  CHECK(drafting->accepted() > 20);
}
