// What tests of batches share: a small model, requests, and running them to their ends.
#pragma once

#include "fronts/llm/generation/generator.h"
#include "support/api_fixture.h"
#include "support/small_language_model.h"
#include "support/temporary_folder.h"

#include <map>

namespace cugrt::test {

inline std::shared_ptr<const llm::Model> small_model() {
  static const std::shared_ptr<const llm::Model> model = [] {
    TemporaryFolder folder;
    return *llm::Model::open(SmallLanguageModel().write(folder.path));
  }();
  return model;
}

inline llm::EngineOptions of_places(int64_t places, int64_t context = 0) {
  llm::EngineOptions options;
  options.places = places;
  options.context = context;
  return options;
}

inline std::vector<int32_t> prompt_of(size_t length, int32_t first) {
  std::vector<int32_t> prompt;
  for (size_t i = 0; i < length; ++i)
    prompt.push_back((first + static_cast<int32_t>(i * i)) % 40);
  return prompt;
}

inline llm::Request request_of(size_t length, int32_t first, uint64_t max_tokens) {
  llm::Request request;
  request.prompt = prompt_of(length, first);
  request.max_tokens = max_tokens;
  return request;
}

/// Takes the prompt of a place in, in as many parts as it has.
inline void take_in(llm::Engine &engine, int64_t place, std::span<const int32_t> prompt) {
  for (size_t at = 0; at < prompt.size();) {
    const auto count = static_cast<size_t>(
        engine.part_of(static_cast<int64_t>(prompt.size() - at), static_cast<int64_t>(at)));
    REQUIRE(engine
                .take_in(place, static_cast<int64_t>(at), prompt.subspan(at, count),
                         at + count == prompt.size())
                .ok());
    at += count;
  }
}

/// What sequences give until none runs, by their number.
inline std::map<uint64_t, std::vector<int32_t>> run_all(llm::Generator &generator) {
  std::map<uint64_t, std::vector<int32_t>> tokens;
  while (generator.empty_places() < generator.engine().places()) {
    REQUIRE(generator.step().ok());
    for (const llm::TokenEvent &event : generator.events())
      tokens[event.sequence].push_back(event.token);
  }
  return tokens;
}

} // namespace cugrt::test
