// The C++ API of language models: a batch, a generation, and what is refused.
#include "support/api_fixture.h"
#include "support/small_language_model.h"
#include "support/temporary_folder.h"

#include <cugrt/llm.hpp>

#include <map>

using namespace cugrt;
using namespace cugrt::test;

TEST_CASE("a batch steps several sequences, whose tokens are those of each generated alone") {
  TemporaryFolder folder;
  const LanguageModel model(SmallLanguageModel().write(folder.path));
  LanguageSession session(model, emulated_runtime(), {.places = 2});
  const std::vector<GenerateOptions> wanted = {
      {.prompt = model.tokenize("ABCDEFG"), .max_tokens = 5},
      {.prompt = model.tokenize("HI"), .max_tokens = 7, .temperature = 1.5, .seed = 3}};
  std::vector<std::vector<int32_t>> alone;
  std::string text;
  for (const GenerateOptions &one : wanted) {
    std::vector<int32_t> tokens;
    const auto result = session.generate(one, [&](int32_t token, std::string_view part) {
      tokens.push_back(token);
      text += part;
      return true;
    });
    CHECK(result.stop == CUGRT_LLM_STOP_LENGTH);
    CHECK(result.tokens == one.max_tokens);
    alone.push_back(tokens);
    session.clear();
  }
  CHECK(text.size() == 12); // a letter a token

  const uint64_t first = session.add(wanted[0]), second = session.add(wanted[1]);
  CHECK(session.is_running());
  CHECK(session.info().places == 2);
  CHECK(session.info().places_empty == 0);
  CHECK(error_of([&] { session.add(wanted[0]); }).code() == CUGRT_BUSY);
  CHECK(error_of([&] { session.generate(wanted[0]); }).code() == CUGRT_BUSY);
  std::map<uint64_t, std::vector<int32_t>> tokens;
  std::map<uint64_t, cugrt_llm_stop> stops;
  while (session.is_running())
    for (const LanguageEvent &event : session.step()) {
      tokens[event.sequence].push_back(event.token);
      CHECK(event.text == std::string(1, static_cast<char>('A' + event.token)));
      stops[event.sequence] = event.stop;
    }
  CHECK(tokens[first] == alone[0]);
  CHECK(tokens[second] == alone[1]);
  CHECK(stops[first] == CUGRT_LLM_STOP_LENGTH);
  CHECK(session.step().empty());

  const uint64_t third = session.add(wanted[0]);
  CHECK(third > second);
  session.cancel(third);
  CHECK(!session.is_running());
  CHECK(error_of([&] { session.cancel(third); }).code() == CUGRT_NOT_FOUND);
}

TEST_CASE("what a session or a sequence cannot have is refused") {
  TemporaryFolder folder;
  const LanguageModel model(SmallLanguageModel().write(folder.path));
  const auto what = [&](const LanguageSessionOptions &options) {
    return std::string(
        error_of([&] { LanguageSession(model, emulated_runtime(), options); }).what());
  };
  CHECK(what({.places = 1025}) == "a session has from 1 to 1024 places");
  CHECK(what({.places = -1}) == "a session has from 1 to 1024 places");
  LanguageSession session(model, emulated_runtime(), {.context = 8});
  CHECK(error_of([&] { session.add({.prompt = {}}); }).code() == CUGRT_INVALID_ARGUMENT);
  CHECK(error_of([&] { session.add({.prompt = {40}}); }).code() == CUGRT_OUT_OF_RANGE);
  CHECK(error_of([&] { session.add({.prompt = std::vector<int32_t>(9)}); }).code() ==
        CUGRT_OUT_OF_RANGE);
  CHECK(error_of([&] { session.add({.prompt = {1}, .temperature = -1}); }).code() ==
        CUGRT_INVALID_ARGUMENT);
  auto event = CUGRT_INIT(cugrt_llm_event);
  cugrt_status *const status = llm_api().session_get_event(session.get(), 0, &event);
  CHECK(api().status_code(status) == CUGRT_OUT_OF_RANGE);
  api().status_free(status);
}
